//! What a program declares, and how the scenario drives it.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use support::multicluster::plan::Service;
use support::process::Process;

use super::pod::Pod;
use super::{MANY, WEB};

/// A program that resolves a global name.
pub trait Client {
    /// Returns what is fixed about the program.
    fn profile(&self) -> Profile;

    /// Returns the version of the installed program.
    fn version(&self) -> Result<String>;

    /// Starts the server of all pods of a cluster, if the HTTP servers of the scenario are not sufficient. The pod
    /// addresses are local addresses there. The scenario starts it again when a pod restarts.
    fn start_server(&self, _pod: &Pod<'_>, _cluster: usize) -> Result<Option<Process>> {
        Ok(None)
    }

    /// Starts the program in `east`, configured for a Service. It may end later; the scenario starts it again.
    fn start(&self, pod: &Pod<'_>, service: &'static Service) -> Result<Box<dyn Running>>;

    /// Proves further statements of the program's README, while all clusters are linked.
    fn prove_further(&self, _pod: &Pod<'_>) -> Result<()> {
        Ok(())
    }
}

/// A running program.
pub trait Running {
    /// Returns the addresses that the program uses now in one of its [`View`]s: by its API, its log, or the
    /// connections that it has. An error means that it has no answer yet.
    fn seen(&mut self, pod: &Pod<'_>, view: &View) -> Result<BTreeSet<String>>;

    /// Returns the process. `None`: each lookup is a process of its own.
    fn process(&mut self) -> Option<&mut Process>;
}

/// What is fixed about a program.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The name of the directory.
    pub name: &'static str,
    /// The name for readers.
    pub title: &'static str,
    pub service: &'static Service,
    /// The Service with many endpoints. `None`: the number of endpoints has no meaning for the program.
    pub many: Option<&'static Service>,
    pub server: Server,
    pub views: Vec<View>,
    /// How long a change may take. A program with a long cache needs more.
    pub patience: Duration,
    /// Duration of a fault of DNS while the program runs. It is longer than its caches and the pauses between its
    /// questions.
    pub fault: Duration,
}

/// The DNS server that the program queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// CoreDNS, as in `/etc/resolv.conf` of a pod.
    ClusterDns,
    /// global-dns, for programs that are resolvers themselves.
    GlobalDns,
}

/// One way in which a program uses the name, for example by A or by SRV records.
#[derive(Clone, Debug)]
pub struct View {
    pub name: &'static str,
    /// Prefix of the owner name, for example `_http._tcp.`.
    pub prefix: &'static str,
    pub uses: Uses,
    /// The setting that decides how fast a change is seen.
    pub setting: &'static str,
    /// Events that the program does not see, each with the reason.
    pub blind: &'static [(Event, &'static str)],
    /// Events that the program sees or not, depending on the moment, each with the reason.
    pub uncertain: &'static [(Event, &'static str)],
    /// What the program keeps during a fault of DNS, if that is not all it had.
    pub keeps: Option<&'static str>,
    /// Whether the program asks for the name in capital letters. The test tells its questions from those of another view
    /// by that.
    pub is_upper: bool,
}

/// Whether a program sees an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    Sees,
    /// It depends on the moment; the reason.
    Sometimes(&'static str),
    /// Never; the reason.
    Blind(&'static str),
}

/// How many of the addresses a program uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uses {
    All,
    One,
}

/// The events of the scenario, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    FirstCluster,
    SecondCluster,
    NewAddress,
    GatewayDown,
    GatewayUp,
    Failover,
}

// === impl Profile ===

impl Profile {
    /// Returns the profile of a program that uses [`WEB`] through CoreDNS.
    pub fn new(name: &'static str, title: &'static str, views: Vec<View>) -> Self {
        Self {
            name,
            title,
            service: &WEB,
            many: Some(&MANY),
            server: Server::ClusterDns,
            views,
            patience: Duration::from_secs(120),
            fault: Duration::from_secs(20),
        }
    }
}

// === impl View ===

impl View {
    /// Returns a view of all addresses of `S.N.Z`.
    pub fn addresses(name: &'static str, setting: &'static str) -> Self {
        Self {
            name,
            prefix: "",
            uses: Uses::All,
            setting,
            blind: &[],
            uncertain: &[],
            keeps: None,
            is_upper: false,
        }
    }

    /// Returns a view of all targets of SRV records.
    pub fn srv(name: &'static str, prefix: &'static str, setting: &'static str) -> Self {
        Self {
            prefix,
            ..Self::addresses(name, setting)
        }
    }

    /// Returns whether the program sees an event.
    pub fn sight(&self, event: Event) -> Sight {
        let reason = |events: &[(Event, &'static str)]| {
            let found = events.iter().find(|(each, _)| *each == event);
            found.map(|(_, reason)| *reason)
        };
        let (blind, uncertain) = (reason(self.blind), reason(self.uncertain));
        match (blind, uncertain) {
            (Some(reason), _) => Sight::Blind(reason),
            (None, Some(reason)) => Sight::Sometimes(reason),
            (None, None) => Sight::Sees,
        }
    }
}

// === impl Event ===

impl Event {
    pub const ALL: [Self; 6] = [
        Self::FirstCluster,
        Self::SecondCluster,
        Self::NewAddress,
        Self::GatewayDown,
        Self::GatewayUp,
        Self::Failover,
    ];

    /// Returns the heading of the event's column.
    pub fn title(self) -> &'static str {
        match self {
            Self::FirstCluster => "first cluster",
            Self::SecondCluster => "second cluster",
            Self::NewAddress => "new address",
            Self::GatewayDown => "gateway down",
            Self::GatewayUp => "gateway up",
            Self::Failover => "failover",
        }
    }

    pub fn fact(self) -> &'static str {
        match self {
            Self::FirstCluster => "first_cluster_joins",
            Self::SecondCluster => "second_cluster_joins",
            Self::NewAddress => "endpoint_gets_a_new_address",
            Self::GatewayDown => "gateway_dies",
            Self::GatewayUp => "gateway_comes_back",
            Self::Failover => "failover_order_changes",
        }
    }
}
