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
//! | [`cli`] | flags and subcommands |
//! | [`admin`] | `/livez /readyz`, metrics, `/api/v1/…`, the status page |
//! | [`server`] | listeners for UDP and TCP and, if enabled, TLS and QUIC; limits and counters |
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
//! # Six ways
//!
//! The files that one datum passes through, in this order. Below each way are the helpers that these files call for it.
//! Types without a decision, such as [`Item`](model::Item) or [`Text`](model::Text), are left out.
//! `tests/fast/integration/architecture.rs` limits the number of files and lines of the first way and of the third.
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
//! Helpers: `server/udp/address.rs` (the address that the reply leaves from), `server/rate_limit.rs` and
//! `server/client_prefix.rs`, `server/cookies.rs` and `wire/cookie.rs` (only with a cookie), `server/counters.rs` and `histogram.rs`,
//! `heartbeat.rs`, `clock.rs`, `table/publish.rs` and `table/published.rs` (the current table), `zone/name.rs` (the name of the question),
//! `wire/access.rs`, `zone/zones.rs`, `zone/zone_name.rs`, `zone/reverse.rs` (only in reverse zones), `table/content.rs`,
//! `table/services.rs`, `table/shared.rs` and `table/service.rs` (the search for the service), `zone/reading.rs`, `table/own_name.rs`
//! and `table/included.rs` (the addresses of its own name),
//! `wire/write/message.rs`. An SRV query also needs `zone/records.rs`, `zone/record_name.rs`, `zone/order.rs` and `wire/write/record.rs`.
//!
//! **A query over TLS**
//!
//! 1. `server/accept.rs` accepts the connection.
//! 2. `server/encrypted.rs` starts its task.
//! 3. `server/encrypted/tls.rs` performs the handshake.
//! 4. `server/tcp.rs` reads messages, and sends replies.
//! 5. `server/answerer.rs` and all files after it, as over UDP.
//!
//! Helpers: `server/connections.rs` and `server/client_prefix.rs` (limits), `server/socket.rs` and `server/socket/stream.rs`
//! (the budget of unread octets), `server/framing.rs` (the length before each message),
//! `server/time_limits.rs`, `server/encrypted/certificate.rs`, `server/encrypted/client_ca.rs` and `server/file_change.rs`
//! (their files, and new versions of them).
//!
//! **A changed EndpointSlice**
//!
//! 1. `source/kube/watcher.rs` receives the event. With `--file`, `source/file.rs` reads files instead.
//! 2. `model/parse.rs` chooses the reader.
//! 3. `model/linkerd.rs`, or `model/local.rs` for a Service of this cluster, makes a [`Slice`](model::Slice), or the problem
//!    that is the reason to skip the object.
//! 4. `source.rs` takes the update from the queue, and calls the next steps. `source/guard.rs` may hold a list.
//! 5. `table/store.rs` stores the slice, and returns the services that depend on it.
//! 6. `table/build.rs` builds these services.
//! 7. `table/members.rs` builds one service: candidates of each kind, the chosen ones, their endpoints.
//! 8. `table/publish.rs` replaces the current table.
//!
//! Helpers: `source/kube/requests.rs`, `source/kube/client.rs`, `source/kube/lines.rs` and
//! `source/kube/overlap.rs` (the watch), `source/kube/list.rs` and `source/kube/limiter.rs` (a list),
//! `source/kube/failure.rs`, `source/kube/timing.rs` and `source/backoff.rs` (failures and pauses), `source/file/read.rs` and
//! `source/file/objects.rs` (only with `--file`), `source/feeds.rs` (the state of the watch), `source/arrival.rs` (the time until it is answered), `model/kube_object.rs`,
//! `model/fields.rs`, `model/few.rs`, `model/slice.rs`, `model/watch.rs` and `model/interned.rs` (the fields of the object),
//! `source/problem_log.rs` (the log of problems), `failures.rs` and `table/times.rs` (since when they hold), `source/steady_clock.rs` and `table/timers.rs` (failovers),
//! `table/own_settings.rs` (settings, also of a Service that is gone), `source/link_feeds.rs`, `source/kube/leases.rs`,
//! `model/lease.rs` and `table/links.rs` (the states of links), `table/left.rs` (clusters that left), `table/items.rs`, `table/headless.rs`,
//! `table/missing.rs`, `table/dead_ports.rs`, `table/cluster_ip.rs`, `table/local.rs`, `table/import.rs`, `table/candidates.rs`, `table/failover.rs`,
//! `table/earlier.rs` (what the process before knew), `table/alias.rs`, `table/gate.rs`, `table/settings.rs`, `table/kind.rs`, `table/merge.rs`, `table/endpoint.rs`, `table/own_name.rs` and
//! `table/service.rs` (the service), `table/services.rs`, `table/shared.rs`, `table/index.rs`, `table/short.rs`,
//! `table/short_name.rs` and `table/content.rs` (the table), `table/history.rs` (earlier tables), `source/snapshot.rs` (only with `--snapshot`),
//! `source/trial.rs` (only for an order that a person tries).
//!
//! **A ServiceImport**
//!
//! The same way, with `model/mcs.rs` as reader, which also reads the slices of imports. `table/import.rs` collects the
//! candidates.
//!
//! **An annotation of a failover order**
//!
//! The same way, with `model/local.rs` as reader. `model/settings.rs` reads the annotations, `model/failover_order.rs` the
//! order, `model/weight.rs` the weights of its clusters, `model/expected_clusters.rs` the clusters of a bootstrap, and `model/cluster_term.rs` the clusters of both. `table/failover.rs` decides which step answers. `table/timers.rs` knows the
//! moment at which a delay ends; `source.rs` sleeps until then.
//!
//! **A line of the status page**
//!
//! 1. `table/publish.rs` has replaced the table.
//! 2. `table/difference.rs` compares both tables and makes the changes.
//! 3. `source/change_log.rs` logs each change.
//! 4. `source/events.rs` numbers and keeps it.
//! 5. `admin/events.rs` sends it to each open stream.
//! 6. `admin/page/changes.js` shows it.
//!
//! Helpers: `table/change.rs` (sentences, and the aggregation of many changes), `source/gateway_changes.rs` (those of a gateway),
//! `source/journal.rs` (the file that outlives the process), `report/events.rs` (JSON), `admin/gate.rs`,
//! `admin/host.rs` and `admin/limits.rs` (who may read), `admin/follow.rs`, `admin/head.rs`,
//! `admin/facts.rs`, `admin/service_facts.rs`, `admin/attention.rs`, `table/impact.rs` and `report/summary.rs`, `report/clusters.rs`, `report/endpoint.rs`, `report/style.rs` and `report/lazy.rs`
//! (what changes in the summary), `admin/body.rs` (compression), `server/http.rs`, `admin/page.rs`, `admin/page/server.js` and
//! `admin/page/main.js` (the stream), `admin/page/address.js`, `admin/page/problem.js` and
//! `admin/page/model.js` (the link to the service), `admin/page/dom.js` and `admin/page/words.js`.
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

pub use app::main;

mod clock;
mod failures;
mod heartbeat;
mod histogram;
mod random;

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
