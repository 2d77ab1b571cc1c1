//! The servers of the fleet: the state of each replica, its answers, version, zones and clock.

use std::collections::BTreeMap;

use super::mismatch::{Mismatch, differs, of_kind};
use super::observer::{Member, ReplicaFacts};
use crate::check::facts;
use crate::check::finding::{Check, Finding, text};
use crate::model::ProblemKind;

/// Maximum difference of two clocks in seconds. Gates, certificates and the times in views depend on them.
const MAX_DIFFERENCE: i64 = 5;

/// Compares the servers of the clusters.
pub(super) fn compare<'m>(read: &[(&Member, &[ReplicaFacts])], rows: &mut Vec<Mismatch<'m>>) {
    let mut add = |what: String, seen: String, cause| {
        rows.push(Mismatch::new(None, what, seen, cause));
    };
    let failing = |hint: &str| Finding::failing(Check::FleetServers, "", hint);
    let (mut versions, mut zones, mut clocks) = (Vec::new(), Vec::new(), Vec::new());
    let mut clusters_of_zones = BTreeMap::<&str, Vec<(String, &str)>>::new();
    for (member, replicas) in read {
        let context = member.context.as_str();
        let mut hashes = Vec::new();
        for replica in *replicas {
            let place = format!("{context}: {}", replica.name);
            let status = match &replica.status {
                Ok(status) => status,
                Err(why) => {
                    let hint = "check the pod of the server and the network to it";
                    add(place, format!("cannot be read: {why}"), failing(hint));
                    continue;
                }
            };
            clocks.push((place.clone(), replica.clock_offset));
            versions.push((text(status, "version").to_owned(), context));
            let mut names = Vec::new();
            for zone in facts::zones(status) {
                // Each cluster has zones for the names of some of the others.
                if zone.cluster.is_empty() {
                    // It has the grammar: `svc.clusterset.local.`
                    names.push(zone.suffix);
                } else {
                    let clusters = clusters_of_zones.entry(zone.name).or_default();
                    clusters.push((zone.cluster.to_owned(), context));
                }
            }
            names.sort_unstable();
            zones.push((names.join(" "), context));
            match replica.ready() {
                Some(status) => hashes.push((status["tableHash"].to_string(), &*replica.name)),
                None => add(
                    place,
                    String::new(),
                    of_kind(ProblemKind::NoTable, None, ""),
                ),
            }
        }
        hashes.retain(|(hash, _)| hash != "null");
        if differs(hashes.iter().cloned()).is_some() {
            let hint = "if it stays, compare their settings, and restart the older one";
            let names: Vec<&str> = hashes.iter().map(|(_, name)| *name).collect();
            let what = format!("{context}: replicas answer differently");
            add(what, names.join(" / "), failing(hint));
        }
    }
    if let Some(seen) = differs(versions) {
        let hint = "install the same version in every cluster";
        add("versions of global-dns".to_owned(), seen, failing(hint));
    }
    if let Some(seen) = differs(zones) {
        add(
            "zones".to_owned(),
            seen,
            failing("set the same zones, with the same grammar, in every cluster"),
        );
    }
    for (zone, clusters) in clusters_of_zones {
        if let Some(seen) = differs(clusters) {
            let hint = "in zones, name the same cluster for it everywhere: programs know a pod by one name";
            add(format!("cluster of zone {zone}"), seen, failing(hint));
        }
    }
    // The clock of this machine is one of them. Most are right.
    let mut offsets: Vec<i64> = clocks.iter().map(|(_, offset)| *offset).collect();
    offsets.push(0);
    offsets.sort_unstable();
    let usual = offsets[offsets.len() / 2];
    for (place, offset) in clocks {
        let seconds = (offset - usual).abs();
        if seconds > MAX_DIFFERENCE {
            let direction = if offset > usual { "ahead of" } else { "behind" };
            let seen = format!("its clock is {seconds} s {direction} the others");
            let hint = "correct the clock of its node (NTP): gates, certificates and the times in views depend on it";
            add(place, seen, failing(hint));
        }
    }
}
