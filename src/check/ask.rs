//! Questions to name servers: a stub resolver that asks one server, over UDP or TCP, and reads the reply with
//! hickory-proto. The only part of `check` that talks to anybody.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use hickory_proto::op::{Edns, Message, MessageType, Query};
use hickory_proto::rr::{Name, RData, Record, RecordType as HickoryType};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::dns::{Asked, Reply, Soa};
use crate::wire::Rcode;
use crate::zone::RecordType;

/// How a question travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// UDP, and TCP where the reply is cut.
    Udp,
    /// TCP.
    Tcp,
}

/// Whom a question is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recursion {
    /// A resolver, which is to ask others (RD).
    Desired,
    /// An authority.
    None,
}

/// How long one try may take: more than the 5 s after which CoreDNS gives an upstream up and says SERVFAIL.
const PATIENCE: Duration = Duration::from_secs(6);
/// Tries over UDP, because datagrams are lost.
const TRIES: usize = 2;
/// What we say we can take over UDP: fits every path.
const PAYLOAD: u16 = 1232;

/// Asks a name server.
///
/// # Errors
///
/// In words, if there is no reply that can be read.
pub async fn ask(
    server: SocketAddr,
    over: Over,
    recursion: Recursion,
    name: &str,
    rtype: RecordType,
) -> Asked {
    let query = query(recursion, name, rtype)?;
    let message = exchange(server, over, &query).await?;
    Ok(Reply {
        rcode: Rcode(u16::from(message.metadata.response_code)),
        authoritative: message.metadata.authoritative,
        soa: message.answers.iter().find_map(soa),
        records: message.answers.iter().map(text).collect(),
    })
}

/// Sends a query, and returns the reply: over TCP if the one over UDP is cut.
async fn exchange(server: SocketAddr, over: Over, query: &Message) -> Result<Message, String> {
    let packet = query.to_vec().map_err(|error| error.to_string())?;
    if over == Over::Udp {
        let reply = over_udp(server, &packet, query).await?;
        if !reply.metadata.truncation {
            return Ok(reply);
        }
    }
    over_tcp(server, &packet, query).await
}

fn query(recursion: Recursion, name: &str, rtype: RecordType) -> Result<Message, String> {
    let mut name = Name::from_ascii(name).map_err(|error| format!("'{name}': {error}"))?;
    name.set_fqdn(true);
    let mut message = Message::query();
    message.metadata.id = random_id().map_err(|error| error.to_string())?;
    message.metadata.recursion_desired = recursion == Recursion::Desired;
    message.add_query(Query::query(name, HickoryType::from(rtype.0)));
    let mut edns = Edns::new();
    edns.set_max_payload(PAYLOAD);
    message.set_edns(edns);
    Ok(message)
}

/// Returns what no forger of a reply can know (RFC 5452 section 9.2).
fn random_id() -> io::Result<u16> {
    crate::random::octets().map(u16::from_ne_bytes)
}

async fn over_udp(server: SocketAddr, packet: &[u8], query: &Message) -> Result<Message, String> {
    for _ in 0..TRIES {
        let trying = exchange_datagrams(server, packet, query);
        // Without a reply it was lost, or nobody is there.
        if let Ok(reply) = timeout(PATIENCE, trying).await {
            return reply.map_err(|error| error.to_string());
        }
    }
    let seconds = PATIENCE.as_secs();
    Err(format!("no reply within {TRIES} times {seconds} s"))
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
    // From here on the kernel drops what others send.
    socket.connect(server).await?;
    socket.send(packet).await?;
    let mut reply = vec![0; usize::from(u16::MAX)];
    loop {
        let length = socket.recv(&mut reply).await?;
        // Anything else may be late, or forged: the right one may come yet.
        if let Some(reply) = read(&reply[..length], query) {
            return Ok(reply);
        }
    }
}

async fn over_tcp(server: SocketAddr, packet: &[u8], query: &Message) -> Result<Message, String> {
    match timeout(PATIENCE, exchange_framed(server, packet)).await {
        Ok(Ok(reply)) => read(&reply, query)
            .ok_or_else(|| "what comes over TCP is no reply to what was asked".to_owned()),
        Ok(Err(error)) => Err(format!("over TCP: {error}")),
        Err(_) => Err(format!("no reply over TCP within {} s", PATIENCE.as_secs())),
    }
}

/// A message goes behind its length (RFC 1035 section 4.2.2).
async fn exchange_framed(server: SocketAddr, packet: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(packet.len()).map_err(io::Error::other)?;
    // In one write: some servers want length and message in one segment.
    stream
        .write_all(&[&length.to_be_bytes()[..], packet].concat())
        .await?;
    let mut reply = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut reply).await?;
    Ok(reply)
}

/// Reads a reply to `query`, and nothing else.
fn read(bytes: &[u8], query: &Message) -> Option<Message> {
    let reply = Message::from_vec(bytes).ok()?;
    let is_reply = reply.metadata.message_type == MessageType::Response
        && reply.metadata.id == query.metadata.id
        && reply.queries == query.queries;
    is_reply.then_some(reply)
}

fn soa(record: &Record) -> Option<Soa> {
    let RData::SOA(soa) = &record.data else {
        return None;
    };
    let name = |name: &Name| name.to_lowercase().to_string();
    Some(Soa {
        names: [name(&soa.mname), name(&soa.rname)],
        serial: soa.serial,
        timers: [
            soa.refresh.cast_unsigned(),
            soa.retry.cast_unsigned(),
            soa.expire.cast_unsigned(),
            soa.minimum,
        ],
    })
}

/// Writes a record as in a zone file, without class and TTL.
fn text(record: &Record) -> String {
    let owner = record.name.to_lowercase();
    format!("{owner} {} {}", record.record_type(), record.data)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Message {
        query(Recursion::None, "db.prod.global.", RecordType::A).unwrap()
    }

    #[test]
    fn only_the_reply_to_the_question_is_read() {
        let asked = message();
        let mut reply = asked.clone();
        reply.metadata.message_type = MessageType::Response;
        assert!(read(&reply.to_vec().unwrap(), &asked).is_some());

        let mut other_id = reply.clone();
        other_id.metadata.id = asked.metadata.id.wrapping_add(1);
        let mut other_question = reply.clone();
        other_question.queries = query(Recursion::None, "db.shop.global.", RecordType::A)
            .unwrap()
            .queries;
        for wrong in [other_id, other_question, asked.clone()] {
            assert!(read(&wrong.to_vec().unwrap(), &asked).is_none(), "{wrong}");
        }
        assert!(read(b"", &asked).is_none());
    }

    #[test]
    fn only_a_resolver_is_asked_to_recurse() {
        assert!(!message().metadata.recursion_desired);
        let asked = query(Recursion::Desired, "global.", RecordType::SOA).unwrap();
        assert!(asked.metadata.recursion_desired);
    }

    #[tokio::test]
    async fn a_port_that_nobody_listens_on_is_an_error_in_words() {
        let closed = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let server = closed.local_addr().unwrap();
        drop(closed);
        for over in [Over::Udp, Over::Tcp] {
            let asked = ask(server, over, Recursion::None, "global.", RecordType::SOA).await;
            let error = asked.unwrap_err();
            assert!(error.contains("refused"), "{over:?}: {error}");
        }
    }
}
