//! What Linkerd mirrors: whether it does, whether headless, for whom still, and through which gateways.

use std::collections::{BTreeMap, BTreeSet};

use super::objects::{HeadlessSlice, Link, MirrorPorts};
use super::{Check, Facts, Finding, count, links, some_of};
use crate::mirror::{ClusterName, Hostname, ObjectRef, SkipReason, Text};
use crate::table::{Conflict, ConflictKind, Endpoint, Origin, Rules, Table};

/// What to do about headless mirrors without endpoint mirrors.
const BARE: &str = "over there no pod with a hostname is ready, or Linkerd's mirror controller lost them, which heals at \
                    the next change there or within ten minutes";
/// What to do about hosts that headless mirrors list without endpoint mirrors.
const LOST: &str = "they are not answered; global-dns explain NAME says whether another object has the name of the \
                    mirror; if not, restart the link's controller, and update Linkerd: before edge-26.5.1 it deletes \
                    mirrors where two namespaces export a headless Service of one name";

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    [check_mirroring(facts), check_each_mirror(facts)].concat()
}

/// Checks whether Linkerd mirrors, and what Links say of it.
fn check_mirroring(facts: &Facts) -> Vec<Finding> {
    let Facts {
        rules,
        table,
        links,
        namespaces,
        ..
    } = facts;
    vec![
        Check::Mirrors.of("mirrors", table, mirrors),
        Check::HeadlessMirroring.of("headless mirroring", table, headless),
        Check::OrphanedMirrors.of_both("orphaned mirrors", table, links, |table, links| {
            orphans(table, links, rules)
        }),
        Check::LinkStatus.of_both("what Links report", table, links, |table, links| {
            links::status(table, links, rules)
        }),
        links::namespaces(links, namespaces),
    ]
}

/// Checks the mirrors one by one.
fn check_each_mirror(facts: &Facts) -> Vec<Finding> {
    let (table, slices, ports) = (&facts.table, &facts.headless_slices, &facts.mirror_ports);
    let what = "clobbered headless mirrors";
    vec![
        Check::EndpointMirrors.of("missing endpoint mirrors", table, endpoint_mirrors),
        Check::ClobberedMirrors.of_both(what, table, slices, |table, slices| {
            clobbered(table, slices)
        }),
        Check::Identity.of(
            "mirrors that two Links write",
            &facts.server_conflicts,
            |conflicts| two_links(conflicts),
        ),
        Check::MirrorLabels.of("labels of mirrors", &facts.odd_labels, |odd| labels(odd)),
        Check::LongNames.of("long names", table, |table| {
            links::long_names(table, &facts.links, &facts.rules)
        }),
        Check::OpaquePorts.of_both("opaque ports", table, ports, |table, ports| {
            opaque_ports(table, ports)
        }),
        Check::Gateways.of("gateways", table, gateways),
    ]
}

/// Returns the endpoints that mirrors stand for.
fn mirror_endpoints(table: &Table) -> impl Iterator<Item = &Endpoint> {
    let endpoints = table.services().flat_map(|service| &service.endpoints);
    endpoints.filter(|endpoint| endpoint.origin == Origin::Mirror)
}

/// Returns every headless mirror that is used, with its cluster.
fn headless_mirrors(table: &Table) -> impl Iterator<Item = &(ClusterName, ObjectRef)> {
    table.services().flat_map(|service| &service.mirrors)
}

/// Returns how many mirrors there are that have no place in a headless union, probe Services aside.
fn other_mirrors(table: &Table) -> usize {
    let is_other = |skip: &crate::mirror::Skip| skip.reason == SkipReason::NotHeadless;
    table.skipped().filter(|(_, skip)| is_other(skip)).count()
}

fn mirrors(table: &Table) -> Finding {
    let headless = headless_mirrors(table).count();
    let others = other_mirrors(table);
    if headless + others == 0 {
        return Check::Mirrors.yellow(
            "there are no mirrors",
            "link a cluster and export a headless Service there: label \
             mirror.linkerd.io/exported=true",
        );
    }
    let clusters: BTreeSet<_> = headless_mirrors(table).map(|(name, _)| name).collect();
    let endpoints = mirror_endpoints(table).count();
    Check::Mirrors.green(match headless {
        0 => format!("{}, none headless", count(others, "mirror")),
        _ => format!(
            "{} of {} ({}) with {}",
            count(headless, "headless mirror"),
            count(clusters.len(), "cluster"),
            some_of(clusters),
            count(endpoints, "endpoint"),
        ),
    })
}

/// With headless mirroring off, every export of a headless Service is mirrored with a cluster IP.
fn headless(table: &Table) -> Finding {
    const HINT: &str = "turn enableHeadlessServices on for the link (it is off by default), and give the pods hostnames: \
                        a StatefulSet whose serviceName is the exported Service";
    let is_headless = |conflict: &&Conflict| conflict.kind == ConflictKind::Headless;
    let torn: BTreeSet<String> = table
        .conflicts()
        .filter(is_headless)
        .map(|c| format!("{} is {}", c.name, c.detail))
        .collect();
    match (headless_mirrors(table).next(), other_mirrors(table)) {
        (None, 0) => Check::HeadlessMirroring.yellow(
            "headless mirroring: not checked, there are no mirrors",
            "look again when a cluster is linked and a headless Service exported there",
        ),
        (None, _) => Check::HeadlessMirroring.yellow(
            "no mirror is headless: headless mirroring is off, or no headless Service is exported",
            HINT,
        ),
        (Some(_), _) if !torn.is_empty() => Check::HeadlessMirroring.yellow(some_of(torn), HINT),
        (Some(_), _) => Check::HeadlessMirroring.green("headless mirroring is on"),
    }
}

/// Nothing removes the mirrors of a Link that is deleted, and nothing notes that their gateway is gone.
fn orphans(table: &Table, links: &[Link], rules: &Rules) -> Finding {
    let linked = links.iter().filter_map(|link| link.cluster.parse().ok());
    let linked: BTreeSet<ClusterName> = linked.map(|link| rules.name_of(&link)).collect();
    let mut orphans: BTreeMap<ClusterName, usize> = BTreeMap::new();
    for cluster in clusters_of_mirrors(table, rules) {
        if !linked.contains(&cluster) {
            *orphans.entry(cluster).or_default() += 1;
        }
    }
    if orphans.is_empty() {
        return Check::OrphanedMirrors.green("every mirror's cluster has a Link");
    }
    let words =
        |(cluster, mirrors)| format!("cluster '{cluster}' has {}", count(mirrors, "mirror"));
    Check::OrphanedMirrors.yellow(
        format!("without a Link: {}", some_of(orphans.into_iter().map(words))),
        "their addresses are answered as before, and nobody sees whether the gateway lives: delete the Services with that \
         label mirror.linkerd.io/cluster-name, or leave them out with --exclude-cluster",
    )
}

/// Returns the cluster of each mirror, after aliases.
fn clusters_of_mirrors(table: &Table, rules: &Rules) -> impl Iterator<Item = ClusterName> {
    let headless = headless_mirrors(table).map(|(cluster, _)| cluster.clone());
    let endpoints = mirror_endpoints(table).map(|endpoint| endpoint.cluster.clone());
    let others = table.skipped();
    let others = others.filter_map(|(_, skip)| Some(rules.name_of(&skip.other_kind()?.1)));
    headless.chain(endpoints).chain(others)
}

/// A headless mirror without any endpoint may have none over there; a host that it lists has lost its mirror.
fn endpoint_mirrors(table: &Table) -> Finding {
    let missing = missing_hosts(table);
    let bare = bare_mirrors(table, &missing);
    let without = (!bare.is_empty()).then(|| {
        let count = count(bare.len(), "headless mirror");
        format!("{count} without endpoint mirrors: {}", some_of(bare))
    });
    let words = |(mirror, hosts): (&&ObjectRef, &Vec<&Hostname>)| {
        format!("{mirror} lists {}", some_of(hosts))
    };
    let lost = (!missing.is_empty()).then(|| {
        let hosts = count(missing.values().map(Vec::len).sum(), "host");
        let mirrors = some_of(missing.iter().map(words));
        format!("{hosts} without endpoint mirror: {mirrors}")
    });
    let hint = if lost.is_some() { LOST } else { BARE };
    let sentences: Vec<String> = without.into_iter().chain(lost).collect();
    match sentences.is_empty() {
        true => Check::EndpointMirrors.green("every headless mirror has endpoint mirrors"),
        false => Check::EndpointMirrors.yellow(sentences.join("; "), hint),
    }
}

/// Returns the hosts without endpoint mirror, by the headless mirrors that list them.
fn missing_hosts(table: &Table) -> BTreeMap<&ObjectRef, Vec<&Hostname>> {
    let mut missing: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for host in table.services().flat_map(|service| &service.missing) {
        let hosts = missing.entry(&host.mirror).or_default();
        hosts.push(&host.hostname);
    }
    missing
}

/// Returns the headless mirrors without any endpoint, sorted, but for those with `missing` ones.
fn bare_mirrors<'t>(
    table: &'t Table,
    missing: &BTreeMap<&ObjectRef, Vec<&Hostname>>,
) -> Vec<&'t ObjectRef> {
    let mut bare: Vec<&ObjectRef> = Vec::new();
    for service in table.services() {
        let is_bare = |(cluster, _): &&(ClusterName, ObjectRef)| {
            service.in_cluster(cluster.as_str()).is_empty()
        };
        let mirrors = service.mirrors.iter().filter(is_bare);
        bare.extend(mirrors.map(|(_, object)| object));
    }
    bare.retain(|object| !missing.contains_key(object));
    bare.sort();
    bare
}

/// Returns the namespaces and names of the headless mirrors that are used.
fn headless_names(table: &Table) -> BTreeSet<(&str, Text)> {
    let headless = headless_mirrors(table);
    headless
        .map(|(_, object)| (&*object.key.namespace, object.key.name.text()))
        .collect()
}

/// An address without hostname in a headless mirror is a gateway's: Linkerd overwrote it.
fn clobbered(table: &Table, slices: &[HeadlessSlice]) -> Finding {
    let headless = headless_names(table);
    let wrong = slices.iter().filter(|slice| {
        !slice.nameless.is_empty()
            && headless.contains(&(slice.namespace.as_str(), slice.service.as_str().into()))
    });
    let wrong: BTreeSet<String> = wrong
        .map(|slice| {
            let (namespace, service) = (&slice.namespace, &slice.service);
            let addresses = some_of(&slice.nameless);
            format!("Service/{namespace}/{service} lists {addresses}")
        })
        .collect();
    match wrong.is_empty() {
        true => Check::ClobberedMirrors.green("no headless mirror lists a gateway's address"),
        false => Check::ClobberedMirrors.yellow(
            format!("overwritten with gateway addresses: {}", some_of(wrong)),
            "what is served here is right, the mirror's own name is not: it heals when pods over there change, or within \
             ten minutes",
        ),
    }
}

/// Two Links whose names give one mirror's name overwrite it in turns. Only a server that runs meanwhile sees that.
fn two_links(conflicts: &[Conflict]) -> Finding {
    let identity = conflicts
        .iter()
        .filter(|c| c.kind == ConflictKind::Identity);
    let changed: BTreeSet<String> = identity
        .map(|c| format!("{} {}", c.name, c.detail))
        .collect();
    match changed.is_empty() {
        true => Check::Identity.green("the server has seen no mirror become one of something else"),
        false => Check::Identity.yellow(
            some_of(changed),
            "rename one of the two clusters, or one of the two Services: SERVICE-CLUSTER must be another name for each",
        ),
    }
}

/// Mirrors have the value `true`, and this cluster's own objects no label: what has another value is in no watch.
fn labels(odd: &[String]) -> Finding {
    match odd.is_empty() {
        true => Check::MirrorLabels.green("every mirrored-service label is 'true'"),
        false => Check::MirrorLabels.yellow(
            format!(
                "{} left out for the value of label mirror.linkerd.io/mirrored-service: {}",
                count(odd.len(), "object"),
                some_of(odd)
            ),
            "Linkerd writes 'true': set that, or remove the label from what is no mirror",
        ),
    }
}

/// Where the server speaks first, a proxy that detects protocols waits for the client in vain.
fn opaque_ports(table: &Table, ports: &[MirrorPorts]) -> Finding {
    let headless = headless_names(table);
    let used = |mirror: &&MirrorPorts| {
        !mirror.unmarked.is_empty()
            && headless.contains(&(mirror.namespace.as_str(), mirror.name.as_str().into()))
    };
    let words = |mirror: &MirrorPorts| {
        let (namespace, name) = (&mirror.namespace, &mirror.name);
        format!("Service/{namespace}/{name} {}", some_of(&mirror.unmarked))
    };
    let unmarked: BTreeSet<String> = ports.iter().filter(used).map(words).collect();
    match unmarked.is_empty() {
        true => Check::OpaquePorts.green("no port of a headless mirror has to be marked opaque"),
        false => Check::OpaquePorts.yellow(
            format!("not marked opaque: {}", some_of(unmarked)),
            "if the server speaks first there, or speaks TLS of its own, annotate the exported Service with \
             config.linkerd.io/opaque-ports, and the client's Pod or namespace too, because endpoint mirrors do not get \
             that annotation; an annotation of any value ends this warning",
        ),
    }
}

/// Lists the clusters whose gateway is down.
fn gateways(table: &Table) -> Finding {
    let clusters = count_endpoints(table);
    let down = clusters.iter().filter(|(_, (dead, _))| *dead > 0);
    let words = |(cluster, (dead, all)): (&&ClusterName, &(usize, usize))| {
        format!(
            "cluster '{cluster}' ({dead} of {})",
            count(*all, "endpoint")
        )
    };
    let down: Vec<String> = down.map(words).collect();
    match (down.is_empty(), clusters.is_empty()) {
        (true, true) => Check::Gateways.green("there is no gateway to be down"),
        (true, false) => Check::Gateways.green("no gateway is down"),
        (false, _) => Check::Gateways.yellow(
            format!("the gateway is down of {}", some_of(down)),
            "look at the gateway over there and at the way to it (linkerd multicluster gateways); --gateway-down says what \
             is answered meanwhile",
        ),
    }
}

/// Counts the endpoints behind each cluster's gateway: those that are not alive, and all.
fn count_endpoints(table: &Table) -> BTreeMap<&ClusterName, (usize, usize)> {
    let mut clusters: BTreeMap<_, (usize, usize)> = BTreeMap::new();
    for endpoint in mirror_endpoints(table) {
        let (dead, all) = clusters.entry(&endpoint.cluster).or_default();
        *dead += usize::from(!endpoint.alive);
        *all += 1;
    }
    clusters
}
