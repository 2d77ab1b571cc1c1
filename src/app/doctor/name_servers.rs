//! What `check` learns from name servers: the server itself, and the cluster's DNS.

use std::net::SocketAddr;
use std::time::Duration;

use futures::future::join_all;

use crate::app::zones;
use crate::check::ask::{Over, Recursion, ask};
use crate::check::dns::{Direct, Dns, Sample, Through, ZoneFacts, first_name_server, samples};
use crate::check::{Known, NotChecked};
use crate::cli::ModelArgs;
use crate::table::Table;
use crate::zone::{RecordType, Zone};

/// Where the system says which name server it asks.
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// CoreDNS's `cache 5`, as the stanza has it, and a second.
const CACHED: Duration = Duration::from_secs(6);

/// Asks the server and the cluster's DNS about every zone.
pub(super) async fn ask_name_servers(
    server: Option<SocketAddr>,
    resolver: Option<SocketAddr>,
    model: &ModelArgs,
    table: Option<&Table>,
) -> Dns {
    let resolver = resolver.map_or_else(system_resolver, Ok);
    let served = zones(model, &[]);
    let asking = served
        .iter()
        .map(|zone| ask_about(zone, server, resolver.as_ref().ok(), table));
    let zones = join_all(asking).await;
    Dns {
        server,
        resolver,
        zones,
    }
}

/// Returns the first name server of the system.
fn system_resolver() -> Known<SocketAddr> {
    const HINT: &str = "give --resolver the address of the cluster's DNS";
    let text = std::fs::read_to_string(RESOLV_CONF)
        .map_err(|error| NotChecked::new(format!("reading {RESOLV_CONF}: {error}"), HINT))?;
    first_name_server(&text)
        .ok_or_else(|| NotChecked::new(format!("{RESOLV_CONF} names no name server"), HINT))
}

/// Asks about a zone, of the server directly and through the cluster's DNS; nothing without a server.
async fn ask_about(
    zone: &Zone,
    server: Option<SocketAddr>,
    resolver: Option<&SocketAddr>,
    table: Option<&Table>,
) -> ZoneFacts {
    let name = zone.name.clone();
    let Some(server) = server else {
        return ZoneFacts {
            zone: name,
            direct: None,
            through: None,
        };
    };
    let through = async { Some(ask_through(zone, server, *resolver?, table).await) };
    let (direct, through) = tokio::join!(ask_directly(zone, server), through);
    ZoneFacts {
        zone: name,
        direct: Some(direct),
        through,
    }
}

/// Asks the server for the records of a zone's apex.
async fn ask_directly(zone: &Zone, server: SocketAddr) -> Direct {
    let apex = zone.name.as_str();
    let directly = async |over, rtype| ask(server, over, Recursion::None, apex, rtype).await;
    let (udp, tcp, ns) = tokio::join!(
        directly(Over::Udp, RecordType::SOA),
        directly(Over::Tcp, RecordType::SOA),
        directly(Over::Udp, RecordType::NS),
    );
    Direct { udp, tcp, ns }
}

/// Asks the cluster's DNS for a zone and for the root, and both name servers for some services.
async fn ask_through(
    zone: &Zone,
    server: SocketAddr,
    resolver: SocketAddr,
    table: Option<&Table>,
) -> Through {
    let resolve =
        async |name, rtype| ask(resolver, Over::Udp, Recursion::Desired, name, rtype).await;
    let questions = table.map_or_else(Vec::new, |table| samples(zone, table));
    let samples = questions
        .into_iter()
        .map(|(name, rtype)| ask_both(server, resolver, name, rtype));
    let (soa, root, samples) = tokio::join!(
        resolve(zone.name.as_str(), RecordType::SOA),
        resolve(".", RecordType::SOA),
        join_all(samples),
    );
    Through { soa, root, samples }
}

/// Asks both ways. Where the answers differ they may have changed just now, with the old one in a cache: they are
/// compared again when that is over.
async fn ask_both(
    server: SocketAddr,
    resolver: SocketAddr,
    name: String,
    rtype: RecordType,
) -> Sample {
    let once = async || {
        let (direct, through) = tokio::join!(
            ask(server, Over::Udp, Recursion::None, &name, rtype),
            ask(resolver, Over::Udp, Recursion::Desired, &name, rtype),
        );
        Sample {
            question: format!("{name} {rtype}"),
            direct,
            through,
        }
    };
    let sample = once().await;
    if !sample.differs() {
        return sample;
    }
    tokio::time::sleep(CACHED).await;
    once().await
}
