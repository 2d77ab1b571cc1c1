//! The flags of `corefile`.

use std::net::IpAddr;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use strum::VariantArray as _;

use super::groups::{KubeconfigArgs, LogArgs};
use super::model::zones_or_default;
use super::values::{
    ZoneArg, parse_cluster_address, parse_reverse_zone, parse_service, parse_zone,
};
use super::view::brief;
use crate::corefile::Platform;
use crate::model::ServiceKey;
use crate::zone::ZoneName;

/// Flags of `corefile`.
#[derive(Debug, Args)]
#[command(mut_args(brief))]
#[expect(missing_docs, reason = "flattened groups take no help of their own")]
pub struct CorefileArgs {
    /// Platform of the cluster
    #[arg(long, value_name = "PLATFORM")]
    pub platform: Platform,

    /// Zone to forward (repeatable) [default: global]
    #[arg(long, value_name = "ZONE", value_delimiter = ',', value_parser = parse_zone)]
    pub zone: Vec<ZoneArg>,

    /// Reverse zone to forward, for example 96.10.in-addr.arpa (repeatable)
    #[arg(long, value_name = "ZONE", value_delimiter = ',', value_parser = parse_reverse_zone)]
    pub reverse_zone: Vec<ZoneName>,

    /// Service of the server [default: the Service with the labels of the chart]
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = parse_service, conflicts_with = "address")]
    pub service: Option<ServiceKey>,

    /// Cluster IP of the server: with it, the cluster is read only if --kubeconfig or --context is given [default: that of the Service]
    #[arg(long, value_name = "IP", value_parser = parse_cluster_address)]
    pub address: Option<IpAddr>,

    /// Address of the bind line, for nodelocaldns (repeatable) [default: as in the current Corefile of the cache]
    #[arg(long, value_name = "IP", value_delimiter = ',')]
    pub bind: Vec<IpAddr>,

    #[command(flatten)]
    pub kubeconfig: KubeconfigArgs,

    #[command(flatten)]
    pub log: LogArgs,
}

impl CorefileArgs {
    /// Returns the zones to forward, each once.
    pub fn zones(&self) -> Vec<ZoneName> {
        let forward = zones_or_default(&self.zone);
        let forward = forward.into_iter().map(|zone| zone.name);
        let mut zones = Vec::new();
        for zone in forward.chain(self.reverse_zone.iter().cloned()) {
            if !zones.contains(&zone) {
                zones.push(zone);
            }
        }
        zones
    }
}

impl ValueEnum for Platform {
    fn value_variants<'a>() -> &'a [Self] {
        Self::VARIANTS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(<&str>::from(self)).help(self.description()))
    }
}
