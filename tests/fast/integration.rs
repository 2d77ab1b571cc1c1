//! Integration tests of the binary with real files and real sockets.
//!
//! Index:
//!
//! - `events`: `/api/v1/events` and `/api/v1/status`: changes of objects, streams and their clients
//! - `file_source`: `--file`: errors at start and at run time, reloads, examples
//! - `command_line`: usage, errors and exit codes, `explain`, `table`, `events`, `demo`, signals; finding a replica; plug-ins
//! - `check`: output lines, JSON and exit codes, with files, with a running server, behind a forwarder
//! - `architecture`: dependencies between modules, and the length of the two ways, read from the source text
//! - `answers`: counters, and what a server without a table answers
//! - `access`: `limits.allow`
//! - `api_host`: the `Host`, `Origin` and `Sec-Fetch-Site` headers that the API accepts, methods, headers of responses
//! - `connections`: TCP: connection limits, slow clients, exhausted file descriptors
//! - `encrypted`: DNS over TLS and QUIC: equal answers over all transports, server and client certificates, connections, limits
//! - `fleet`: the comparison of several clusters: faults of each kind, servers that cannot be read
//! - `history`: answers of earlier times
//! - `liveness`: the probes of servers of which a single thread is stopped
//! - `log`: independence from the log output; annotations in the log and in the output of commands
//! - `members`: settings of members and short names, conflicts, texts of tenants
//! - `metrics`: the list of metrics in the manual
//! - `readers`: many readers of a large table
//! - `settings`: the settings, from a file or a variable

mod access;
mod answers;
mod api_host;
mod architecture;
mod check;
mod command_line;
mod connections;
mod encrypted;
mod events;
mod file_source;
mod fleet;
mod history;
mod liveness;
mod log;
mod members;
mod metrics;
mod readers;
mod settings;
