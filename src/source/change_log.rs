//! Log messages about skipped objects and conflicts.

use tracing::{debug, warn};

use super::DEFAULT_CLUSTER_NAME;
use crate::mirror::{ObjectRef, SkipReason};
use crate::table::inputs::Dirty;
use crate::table::{Conflict, Rules, Service, ServiceKind, Table};

/// The log of skipped objects and conflicts. Each is logged once, when it appears.
#[derive(Debug, Default)]
pub(super) struct ChangeLog {
    /// Whether the warning about the default cluster name was logged.
    warned_of_cluster_name: bool,
}

impl ChangeLog {
    /// Logs the skipped objects and conflicts of the changed services that are in `next`, but not in `last`.
    pub(super) fn log_new(&mut self, last: &Table, next: &Table, dirty: &Dirty, rules: &Rules) {
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
                warn!(service = %key, "Local endpoints have the default cluster name '{DEFAULT_CLUSTER_NAME}', \
                    which is the same in every cluster; set --cluster-name");
            }
        }
    }
}

/// Logs the skipped objects and conflicts that are in the new service, but not in the old one.
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

/// Returns whether a service has endpoints of this cluster.
fn is_local(service: &Service) -> bool {
    let mut endpoints = service.endpoints.iter();
    endpoints.any(|endpoint| endpoint.kind == ServiceKind::Local)
}

fn has_default_name(rules: &Rules) -> bool {
    rules.cluster_name.as_str() == DEFAULT_CLUSTER_NAME
}

/// Logs a skipped object: at debug level if it is normal to skip it, and as a warning otherwise.
pub(super) fn log_skip(object: &ObjectRef, reason: SkipReason, detail: &str) {
    match reason {
        SkipReason::ExcludedCluster => {
            debug!(%object, %reason, detail, "Skipped object");
        }
        SkipReason::Undecodable
        | SkipReason::NoParent
        | SkipReason::NamespaceMismatch
        | SkipReason::BadName
        | SkipReason::BadAddress => warn!(%object, %reason, detail, "Skipped object"),
    }
}
