//! Flags of the failover between clusters (rules K5 to K7).

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;

use super::values::parse_duration;
use crate::model::{ClusterName, FailoverOrder, ServiceKey, expected_clusters};
use crate::table::failover::Delays;

/// A value of `--failover`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailoverSetting {
    /// `ORDER`.
    Default(FailoverOrder),
    /// `NAMESPACE/SERVICE=ORDER`.
    Service(ServiceKey, FailoverOrder),
}

/// Delays of failovers.
#[derive(Debug, Args)]
#[command(next_help_heading = "Failover")]
pub struct DelayArgs {
    /// Time that the answering step of a failover order must be down before the next step answers
    #[arg(long, env = "GLOBAL_DNS_FAILOVER_DELAY", value_name = "DURATION", default_value = "2s", value_parser = parse_duration)]
    pub failover_delay: Duration,

    /// Time that an earlier step of a failover order must be alive before it answers again
    #[arg(long, env = "GLOBAL_DNS_FAILBACK_DELAY", value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub failback_delay: Duration,
}

/// A value of `--expected-clusters`: a service, and its expected clusters, sorted.
pub(super) type ExpectedClusters = (ServiceKey, Box<[ClusterName]>);

/// The orders of services that are not headless, and of single services.
pub(super) type Orders = (Option<FailoverOrder>, BTreeMap<ServiceKey, FailoverOrder>);

/// Parses a value of `--failover`.
pub(super) fn parse_failover(text: &str) -> Result<FailoverSetting, String> {
    let order = |text: &str| {
        text.parse()
            .map_err(|error: crate::model::InvalidOrder| error.to_string())
    };
    let Some((service, text)) = text.split_once('=') else {
        return Ok(FailoverSetting::Default(order(text)?));
    };
    Ok(FailoverSetting::Service(
        parse_service(service)?,
        order(text)?,
    ))
}

/// Parses a value of `--expected-clusters`.
pub(super) fn parse_expected(text: &str) -> Result<ExpectedClusters, String> {
    let (service, clusters) = text
        .split_once('=')
        .ok_or("it has no '='; write NAMESPACE/SERVICE=CLUSTER+CLUSTER")?;
    Ok((parse_service(service)?, expected_clusters(clusters)?))
}

/// Parses `NAMESPACE/SERVICE`.
fn parse_service(text: &str) -> Result<ServiceKey, String> {
    let (namespace, service) = text
        .split_once('/')
        .ok_or_else(|| format!("'{text}' has no '/'; write NAMESPACE/SERVICE"))?;
    let invalid = |error: crate::model::InvalidLabel| error.to_string();
    Ok(ServiceKey {
        namespace: namespace.parse().map_err(invalid)?,
        service: service.parse().map_err(invalid)?,
    })
}

/// Returns the orders, or an error if two values contradict each other.
pub(super) fn orders(settings: &[FailoverSetting]) -> Result<Orders, String> {
    let mut default = None;
    let mut services = BTreeMap::new();
    for setting in settings {
        let previous = match setting.clone() {
            FailoverSetting::Default(order) => default.replace(order),
            FailoverSetting::Service(key, order) => services.insert(key, order),
        };
        if previous.is_some() {
            let subject = match setting {
                FailoverSetting::Default(_) => "a default order".to_owned(),
                FailoverSetting::Service(key, _) => format!("an order for {key}"),
            };
            return Err(format!("--failover has {subject} twice: give it once"));
        }
    }
    Ok((default, services))
}

// === impl DelayArgs ===

impl DelayArgs {
    /// Returns the delays.
    pub fn delays(&self) -> Delays {
        Delays {
            failover: self.failover_delay,
            failback: self.failback_delay,
        }
    }
}
