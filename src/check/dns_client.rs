//! A DNS client that queries one name server over UDP or TCP and parses the reply with hickory-proto.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use hickory_proto::op::{Edns, Message, MessageType, Query};
use hickory_proto::rr::{Name, RData, RecordType as HickoryType};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::finding::Fact;
use crate::random;
use crate::wire::Rcode;
use crate::zone::RecordType;

/// How a name server is queried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryMode {
    /// As an authoritative server, over UDP, and over TCP if the reply is truncated.
    Udp,
    /// As an authoritative server, over TCP.
    Tcp,
    /// As a resolver, with recursion (RD), over UDP, and over TCP if the reply is truncated.
    Resolver,
}

/// The parts of a reply that are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The response code.
    pub rcode: Rcode,
    /// The TC bit, over TCP too: the answer is longer than a message.
    pub is_truncated: bool,
    /// The primary name server of the SOA record in the answer section, in lower case.
    pub primary: Option<String>,
    /// The addresses of the answer section.
    pub addresses: BTreeSet<IpAddr>,
}

/// Timeout of one attempt. CoreDNS waits 5 s for an upstream before it answers SERVFAIL, so this is longer.
const TIMEOUT: Duration = Duration::from_secs(6);
/// Number of attempts over UDP, because datagrams can be lost.
const ATTEMPTS: usize = 2;
/// The UDP payload size of the EDNS option: a datagram of this size fits every path.
const UDP_PAYLOAD_SIZE: u16 = 1232;

/// Queries a name server.
///
/// # Errors
///
/// A sentence, if there is no valid reply.
pub async fn query(
    server: SocketAddr,
    mode: QueryMode,
    name: &str,
    rtype: RecordType,
) -> Fact<Reply> {
    let query = build_query(mode, name, rtype)?;
    let message = exchange(server, mode, &query).await?;
    let data = message.answers.iter().map(|record| &record.data);
    let address = |data: &RData| match data {
        RData::A(address) => Some(IpAddr::V4(address.0)),
        RData::AAAA(address) => Some(IpAddr::V6(address.0)),
        _ => None,
    };
    let primary = |data: &RData| match data {
        RData::SOA(soa) => Some(soa.mname.to_lowercase().to_string()),
        _ => None,
    };
    Ok(Reply {
        rcode: Rcode(u16::from(message.metadata.response_code)),
        is_truncated: message.metadata.truncation,
        primary: data.clone().find_map(primary),
        addresses: data.filter_map(address).collect(),
    })
}

/// Sends a query and returns the reply. If the reply over UDP is truncated, repeats the query over TCP.
async fn exchange(server: SocketAddr, mode: QueryMode, query: &Message) -> Result<Message, String> {
    let packet = query.to_vec().map_err(|error| error.to_string())?;
    if mode != QueryMode::Tcp {
        let reply = over_udp(server, &packet, query).await?;
        if !reply.metadata.truncation {
            return Ok(reply);
        }
    }
    over_tcp(server, &packet, query).await
}

fn build_query(mode: QueryMode, name: &str, rtype: RecordType) -> Result<Message, String> {
    let mut name = Name::from_ascii(name).map_err(|error| format!("'{name}': {error}"))?;
    name.set_fqdn(true);
    let mut message = Message::query();
    // An identifier that an attacker cannot predict (RFC 5452 section 9.2).
    let id = random::octets().map_err(|error| error.to_string())?;
    message.metadata.id = u16::from_ne_bytes(id);
    message.metadata.recursion_desired = mode == QueryMode::Resolver;
    message.add_query(Query::query(name, HickoryType::from(rtype.0)));
    let mut edns = Edns::new();
    edns.set_max_payload(UDP_PAYLOAD_SIZE);
    message.set_edns(edns);
    Ok(message)
}

async fn over_udp(server: SocketAddr, packet: &[u8], query: &Message) -> Result<Message, String> {
    for _ in 0..ATTEMPTS {
        let attempt = exchange_datagrams(server, packet, query);
        // Without a reply, the datagram was lost or no server listens there.
        if let Ok(reply) = timeout(TIMEOUT, attempt).await {
            return reply.map_err(|error| error.to_string());
        }
    }
    let seconds = TIMEOUT.as_secs();
    Err(format!(
        "no reply to {ATTEMPTS} queries within {seconds} s each"
    ))
}

async fn exchange_datagrams(
    server: SocketAddr,
    packet: &[u8],
    query: &Message,
) -> io::Result<Message> {
    let own: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((own, 0)).await?;
    // A connected socket receives nothing from other addresses.
    socket.connect(server).await?;
    socket.send(packet).await?;
    let mut reply = vec![0; usize::from(u16::MAX)];
    loop {
        let length = socket.recv(&mut reply).await?;
        // Another datagram may be late or forged: the reply can still arrive.
        if let Some(reply) = parse_reply(&reply[..length], query) {
            return Ok(reply);
        }
    }
}

async fn over_tcp(server: SocketAddr, packet: &[u8], query: &Message) -> Result<Message, String> {
    match timeout(TIMEOUT, exchange_framed(server, packet)).await {
        Ok(Ok(reply)) => parse_reply(&reply, query)
            .ok_or_else(|| "the message over TCP is not a reply to the query".to_owned()),
        Ok(Err(error)) => Err(format!("over TCP: {error}")),
        Err(_) => Err(format!("no reply over TCP within {} s", TIMEOUT.as_secs())),
    }
}

/// Sends a message and receives one, each after its length (RFC 1035 section 4.2.2).
async fn exchange_framed(server: SocketAddr, packet: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(packet.len()).map_err(io::Error::other)?;
    // In one write: some servers need length and message in one segment.
    stream
        .write_all(&[&length.to_be_bytes()[..], packet].concat())
        .await?;
    let mut reply = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut reply).await?;
    Ok(reply)
}

/// Parses a reply to `query`. Returns `None` for any other message.
fn parse_reply(bytes: &[u8], query: &Message) -> Option<Message> {
    let reply = Message::from_vec(bytes).ok()?;
    let is_reply = reply.metadata.message_type == MessageType::Response
        && reply.metadata.id == query.metadata.id
        && reply.queries == query.queries;
    is_reply.then_some(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Message {
        build_query(QueryMode::Udp, "db.prod.global.", RecordType::A).unwrap()
    }

    #[test]
    fn only_a_reply_to_the_query_is_accepted() {
        let sent = message();
        let mut reply = sent.clone();
        reply.metadata.message_type = MessageType::Response;
        assert!(parse_reply(&reply.to_vec().unwrap(), &sent).is_some());

        let mut other_id = reply.clone();
        other_id.metadata.id = sent.metadata.id.wrapping_add(1);
        let mut other_question = reply.clone();
        other_question.queries = build_query(QueryMode::Udp, "db.shop.global.", RecordType::A)
            .unwrap()
            .queries;
        for wrong in [other_id, other_question, sent.clone()] {
            assert!(
                parse_reply(&wrong.to_vec().unwrap(), &sent).is_none(),
                "{wrong}"
            );
        }
        assert!(parse_reply(b"", &sent).is_none());
    }

    #[test]
    fn only_queries_to_a_resolver_desire_recursion() {
        assert!(!message().metadata.recursion_desired);
        let to_resolver = build_query(QueryMode::Resolver, "global.", RecordType::SOA).unwrap();
        assert!(to_resolver.metadata.recursion_desired);
    }

    #[tokio::test]
    async fn closed_port_is_an_error() {
        let closed = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let server = closed.local_addr().unwrap();
        drop(closed);
        for mode in [QueryMode::Udp, QueryMode::Tcp, QueryMode::Resolver] {
            let result = query(server, mode, "global.", RecordType::SOA).await;
            let error = result.unwrap_err();
            assert!(error.contains("refused"), "{mode:?}: {error}");
        }
    }
}
