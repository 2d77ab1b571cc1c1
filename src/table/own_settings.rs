//! What the Service of this cluster decides for a service (rules K5, K6, K8).

use std::num::NonZeroU32;
use std::time::Duration;

use super::items::Items;
use super::store::Store;
use crate::model::{
    FailoverOrder, Item, ObjectKey, OwnForm, OwnService, ServiceKey, ServiceSettings, SliceContent,
    Timestamp,
};

/// What the Service of this cluster decides for a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnSettings {
    /// Its annotations.
    pub(super) settings: ServiceSettings,
    /// `metadata.creationTimestamp`.
    pub(super) created: Option<Timestamp>,
}

/// The failover order of a Service of this cluster, also after the Service is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptOrder {
    pub(super) order: FailoverOrder,
    /// The time since which the Service is gone.
    gone_since: Option<Timestamp>,
}

/// How long the order of a Service that is gone applies. A Service whose type changes is deleted and created again, and must
/// not join the steps meanwhile.
const KEPT: Duration = Duration::from_secs(10);

// === impl OwnSettings ===

impl OwnSettings {
    /// Returns what the Service of this cluster decides. Of an alias, its own Service alone does.
    pub(super) fn of(key: &ServiceKey, items: &Items<'_>, store: &Store) -> Option<Self> {
        let object = ObjectKey::of_service(key);
        let time = |created: Option<NonZeroU32>| {
            let seconds = u64::from(created?.get());
            Some(Timestamp::from_seconds(seconds))
        };
        let Some((item, _)) = items.own().find(|(item, _)| item.service == *key) else {
            let created = store.plain_service(&object)?;
            return Some(Self {
                settings: ServiceSettings::default(),
                created: time(created),
            });
        };
        Some(Self {
            settings: item.settings.as_deref().cloned().unwrap_or_default(),
            created: time(item.created),
        })
    }
}

/// Returns whether a service has pods (rule K5a): a headless mirror, or a headless Service of this cluster with a selector or an
/// endpoint.
pub(super) fn has_pods(items: &Items<'_>, has_mirrors: bool, store: &Store) -> bool {
    let has_endpoint = |item: &Item| {
        let slices = store.slices_of(&ObjectKey::of_service(&item.service));
        slices.iter().any(|(_, slice)| match &slice.content {
            SliceContent::Endpoints(listed) => !listed.endpoints.is_empty(),
            _ => false,
        })
    };
    let has_pods = |(item, own): (&Item, OwnService)| match own.form {
        OwnForm::Headless { has_selector } => has_selector || has_endpoint(item),
        OwnForm::ClusterIp | OwnForm::Other => false,
    };
    has_mirrors || items.own().any(has_pods)
}

// === impl KeptOrder ===

impl KeptOrder {
    /// Returns the order of the Service of this cluster, or the order that it had until a moment ago. An annotation that is
    /// removed from a Service that stays ends at once.
    pub(super) fn next(
        own: Option<&OwnSettings>,
        last: Option<&Self>,
        now: Timestamp,
    ) -> Option<Self> {
        if let Some(own) = own {
            let order = own.settings.failover.clone()??;
            let gone_since = None;
            return Some(Self { order, gone_since });
        }
        let last = last?;
        let since = last.gone_since.unwrap_or(now);
        (now < since.after(KEPT)).then(|| Self {
            order: last.order.clone(),
            gone_since: Some(since),
        })
    }

    /// Returns the time at which the order of a Service that is gone ends.
    pub(super) fn end(&self) -> Option<Timestamp> {
        self.gone_since.map(|since| since.after(KEPT))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{local, rules, service_keys, store};

    fn db() -> ServiceKey {
        service_keys(&["db"]).pop_first().unwrap()
    }

    fn of(objects: &[Value]) -> Option<OwnSettings> {
        let store = store(objects);
        OwnSettings::of(&db(), &Items::of(&db(), &store, &rules()), &store)
    }

    #[test]
    fn headless_service_has_pods_if_it_has_a_selector_or_an_endpoint() {
        let with = |has_selector: bool, hosts: &[(&str, &str, bool)]| {
            let [mut service, slice] = local("prod", "db", hosts);
            service["spec"]["selector"] = if has_selector {
                json!({"app": "db"})
            } else {
                Value::Null
            };
            let store = store(&[service, slice]);
            has_pods(&Items::of(&db(), &store, &rules()), false, &store)
        };
        let host = [("db-0", "10.0.0.1", false)];
        assert!(with(true, &host) && with(true, &[]));
        assert!(with(false, &host) && !with(false, &[]));
    }

    #[test]
    fn order_applies_for_ten_seconds_after_the_service_is_gone() {
        let [mut service, _] = local("prod", "db", &[]);
        let plain = of(&[service.clone()]);
        service["metadata"]["annotations"]["global-dns/failover"] = json!("east:west");
        let own = of(&[service]);
        let next = |own: &Option<OwnSettings>, last: Option<&KeptOrder>, second| {
            KeptOrder::next(own.as_ref(), last, Timestamp::from_seconds(second))
        };
        let order = next(&own, None, 90).unwrap();
        assert_eq!(order.end(), None);
        let gone = next(&None, Some(&order), 100).unwrap();
        let end = Timestamp::from_seconds(110);
        assert_eq!(gone.end(), Some(end));
        // Other builds of the service do not prolong that.
        let later = next(&None, Some(&gone), 109).unwrap();
        assert_eq!((later.end(), &later.order), (Some(end), &order.order));
        assert_eq!(next(&None, Some(&later), 110), None);
        // It is back, with the order or without it.
        assert_eq!(next(&own, Some(&later), 109), Some(order));
        assert_eq!(next(&plain, Some(&later), 109), None);
    }
}
