//! The settings of the server: one text in YAML or JSON, with a default for everything.
//!
//! `--config` names a file with it, or the variable `GLOBAL_DNS_SETTINGS` contains it. The schema of the chart's value `config` and
//! a page of the manual are generated from these types and their documentation.

mod apply;
mod check;
mod period;
mod read;
mod shape;
pub mod variables;
mod zone;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

pub use period::Period;
pub use zone::ZoneSetting;

use crate::log::{LogFilter, LogFormat};
use crate::model::{ApiHost, ClusterName, FailoverOrder, GatewayDown, Namespace, ServiceKey};
use crate::model::{ServiceName, ServiceSettings};
use crate::server::ListenAddress;
use crate::setting_text::or_empty;
use crate::table::{DEFAULT_CLUSTER_NAME, LocalMembers, ShortNames};
use crate::wire::Network;
use crate::zone::AnswerOrder;

/// The port of the API.
pub const API_PORT: u16 = 9154;
/// The default address of the API.
const API_ADDRESS: &str = "127.0.0.1:9154";

/// The settings of `global-dns serve`.
#[derive(SmartDefault, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    /// Name of this cluster, as in the Links of the other clusters: names, certificates and replica sets contain it.
    #[default(constant(DEFAULT_CLUSTER_NAME))]
    pub cluster_name: ClusterName,
    /// Zones to answer for: `global`, `{name: clusterset.local, grammar: mcs}`, or `{name: svc.west.example, cluster: west}` for the own
    /// names of another cluster. If a name is in several, the longest one decides. Never make a zone a search domain.
    #[schemars(length(min = 1))]
    #[default(vec![constant("global")])]
    pub zones: Vec<ZoneSetting>,
    /// Namespaces to watch. The server then needs permissions only there. Empty: all namespaces.
    pub namespaces: Vec<Namespace>,
    /// Names of clusters that differ from those in the Links: `{link: name}`.
    pub cluster_aliases: BTreeMap<ClusterName, ClusterName>,
    /// Clusters whose mirrors are ignored. Members of this cluster stay.
    pub exclude_clusters: Vec<ClusterName>,
    /// Headless Services of this cluster that are members of names.
    pub local_members: LocalMembers,
    /// Rule for endpoints behind a gateway that is down.
    pub gateway_down: GatewayDown,
    /// TTL of records in seconds.
    #[schemars(range(min = 1, max = 30))]
    #[default(5)]
    pub ttl: u32,
    /// Short names, which have no namespace, such as `db.global`.
    pub short_names: ShortNameSettings,
    /// Names with the members of several services: `{prod/crdb: [crdb-east/crdb, crdb-west/crdb]}`.
    pub aliases: BTreeMap<ServiceKey, Vec<ServiceKey>>,
    /// Settings of single services: `{prod/db: {failover: east:west, ttl: 10, gatewayDown: include}}`. Annotations of the Service
    /// in this cluster take precedence.
    pub services: BTreeMap<ServiceKey, ServiceSettings>,
    /// Failover between clusters: `{default: auto:local:*}`.
    pub failover: FailoverSettings,
    /// Linkerd's Links and the Leases of its mirror controllers, which tell which clusters are linked.
    pub links: LinkSettings,
    /// Replies.
    pub answers: AnswerSettings,
    /// Addresses of the listeners: `IP:PORT`, `:PORT` for all addresses, or `localhost:PORT`.
    pub listen: ListenSettings,
    /// Files of the encrypted listeners, in PEM. They are read again when they change.
    pub tls: TlsSettings,
    /// Clients and limits.
    pub limits: LimitSettings,
    /// Time for which earlier tables are kept in memory, for `--at`, at most 720h. `0s`: not at all.
    #[default(Period(Duration::from_hours(24)))]
    pub history: Period,
    /// Time during which queries are still answered after SIGTERM or SIGINT, at most 1h. `/readyz` fails 12 seconds before its end.
    #[default(Period(Duration::from_secs(20)))]
    pub grace: Period,
    /// Log messages, on standard error.
    pub log: LogSettings,
}

/// Short names, which have no namespace.
#[derive(Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ShortNameSettings {
    /// Services that have a short name.
    pub which: ShortNames,
    /// Namespace whose services have the short names, unless `pinned` says otherwise. Empty: none.
    #[serde(with = "or_empty")]
    #[schemars(with = "String")]
    pub default_namespace: Option<Namespace>,
    /// Namespaces of single short names: `{db: prod}`.
    pub pinned: BTreeMap<ServiceName, Namespace>,
}

/// Failover between clusters.
#[derive(SmartDefault, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct FailoverSettings {
    /// Failover order for all services without pods, such as `auto:local:*`. Empty: no order.
    #[serde(with = "or_empty")]
    #[schemars(with = "String")]
    pub default: Option<FailoverOrder>,
    /// Time that a step of an `auto:` order must be down before another one answers, at most 1h.
    #[default(Period(Duration::from_secs(2)))]
    pub delay: Period,
    /// Time that an earlier step of an `auto:` order must be alive before it answers again, at most 24h.
    #[default(Period(Duration::from_secs(30)))]
    pub back: Period,
}

/// Links and Leases.
#[derive(SmartDefault, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct LinkSettings {
    /// Whether Links and Leases are read. If not, no cluster is known to be unlinked.
    #[default(true)]
    pub enabled: bool,
    /// Namespaces of the Links. Those in other namespaces are ignored, because tenants may create them.
    #[default(vec![constant("linkerd-multicluster")])]
    pub namespaces: Vec<Namespace>,
    /// Time without a Link after which a cluster counts as unlinked, at most 168h.
    #[default(Period(Duration::from_mins(5)))]
    pub unlinked_after: Period,
}

/// Replies.
#[derive(SmartDefault, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct AnswerSettings {
    /// Order of the records in a reply. The set is always complete.
    pub order: AnswerOrder,
    /// Maximum size of a reply over UDP in octets.
    #[schemars(range(min = 512, max = 4096))]
    #[default(1232)]
    pub udp_max: u16,
    /// Addresses of `ns.dns.ZONE`, for resolvers that follow NS records to port 53. Empty: the Service of the chart; without
    /// one, the DNS listeners that are no wildcards.
    pub ns_addresses: Vec<IpAddr>,
    /// Answer to NSID and id.server queries, of at most 64 octets. Empty: the name of the host, which is that of the pod.
    #[schemars(length(max = 64))]
    pub server_id: String,
}

/// Addresses of the listeners.
#[derive(SmartDefault, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ListenSettings {
    /// DNS over UDP and TCP. Empty: no listener.
    #[default(vec![ListenAddress::EveryAt(5353)])]
    pub dns: Vec<ListenAddress>,
    /// `/livez`, `/readyz` and `/metrics`, over HTTP. Empty: no listener.
    #[default(vec![ListenAddress::EveryAt(9153)])]
    pub admin: Vec<ListenAddress>,
    /// `/api/v1` and the status page, over HTTP, which show all namespaces. Empty: no listener.
    #[default(vec![constant(API_ADDRESS)])]
    pub api: Vec<ListenAddress>,
    /// DNS over TLS. Empty: no listener.
    pub tls: Vec<ListenAddress>,
    /// DNS over QUIC. Empty: no listener. Experimental: one handshake at a time, and connections are not limited.
    pub quic: Vec<ListenAddress>,
    /// Further names and addresses that requests of the API may have as Host or Origin, such as those of an Ingress. Localhost,
    /// loopback addresses and the address that received the request are always allowed.
    pub api_hosts: Vec<ApiHost>,
}

/// Files of the encrypted listeners.
#[derive(Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct TlsSettings {
    /// Certificate and its chain, as `tls.crt` of a Secret.
    pub certificate: PathBuf,
    /// Private key, as `tls.key` of a Secret.
    pub key: PathBuf,
    /// Certificate authorities, as `ca.crt` of a Secret, one of which must have issued the certificate of a client. Empty: clients
    /// need no certificate.
    pub client_ca: PathBuf,
}

/// Clients and limits.
#[derive(SmartDefault, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct LimitSettings {
    /// Networks of the clients that are answered, such as `10.0.0.0/8`. All others get REFUSED. Empty: private, loopback,
    /// link-local, shared and 240.0.0.0/4 addresses, and the /16 (IPv6: /56) of the pod's and node's addresses.
    pub allow: Vec<Network>,
    /// Maximum number of open TCP connections, and separately of TLS connections. One client address (IPv6: /64, but near the pod and its
    /// node each address) has at most half of them. A further connection replaces one of the client that has most.
    #[schemars(range(min = 2, max = 100_000))]
    #[default(256)]
    pub connections: u32,
    /// Number of threads that answer over UDP, for each address. 0: one for each CPU, at most eight.
    #[schemars(range(max = 256))]
    pub udp_workers: u16,
}

/// Log messages.
#[derive(SmartDefault, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct LogSettings {
    /// Minimum level: `error`, `warn`, `info`, `debug` or `trace`; or a filter, such as `info,global_dns::source=debug`.
    #[default(constant("info"))]
    pub level: LogFilter,
    /// Format of the lines.
    pub format: LogFormat,
}

/// Returns a value of this file.
fn constant<T: FromStr<Err: Debug>>(text: &str) -> T {
    text.parse().expect("the constants of this file are valid")
}
