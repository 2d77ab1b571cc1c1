//! What a table leaves out or finds contradictory, in the log.

use tracing::{debug, warn};

use super::DEFAULT_CLUSTER_NAME;
use crate::mirror::{ObjectRef, SkipReason};
use crate::table::inputs::Dirty;
use crate::table::{Conflict, Origin, Rules, Service, Table};

/// Logs what a build left out or found contradictory: once, when it appears.
#[derive(Debug, Default)]
pub(super) struct ChangeLog {
    /// The warning about the default cluster name was given.
    warned_of_cluster_name: bool,
}

impl ChangeLog {
    /// Logs what `next` leaves out or finds contradictory, and `last` did not, of the services that changed.
    pub(super) fn note(&mut self, last: &Table, next: &Table, dirty: &Dirty, rules: &Rules) {
        for conflict in next.new_conflicts(last) {
            log_conflict(conflict);
        }
        for key in dirty {
            let (namespace, service) = (key.namespace.as_str(), key.service.as_str());
            let Some(new) = next.service(namespace, service) else {
                continue;
            };
            log_changes(last.service(namespace, service), new);
            if !self.warned_of_cluster_name && is_local(new) && has_default_name(rules) {
                self.warned_of_cluster_name = true;
                warn!(service = %key, "This cluster's members are named '{DEFAULT_CLUSTER_NAME}', which is \
                    the same name in every cluster; set --cluster-name");
            }
        }
    }
}

/// Logs what a service leaves out or finds contradictory, and did not before.
fn log_changes(old: Option<&Service>, new: &Service) {
    let (old_skips, old_conflicts) = old.map_or((&[][..], &[][..]), |old| {
        (&old.skipped[..], &old.conflicts[..])
    });
    for (object, skip) in new.skipped.iter().filter(|skip| !old_skips.contains(skip)) {
        log_skip(object, skip.reason, &skip.detail);
    }
    for conflict in new.conflicts.iter().filter(|c| !old_conflicts.contains(c)) {
        log_conflict(conflict);
    }
}

/// Logs a conflict.
fn log_conflict(conflict: &Conflict) {
    warn!(
        kind = conflict.kind.name(),
        name = conflict.name,
        "Conflict: {}",
        conflict.detail
    );
}

/// Tells whether a service has endpoints of this cluster.
fn is_local(service: &Service) -> bool {
    let mut endpoints = service.endpoints.iter();
    endpoints.any(|endpoint| endpoint.origin == Origin::Local)
}

fn has_default_name(rules: &Rules) -> bool {
    rules.cluster_name.as_str() == DEFAULT_CLUSTER_NAME
}

/// Logs a skipped object. Kinds of mirrors that do not belong here are everyday; everything else deserves a look.
pub(super) fn log_skip(object: &ObjectRef, reason: SkipReason, detail: &str) {
    match reason {
        SkipReason::NotHeadless | SkipReason::ExcludedCluster => {
            debug!(%object, %reason, detail, "Skipped object");
        }
        SkipReason::Undecodable
        | SkipReason::NoParent
        | SkipReason::NamespaceMismatch
        | SkipReason::BadName
        | SkipReason::BadAddress => warn!(%object, %reason, detail, "Skipped object"),
    }
}
