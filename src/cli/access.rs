//! Flags that say who may ask, and how fast.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::Args;

use crate::wire::{Access, Network};

/// Who may ask, and how fast.
#[derive(Debug, Args)]
#[command(next_help_heading = "Clients")]
pub struct AccessArgs {
    /// Answer only these clients, such as 10.0.0.0/8; others are refused (repeatable) [default: everybody]
    #[arg(
        long,
        env = "GLOBAL_DNS_ALLOW",
        value_name = "NETWORK",
        value_delimiter = ','
    )]
    pub allow: Vec<Network>,

    /// Clients that may ask over UDP as fast as they like (repeatable) [default: addresses that are not on the Internet, and those around the pod's and its node's]
    #[arg(
        long,
        env = "GLOBAL_DNS_TRUSTED",
        value_name = "NETWORK",
        value_delimiter = ','
    )]
    pub trusted: Vec<Network>,

    /// Replies a second over UDP to other clients of one /24, or of one /56 of IPv6; above it they are told to come by TCP, every second time; 0: any number
    #[arg(
        long,
        env = "GLOBAL_DNS_RATE_LIMIT",
        value_name = "NUMBER",
        default_value_t = 200
    )]
    pub rate_limit: u32,

    /// Secrets of DNS cookies, the same for every replica: 32 hexadecimal digits a line, of which the first makes cookies and all are accepted; reloaded when it changes [default: one of this process, replaced every day]
    #[arg(long, env = "GLOBAL_DNS_COOKIE_SECRET_FILE", value_name = "FILE")]
    pub cookie_secret_file: Option<PathBuf>,
}

impl AccessArgs {
    /// Returns what clients' addresses decide; `own` are those of this pod and its node.
    pub fn access(&self, own: &[IpAddr]) -> Access {
        Access {
            allowed: self.allow.clone(),
            trusted: match self.trusted.as_slice() {
                [] => Network::within(own),
                given => given.to_vec(),
            },
        }
    }

    /// Returns how many replies a second a prefix that is not trusted gets, if that is limited.
    pub fn rate_limit(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.rate_limit)
    }
}
