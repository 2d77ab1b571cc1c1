//! The facts for `check` from name servers: global-dns itself and the cluster's DNS.

use std::net::SocketAddr;
use std::time::Duration;

use futures::future::join_all;

use crate::app::flags::zones;
use crate::check::dns::{DnsFacts, ResolverReplies, Sample, ServerReplies, ZoneFacts, samples};
use crate::check::dns_client::{ClientTransport, Recursion, query};
use crate::check::resolv_conf::ResolvConf;
use crate::check::{Fact, NotChecked};
use crate::cli::ModelArgs;
use crate::table::Table;
use crate::zone::{RecordType, Zone};

/// The file with the system's name servers.
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// Time for which CoreDNS may cache an answer: `cache 5` of the recommended Corefile stanza, and one second.
pub(super) const CACHED: Duration = Duration::from_secs(6);

/// Queries the server and the cluster's DNS about every zone.
pub(super) async fn query_name_servers(
    server: Option<SocketAddr>,
    resolver: &Fact<ResolvConf>,
    model: &ModelArgs,
    table: Option<&Table>,
) -> DnsFacts {
    let first = resolver.as_ref().map(|conf| conf.servers[0]);
    let resolver = first.map_err(NotChecked::clone);
    let served = zones(model, &[]);
    let queries = served
        .iter()
        .map(|zone| query_zone(zone, server, resolver.as_ref().ok(), table));
    let zones = join_all(queries).await;
    DnsFacts {
        server,
        resolver,
        zones,
    }
}

/// Returns the settings of the resolver: `--resolver` alone, or `/etc/resolv.conf`. There is at least one name server.
pub(super) fn resolver(flag: Option<SocketAddr>) -> Fact<ResolvConf> {
    const HINT: &str = "set --resolver to the address of the cluster's DNS";
    if let Some(server) = flag {
        return Ok(ResolvConf::of_server(server));
    }
    let text = std::fs::read_to_string(RESOLV_CONF)
        .map_err(|error| NotChecked::new(format!("cannot read {RESOLV_CONF}: {error}"), HINT))?;
    let conf = ResolvConf::parse(&text);
    if conf.servers.is_empty() {
        Err(NotChecked::new(
            format!("{RESOLV_CONF} has no name server"),
            HINT,
        ))
    } else {
        Ok(conf)
    }
}

/// Queries the server and the cluster's DNS about a zone. Sends no query without a server.
async fn query_zone(
    zone: &Zone,
    server: Option<SocketAddr>,
    resolver: Option<&SocketAddr>,
    table: Option<&Table>,
) -> ZoneFacts {
    let name = zone.name.clone();
    let Some(server) = server else {
        return ZoneFacts {
            zone: name,
            server: None,
            resolver: None,
        };
    };
    let of_resolver = async { Some(query_resolver(zone, server, *resolver?, table).await) };
    let (of_server, of_resolver) = tokio::join!(query_server(zone, server), of_resolver);
    ZoneFacts {
        zone: name,
        server: Some(of_server),
        resolver: of_resolver,
    }
}

/// Queries the server for the records of a zone's apex.
async fn query_server(zone: &Zone, server: SocketAddr) -> ServerReplies {
    let apex = zone.name.as_str();
    let query_apex =
        async |transport, rtype| query(server, transport, Recursion::None, apex, rtype).await;
    let (udp, tcp, ns) = tokio::join!(
        query_apex(ClientTransport::Udp, RecordType::SOA),
        query_apex(ClientTransport::Tcp, RecordType::SOA),
        query_apex(ClientTransport::Udp, RecordType::NS),
    );
    ServerReplies { udp, tcp, ns }
}

/// Queries the cluster's DNS for a zone and the root, and both name servers for some services.
async fn query_resolver(
    zone: &Zone,
    server: SocketAddr,
    resolver: SocketAddr,
    table: Option<&Table>,
) -> ResolverReplies {
    let resolve = async |name, rtype| {
        query(
            resolver,
            ClientTransport::Udp,
            Recursion::Desired,
            name,
            rtype,
        )
        .await
    };
    let questions = table.map_or_else(Vec::new, |table| samples(zone, table));
    let samples = questions
        .into_iter()
        .map(|(name, rtype)| query_both(server, resolver, name, rtype));
    let (soa, root, samples) = tokio::join!(
        resolve(zone.name.as_str(), RecordType::SOA),
        resolve(".", RecordType::SOA),
        join_all(samples),
    );
    ResolverReplies { soa, root, samples }
}

/// Queries the server and the cluster's DNS. If the answers differ, repeats both queries when caches have expired: the
/// answer may have changed a moment ago.
async fn query_both(
    server: SocketAddr,
    resolver: SocketAddr,
    name: String,
    rtype: RecordType,
) -> Sample {
    let once = async || {
        let (of_server, of_resolver) = tokio::join!(
            query(server, ClientTransport::Udp, Recursion::None, &name, rtype),
            query(
                resolver,
                ClientTransport::Udp,
                Recursion::Desired,
                &name,
                rtype
            ),
        );
        Sample {
            question: format!("{name} {rtype}"),
            server: of_server,
            resolver: of_resolver,
        }
    };
    let sample = once().await;
    if !sample.differs() {
        return sample;
    }
    tokio::time::sleep(CACHED).await;
    once().await
}
