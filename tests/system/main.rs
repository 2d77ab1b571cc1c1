//! Tests with real parts: API servers, DNS servers, Chromium, databases. `tests/run` installs these and runs the tests.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub,
    missing_docs,
    reason = "tests, also with enums of other crates"
)]

mod browser; // the status page in Chromium
mod chaos; // faults and floods
mod chart; // the Helm chart in a real API server
mod clients; // programs that people run
mod cluster; // the chart under real kubelets
mod databases; // etcd, NATS and RabbitMQ over three clusters
mod e2e; // a real API server with its controllers, and a real CoreDNS
mod peers; // answers compared with Knot, NSD and BIND; clients of DNS
mod portable; // the program without what only Linux has
mod udp; // UDP on a node with several addresses
