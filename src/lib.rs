//! DNS server: one name for a service in several linked Kubernetes clusters. The README shows what it does.
//!
//! ```text
//! objects → read → items and slices → store → build(service) → table → publish
//!              └──── problems ──────────────────┴──→ log, metrics, views
//! query bytes → parse → read(name) → answer(reading, type) → reply → writer → reply bytes
//! published table → view (documents) → API, page, commands
//! ```
//!
//! A module uses only the modules below it. `tests/fast/integration/architecture.rs` checks this, and that the files of both ways
//! exist.
//!
//! | module | contents |
//! |---|---|
//! | [`app`] | wiring: opens sources, binds listeners, starts and stops tasks; the commands |
//! | [`cli`] | flags, which override settings; the printer of documents; the way to a server |
//! | [`settings`] | everything that `serve` can be told |
//! | [`http`](mod@http) | `/livez`, `/readyz`, metrics, `/api/v1/…` and its client, the status page |
//! | [`check`](mod@check) | what only the network can tell of an installation; comparison of a fleet |
//! | [`view`] | documents: table, endpoints, explain, problems, events, status, zone |
//! | [`server`] | listeners for UDP, TCP, TLS and QUIC; limits and counters |
//! | [`source`] | sources of objects: the API server or YAML files; the update loop; the log of changes |
//! | [`wire`] | parser of queries, response policy, writer of replies |
//! | [`zone`] | grammar of owner names, choice of the answer, its records |
//! | [`table`] | membership rules, the store of objects, the pure function that builds the table, publication |
//! | [`model`] | domain types; Kubernetes objects → domain types, or a reason to skip |
//!
//! **An A query over UDP**
//!
//! 1. `server/platform/linux/udp.rs` receives a batch of datagrams; `server/answerer.rs` takes each through the next steps, and
//!    counts it.
//! 2. `wire/query.rs` parses the message, and `wire/respond.rs` applies the response policy.
//! 3. `zone/read.rs` reads the meaning of the name, `zone/answer.rs` chooses the answer, and `wire/write.rs` writes the reply.
//!
//! **A changed EndpointSlice**
//!
//! 1. `source/kube/watcher.rs` receives the event. `model/parse.rs` reads the objects of this cluster, and
//!    `model/linkerd.rs` those of Linkerd.
//! 2. `source/inbox.rs` keeps it until `source.rs` takes it, and `table/store.rs` returns the services that depend on it.
//! 3. `source/turns.rs` chooses the next one. `table/build.rs` builds it by `table/build_service.rs`, which collects what its items offer; `table/choose.rs` and
//!    `table/order.rs` choose. `table/publish.rs` replaces the current table.

pub mod app;
pub mod check;
pub mod cli;
pub mod http;
pub mod log;
pub mod model;
pub mod server;
pub mod settings;
pub mod source;
pub mod table;
pub mod view;
pub mod wire;
pub mod zone;

pub use app::main;

mod clock;
mod failures;
mod heartbeat;
mod histogram;
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
