//! What a table leaves out or finds contradictory, in the log.

use tracing::{debug, warn};

use super::DEFAULT_CLUSTER_NAME;
use crate::mirror::{ObjectRef, SkipReason};
use crate::table::inputs::Dirty;
use crate::table::{Origin, Rules, Table};

/// Logs what a build left out or found contradictory: once, when it appears.
#[derive(Debug, Default)]
pub(super) struct ChangeLog {
    /// The warning about the default cluster name was given.
    warned_of_cluster_name: bool,
}

impl ChangeLog {
    pub(super) fn note(&mut self, last: &Table, next: &Table, dirty: &Dirty, rules: &Rules) {
        for conflict in next.new_conflicts(last) {
            warn!(
                kind = conflict.kind.name(),
                name = conflict.name,
                "Conflict: {}",
                conflict.detail
            );
        }
        for key in dirty {
            let (namespace, service) = (key.namespace.as_str(), key.service.as_str());
            let Some(new) = next.service(namespace, service) else {
                continue;
            };
            let old = last.service(namespace, service);
            let (old_skips, old_conflicts) = old.map_or((&[][..], &[][..]), |old| {
                (&old.skipped[..], &old.conflicts[..])
            });
            for (object, skip) in new.skipped.iter().filter(|skip| !old_skips.contains(skip)) {
                log_skip(object, skip.reason, &skip.detail);
            }
            for conflict in new.conflicts.iter().filter(|c| !old_conflicts.contains(c)) {
                warn!(
                    kind = conflict.kind.name(),
                    name = conflict.name,
                    "Conflict: {}",
                    conflict.detail
                );
            }
            let is_local = |service: &crate::table::Service| {
                service
                    .endpoints
                    .iter()
                    .any(|endpoint| endpoint.origin == Origin::Local)
            };
            if !self.warned_of_cluster_name && is_local(new) && has_default_name(rules) {
                self.warned_of_cluster_name = true;
                warn!(service = %key, "This cluster's members are named '{DEFAULT_CLUSTER_NAME}', which is \
                    the same name in every cluster; set --cluster-name");
            }
        }
    }
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
