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

    /// Returns what remains without its annotations: when its Service was created.
    pub(super) fn without_settings(&self) -> Self {
        Self {
            settings: Settings::default(),
            ..self.clone()
        }
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{local, rules, service_keys, store};

    fn db() -> ServiceKey {
        service_keys(&["db"]).pop_first().unwrap()
    }

    fn of(objects: &[Value], last: Option<&OwnSettings>, second: u64) -> Option<OwnSettings> {
        let store = store(objects);
        let now = Timestamp::from_seconds(second);
        OwnSettings::of(&db(), &Items::of(&db(), &store), &store, last, now)
    }

    #[test]
    fn headless_service_has_pods_if_it_has_a_selector_or_an_endpoint() {
        let has_pods = |has_selector: bool, hosts: &[(&str, &str, bool)]| {
            let [mut service, slice] = local("prod", "db", hosts);
            service["spec"]["selector"] = if has_selector {
                json!({"app": "db"})
            } else {
                Value::Null
            };
            of(&[service, slice], None, 0).unwrap().has_pods
        };
        let host = [("db-0", "10.0.0.1", false)];
        assert!(has_pods(true, &host) && has_pods(true, &[]));
        assert!(has_pods(false, &host) && !has_pods(false, &[]));
    }

    #[test]
    fn settings_apply_for_ten_seconds_after_the_service_is_gone() {
        let own = of(&local("prod", "db", &[]), None, 90).unwrap();
        assert_eq!(own.end(), None);
        let gone = of(&[], Some(&own), 100).unwrap();
        let end = Timestamp::from_seconds(110);
        assert_eq!(gone.end(), Some(end));
        // Other builds of the service do not prolong that.
        let later = of(&[], Some(&gone), 109).unwrap();
        assert_eq!(later.end(), Some(end));
        assert_eq!(of(&[], Some(&later), 110), None);
        // It is back.
        let back = of(&local("prod", "db", &[]), Some(&later), 109);
        assert_eq!(back, Some(own));
    }

    #[test]
    fn service_is_remembered_if_it_or_a_flag_sets_something() {
        let own = |settings: Settings, has_pods| OwnSettings {
            has_pods,
            ..OwnSettings::new(settings, None)
        };
        let none = Settings::default;
        let ttl = Settings {
            ttl: Some(9),
            ..none()
        };
        let for_all = Rules {
            failover: Some("east:west".parse().unwrap()),
            ..rules()
        };
        let order = |service: ServiceKey| Rules {
            service_failover: [(service, "east:west".parse().unwrap())].into(),
            ..rules()
        };
        let expected = Rules {
            expected_clusters: [(db(), "east".parse().unwrap())].into(),
            ..rules()
        };
        let other = service_keys(&["web"]).pop_first().unwrap();
        for (case, own, rules, is_kept) in [
            ("nothing", own(none(), true), rules(), false),
            ("a setting", own(ttl, false), rules(), true),
            // The order for all services applies only to those without pods.
            ("pods", own(none(), true), for_all.clone(), true),
            ("no pods", own(none(), false), for_all, false),
            ("an order", own(none(), false), order(db()), true),
            ("another's order", own(none(), true), order(other), false),
            ("expected clusters", own(none(), false), expected, true),
        ] {
            let kept = own.to_keep(&db(), &rules);
            assert_eq!(kept, is_kept.then_some(own), "{case}");
        }
    }
}
