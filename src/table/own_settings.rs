//! What the Service of this cluster decides for a service (rules K5, K6, K8).

use std::num::NonZeroU32;
use std::time::Duration;

use super::items::Items;
use super::rules::Rules;
use super::store::Store;
use crate::model::{ObjectKey, OwnForm, ServiceKey, Settings, SliceContent, Timestamp};

/// What the Service of this cluster decides for a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnSettings {
    /// Its annotations.
    pub(super) settings: Settings,
    /// Whether it is headless, with a selector or with an endpoint.
    pub(super) has_pods: bool,
    /// `metadata.creationTimestamp`.
    pub(super) created: Option<Timestamp>,
    /// The time since which it is gone.
    gone_since: Option<Timestamp>,
}

/// How long the settings of a Service that is gone apply. A Service whose type changes is deleted and created again.
const KEPT: Duration = Duration::from_secs(10);

// === impl OwnSettings ===

impl OwnSettings {
    /// Returns the settings of a Service without pods.
    #[cfg(test)]
    pub(super) fn new(settings: Settings, created: Option<Timestamp>) -> Self {
        Self {
            settings,
            has_pods: false,
            created,
            gone_since: None,
        }
    }

    /// Returns what the Service of this cluster decides, or what it decided until a moment ago.
    pub(super) fn of(
        key: &ServiceKey,
        items: &Items<'_>,
        store: &Store,
        last: Option<&Self>,
        now: Timestamp,
    ) -> Option<Self> {
        let object = ObjectKey::of_service(key);
        let time = |created: Option<NonZeroU32>| {
            let seconds = u64::from(created?.get());
            Some(Timestamp::from_seconds(seconds))
        };
        if let Some((item, own)) = items.own() {
            let has_endpoint = || {
                let slices = store.slices_of(&object);
                slices.iter().any(|(_, slice)| match &slice.content {
                    SliceContent::Endpoints(listed) => !listed.endpoints.is_empty(),
                    _ => false,
                })
            };
            return Some(Self {
                settings: item.settings.as_deref().cloned().unwrap_or_default(),
                has_pods: match own.form {
                    OwnForm::Headless { has_selector } => has_selector || has_endpoint(),
                    OwnForm::ClusterIp | OwnForm::Other => false,
                },
                created: time(item.created),
                gone_since: None,
            });
        }
        if let Some(created) = store.plain_service(&object) {
            return Some(Self {
                settings: Settings::default(),
                has_pods: false,
                created: time(created),
                gone_since: None,
            });
        }
        let last = last?;
        let gone_since = last.gone_since.unwrap_or(now);
        (now < gone_since.after(KEPT)).then(|| Self {
            gone_since: Some(gone_since),
            ..last.clone()
        })
    }

    /// Returns the settings to remember, if it has any, or if a flag has one for the service.
    pub(super) fn to_keep(&self, key: &ServiceKey, rules: &Rules) -> Option<Self> {
        let has_flag = rules.failover.is_some() && self.has_pods
            || rules.service_failover.contains_key(key)
            || rules.expected_clusters.contains_key(key);
        (has_flag || self.settings != Settings::default()).then(|| self.clone())
    }

    /// Returns the time at which the settings of a Service that is gone end.
    pub(super) fn end(&self) -> Option<Timestamp> {
        self.gone_since.map(|since| since.after(KEPT))
    }
}
