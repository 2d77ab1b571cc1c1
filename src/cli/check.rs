//! The flags of `check`.

use std::net::SocketAddr;

use clap::Args;

use super::groups::ViewArgs;
use super::print::PrintArgs;
use super::values::{parse_name, parse_name_server};
use crate::zone::Name;

/// Flags of `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Address of the DNS Service of global-dns, usually its cluster IP, to query it directly; without it, the cluster's DNS is compared with the API of the server [default port: 53]
    #[arg(long, value_name = "IP[:PORT]", value_parser = parse_name_server)]
    pub dns: Option<SocketAddr>,

    /// Name to ask for, as programs do [default: in each zone, that of the smallest service with an alive endpoint]
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub name: Option<Name>,

    /// Also connect to the answered addresses over TCP, and report the time for each; endpoints of other clusters accept only meshed clients, so run it in a Pod with Linkerd's proxy
    #[arg(long)]
    pub connect: bool,

    /// Address of the cluster's DNS, which should forward the zones to the server [default: the name servers of /etc/resolv.conf, in a pod or with --dns]
    #[arg(long, value_name = "IP[:PORT]", value_parser = parse_name_server)]
    pub resolver: Option<SocketAddr>,

    #[command(flatten)]
    pub(crate) view: ViewArgs,

    #[command(flatten)]
    pub(crate) print: PrintArgs,
}
