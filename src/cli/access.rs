//! Flags of access control.

use std::net::IpAddr;

use clap::Args;

use crate::wire::{Access, Network};

/// Access control of clients.
#[derive(Debug, Args)]
#[command(next_help_heading = "Clients")]
pub struct AccessArgs {
    /// Network of clients that are answered, for example 10.0.0.0/8; all other clients get REFUSED (repeatable) [default: private, loopback, link-local, shared and 240.0.0.0/4 address ranges, plus the /16 (IPv6: /56) of the pod's and node's addresses]
    #[arg(long, value_name = "NETWORK", value_delimiter = ',')]
    pub allow: Vec<Network>,
}

impl AccessArgs {
    /// Returns the clients that are answered; `own` are the addresses of this pod and its node.
    pub fn access(&self, own: &[IpAddr]) -> Access {
        match self.allow.as_slice() {
            [] => Access::around(own),
            given => given.to_vec().into(),
        }
    }
}
