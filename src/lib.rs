//! DNS server: one name for a service in several linked Kubernetes clusters.
//!
//! Linkerd mirrors a headless service of another cluster as `db-east`, `db-west`, … Each remote pod gets a synthetic
//! cluster IP. global-dns watches these mirrors and keeps one table in memory. It is authoritative for `db.prod.global`
//! (A, AAAA, SRV) and returns the endpoints of every cluster. It creates nothing in Kubernetes. CoreDNS forwards the
//! zone to it.
//!
//! ```text
//! objects → read → items and slices → store → build(service) → table → publish
//!              └──── problems ──────────────────┴──→ log, metrics, table, status, explain, check, page
//! query bytes → parse → read(name) → answer(reading, type) → reply → writer → reply bytes
//! ```
//!
//! # Modules
//!
//! A module uses only the modules below it in this table. `tests/fast/integration/architecture.rs` checks this.
//!
//! | module | contents |
//! |---|---|
//! | [`app`] | wiring: opens sources, binds listeners, starts and stops tasks |
//! | [`cli`] | flags and subcommands; they override settings; the way to an API server |
//! | [`settings`] | everything that `serve` can be told: one file, its checks, its schema |
//! | [`admin`] | `/livez /readyz`, metrics, `/api/v1/…`, the status page |
//! | [`server`] | listeners for UDP and TCP and, if enabled, TLS and QUIC; limits and counters |
//! | [`source`] | sources of objects: the API server or YAML files; the update loop |
//! | [`check`](mod@check) | diagnosis of an installation |
//! | [`explain`](mod@explain) | explanation of an answer |
//! | [`report`] | the table as text and as JSON |
//! | [`wire`] | parser of queries, response policy, writer of replies |
//! | [`zone`] | grammar of owner names, choice of the answer, its records |
//! | [`table`] | membership rules, the store of objects, the pure function that builds the table, publication |
//! | [`model`] | domain types; Kubernetes objects → domain types, or a reason to skip |
//! | [`log`] | logging set-up, rate limits of messages |
//!
//! # Six ways
//!
//! The files that one datum passes through, in this order. These files call helpers, and use types.
//! `tests/fast/integration/architecture.rs` limits the number of all files and lines on the first way and on the third.
//!
//! **An A query over UDP**
//!
//! 1. `server/udp.rs` receives a batch of datagrams, and sends the replies of the batch.
//! 2. `server/answerer.rs` takes each message through the next steps, and counts it.
//! 3. `wire/query.rs` parses the message.
//! 4. `wire/respond.rs` applies the response policy.
//! 5. `zone/read.rs` reads the meaning of the name.
//! 6. `zone/answer.rs` chooses the answer.
//! 7. `wire/write.rs` writes the reply.
//!
//! **A query over TLS**
//!
//! 1. `server/accept.rs` accepts the connection.
//! 2. `server/encrypted.rs` starts its task.
//! 3. `server/encrypted/tls.rs` performs the handshake.
//! 4. `server/tcp.rs` reads messages, and sends replies.
//! 5. `server/answerer.rs` and all files after it, as over UDP.
//!
//! **A changed EndpointSlice**
//!
//! 1. `source/kube/watcher.rs` receives the event. With `--file`, `source/file.rs` reads files instead.
//! 2. `model/parse.rs` chooses the reader.
//! 3. `model/linkerd.rs`, or `model/local.rs` for a Service of this cluster, makes a [`Slice`](model::Slice), or the problem
//!    that is the reason to skip the object.
//! 4. `source.rs` takes the update from the queue, and calls the next steps.
//! 5. `table/store.rs` stores the slice, and returns the services that depend on it.
//! 6. `table/build.rs` builds these services.
//! 7. `table/build_service.rs` builds one service: `table/candidates.rs` collects what its items offer, `table/choose.rs` and
//!    `table/order.rs` choose.
//! 8. `table/publish.rs` replaces the current table.
//!
//! **An annotation of a failover order**
//!
//! The same way, with `model/local.rs` as reader. `model/service_settings.rs` reads the annotations, `model/failover_order.rs` the
//! order, `model/expected_clusters.rs` the clusters of a bootstrap, and `model/cluster_term.rs` the clusters of both.
//! `model/similar.rs` finds the nearest name. `table/order.rs` decides which order applies and, with `table/failover.rs`, which step
//! answers. `table/timers.rs` knows the moment at which a delay ends; `source.rs` sleeps until then.
//!
//! **A line of the status page**
//!
//! 1. `table/publish.rs` has replaced the table.
//! 2. `source/change_log.rs` looks at the services that differ, and logs the changes.
//! 3. `table/diff.rs` compares both versions of a service and makes the changes.
//! 4. `source/events.rs` merges, numbers and keeps them.
//! 5. `admin/events.rs` sends it to each open stream.
//! 6. `admin/page/changes.js` shows it.
//!
//! # Terms
//!
//! The terms of users are in the glossary of the manual, `charts/global-dns/docs/src/glossary.md`; those of the code are in
//! `.github/CONTRIBUTING.md`.
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
pub mod explain;
pub mod log;
pub mod model;
pub mod report;
pub mod server;
pub mod settings;
pub mod source;
pub mod table;
pub mod wire;
pub mod zone;

pub use app::main;

mod clock;
mod failures;
mod heartbeat;
mod histogram;
mod random;
mod setting_text;

#[cfg(test)]
pub mod testing;

/// The memory allocator. It returns the memory of a long list of objects to the system. `.cargo/config.toml` has its
/// settings.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The URL of this program's repository, from `Cargo.toml`. Empty if it is not set there.
pub const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");
