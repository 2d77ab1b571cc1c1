//! One DNS name for a headless service that lives in many Kubernetes clusters.
//!
//! Linkerd mirrors a headless service of another cluster as `db-east`, `db-west`, … with one synthetic cluster IP for
//! each remote pod. global-dns watches those mirrors, keeps one table in memory, and answers `db.prod.global` (A, AAAA,
//! SRV) with every cluster's endpoints, authoritatively. It creates nothing in Kubernetes; CoreDNS forwards the zone.
//!
//! ```text
//! watch events → mirror (parse) → inputs → build → table → publish
//! query bytes → parse → read(name) → answer(reading, type) → reply → writer → reply bytes
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`mirror`] | domain types; Kubernetes objects → domain types, or a reason to skip |
//! | [`source`] | who feeds the inputs: the API server, or YAML on disk |
//! | [`table`] | inputs, the pure step to a table, the swap that makes it current |
//! | [`zone`] | the grammar of owner names, the one place that chooses an answer, and the one list of its records |
//! | [`wire`] | query parser, response policy, reply writer |
//! | [`server`] | DNS listeners: UDP and TCP; if asked for, TLS and HTTPS |
//! | [`explain`](mod@explain) | why an answer is what it is |
//! | [`check`](mod@check) | what ails an installation, and what to do about it |
//! | [`admin`] | `/livez /readyz /metrics`, `/api/v1/…` |
//! | [`telemetry`] | logging set-up, every metric |
//! | [`cli`], [`app`] | flags; wiring |
//!
//! What holds always: a query sees one whole table; no object stops a watch; a source that fails keeps the last table;
//! short names never merge namespaces. What it does not do: DNSSEC, zone transfers, recursion, writing to Kubernetes.

pub mod admin;
pub mod app;
pub mod check;
pub mod cli;
pub mod explain;
pub mod mirror;
pub mod server;
pub mod source;
pub mod table;
pub mod telemetry;
pub mod wire;
pub mod zone;

mod random;

#[cfg(test)]
pub(crate) mod testing;

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Where this program is at home on the web; empty as long as Cargo.toml does not say.
pub const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");
