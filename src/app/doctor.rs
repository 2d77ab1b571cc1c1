//! `check`: gathers the facts, from the API server or from files and from name servers, and prints what is made of them.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use futures::future::join_all;

use super::inspect::{ONCE, fetch, first_table};
use super::{access, json, log_to_stderr, print, zones};
use crate::check::ask::{Over, Recursion, ask};
use crate::check::dns::{Direct, Dns, Sample, Through, ZoneFacts, first_name_server, samples};
use crate::check::objects::{
    HeadlessSlice, Link, MirrorPorts, ODD_LABELS, PROBES, WHOLE_MIRRORS, headless_slice, link,
    maker, mirror_ports, odd_label,
};
use crate::check::permissions::{ApiServer, Review, Right, needed, not_needed};
use crate::check::{Colours, Facts, Known, NotChecked, check as judge};
use crate::cli::{CheckArgs, CheckOutput, ModelArgs, SourceArgs};
use crate::log::sentence;
use crate::mirror::{Kind, KubeObject, Namespace};
use crate::source::{file, kube};
use crate::table::publish::Reader;
use crate::table::{Conflict, Table};
use crate::zone::{RecordType, Zone};

/// Where the system says which name server it asks.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Checks, prints, and says by the exit code whether anything is red.
pub(super) async fn check(args: CheckArgs) -> anyhow::Result<ExitCode> {
    let CheckArgs {
        server,
        api: running,
        resolver,
        source,
        model,
        log,
        output,
    } = args;
    log_to_stderr(&log, "error")?;
    let SourceFacts {
        api,
        table,
        headless_slices,
        links,
        namespaces,
        mirror_ports,
        odd_labels,
        makers,
    } = match source.file.is_empty() {
        true => ask_the_api_server(&source, &model).await,
        false => read_files(&source, &model).await?,
    };
    let server_conflicts = conflicts_of(running.as_ref()).await;
    let dns = ask_name_servers(server, resolver, &model, table.as_ref().ok()).await;
    let checkup = judge(&Facts {
        api,
        rules: model.rules(),
        table,
        zones: zones(&model, &[]),
        headless_slices,
        links,
        namespaces,
        mirror_ports,
        odd_labels,
        server_conflicts,
        makers,
        dns,
    });
    print(&match output {
        CheckOutput::Text => checkup.to_text(colours()),
        CheckOutput::Json => json(&checkup)?,
    })?;
    Ok(match checkup.is_success() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// On a terminal, unless the user wants none (no-color.org).
fn colours() -> Colours {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    match std::io::stdout().is_terminal() && !unwanted {
        true => Colours::Shown,
        false => Colours::Plain,
    }
}

/// What the API server, or the files, say.
struct SourceFacts {
    api: Known<ApiServer>,
    table: Known<Table>,
    headless_slices: Known<Vec<HeadlessSlice>>,
    links: Known<Vec<Link>>,
    namespaces: Known<Vec<(Namespace, bool)>>,
    mirror_ports: Known<Vec<MirrorPorts>>,
    odd_labels: Known<Vec<String>>,
    makers: Known<Vec<String>>,
}

/// Returns the namespaces that flags name.
fn named_namespaces(source: &SourceArgs, model: &ModelArgs) -> BTreeSet<Namespace> {
    let pinned = model.short_name.iter().map(|(_, namespace)| namespace);
    let named = source.namespace.iter().chain(&model.default_namespace);
    named.chain(pinned).cloned().collect()
}

/// Leaves out what Links say of namespaces that are not watched.
fn watched(mut links: Vec<Link>, source: &SourceArgs) -> Vec<Link> {
    if !source.namespace.is_empty() {
        let is_watched = |name: &str| source.namespace.iter().any(|one| one.as_str() == name);
        for link in &mut links {
            link.services.retain(|one| is_watched(&one.namespace));
        }
    }
    links
}

fn first(reader: &Reader) -> Known<Table> {
    let none = || NotChecked::new("there is no table", "try again");
    reader.load().table.clone().ok_or_else(none)
}

// === Files ===

async fn read_files(source: &SourceArgs, model: &ModelArgs) -> anyhow::Result<SourceFacts> {
    let reader = first_table(source, model).await?;
    let objects = file::every_object(&source.file)?;
    let of_kind = |wanted: &'static str| {
        let own = objects.iter().filter(move |(kind, _)| kind == wanted);
        own.map(|(_, json)| json.as_str())
    };
    let links: Vec<Link> = of_kind("Link").filter_map(link).collect();
    let no_links = || {
        NotChecked::new(
            "the files hold no Links",
            "print those too: kubectl get services,endpointslices,links.multicluster.linkerd.io -A -o yaml",
        )
    };
    let is_there = |namespace: &Namespace| {
        objects.iter().any(|(kind, json)| {
            let object = KubeObject::read(json);
            let own = if kind == "Namespace" {
                object.name()
            } else {
                object.namespace()
            };
            own == namespace.as_str()
        })
    };
    let named = named_namespaces(source, model).into_iter();
    let odd_of = |kind: Kind, name: &'static str| {
        of_kind(name).filter_map(move |json| odd_label(kind, json))
    };
    Ok(SourceFacts {
        api: Err(NotChecked::new(
            "--file is read instead",
            "leave --file out to look at the cluster itself",
        )),
        table: first(&reader),
        headless_slices: Ok(of_kind("EndpointSlice")
            .filter_map(headless_slice)
            .collect()),
        links: match links.is_empty() {
            true => Err(no_links()),
            false => Ok(watched(links, source)),
        },
        namespaces: Ok(named
            .map(|namespace| {
                let exists = is_there(&namespace);
                (namespace, exists)
            })
            .collect()),
        mirror_ports: Ok(of_kind("Service").filter_map(mirror_ports).collect()),
        odd_labels: Ok(odd_of(Kind::Service, "Service")
            .chain(odd_of(Kind::EndpointSlice, "EndpointSlice"))
            .collect()),
        makers: Ok(of_kind("Service").filter_map(maker).collect()),
    })
}

// === The API server ===

async fn ask_the_api_server(source: &SourceArgs, model: &ModelArgs) -> SourceFacts {
    let (file, context) = (source.kubeconfig.as_ref(), source.context.as_ref());
    let access = access(file, context, kube::Access::Usual);
    let cluster = match kube::Cluster::open(access, ONCE).await {
        Ok(cluster) => cluster,
        Err(error) => return unreachable(sentence(&error)),
    };
    let version = match cluster.version().await {
        Ok(version) => version,
        Err(why) => return unreachable(why),
    };
    let namespaces = &source.namespace;
    let (needed, not_needed, table, slices, links, probes, mirrors, odd, named) = tokio::join!(
        review(&cluster, needed(namespaces)),
        review(&cluster, not_needed(namespaces)),
        first_table(source, model),
        cluster.select(Kind::EndpointSlice, WHOLE_MIRRORS, namespaces),
        cluster.links(),
        cluster.select(Kind::Service, PROBES, namespaces),
        cluster.select(Kind::Service, WHOLE_MIRRORS, namespaces),
        odd_labels(&cluster, namespaces),
        existing(&cluster, named_namespaces(source, model)),
    );
    let refused = |why| NotChecked::new(why, "look at the permissions above");
    SourceFacts {
        api: Ok(ApiServer::Reached {
            version,
            needed,
            not_needed,
        }),
        table: match table {
            Ok(reader) => first(&reader),
            Err(error) => Err(NotChecked::new(
                "there is no table",
                format!("mend this first: {}", sentence(error.as_ref())),
            )),
        },
        headless_slices: slices
            .map(|slices| {
                slices
                    .iter()
                    .filter_map(|json| headless_slice(json))
                    .collect()
            })
            .map_err(refused),
        links: known_links(links).map(|links| watched(links, source)),
        namespaces: named,
        mirror_ports: mirrors
            .map(|mirrors| {
                mirrors
                    .iter()
                    .filter_map(|json| mirror_ports(json))
                    .collect()
            })
            .map_err(refused),
        odd_labels: odd.map_err(refused),
        makers: probes
            .map(|probes| probes.iter().filter_map(|json| maker(json)).collect())
            .map_err(refused),
    }
}

/// Names the objects whose label keeps them out of every watch.
async fn odd_labels(
    cluster: &kube::Cluster,
    namespaces: &[Namespace],
) -> Result<Vec<String>, String> {
    let mut odd = Vec::new();
    for kind in [Kind::Service, Kind::EndpointSlice] {
        let objects = cluster.select(kind, ODD_LABELS, namespaces).await?;
        odd.extend(objects.iter().filter_map(|json| odd_label(kind, json)));
    }
    Ok(odd)
}

/// Asks which of some namespaces exist.
async fn existing(
    cluster: &kube::Cluster,
    named: BTreeSet<Namespace>,
) -> Known<Vec<(Namespace, bool)>> {
    let mut known = Vec::new();
    for namespace in named {
        match cluster.has_namespace(&namespace).await {
            Ok(exists) => known.push((namespace, exists)),
            Err(why) => {
                return Err(NotChecked::new(
                    format!("namespaces cannot be listed: {why}"),
                    "serve does not need that; run check as somebody who may list namespaces",
                ));
            }
        }
    }
    Ok(known)
}

fn known_links(links: Result<Option<Vec<String>>, String>) -> Known<Vec<Link>> {
    match links {
        Ok(Some(links)) => Ok(links.iter().filter_map(|json| link(json)).collect()),
        Ok(None) => Err(NotChecked::new(
            "this API server knows no Links",
            "install Linkerd's multicluster extension, which defines them",
        )),
        Err(why) => Err(NotChecked::new(
            format!("Links cannot be read: {why}"),
            "serve does not need Links; run check as somebody who may list links.multicluster.linkerd.io",
        )),
    }
}

fn unreachable(why: String) -> SourceFacts {
    let reason = || {
        NotChecked::new(
            "the API server cannot be asked",
            "look at the first line above",
        )
    };
    SourceFacts {
        api: Ok(ApiServer::Unreachable(why)),
        table: Err(reason()),
        headless_slices: Err(reason()),
        links: Err(reason()),
        namespaces: Err(reason()),
        mirror_ports: Err(reason()),
        odd_labels: Err(reason()),
        makers: Err(reason()),
    }
}

async fn review(cluster: &kube::Cluster, rights: Vec<Right>) -> Vec<Review> {
    let review = async |right: Right| Review {
        allowed: cluster.may(&right).await,
        right,
    };
    join_all(rights.into_iter().map(review)).await
}

// === A running server ===

/// Asks a running server which conflicts it has seen.
async fn conflicts_of(running: Option<&http::Uri>) -> Known<Vec<Conflict>> {
    const HINT: &str = "give --api the address of a running server's API: kubectl port-forward makes http://127.0.0.1:9154 \
                        lead to a pod";
    let Some(running) = running else {
        let why = "only a running server can know it, and --api is not given";
        return Err(NotChecked::new(why, HINT));
    };
    let asked = fetch(running, "/api/v1/conflicts").await;
    let read = asked.and_then(|text| {
        serde_json::from_str(&text).with_context(|| format!("reading what {running} says"))
    });
    read.map_err(|error| NotChecked::new(sentence(error.as_ref()), HINT))
}

// === Name servers ===

async fn ask_name_servers(
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

fn system_resolver() -> Known<SocketAddr> {
    const HINT: &str = "give --resolver the address of the cluster's DNS";
    let text = std::fs::read_to_string(RESOLV_CONF)
        .map_err(|error| NotChecked::new(format!("reading {RESOLV_CONF}: {error}"), HINT))?;
    first_name_server(&text)
        .ok_or_else(|| NotChecked::new(format!("{RESOLV_CONF} names no name server"), HINT))
}

async fn ask_about(
    zone: &Zone,
    server: Option<SocketAddr>,
    resolver: Option<&SocketAddr>,
    table: Option<&Table>,
) -> ZoneFacts {
    let apex = zone.name.as_str();
    let name = zone.name.clone();
    let Some(server) = server else {
        return ZoneFacts {
            zone: name,
            direct: None,
            through: None,
        };
    };
    let directly = async |over, rtype| ask(server, over, Recursion::None, apex, rtype).await;
    let direct = async {
        let (udp, tcp, ns) = tokio::join!(
            directly(Over::Udp, RecordType::SOA),
            directly(Over::Tcp, RecordType::SOA),
            directly(Over::Udp, RecordType::NS),
        );
        Direct { udp, tcp, ns }
    };
    let through = async {
        let resolver = *resolver?;
        let resolve =
            async |name, rtype| ask(resolver, Over::Udp, Recursion::Desired, name, rtype).await;
        let questions = table.map_or_else(Vec::new, |table| samples(zone, table));
        let samples = questions
            .into_iter()
            .map(|(name, rtype)| ask_both(server, resolver, name, rtype));
        let (soa, root, samples) = tokio::join!(
            resolve(apex, RecordType::SOA),
            resolve(".", RecordType::SOA),
            join_all(samples),
        );
        Some(Through { soa, root, samples })
    };
    let (direct, through) = tokio::join!(direct, through);
    ZoneFacts {
        zone: name,
        direct: Some(direct),
        through,
    }
}

/// Asks both ways. Where the answers differ they may have changed just now, with the old one in a cache: they are
/// compared again when that is over.
async fn ask_both(
    server: SocketAddr,
    resolver: SocketAddr,
    name: String,
    rtype: RecordType,
) -> Sample {
    /// CoreDNS's `cache 5`, as the stanza has it, and a second.
    const CACHED: Duration = Duration::from_secs(6);
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
