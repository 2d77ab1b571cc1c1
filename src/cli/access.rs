//! Flags of access control and rate limits.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::Args;

use crate::wire::{Access, Network};

/// Access control and rate limits of clients.
#[derive(Debug, Args)]
#[command(next_help_heading = "Clients")]
pub struct AccessArgs {
    /// Network of clients that are answered, for example 10.0.0.0/8; all other clients get REFUSED (repeatable) [default: all clients]
    #[arg(long, value_name = "NETWORK", value_delimiter = ',')]
    pub allow: Vec<Network>,

    /// Network of clients without a rate limit over UDP (repeatable) [default: private address ranges, plus the /16 (IPv6: /56) of the pod's and node's addresses]
    #[arg(long, value_name = "NETWORK", value_delimiter = ',')]
    pub trusted: Vec<Network>,

    /// Maximum number of replies per second over UDP to other clients of one /24 (IPv6: /56); above it, every second query gets a reply with TC, so that the client retries over TCP, and the others get none; 0: no limit
    #[arg(long, value_name = "NUMBER", default_value_t = 200)]
    pub rate_limit: u32,

    /// File with the secrets of DNS cookies, the same for all replicas: 32 hexadecimal digits on each line; the first secret creates new cookies, and all are accepted; reloaded when it changes [default: a secret of this process, replaced every day]
    #[arg(long, value_name = "FILE")]
    pub cookie_secret_file: Option<PathBuf>,
}

impl AccessArgs {
    /// Returns what clients' addresses decide; `own` are those of this pod and its node.
    pub fn access(&self, own: &[IpAddr]) -> Access {
        Access {
            allowed: self.allow.clone(),
            trusted: match self.trusted.as_slice() {
                [] => Network::default_trusted(own),
                given => given.to_vec(),
            },
        }
    }

    /// Returns how many replies a second a prefix that is not trusted gets, if that is limited.
    pub fn rate_limit(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.rate_limit)
    }
}
