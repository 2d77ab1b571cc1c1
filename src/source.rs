//! Who feeds the inputs: the API server ([`kube`](mod@kube)) or YAML on disk ([`file`](mod@file)), and the one task that
//! follows them.
//!
//! A source sends [`Update`]s; [`follow`] applies them, builds, and publishes. An isolated change is published at once;
//! changes that queue up meanwhile are taken together, so there is no fixed delay and no queue that grows. Before the
//! first complete list of every feed there is no table, and a source that fails keeps the last one.

mod backoff;
pub mod feeds;
pub mod file;
pub mod kube;

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::{debug, info, warn};

pub use feeds::{Feed, Feeds};

use crate::mirror::{Namespace, Object, ObjectKey, ObjectRef, SkipReason, Watch};
use crate::table::inputs::{Dirty, Objects};
use crate::table::publish::Reader;
use crate::table::{Built, Inputs, Origin, Publisher, Rules, Table, build};

/// What a source saw.
#[derive(Debug)]
pub enum Update {
    /// One object was added, modified or (without `object`) deleted.
    Apply {
        /// The watch that says so.
        watch: Watch,
        /// The object's key.
        key: ObjectKey,
        /// The object, reduced.
        object: Option<Object>,
    },
    /// Complete lists, taken at one moment: each feed with every object of it.
    Reset(Vec<(Feed, Objects)>),
}

/// The sending end that a source gets. Bounded, so that a burst slows the source down instead of growing a queue.
pub type Updates = mpsc::Sender<Update>;

/// `--cluster-name` where it is not given. Fit for trying out, not for peers that store each other's names (rule M6).
pub const DEFAULT_CLUSTER_NAME: &str = "local";

/// How long a query may still look at a table that is not current any more, give or take.
const LINGER: Duration = Duration::from_millis(100);

/// Updates that may wait: some pages of a list.
const QUEUE: usize = 1024;

/// Makes the channel between a source and [`follow`].
pub fn channel() -> (Updates, mpsc::Receiver<Update>) {
    mpsc::channel(QUEUE)
}

/// Applies a source's updates, builds and publishes, until the source ends.
pub async fn follow(
    mut updates: mpsc::Receiver<Update>,
    feeds: Feeds,
    publisher: Publisher,
    rules: Rules,
) {
    let reader = publisher.reader();
    let mut inputs = Inputs::default();
    let mut dirty = Dirty::new();
    let mut awaited: BTreeSet<Feed> = feeds.all();
    let mut log = ChangeLog::default();
    loop {
        // Tables that queries still looked at when the last one was published are let go a moment later.
        let first = if publisher.free_retired() {
            match timeout(LINGER, updates.recv()).await {
                Ok(first) => first,
                Err(_) => continue,
            }
        } else {
            updates.recv().await
        };
        let Some(first) = first else { return };
        let mut next = Some(first);
        let mut taken = 0;
        while let Some(update) = next {
            if let Update::Reset(lists) = &update {
                for (feed, objects) in lists {
                    debug!(%feed, objects = objects.len(), "Listed");
                    awaited.remove(feed);
                }
            }
            dirty.extend(apply(&mut inputs, update));
            taken += 1;
            // What came in meanwhile belongs to this table; an endless stream must not hold it back.
            next = if taken < QUEUE {
                updates.try_recv().ok()
            } else {
                None
            };
        }
        if awaited.is_empty() {
            publish(
                &publisher,
                &reader,
                &inputs,
                &std::mem::take(&mut dirty),
                &rules,
                &mut log,
            );
        }
    }
}

fn apply(inputs: &mut Inputs, update: Update) -> Dirty {
    match update {
        Update::Apply { watch, key, object } => {
            if let Some(Object::Skipped(skip)) = &object {
                let object = ObjectRef {
                    kind: watch.kind(),
                    key: key.clone(),
                };
                log_skip(&object, skip.reason, &skip.detail);
            }
            match object {
                Some(object) => inputs.apply(watch, key, object),
                None => inputs.delete(watch, key),
            }
        }
        Update::Reset(lists) => {
            let known = inputs.skipped().clone();
            let reset = |(feed, objects): (Feed, Objects)| {
                inputs.reset(
                    feed.watch,
                    feed.namespace.as_ref().map(Namespace::as_str),
                    objects,
                )
            };
            let dirty = lists.into_iter().flat_map(reset).collect();
            let new = inputs
                .skipped()
                .iter()
                .filter(|(key, skip)| known.get(*key) != Some(*skip));
            for ((watch, key), skip) in new {
                let object = ObjectRef {
                    kind: watch.kind(),
                    key: key.clone(),
                };
                log_skip(&object, skip.reason, &skip.detail);
            }
            dirty
        }
    }
}

fn publish(
    publisher: &Publisher,
    reader: &Reader,
    inputs: &Inputs,
    dirty: &Dirty,
    rules: &Rules,
    log: &mut ChangeLog,
) {
    let last = reader.load();
    let empty = Table::default();
    let last_table = last.table.as_ref().unwrap_or(&empty);
    let built: Built = build(last_table, inputs, dirty, rules);
    log.note(last_table, &built.table, dirty, rules);
    let moved = built.answers_moved || last.table.is_none();
    let now = publisher.publish(built, unix_seconds());
    if moved {
        let (generation, serial) = (now.generation, now.serial);
        info!(
            generation,
            serial,
            changed_services = dirty.len(),
            "Published table"
        );
    }
}

/// Seconds since 1970; a clock before that counts as 1970, the serial moves on all the same.
pub fn unix_seconds() -> u32 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}

/// Logs what a build left out or found contradictory: once, when it appears.
#[derive(Debug, Default)]
struct ChangeLog {
    /// The warning about the default cluster name was given.
    warned_of_cluster_name: bool,
}

impl ChangeLog {
    fn note(&mut self, last: &Table, next: &Table, dirty: &Dirty, rules: &Rules) {
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
fn log_skip(object: &ObjectRef, reason: SkipReason, detail: &str) {
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
