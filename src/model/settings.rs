//! Annotations of a Service that set something for it.
//!
//! Linkerd copies the annotations of an exported Service to its mirrors in all clusters. This cluster alone decides what it
//! answers (rule K6), so only its own Service counts. A mirror may lower the TTL, and nothing else.

use super::fields::shorten;
use super::{ExpectedClusters, FailoverOrder, KubeObject, Line, key, most_similar};

/// The annotations of this server on an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `global-dns/ttl`: seconds.
    pub ttl: Option<u32>,
    /// `global-dns/gateway-down`.
    pub gateway_down: Option<GatewayDown>,
    /// `global-dns/failover`. `Some(None)`: it is empty, so that the service has no order, whatever the flags say.
    pub failover: Option<Option<FailoverOrder>>,
    /// `global-dns/expected-clusters`.
    pub expected: Option<ExpectedClusters>,
    /// A sentence without its subject for each annotation that cannot be read: `global-dns/ttl=x: it is not …`.
    pub unreadable: Vec<Line>,
    /// Annotations of a mirror that count on Services of this cluster only, as `name=value`.
    pub ignored: Vec<Line>,
}

/// The treatment of endpoints with a gateway that is down (rule M4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GatewayDown {
    /// They are omitted, unless the name would then have no endpoint.
    LastResort,
    /// They are included.
    Include,
}

// === impl Settings ===

impl Settings {
    /// Reads the annotations of a Service of this cluster.
    pub(super) fn of_own(service: &KubeObject<'_>) -> Self {
        let mut settings = Self::default();
        if let Some(key) = service.unknown_setting() {
            let nearest = most_similar(key, key::SETTINGS.map(str::to_owned));
            let reason = match nearest {
                Some(nearest) => format!("no annotation has this name; the nearest is {nearest}"),
                None => format!("the annotations are {}", key::SETTINGS.join(", ")),
            };
            settings.note_unreadable(&shorten(key), &reason);
        }
        settings.read_ttl(service);
        let rule = "it is not last-resort or include";
        settings.gateway_down = settings.read(service, key::GATEWAY_DOWN, rule, GatewayDown::parse);
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

// === impl GatewayDown ===

impl GatewayDown {
    /// Parses the value of `--gateway-down` or of annotation `global-dns/gateway-down`.
    pub fn parse(value: &str) -> Option<Self> {
        match value.to_ascii_lowercase().as_str() {
            "last-resort" => Some(Self::LastResort),
            "include" => Some(Self::Include),
            _ => None,
        }
    }
}
