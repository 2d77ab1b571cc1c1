//! One DNS name for a service that runs in several Kubernetes clusters.
//!
//! Linkerd mirrors a headless service of another cluster as `db-east`, `db-west`, … Each remote pod gets a synthetic
//! cluster IP. global-dns watches these mirrors and keeps one table in memory. It is authoritative for `db.prod.global`
//! (A, AAAA, SRV) and returns the endpoints of every cluster. It creates nothing in Kubernetes. CoreDNS forwards the
//! zone to it.
//!
//! ```text
//! watch events → model (read) → store → build → table → publish
//! query bytes → parse → read(name) → answer(reading, type) → reply → writer → reply bytes
//! ```
//!
//! # Modules
//!
//! A module uses only the modules below it in this table. `tests/integration/architecture.rs` checks this.
//!
//! | module | contents |
//! |---|---|
//! | [`app`] | wiring: opens sources, binds listeners, starts and stops tasks |
//! | [`cli`] | flags and subcommands |
//! | [`admin`] | `/livez /readyz`, metrics, `/api/v1/…`, the status page |
//! | [`server`] | listeners for UDP and TCP and, if enabled, TLS, HTTPS and QUIC; limits and counters |
//! | [`source`] | sources of objects: the API server or YAML files; the update loop |
//! | [`check`](mod@check) | diagnosis of an installation |
//! | [`explain`](mod@explain) | explanation of an answer |
//! | [`corefile`] | the settings that make the DNS of each platform forward the zones to the server |
//! | [`report`] | the table as text and as JSON |
//! | [`wire`] | parser of queries, response policy, writer of replies |
//! | [`zone`] | grammar of owner names, choice of the answer, its records |
//! | [`table`] | membership rules, the store of objects, the pure function that builds the table, publication |
//! | [`model`] | domain types; Kubernetes objects → domain types, or a reason to skip |
//! | [`log`] | logging set-up, rate limits of messages |
//!
//! # Path of a query
//!
//! An A query over UDP passes through these eight files, in this order. Helpers that only compare, convert, look
//! up or count are omitted.
//!
//! 1. `server/udp.rs` receives a batch of datagrams.
//! 2. `server.rs` takes each message through the next steps.
//! 3. `wire/query.rs` parses the message. `zone/name.rs` reads the name of the question.
//! 4. `server.rs` applies the rate limit and makes the cookie.
//! 5. `wire/respond.rs` applies the response policy.
//! 6. `zone/read.rs` reads the meaning of the name.
//! 7. `zone/answer.rs` chooses the answer.
//! 8. `wire/write.rs` writes the reply.
//! 9. `server.rs` counts the query. `server/udp.rs` sends the replies of the batch.
//!
//! # Path of an object
//!
//! A change of an object passes through these files, in this order. Helpers that only compare, convert, look up or count
//! are omitted.
//!
//! 1. `source/kube/watcher.rs` receives the event. With `--file`, `source/file.rs` reads files instead.
//! 2. `model/parse.rs` chooses the reader of the object: `model/linkerd.rs`, `model/local.rs` or `model/mcs.rs`. The
//!    reader makes an item or a slice, or the reason why the object is skipped. An object that does not matter is dropped.
//! 3. `source.rs` takes the update from the queue, and calls the next steps.
//! 4. `table/store.rs` stores the object and returns the services that depend on it.
//! 5. `source/states.rs` calls the build. If a service has a failover order or expected clusters, `table/state.rs`
//!    advances its state.
//! 6. `table/build.rs` builds these services.
//! 7. `table/members.rs` builds one service from its objects: `table/headless.rs`, `table/cluster_ip.rs`,
//!    `table/local.rs` and `table/import.rs` collect the candidates, `table/candidates.rs` chooses among them, and
//!    `table/merge.rs` makes the endpoints.
//! 8. `table/publish.rs` replaces the current table.
//!
//! # Glossary
//!
//! | term | meaning |
//! |---|---|
//! | link | a Linkerd Link: the connection from this cluster to another cluster |
//! | mirror | a Service that Linkerd creates in this cluster for a Service of a linked cluster |
//! | headless mirror | the mirror of a headless Service: `db-east` for `db` in cluster `east` |
//! | endpoint mirror | the mirror of one pod of a headless Service, with a cluster IP of its own: `db-0-east` |
//! | service mirror | the mirror of a whole Service, with a cluster IP: `web-east`; through a gateway, or flat |
//! | federated service | one Service for the members of several clusters: `web-federated` |
//! | kind | the way in which a service reaches this cluster: `headless`, `gateway`, `flat`, `federated`, `local`, `import` |
//! | gateway | the proxy of a linked cluster that receives the traffic to a mirror |
//! | alive | state of an endpoint with a ready gateway (rule M3) |
//! | failover order | the clusters that answer for a service, in steps: `local:east+west:*` (rule K5) |
//! | standby | state of an endpoint of another step than the one that answers |
//! | gate | the expected clusters of a service; its name fails until they have been seen (rule K8) |
//! | member | a mirror, ServiceImport or Service of this cluster that contributes endpoints to a service |
//! | item | a Service or a ServiceImport that matters, reduced to the fields in use |
//! | candidate | the endpoints that one kind offers for a service |
//! | feed | one watch, of one namespace or of all; the unit that is listed, relisted and held |
//! | generation | number of the table; it increases, with the SOA serial, when the table changes |
//! | conflict | a contradiction between objects; it is logged, counted and listed |
//! | skipped object | an object that cannot be used, with the reason |
//! | canonical name, short name | the name of a service with its namespace, `db.prod.global`, and without it, `db.global` |
//!
//! # Guarantees
//!
//! - A query is answered from one complete table.
//! - No object stops a watch.
//! - If a source fails, the last table stays in use.
//! - Short names never merge namespaces.
//!
//! Not provided: DNSSEC, zone transfers, recursion, writing to Kubernetes.

pub mod admin;
pub mod app;
pub mod check;
pub mod cli;
pub mod corefile;
pub mod explain;
pub mod log;
pub mod model;
pub mod report;
pub mod server;
pub mod source;
pub mod table;
pub mod wire;
pub mod zone;

mod clock;
mod heartbeat;
mod random;

#[cfg(test)]
pub(crate) mod testing;

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The URL of this program's repository, from `Cargo.toml`. Empty if it is not set there.
pub const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");
