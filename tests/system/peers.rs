//! Other implementations: servers with the same zone, CoreDNS as a forwarder, and clients.
// Thousands of questions to global-dns, Knot, NSD and BIND with the same zone. Each difference has a reason.
mod differential;
// One to a thousand endpoints: complete answers through CoreDNS.
mod sizes;
// CoreDNS in front of two replicas, of which one has no table.
mod replicas;
// BIND as a resolver that minimizes names, while a name waits for expected clusters.
mod minimization;
// The program that states rule K7.
mod k7;
// What MongoDB and gRPC require, and programs over TLS and QUIC.
mod clients;
// The printed zone in Knot, NSD and BIND.
mod zone_file;

use support::objects::Manifest;
use support::process::run_global_dns;
use support::server::Server;

/// Serves objects as the cluster `hub`.
fn serve(objects: impl Into<Manifest>, flags: &[&str]) -> Server {
    let own = ["--cluster-name=hub", "grace=0s"];
    Server::with_text(&objects.into().list(), &[&own, flags].concat())
}

/// Returns a zone of a server as a zone file, as the command prints it.
fn zone_of(server: &Server, zone: &str) -> String {
    let url = format!("--server={}", server.api);
    let zone = format!("--zone={zone}");
    let ended = run_global_dns(&["table", "-o", "zone", &url, &zone]);
    assert!(ended.is_success(), "{ended:?}");
    // The first line says who answered.
    let records = ended.stdout.lines().filter(|line| !line.starts_with(';'));
    records.map(|line| format!("{line}\n")).collect()
}
