//! What Linkerd mirrors: whether it does, whether headless, for whom still, and through which gateways.

use std::collections::{BTreeMap, BTreeSet};

use super::objects::{HeadlessSlice, Link, MirrorPorts};
use super::{Check, Facts, Finding, count, links, some_of};
use crate::mirror::{ClusterName, Hostname, ObjectRef, SkipReason, Text};
use crate::table::{Conflict, ConflictKind, Origin, Rules, Table};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let of_table = |check: Check, what: &str, judge: &dyn Fn(&Table) -> Finding| {
        check.of(what, &facts.table, judge)
    };
    let (rules, links) = (&facts.rules, &facts.links);
    vec![
        of_table(Check::Mirrors, "mirrors", &mirrors),
        of_table(Check::HeadlessMirroring, "headless mirroring", &headless),
        of_table(Check::OrphanedMirrors, "orphaned mirrors", &|table| {
            let judge = |links: &Vec<Link>| orphans(table, links, rules);
            Check::OrphanedMirrors.of("orphaned mirrors", links, judge)
        }),
        of_table(Check::LinkStatus, "what Links report", &|table| {
            let judge = |links: &Vec<Link>| links::status(table, links, rules);
            Check::LinkStatus.of("what Links report", links, judge)
        }),
        links::namespaces(links, &facts.namespaces),
        of_table(
            Check::EndpointMirrors,
            "missing endpoint mirrors",
            &endpoint_mirrors,
        ),
        of_table(
            Check::ClobberedMirrors,
            "clobbered headless mirrors",
            &|table| {
                let judge = |slices: &Vec<HeadlessSlice>| clobbered(table, slices);
                let what = "clobbered headless mirrors";
                Check::ClobberedMirrors.of(what, &facts.headless_slices, judge)
            },
        ),
        Check::Identity.of(
            "mirrors that two Links write",
            &facts.server_conflicts,
            |conflicts| two_links(conflicts),
        ),
        Check::MirrorLabels.of("labels of mirrors", &facts.odd_labels, |odd| labels(odd)),
        of_table(Check::LongNames, "long names", &|table| {
            links::long_names(table, links, rules)
        }),
        of_table(Check::OpaquePorts, "opaque ports", &|table| {
            let judge = |ports: &Vec<MirrorPorts>| opaque_ports(table, ports);
            Check::OpaquePorts.of("opaque ports", &facts.mirror_ports, judge)
        }),
        of_table(Check::Gateways, "gateways", &gateways),
    ]
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
    let endpoints = table.services().flat_map(|service| &service.endpoints);
    let endpoints = endpoints.filter(|e| e.origin == Origin::Mirror).count();
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
    let headless = headless_mirrors(table).map(|(cluster, _)| cluster.clone());
    let endpoints = table.services().flat_map(|service| &service.endpoints);
    let endpoints = endpoints.filter(|e| e.origin == Origin::Mirror);
    let endpoints = endpoints.map(|endpoint| endpoint.cluster.clone());
    let others = table.skipped();
    let others = others.filter_map(|(_, skip)| Some(rules.name_of(&skip.other_kind()?.1)));
    for cluster in headless.chain(endpoints).chain(others) {
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

/// A headless mirror without any endpoint may have none over there; a host that it lists has lost its mirror.
fn endpoint_mirrors(table: &Table) -> Finding {
    let mut bare: Vec<&ObjectRef> = Vec::new();
    let mut missing: BTreeMap<&ObjectRef, Vec<&Hostname>> = BTreeMap::new();
    for service in table.services() {
        for host in &service.missing {
            missing
                .entry(&host.mirror)
                .or_default()
                .push(&host.hostname);
        }
        let mirrors = service.mirrors.iter();
        let is_bare = |(cluster, _): &&(ClusterName, ObjectRef)| {
            service.in_cluster(cluster.as_str()).is_empty()
        };
        bare.extend(mirrors.filter(is_bare).map(|(_, object)| object));
    }
    bare.retain(|object| !missing.contains_key(object));
    bare.sort();
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
    let hint = match lost.is_some() {
        true => {
            "they are not answered; global-dns explain NAME says whether another object has the name of the mirror; if \
             not, restart the link's controller, and update Linkerd: before edge-26.5.1 it deletes mirrors where two \
             namespaces export a headless Service of one name"
        }
        false => {
            "over there no pod with a hostname is ready, or Linkerd's mirror controller lost them, which heals at the \
             next change there or within ten minutes"
        }
    };
    let sentences: Vec<String> = without.into_iter().chain(lost).collect();
    match sentences.is_empty() {
        true => Check::EndpointMirrors.green("every headless mirror has endpoint mirrors"),
        false => Check::EndpointMirrors.yellow(sentences.join("; "), hint),
    }
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

fn gateways(table: &Table) -> Finding {
    let mut clusters: BTreeMap<&ClusterName, (usize, usize)> = BTreeMap::new();
    let endpoints = table.services().flat_map(|service| &service.endpoints);
    for endpoint in endpoints.filter(|e| e.origin == Origin::Mirror) {
        let (dead, all) = clusters.entry(&endpoint.cluster).or_default();
        *dead += usize::from(!endpoint.alive);
        *all += 1;
    }
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
