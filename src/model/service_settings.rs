//! What is set for one service: by annotations of its Service, or by `services` in the settings.
//!
//! Linkerd copies the annotations of an exported Service to its mirrors in all clusters. This cluster alone decides what it
//! answers (rule K6), so only its own Service counts. A mirror may lower the TTL, and nothing else.

use std::ops::RangeInclusive;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use strum::{EnumString, IntoStaticStr};

use super::{
    ExpectedClusters, FailoverOrder, KubeObject, Line, key, most_similar, sentence_of, shorten,
};
use crate::setting_text::or_empty;

/// The TTL that can be set, in seconds.
pub const TTL_RANGE: RangeInclusive<u32> = 1..=30;

/// The maximum number of annotations with an unknown name that are reported.
const MAX_UNKNOWN: usize = 10;

/// The longest value of an annotation that is read, except those with names of clusters.
const MAX_OCTETS: usize = 1024;

/// The settings of one service, such as `{ttl: 10}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceSettings {
    /// TTL of its records in seconds. The annotation is `global-dns/ttl`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 30))]
    pub ttl: Option<u32>,
    /// Rule for its endpoints behind a gateway that is down. The annotation is `global-dns/gateway-down`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "GatewayDown")]
    pub gateway_down: Option<GatewayDown>,
    /// Order of the clusters, such as `east:west`. Empty: no order, whatever `failover.default` says. The annotation is
    /// `global-dns/failover`.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "write_order",
        deserialize_with = "read_order"
    )]
    #[schemars(with = "String")]
    pub failover: SetOrder,
    /// `global-dns/expected-clusters`, which only an annotation sets.
    #[serde(skip)]
    pub expected: Option<ExpectedClusters>,
    /// Annotations without effect: what is wrong with one, such as `annotation global-dns/ttl: it is not …`; of a mirror also those
    /// that count on Services of this cluster only, as `name=value`.
    #[serde(skip)]
    pub unused: Vec<Line>,
}

/// An order, if it is set. `Some(None)`: there is none, whatever other settings say.
type SetOrder = Option<Option<FailoverOrder>>;

/// The treatment of endpoints with a gateway that is down (rule M4).
#[derive(Deserialize, Serialize, EnumString, IntoStaticStr, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case", ascii_case_insensitive)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
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
        for key in service.unknown_settings().take(MAX_UNKNOWN) {
            let nearest = most_similar(key, key::SETTINGS.map(str::to_owned));
            let reason = match nearest {
                Some(nearest) => format!("no setting has this name; the nearest is {nearest}"),
                None => format!("the settings are {}", key::SETTINGS.join(", ")),
            };
            settings.note_unreadable(&shorten(key), &format!("ignored: {reason}"));
        }
        settings.read_ttl(service);
        let rule = "ignored: it is not last-resort or include";
        settings.gateway_down = settings.read(service, key::GATEWAY_DOWN, rule);
        if let Some(value) = service.annotation(key::FAILOVER) {
            let order = FailoverOrder::read(value);
            // The build reports names that cannot be read, with the nearest name.
            let defect = order.as_ref().and_then(|order| order.defect.as_deref());
            settings.note_defect(key::FAILOVER, value, defect);
            settings.failover = Some(order);
        }
        if let Some(value) = service.annotation(key::EXPECTED_CLUSTERS) {
            let expected = ExpectedClusters::read(value);
            settings.note_defect(key::EXPECTED_CLUSTERS, value, expected.defect.as_deref());
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
            unused: ignored.collect(),
            ..Self::default()
        };
        settings.read_ttl(mirror);
        settings
    }

    /// Reads the TTL. Outside of its range, the nearest one counts.
    fn read_ttl(&mut self, object: &KubeObject<'_>) {
        let rule = "ignored: it is not a number of seconds, such as 5";
        let Some(ttl) = self.read::<u32>(object, key::TTL, rule) else {
            return;
        };
        let least = *TTL_RANGE.start();
        let most = *TTL_RANGE.end();
        let counts = ttl.clamp(least, most);
        if counts != ttl {
            let text = format!("corrected to {counts}: {ttl} is not between {least} and {most}");
            self.note_unreadable(key::TTL, &text);
        }
        self.ttl = Some(counts);
    }

    /// Reads one annotation. Notes one that cannot be read, with the reason.
    fn read<T: FromStr>(&mut self, object: &KubeObject<'_>, key: &str, reason: &str) -> Option<T> {
        let value = object.annotation(key)?;
        let octets = value.len();
        if octets > MAX_OCTETS {
            let reason =
                format!("ignored: it has {octets} octets; at most {MAX_OCTETS} are allowed");
            self.note_defect(key, value, Some(&reason));
            return None;
        }
        let parsed = value.trim().parse().ok();
        if parsed.is_none() {
            self.note_defect(key, value, Some(reason));
        }
        parsed
    }

    /// Notes the first thing that is wrong with an annotation. More would not help.
    fn note_defect(&mut self, key: &str, value: &str, defect: Option<&str>) {
        if let Some(defect) = defect {
            self.note_unreadable(key, &sentence_of(&[defect, &shorten(value.trim())]));
        }
    }

    /// Notes an annotation that cannot be read.
    pub(super) fn note_unreadable(&mut self, annotation: &str, reason: &str) {
        self.unused
            .push(format!("annotation {annotation}: {reason}").into());
    }

    /// Returns the settings if there is any.
    pub(super) fn if_any(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

/// Writes an order that is set. No order is the empty text.
fn write_order<S: Serializer>(order: &SetOrder, to: S) -> Result<S::Ok, S::Error> {
    or_empty::serialize(order.as_ref().unwrap_or(&None), to)
}

/// Reads an order that is set. The empty text is no order.
fn read_order<'de, D: Deserializer<'de>>(from: D) -> Result<SetOrder, D::Error> {
    or_empty::deserialize(from).map(Some)
}
