//! Several of our parts together: the binary, real files, real sockets, other people's name servers.
//!
//! Index:
//!
//! - `file_source`: `--file`: forms of input, errors at start, changes and mishaps at run time, the worked examples
//! - `command_line`: usage, errors and exit codes, `explain`, `table`, `demo`, signals
//! - `check`: its lines, JSON and exit codes, on files, a running server, behind a forwarder
//! - `house`: the doors of DESIGN 2, read from the source text
//! - `answers`: their order and sizes, the name server's own addresses, counters
//! - `access`: `--allow`, and how fast those that are not trusted are answered
//! - `api_host`: which `Host` the API answers
//! - `cookies`: whose cookies are accepted: secrets in a file, replicas, restarts
//! - `connections`: TCP: too many connections, slow clients, no descriptors left
//! - `encrypted`: DNS over TLS, HTTPS and QUIC: the same answers; certificates of servers and clients; connections, limits
//! - `log`: a log that cannot be written
//! - `members`: whose endpoints a name has: gateways, local members, clusters, TTLs, short names
//! - `udp`: where replies leave from on a host with several addresses; forged ICMP messages
//! - `zone_file`: the printed zone in Knot, NSD and BIND; a running Knot answers like we do

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub,
    missing_docs,
    reason = "tests"
)]

mod access;
mod answers;
mod api_host;
mod check;
mod command_line;
mod connections;
mod cookies;
mod encrypted;
mod file_source;
mod house;
mod log;
mod members;
mod udp;
mod zone_file;
