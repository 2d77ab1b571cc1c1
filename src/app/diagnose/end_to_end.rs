//! The facts for `check` about one name, from end to end: it is asked as programs on this machine ask it, and its
//! addresses are connected to.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures::future::join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::name_servers::ask_again_if;
use crate::check::dns::{QueryResult, no_server};
use crate::check::dns_client::{QueryMode, query};
use crate::check::end_to_end::{ConnectionAttempt, EndToEnd, ResolverReply};
use crate::check::question::{Question, Target, question_of, smallest, targets};
use crate::check::resolv_conf::ResolvConf;
use crate::check::{Fact, NotChecked};
use crate::table::Table;
use crate::wire::Rcode;
use crate::zone::{Name, RecordType, ZoneName, Zones};

/// Timeout of one connection. A proxy in front of an unreachable gateway takes a few seconds to report it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time to wait for a reply, or for the close. Linkerd's proxy accepts each connection itself, and closes it when the endpoint
/// refuses: within 3 seconds if a gateway has died.
const OPEN_FOR: Duration = Duration::from_secs(3);
/// Ports of protocols with servers that speak first: FTP, SSH, SMTP, POP3, IMAP, MySQL, NATS, Galera.
const SERVER_FIRST: [u16; 10] = [21, 22, 25, 110, 143, 587, 3306, 4222, 4567, 6222];
/// Maximum number of connections, all at once.
const MAX_CONNECTIONS: usize = 50;

/// The settings of the end-to-end check.
pub(super) struct Request<'r> {
    /// `--dns`.
    pub(super) server: Option<SocketAddr>,
    /// The settings of the resolver.
    pub(super) resolver: &'r Fact<ResolvConf>,
    /// `--name`.
    pub(super) name: Option<&'r Name>,
    /// `--connect`.
    pub(super) connect: bool,
    /// The zones of the flags.
    pub(super) zones: &'r Zones,
    /// The table of the source, if it can be read.
    pub(super) table: Option<&'r Table>,
}

// === impl Request ===

impl Request<'_> {
    /// Asks for one name. If an answer differs, asks again when caches have expired.
    pub(super) async fn query(&self) -> Fact<EndToEnd> {
        let server = self.server.ok_or_else(no_server)?;
        let question = self.question()?;
        let ask = async || self.ask(server, &question).await;
        let mut path = ask_again_if(EndToEnd::differs, ask).await;
        if self.connect {
            path.connections = Some(self.connect(&path).await);
        }
        Ok(path)
    }

    /// Returns the question for `--name`, or for the smallest service.
    fn question(&self) -> Fact<Question> {
        const HINT: &str = "name one with --name";
        if let Some(name) = self.name {
            return Ok(question_of(name, self.zones, self.table));
        }
        let table = self.objects()?;
        smallest(self.zones, table)
            .ok_or_else(|| NotChecked::new("no service has an alive endpoint", HINT))
    }

    /// Returns the table. Another finding has the reason why there is none.
    fn objects(&self) -> Fact<&Table> {
        let unread = || NotChecked::consequence("the objects cannot be read");
        self.table.ok_or_else(unread)
    }

    /// Sends the question to all name servers, once.
    async fn ask(&self, server: SocketAddr, question: &Question) -> EndToEnd {
        let direct = query(server, QueryMode::Udp, &question.name, question.rtype);
        let (direct, resolvers, searched) =
            tokio::join!(direct, self.ask_resolvers(question), self.search(question));
        EndToEnd {
            question: question.clone(),
            server,
            direct,
            resolvers,
            searched,
            connections: None,
        }
    }

    /// Sends the question to each name server of the resolver.
    async fn ask_resolvers(&self, question: &Question) -> Fact<Vec<ResolverReply>> {
        let conf = self.resolver.as_ref().map_err(NotChecked::clone)?;
        let zone = self.zone_of(&question.name)?;
        let ask = async |server: SocketAddr| {
            let (answer, soa) = tokio::join!(
                query(server, QueryMode::Resolver, &question.name, question.rtype),
                query(server, QueryMode::Resolver, zone.as_str(), RecordType::SOA),
            );
            ResolverReply {
                server,
                answer,
                soa,
                zone: zone.clone(),
            }
        };
        Ok(join_all(conf.servers.iter().copied().map(ask)).await)
    }

    /// Returns the zone of a name, or the first one if it is in none.
    fn zone_of(&self, name: &str) -> Fact<ZoneName> {
        let name = Name::from_text(name);
        let own = name.as_ref().and_then(|name| self.zones.find(name));
        let zone = own
            .map(|(zone, _)| zone)
            .or_else(|| self.zones.iter().next());
        zone.map(|zone| zone.name.clone())
            .ok_or_else(|| NotChecked::new("there is no zone", "set --zone"))
    }

    /// Asks for the names of the search list, as a program does before it asks for the name itself.
    async fn search(&self, question: &Question) -> Vec<(String, QueryResult)> {
        let Ok(conf) = self.resolver else {
            return Vec::new();
        };
        let names = conf.names_before(question.name.trim_end_matches('.'));
        let ask = async |name: String| {
            let reply = resolve_by_any(&conf.servers, &name, question.rtype).await;
            (name, reply)
        };
        join_all(names.into_iter().map(ask)).await
    }

    /// Connects to the answered addresses.
    async fn connect(&self, path: &EndToEnd) -> Fact<Vec<ConnectionAttempt>> {
        let table = self.objects()?;
        let answered = path.answered();
        if answered.is_empty() {
            return Err(NotChecked::consequence(
                "the cluster's DNS answers no address",
            ));
        }
        let name = Name::from_text(&path.question.name);
        let mut targets = name.map_or_else(Vec::new, |name| {
            targets(&name, &answered, self.zones, table)
        });
        if targets.is_empty() {
            return Err(NotChecked::new(
                "no endpoint with an answered address has a TCP port",
                "name a service with TCP ports: --name",
            ));
        }
        targets.truncate(MAX_CONNECTIONS);
        Ok(join_all(targets.into_iter().map(connect)).await)
    }
}

/// Asks the name servers in turn until one answers with or without the name, as resolvers do.
async fn resolve_by_any(servers: &[SocketAddr], name: &str, rtype: RecordType) -> QueryResult {
    let mut last = Err("there is no name server".to_owned());
    for server in servers {
        last = query(*server, QueryMode::Resolver, name, rtype).await;
        let is_final = |reply: &crate::check::dns::ReplySummary| {
            [Rcode::NOERROR, Rcode::NXDOMAIN].contains(&reply.rcode)
        };
        if last.as_ref().is_ok_and(is_final) {
            break;
        }
    }
    last
}

/// Connects to a target. The time does not include the wait for a proxy that closes the connection.
async fn connect(target: Target) -> ConnectionAttempt {
    let started = Instant::now();
    let result = match timeout(CONNECT_TIMEOUT, TcpStream::connect(target.address)).await {
        Ok(Ok(stream)) => {
            let time = started.elapsed();
            let is_reached = is_reached(stream, target.address.port()).await;
            is_reached.map(|is_reached| is_reached.then_some(time))
        }
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!(
            "no connection within {} s",
            CONNECT_TIMEOUT.as_secs()
        )),
    };
    ConnectionAttempt { target, result }
}

/// Waits for a reply on a new connection, or for its close. Returns whether a reply shows that the endpoint was reached.
async fn is_reached(mut stream: TcpStream, port: u16) -> Result<bool, String> {
    let closed = |how: &str| {
        format!(
            "the connection was accepted and then {how}, as a proxy does that cannot reach the endpoint"
        )
    };
    let mut reply = [0; 4];
    let exchange = async {
        if !SERVER_FIRST.contains(&port) {
            // It begins no request of HTTP, so that a proxy connects to the endpoint at once, and is no whole message.
            stream.write_all(&[0]).await?;
        }
        stream.read(&mut reply).await
    };
    match timeout(OPEN_FOR, exchange).await {
        Err(_) => Ok(false),
        Ok(Ok(0)) => Err(closed("closed")),
        // A proxy itself sends a status of HTTP/1, or the settings of HTTP/2.
        Ok(Ok(_)) => Ok(!matches!(reply, [b'H', ..] | [0, 0, _, 4])),
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionReset => Err(closed("reset")),
        Ok(Err(error)) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
