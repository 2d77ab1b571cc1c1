//! The metrics of the process, compared with `/proc`.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use support::server::Server;

use super::{FLAGS, sample};

#[test]
fn process_metrics_have_the_values_of_the_kernel() {
    let begin = unix_seconds();
    let server = Server::with_objects(sample(), &FLAGS);
    let metric = |name: &str| server.metric(&format!("process_{name}"));
    let process = server.process();

    let resident = process.memory("VmRSS").unwrap() as f64 * 1024.0;
    let ratio = metric("resident_memory_bytes") / resident;
    assert!((0.5..2.0).contains(&ratio), "{ratio} of {resident} B");

    let status = fs::read_to_string(process.proc("status")).unwrap();
    let threads = status
        .lines()
        .find_map(|line| line.strip_prefix("Threads:"))
        .unwrap();
    let threads: f64 = threads.trim().parse().unwrap();
    // The runtime starts and ends threads for files.
    assert!((metric("threads") - threads).abs() <= 3.0, "{threads}");

    // The scrape itself has a connection.
    let open = process.descriptors() as f64;
    assert!((metric("open_fds") - open).abs() <= 3.0, "{open}");
    let limits = fs::read_to_string(process.proc("limits")).unwrap();
    let limit = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))
        .unwrap();
    let soft: f64 = limit.split_whitespace().next().unwrap().parse().unwrap();
    assert_eq!(metric("max_fds"), soft);

    // The kernel's boot time is rounded to seconds.
    let start = metric("start_time_seconds");
    assert!(
        (begin - 2.0..=unix_seconds() + 2.0).contains(&start),
        "{start}, {begin}"
    );
    support::wait::wait_for("CPU time of queries", || {
        server.outcome("db.prod.global. A");
        (metric("cpu_seconds_total") > 0.05).then_some(())
    });
}

#[test]
fn no_metric_has_the_label_that_identifies_clusters_in_a_fleet() {
    let server = Server::with_objects(sample(), &FLAGS);
    let page = server.admin("/metrics").body;
    assert!(page.contains("{remote_cluster=\"east\""), "{page}");
    let has_label = |line: &&str| line.contains("{cluster=") || line.contains(",cluster=");
    assert_eq!(page.lines().find(has_label), None);
}

fn unix_seconds() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap().as_secs_f64()
}
