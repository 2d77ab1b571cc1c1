//! Annotations of a Service that override settings of this server.

use serde::{Deserialize, Serialize};

use super::fields::shorten;
use super::{KubeObject, Line, Policy, key};

/// The annotations of an exported Service that override settings of this server. Linkerd copies them to the mirrors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overrides {
    /// `global-dns/ttl`: seconds.
    pub ttl: Option<u32>,
    /// `global-dns/gateway-down`.
    pub gateway_down: Option<GatewayDown>,
    /// Annotations with an invalid value, as `name=value` or with the problem.
    pub invalid: Vec<Line>,
    /// Annotations of a mirror that count on Services of this cluster only, as `name=value`.
    pub ignored: Vec<Line>,
}

/// The treatment of endpoints with a gateway that is down (rule M4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GatewayDown {
    /// They are omitted, even if a name then has no endpoint.
    Exclude,
    /// They are omitted, unless the name would then have no endpoint.
    LastResort,
    /// They are included.
    Include,
}

// === impl Overrides ===

impl Overrides {
    /// Reads the annotations of an exported Service or its mirror.
    pub(super) fn of(service: &KubeObject<'_>) -> Self {
        let mut overrides = Self::default();
        if let Some(value) = service.annotation(key::TTL) {
            overrides.ttl = value.trim().parse().ok();
            if overrides.ttl.is_none() {
                overrides
                    .invalid
                    .push(format!("{}={}", key::TTL, shorten(value)).into());
            }
        }
        if let Some(value) = service.annotation(key::GATEWAY_DOWN) {
            overrides.gateway_down = GatewayDown::from_value(value.trim());
            if overrides.gateway_down.is_none() {
                overrides
                    .invalid
                    .push(format!("{}={}", key::GATEWAY_DOWN, shorten(value)).into());
            }
        }
        overrides
    }

    /// Reads the annotations of a mirror.
    pub(super) fn of_mirror(mirror: &KubeObject<'_>) -> Self {
        Self {
            ignored: Policy::ignored(mirror),
            ..Self::of(mirror)
        }
    }

    /// Returns the overrides if there is any. Most Services have none, so those that have some keep them in a box.
    pub(super) fn if_any(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

// === impl GatewayDown ===

impl GatewayDown {
    /// Parses the value of `--gateway-down` or of annotation `global-dns/gateway-down`.
    pub fn from_value(value: &str) -> Option<Self> {
        match value {
            "last-resort" => Some(Self::LastResort),
            "include" => Some(Self::Include),
            "exclude" => Some(Self::Exclude),
            _ => None,
        }
    }
}
