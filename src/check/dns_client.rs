//! Queries one name server with hickory's client, over UDP or TCP.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures::StreamExt as _;
use hickory_server::net::runtime::TokioRuntimeProvider;
use hickory_server::net::tcp::TcpClientStream;
use hickory_server::net::udp::UdpClientStream;
use hickory_server::net::{DnsHandle, NetError};
use hickory_server::proto::op::{DnsRequest, DnsRequestOptions, DnsResponse, Query, ResponseCode};
use hickory_server::proto::rr::{Name, RData, Record, RecordType as HickoryType};

use super::finding::Fact;
use crate::zone::RecordType;

/// The parts of a reply that are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedReply {
    /// The name of the response code, such as `NXDOMAIN`.
    pub code: String,
    /// The TC bit, over TCP too: the answer is longer than a message.
    pub is_truncated: bool,
    /// The primary name server of the SOA record in the answer section, in lower case.
    pub primary: Option<String>,
    /// Whether the code is NOERROR, and the answer section has a record of the type that was asked for.
    pub has_records: bool,
    /// The addresses of the answer section; of an SRV record, those of its target that came with it.
    pub addresses: BTreeSet<IpAddr>,
}

/// Maximum time for a reply. CoreDNS waits 5 s for an upstream before it answers SERVFAIL, so this is longer. Over UDP, up to
/// three queries are sent in this time.
const TIMEOUT: Duration = Duration::from_secs(6);

/// Queries a name server over TCP, or else over UDP, and over TCP if the reply is truncated.
///
/// # Errors
///
/// A sentence, if there is no valid reply.
pub async fn query(
    server: SocketAddr,
    over_tcp: bool,
    name: &str,
    rtype: RecordType,
) -> Fact<ReceivedReply> {
    let mut name = Name::from_ascii(name).map_err(|error| format!("'{name}': {error}"))?;
    name.set_fqdn(true);
    let query = Query::query(name, HickoryType::from(rtype.0));
    let mut response = exchange(server, over_tcp, &query).await;
    if let Ok(reply) = &response
        && reply.metadata.truncation
        && !over_tcp
    {
        response = exchange(server, true, &query).await;
    }
    let message = response.map_err(|error| error.to_string())?;
    let code = message.metadata.response_code;
    let answers = message.answers.iter();
    let of_type = |record: &Record| record.record_type() == query.query_type();
    let mut received = ReceivedReply {
        // The variants are called as the codes are.
        code: format!("{code:?}").to_uppercase(),
        is_truncated: message.metadata.truncation,
        has_records: code == ResponseCode::NoError && answers.clone().any(of_type),
        primary: None,
        addresses: BTreeSet::new(),
    };
    let targets = message.additionals.iter();
    let of_targets = targets.filter(|_| rtype == RecordType::SRV);
    for record in answers.chain(of_targets) {
        match &record.data {
            RData::A(address) => _ = received.addresses.insert(address.0.into()),
            RData::AAAA(address) => _ = received.addresses.insert(address.0.into()),
            RData::SOA(soa) => received.primary = Some(soa.mname.to_lowercase().to_string()),
            _ => {}
        }
    }
    Ok(received)
}

async fn exchange(
    server: SocketAddr,
    over_tcp: bool,
    query: &Query,
) -> Result<DnsResponse, NetError> {
    // The tasks of the client end with it.
    let runtime = TokioRuntimeProvider::new();
    let client = if over_tcp {
        TcpClientStream::exchange(server, None, TIMEOUT, None, runtime.clone()).await?
    } else {
        UdpClientStream::builder(server, runtime.clone())
            .with_timeout(Some(TIMEOUT))
            .exchange()
    };
    let request = DnsRequest::from_query(query.clone(), DnsRequestOptions::default());
    client
        .send(request)
        .next()
        .await
        .unwrap_or_else(|| Err(NetError::from("no reply")))
}

#[cfg(test)]
mod tests {
    use tokio::net::UdpSocket;

    use super::*;
    use crate::wire::query::HEADER;

    /// A server that knows an alias without its addresses has no answer.
    #[tokio::test]
    async fn record_of_another_type_is_no_answer() {
        const CNAME: &[u8] = b"\xc0\x0c\0\x05\0\x01\0\0\0\x05\0\x04\x01x\xc0\x0c";
        const A: &[u8] = b"\xc0\x0c\0\x01\0\x01\0\0\0\x05\0\x04\x0a\0\0\x01";
        for (record, has_records) in [(CNAME, false), (A, true)] {
            let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let server = socket.local_addr().unwrap();
            let answer = async {
                let mut message = [0; 512];
                let (_, client) = socket.recv_from(&mut message).await.unwrap();
                let question = HEADER + "\x06global\0".len() + 4;
                message[2..12].copy_from_slice(b"\x84\0\0\x01\0\x01\0\0\0\0");
                let reply = [&message[..question], record].concat();
                socket.send_to(&reply, client).await.unwrap();
            };
            let (reply, ()) = tokio::join!(query(server, false, "global.", RecordType::A), answer);
            assert_eq!(reply.unwrap().has_records, has_records);
        }
    }

    #[tokio::test]
    async fn closed_port_is_an_error() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = closed.local_addr().unwrap();
        drop(closed);
        let error = query(server, true, "global.", RecordType::SOA).await;
        assert!(error.unwrap_err().contains("refused"));
    }
}
