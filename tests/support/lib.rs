//! What the tests outside the source share: one way each to write a query, to read a reply, to run a process and to build
//! Kubernetes objects. It knows nothing of the code under test but its binary, so that the tests beside the source use it,
//! too.
//!
//! | for | modules |
//! |---|---|
//! | messages | [`query`], [`reply`], [`codes`], [`wire`]; encrypted: [`tls`], [`https`], [`quic`], [`encrypted`], [`certificates`] |
//! | processes | [`commands`], [`process`], [`log`], [`server`], [`http`], [`sockets`] |
//! | objects | [`objects`], [`recordings`] |
//! | tables | [`names`], what owner names answer; [`moments`], what recordings answer |
//! | places | [`repository`](mod@repository), [`ports`], [`networks`] |
//! | API servers | [`cluster`], a real one; [`standin`], one that misbehaves, with [`credentials`] and [`faults`] |
//! | long tests | [`steps`], [`observer`], [`dig`], [`figures`], [`say`](mod@say), [`wait`], [`differences`] |

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::wildcard_enum_match_arm,
    clippy::missing_errors_doc,
    reason = "tests, also of enums that are not ours"
)]

pub mod certificates;
pub mod cluster;
pub mod codes;
pub mod commands;
pub mod credentials;
pub mod differences;
pub mod dig;
pub mod encrypted;
pub mod faults;
pub mod figures;
pub mod http;
pub mod https;
pub mod log;
pub mod moments;
pub mod names;
pub mod networks;
pub mod objects;
pub mod observer;
pub mod ports;
pub mod process;
pub mod query;
pub mod quic;
mod reader;
pub mod recordings;
pub mod reply;
pub mod repository;
pub mod say;
pub mod server;
pub mod sockets;
pub mod standin;
pub mod steps;
pub mod tls;
pub mod wait;
pub mod wire;
