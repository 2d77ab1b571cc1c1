//! Support library of all tests: writes queries, reads replies, runs processes and builds Kubernetes objects.
//!
//! It depends on the program under test, but not on its library. The unit tests in `src` use the part in `shared.rs`.
//!
//! | subject | modules |
//! |---|---|
//! | messages | [`query`], [`reply`], [`codes`], [`wire`]; encrypted: [`tls`], [`quic`], [`encrypted`], [`certificates`] |
//! | processes | [`commands`], [`process`], [`log`], [`server`], [`http`], [`event_stream`] |
//! | objects | [`objects`], [`recordings`] |
//! | tables | [`names`], the answers of owner names; [`expectations`], the answers of recordings |
//! | environment | [`repository`](mod@repository), [`manual`], [`ports`], [`networks`] |
//! | API servers | [`cluster`], a real one, with the [`definitions`] of further resources; [`standin`], a simulated one, with [`credentials`] and [`faults`]; [`kubeconfig`]; [`watches`], those of the server |
//! | linked clusters | [`fleet`], three clusters that agree, and faults; [`multicluster`], three clusters with gateways between them |
//! | one cluster | [`node`], a simulated node with its pods and CoreDNS; [`helm`] |
//! | long tests | [`steps`], [`observer`], [`dig`], [`output`], [`wait`], [`differences`], [`rounds`](mod@rounds) |

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::missing_errors_doc,
    reason = "tests; some enums belong to other crates"
)]

#[path = "shared.rs"]
mod shared;

pub mod certificates;
pub mod cluster;
pub mod commands;
pub mod credentials;
pub mod definitions;
pub mod differences;
pub mod dig;
pub mod encrypted;
pub mod event_stream;
pub mod expectations;
pub mod faults;
pub mod fleet;
pub mod helm;
pub mod http;
pub mod kubeconfig;
pub mod log;
pub mod manual;
pub mod multicluster;
pub mod networks;
pub mod node;
pub mod observer;
pub mod output;
mod port_forward;
pub mod ports;
pub mod process;
pub mod quic;
pub mod recordings;
pub mod server;
pub mod settings;
pub mod standin;
pub mod steps;
pub mod tls;
pub mod watches;

pub use shared::{codes, names, objects, query, reply, repository, rounds, wait, wire};
