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
//! # Modules
//!
//! Each module uses those below it in this table, and no other (`tests/integration/house.rs`).
//!
//! | module | contents |
//! |---|---|
//! | [`app`] | wiring: opens, binds, starts and stops what the flags name |
//! | [`cli`] | flags and subcommands |
//! | [`admin`] | `/livez /readyz`, metrics, `/api/v1/…` |
//! | [`server`] | listeners for UDP and TCP and, if enabled, TLS, HTTPS and QUIC; limits and counters |
//! | [`source`] | feeds the inputs from the API server or from YAML files |
//! | [`check`](mod@check) | diagnosis of an installation |
//! | [`explain`](mod@explain) | why an answer is what it is |
//! | [`report`] | the table as text and as JSON |
//! | [`wire`] | parser of queries, response policy, writer of replies |
//! | [`zone`] | grammar of owner names, choice of the answer, its records |
//! | [`table`] | rules of membership, inputs, the pure step to a table, its publication |
//! | [`mirror`] | domain types; Kubernetes objects → domain types, or a reason to skip |
//! | [`log`] | logging set-up, rate limits of messages |
//!
//! # The way of a query
//!
//! An A query over UDP passes these files, in this order:
//!
//! 1. `server/udp.rs` receives a batch of datagrams and sends the replies.
//! 2. `server.rs` adds rate limit and cookie, and counts.
//! 3. `wire/query.rs` parses the message.
//! 4. `wire/respond.rs` applies the response policy.
//! 5. `zone/answer.rs` chooses the answer.
//! 6. `zone/read.rs` reads the owner name.
//! 7. `wire/write.rs` writes the reply.
//!
//! # The way of an object
//!
//! 1. `source/kube/watcher.rs` lists and watches; `source/file.rs` reads files instead.
//! 2. `mirror/parse.rs` reduces the object, or says why it is skipped.
//! 3. `source.rs` applies the update, builds and publishes.
//! 4. `table/inputs.rs` keeps the object and names the services that depend on it.
//! 5. `table/build.rs` builds those services.
//! 6. `table/members.rs` makes one service out of its objects.
//! 7. `table/publish.rs` makes the table current.
//!
//! # Glossary
//!
//! | term | meaning |
//! |---|---|
//! | link | a Linkerd Link: the connection from this cluster to another one |
//! | mirror | a Service that Linkerd creates here for a Service of a linked cluster |
//! | headless mirror | the mirror of a headless Service: `db-east` for `db` in cluster `east` |
//! | endpoint mirror | the mirror of one pod of a headless Service, with a cluster IP of its own: `db-0-east` |
//! | gateway | the proxy of a linked cluster that traffic to a mirror passes through |
//! | alive | its gateway is ready (rule M3) |
//! | member | a headless mirror or local Service whose endpoints are part of a service's name |
//! | feed | one watch, of one namespace or of all: the unit that is listed, relisted and held |
//! | generation | counts the tables that differ; the SOA serial moves with it |
//! | conflict | objects that contradict each other; logged, counted and listed |
//! | skipped object | an object that cannot be used, with the reason |
//! | canonical name, short name | `S.N.Z`, `S.Z` |
//!
//! # Promises
//!
//! A query sees one whole table. No object stops a watch. A source that fails keeps the last table. Short names never merge
//! namespaces. Not provided: DNSSEC, zone transfers, recursion, writing to Kubernetes.

pub mod admin;
pub mod app;
pub mod check;
pub mod cli;
pub mod explain;
pub mod log;
pub mod mirror;
pub mod report;
pub mod server;
pub mod source;
pub mod table;
pub mod wire;
pub mod zone;

mod clock;
mod random;

#[cfg(test)]
pub(crate) mod testing;

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Where this program is at home on the web; empty as long as Cargo.toml does not say.
pub const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");
