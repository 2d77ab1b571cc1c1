//! The servers of the fleet: the state of each replica, its answers, version, zones and clock.

use super::observer::{Member, differs, of_kind};
use crate::check::facts;
use crate::check::finding::{Check, Finding, text};
use crate::model::{ProblemKind, join_texts};

/// Maximum difference of two clocks in seconds. Gates, certificates and the times in views depend on them.
const MAX_DIFFERENCE: i64 = 5;

/// Compares the servers of the clusters.
pub(super) fn compare(read: &[&Member], lines: &mut Vec<Finding>) {
    let failing = |what: String, hint: &str| Check::FleetServers.failing(what, hint);
    let (mut versions, mut zones, mut clocks) = (Vec::new(), Vec::new(), Vec::new());
    for member in read {
        let context = member.context.as_str();
        let mut hashes = Vec::new();
        for replica in member.read() {
            let place = format!("{context}: {}", replica.name);
            let status = match &replica.status {
                Ok(status) => status,
                Err(why) => {
                    let hint = "check the pod of the server and the network to it";
                    lines.push(failing(format!("{place}: cannot be read: {why}"), hint));
                    continue;
                }
            };
            versions.push((text(status, "version").to_owned(), context));
            // Each cluster has zones for the names of some of the others. The suffix has the grammar: `svc.clusterset.local.`
            let of_all = facts::zones(status).filter(|zone| zone.cluster.is_empty());
            let mut names: Vec<&str> = of_all.map(|zone| zone.suffix).collect();
            names.sort_unstable();
            zones.push((names.join(" "), context));
            if text(status, "state") == "loading" {
                let mut line = of_kind(ProblemKind::NoTable, None, "");
                line.sentence = format!("{place}: {}", line.sentence);
                lines.push(line);
            } else if !status["tableHash"].is_null() {
                hashes.push((status["tableHash"].to_string(), &*replica.name));
            }
            clocks.push((place, replica.clock_offset));
        }
        if differs(hashes.iter().cloned()).is_some() {
            let hint = "if it stays, compare their settings, and restart the older one";
            let names = join_texts(hashes.iter().map(|(_, name)| name), " / ");
            lines.push(failing(
                format!("{context}: replicas answer differently: {names}"),
                hint,
            ));
        }
    }
    if let Some(seen) = differs(versions) {
        let hint = "install the same version in every cluster";
        lines.push(failing(format!("versions of global-dns: {seen}"), hint));
    }
    if let Some(seen) = differs(zones) {
        let hint = "set the same zones, with the same grammar, in every cluster";
        lines.push(failing(format!("zones: {seen}"), hint));
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
            let seen = format!("{place}: its clock is {seconds} s {direction} the others");
            let hint = "correct the clock of its node (NTP): gates, certificates and the times in views depend on it";
            lines.push(failing(seen, hint));
        }
    }
}
