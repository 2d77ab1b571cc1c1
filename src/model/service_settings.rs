//! What is set for one service: by annotations of its Service, or by `services` in the settings.
//!
//! Linkerd copies the annotations of an exported Service to its mirrors in all clusters. This cluster alone decides what it
//! answers (rule K6), so only its own Service counts. A mirror may lower the TTL, and nothing else.

use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

use super::fields::shorten;
use super::{ExpectedClusters, FailoverOrder, KubeObject, Line, key, most_similar};

/// The TTL that can be set, in seconds.
pub const TTL_RANGE: RangeInclusive<u32> = 1..=30;

/// The maximum number of annotations with an unknown name that are reported.
const MAX_UNKNOWN: usize = 10;

/// The settings of one service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceSettings {
    /// TTL of its records in seconds. The annotation is `global-dns/ttl`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 30))]
    pub ttl: Option<u32>,
    /// Rule for its endpoints behind a gateway that is down. The annotation is `global-dns/gateway-down`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway_down: Option<GatewayDown>,
    /// Order of the clusters, such as `east:west`. Empty: no order, whatever `failover.default` says. The annotation is
    /// `global-dns/failover`.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "order::serialize",
        deserialize_with = "order::deserialize"
    )]
    #[schemars(with = "String")]
    pub failover: Option<Option<FailoverOrder>>,
    /// `global-dns/expected-clusters`, which only an annotation sets.
    #[serde(skip)]
    pub expected: Option<ExpectedClusters>,
    /// A sentence without its subject for each annotation that cannot be read: `global-dns/ttl=x: it is not …`.
    #[serde(skip)]
    pub unreadable: Vec<Line>,
    /// Annotations of a mirror that count on Services of this cluster only, as `name=value`.
    #[serde(skip)]
    pub ignored: Vec<Line>,
}

/// The treatment of endpoints with a gateway that is down (rule M4).
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Deserialize,
    Serialize,
    EnumString,
    IntoStaticStr,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case", ascii_case_insensitive)]
pub enum GatewayDown {
    /// They are left out, unless the name would then have no endpoint.
    #[default]
    LastResort,
    /// They are returned like others.
    Include,
}

// === impl ServiceSettings ===

impl ServiceSettings {
    /// Reads the annotations of a Service of this cluster.
    pub(super) fn of_own(service: &KubeObject<'_>) -> Self {
        let mut settings = Self::default();
        for key in service.unknown_settings().iter().take(MAX_UNKNOWN) {
            let nearest = most_similar(key, key::SETTINGS.map(str::to_owned));
            let reason = match nearest {
                Some(nearest) => format!("no annotation has this name; the nearest is {nearest}"),
                None => format!("the annotations are {}", key::SETTINGS.join(", ")),
            };
            settings.note_unreadable(&shorten(key), &reason);
        }
        settings.read_ttl(service);
        let rule = "it is not last-resort or include";
        settings.gateway_down =
            settings.read(service, key::GATEWAY_DOWN, rule, |value| value.parse().ok());
        if let Some(value) = service.annotation(key::FAILOVER) {
            let order = FailoverOrder::read(value);
            let defects = order.as_ref().map_or(&[][..], FailoverOrder::defects);
            settings.note_defects(key::FAILOVER, value, defects);
            settings.failover = Some(order);
        }
        if let Some(value) = service.annotation(key::EXPECTED_CLUSTERS) {
            let expected = ExpectedClusters::read(value);
            settings.note_defects(key::EXPECTED_CLUSTERS, value, expected.defects());
            settings.expected = Some(expected);
        }
        settings
    }

    /// Reads the annotations of a mirror.
    pub(super) fn of_mirror(mirror: &KubeObject<'_>) -> Self {
        let ignored = key::SETTINGS
            .into_iter()
            .filter(|key| *key != key::TTL)
            .filter_map(|key| {
                let value = mirror.annotation(key)?;
                Some(format!("{key}={}", shorten(value)).into())
            });
        let mut settings = Self {
            ignored: ignored.collect(),
            ..Self::default()
        };
        settings.read_ttl(mirror);
        settings
    }

    fn read_ttl(&mut self, object: &KubeObject<'_>) {
        let rule = "it is not a number of seconds";
        self.ttl = self.read(object, key::TTL, rule, |value| value.parse().ok());
    }

    /// Reads one annotation. Notes one that cannot be read, with the reason.
    fn read<T>(
        &mut self,
        object: &KubeObject<'_>,
        key: &str,
        reason: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let value = object.annotation(key)?;
        let parsed = parse(value.trim());
        if parsed.is_none() {
            self.note_unreadable(&format!("{key}={}", shorten(value)), reason);
        }
        parsed
    }

    /// Notes the parts of an annotation that cannot be read.
    fn note_defects(&mut self, key: &str, value: &str, defects: &[Line]) {
        // More would not help.
        if let Some(first) = defects.first() {
            self.note_unreadable(&format!("{key}={}", shorten(value)), first);
        }
    }

    /// Notes an annotation that cannot be read.
    pub(super) fn note_unreadable(&mut self, annotation: &str, reason: &str) {
        self.unreadable
            .push(format!("{annotation}: {reason}").into());
    }

    /// Returns the settings if there is any.
    pub(super) fn if_any(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

/// Reads and writes an order that is set. The empty text is no order.
mod order {
    use serde::{Deserializer, Serializer};

    use super::FailoverOrder;
    use crate::setting_text::or_empty;

    pub(super) fn serialize<S: Serializer>(
        order: &Option<Option<FailoverOrder>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        or_empty::serialize(order.as_ref().unwrap_or(&None), to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Option<FailoverOrder>>, D::Error> {
        or_empty::deserialize(from).map(Some)
    }
}
