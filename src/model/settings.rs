//! Annotations of a Service that set something for it.
//!
//! Linkerd copies the annotations of an exported Service to its mirrors in all clusters. This cluster alone decides what it
//! answers (rule K6), so only its own Service counts. A mirror may lower the TTL, and nothing else.

use super::fields::shorten;
use super::{ExpectedClusters, FailoverOrder, KubeObject, Line, Timestamp, key};

/// The annotations of this server on an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `global-dns/ttl`: seconds.
    pub ttl: Option<u32>,
    /// `global-dns/gateway-down`.
    pub gateway_down: Option<GatewayDown>,
    /// `global-dns/failover`.
    pub failover: Option<FailoverOrder>,
    /// `global-dns/failover-mode`. One that cannot be read is `hold`, because a standby that takes over by mistake is worse
    /// than one that does not.
    pub failover_mode: Option<FailoverMode>,
    /// `global-dns/expected-clusters`.
    pub expected: Option<ExpectedClusters>,
    /// `global-dns/expected-since`.
    pub expected_since: Option<Timestamp>,
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

/// Who decides that another step of a failover order answers (rule K5a).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailoverMode {
    /// A person: the first step answers, alive or not, until the order is changed.
    Hold,
    /// The state of the gateways: the first step with an endpoint that is alive answers.
    Auto,
}

// === impl Settings ===

impl Settings {
    /// Reads the annotations of a Service of this cluster.
    pub(super) fn of_own(service: &KubeObject<'_>) -> Self {
        let mut settings = Self::default();
        if let Some(key) = service.unknown_setting() {
            let known = key::SETTINGS.join(", ");
            settings.note_unreadable(&shorten(key), &format!("the annotations are {known}"));
        }
        settings.read_ttl(service);
        let rule = "it is not last-resort or include";
        settings.gateway_down = settings.read(service, key::GATEWAY_DOWN, rule, GatewayDown::parse);
        if let Some(value) = service.annotation(key::FAILOVER) {
            let order = FailoverOrder::read(value);
            settings.note_defects(key::FAILOVER, value, order.defects());
            settings.failover = Some(order);
        }
        let rule = "it is not hold or auto, so hold applies";
        settings.failover_mode = settings
            .read(service, key::FAILOVER_MODE, rule, FailoverMode::parse)
            .or_else(|| {
                service
                    .annotation(key::FAILOVER_MODE)
                    .map(|_| FailoverMode::Hold)
            });
        if let Some(value) = service.annotation(key::EXPECTED_CLUSTERS) {
            let expected = ExpectedClusters::read(value);
            settings.note_defects(key::EXPECTED_CLUSTERS, value, expected.defects());
            settings.expected = Some(expected);
        }
        let rule = "it is not a time such as 2026-11-24T06:30:00Z";
        settings.expected_since =
            settings.read(service, key::EXPECTED_SINCE, rule, Timestamp::from_text);
        settings
    }

    /// Reads the annotations of a mirror or a ServiceImport.
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

// === impl FailoverMode ===

impl FailoverMode {
    /// Parses the value of `--failover-mode` or of annotation `global-dns/failover-mode`.
    pub fn parse(value: &str) -> Option<Self> {
        match value.to_ascii_lowercase().as_str() {
            "hold" => Some(Self::Hold),
            "auto" => Some(Self::Auto),
            _ => None,
        }
    }

    /// Returns the name of the mode in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Auto => "auto",
        }
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
