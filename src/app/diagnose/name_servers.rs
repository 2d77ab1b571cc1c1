//! The facts for `check` from name servers: global-dns itself and the cluster's DNS.

use std::net::SocketAddr;
use std::time::Duration;

use futures::future::join_all;

use crate::check::dns::{ResolverReplies, Sample, ServerReplies, ZoneFacts, no_server};
use crate::check::dns_client::{QueryMode, query};
use crate::check::question::{Question, samples};
use crate::check::resolv_conf::ResolvConf;
use crate::check::{Fact, NotChecked};
use crate::settings::Settings;
use crate::table::Table;
use crate::zone::{RecordType, Zone};

/// The file with the system's name servers.
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// Time for which CoreDNS may cache an answer: `cache 5` of the recommended Corefile stanza, and one second.
const CACHED: Duration = Duration::from_secs(6);

/// Queries the server and the cluster's DNS about every zone. Sends no query without a server.
pub(super) async fn query_name_servers(
    server: Option<SocketAddr>,
    resolver: &Fact<ResolvConf>,
    settings: &Settings,
    table: Option<&Table>,
) -> Vec<ZoneFacts> {
    let server = server.ok_or_else(no_server);
    let resolver = resolver.as_ref().map(|conf| conf.servers[0]);
    let query = async |zone: &Zone| {
        let of_server = async { Ok(query_server(zone, server.clone()?).await) };
        let of_resolver = async {
            let (server, resolver) = (server.clone()?, resolver.map_err(NotChecked::clone)?);
            Ok(query_resolver(zone, server, resolver, table).await)
        };
        let (server, resolver) = tokio::join!(of_server, of_resolver);
        ZoneFacts {
            zone: zone.name.clone(),
            server,
            resolver,
        }
    };
    join_all(settings.zones(&[]).iter().map(query)).await
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

/// Queries the server for the records of a zone's apex.
async fn query_server(zone: &Zone, address: SocketAddr) -> ServerReplies {
    let apex = zone.name.as_str();
    let (udp, tcp, ns) = tokio::join!(
        query(address, QueryMode::Udp, apex, RecordType::SOA),
        query(address, QueryMode::Tcp, apex, RecordType::SOA),
        query(address, QueryMode::Udp, apex, RecordType::NS),
    );
    ServerReplies {
        address,
        udp,
        tcp,
        ns,
    }
}

/// Queries the cluster's DNS for a zone and the root, and both name servers for some services.
async fn query_resolver(
    zone: &Zone,
    server: SocketAddr,
    resolver: SocketAddr,
    table: Option<&Table>,
) -> ResolverReplies {
    let questions = table.map_or_else(Vec::new, |table| samples(zone, table));
    let samples = questions.into_iter().map(|question| {
        ask_again_if(Sample::differs, async move || {
            query_both(server, resolver, &question).await
        })
    });
    let (soa, root, samples) = tokio::join!(
        query(
            resolver,
            QueryMode::Resolver,
            zone.name.as_str(),
            RecordType::SOA
        ),
        query(resolver, QueryMode::Resolver, ".", RecordType::SOA),
        join_all(samples),
    );
    ResolverReplies {
        address: resolver,
        soa,
        root,
        samples,
    }
}

/// Queries the server and the cluster's DNS.
async fn query_both(server: SocketAddr, resolver: SocketAddr, question: &Question) -> Sample {
    let (name, rtype) = (&question.name, question.rtype);
    let (server, resolver) = tokio::join!(
        query(server, QueryMode::Udp, name, rtype),
        query(resolver, QueryMode::Resolver, name, rtype),
    );
    Sample {
        question: question.clone(),
        server,
        resolver,
    }
}

/// Asks name servers. If their answers differ, asks again when caches have expired: the answer may have changed a moment ago.
pub(super) async fn ask_again_if<T>(differs: impl Fn(&T) -> bool, ask: impl AsyncFn() -> T) -> T {
    let replies = ask().await;
    if !differs(&replies) {
        return replies;
    }
    tokio::time::sleep(CACHED).await;
    ask().await
}
