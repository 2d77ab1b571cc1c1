//! The API server is killed or stops responding, and recovers, under queries.

use std::slice;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;
use support::cluster::Cluster;
use support::http::Page;
use support::observer::Observer;
use support::output::print_line;
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;
use support::watches::WATCHES;

use crate::e2e::linked_clusters::{
    NGINX, answer_after_recordings, answer_with_extra_endpoint, case_after_recordings, check_case,
    extra_endpoint_mirror, state_after_recordings,
};

/// Pause between an answer and the next query: none, for the maximum rate of one client.
const PAUSE: Duration = Duration::ZERO;
/// Minimum rate of queries per second. It shows that queries never stopped; the actual rate depends on the machine.
const MIN_RATE: f64 = 100.0;
/// Table age at which the API server is restarted.
const STALE_SECONDS: f64 = 8.0;
/// The last event resets the age at most this long after the end of the API server.
const LAST_EVENT_SECONDS: f64 = 2.0;
/// Minimum time that the API server is silent, longer than the detection takes.
const SILENCE: Duration = Duration::from_secs(60);

/// Number of watches for the states of links, of which [`WATCHES`] has none.
const LINK_WATCHES: usize = 2;

/// Pairs of writes after the backup of etcd.
const WRITE_PAIRS: usize = 150;

pub fn run(steps: &mut Steps, cluster: &mut Cluster) {
    let mut server = None;
    let passed = steps.step("api_server_outage_changes_no_answer", || {
        cluster.apply_state(&state_after_recordings()?)?;
        let started = server.insert(Server::ready_of_cluster(&cluster.kubeconfig, &[]));
        let followed = observe_outage(cluster, started);
        started.with_log(followed)
    });
    if !passed {
        steps.step("api_server_is_restarted", || cluster.restart_api_server());
    }
    steps.step("outage_logs_one_warning_per_watch_not_per_attempt", || {
        let server = server.as_ref().context("there is no server")?;
        let (warnings, errors) = (
            server.log.count_level("WARN"),
            server.log.count_level("ERROR"),
        );
        // The ports of the recordings are dead, which is no matter of the outage.
        let problems = server.log.problems(0);
        let dead_ports = problems
            .iter()
            .filter(|[_, kind, _]| kind == "dead-port")
            .count();
        // Up to three warnings per watch: its end, the failed reopening, and the failure while the API server starts.
        let expected =
            (1..=3 * (WATCHES.len() + LINK_WATCHES)).contains(&warnings) && errors == dead_ports;
        server.with_log(if expected {
            Ok(())
        } else {
            Err(anyhow!(
                "{warnings} warnings and {errors} errors in the log"
            ))
        })
    });
    drop(server);
    steps.step(
        "silent_api_server_is_detected_and_changes_no_answer",
        || {
            cluster.apply_state(&state_after_recordings()?)?;
            let server = Server::ready_of_cluster(&cluster.kubeconfig, &[]);
            let followed = observe_silence(cluster, &server);
            // Later steps need the API server, even if this step failed.
            cluster.thaw_api_server()?;
            server.with_log(followed)
        },
    );
}

/// Runs the step that breaks the controllers, so it must be the last one.
pub fn run_last(steps: &mut Steps, cluster: &mut Cluster) {
    steps.step(
        "etcd_restored_from_a_backup_is_detected_before_the_relist",
        || {
            cluster.apply_state(&state_after_recordings()?)?;
            cluster.back_up_etcd()?;
            let server = Server::ready_of_cluster(&cluster.kubeconfig, &[]);
            let followed = observe_restore(cluster, &server);
            server.with_log(followed)
        },
    );
}

fn observe_restore(cluster: &mut Cluster, server: &Server) -> Result<()> {
    let (before, after) = (answer_after_recordings(), answer_with_extra_endpoint());
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    observer.wait_for(&before)?;
    let extra = extra_endpoint_mirror()?;
    // A starting API server also writes; its revision must stay below the one before the restore.
    for _ in 0..WRITE_PAIRS {
        cluster.write(&extra)?;
        cluster.write(&extra.as_deletion())?;
    }
    cluster.write(&extra)?;
    observer.wait_for(&after)?;
    cluster.restore_etcd()?;
    let restored = Instant::now();
    let followed = observer.wait_for(&before)?;
    print_line(&format!(
        "etcd restored: correct answers {:.2} s after the API server was ready",
        followed.saturating_duration_since(restored).as_secs_f64()
    ));
    let is_future = |line: &Value| {
        let reason = line["reason"].as_str().unwrap_or_default();
        line["message"] == "Listing again" && reason.contains("Too large resource version")
    };
    eventually("the message about a future resource version", || {
        server.log.find(is_future).context("it is not in the log")
    })?;
    Ok(())
}

fn observe_outage(cluster: &mut Cluster, server: &Server) -> Result<()> {
    let before = answer_after_recordings();
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    let observed = Instant::now();
    observer.wait_for(&before)?;

    cluster.kill_api_server();
    let killed = Instant::now();
    server.wait_for_old_table(killed, LAST_EVENT_SECONDS, STALE_SECONDS)?;
    let Page { status, body: text } = server.readyz()?;
    ensure!(
        status == 200,
        "/readyz returned {status} during the outage: {text}"
    );
    check_case(server, &case_after_recordings())?;
    cluster.restart_api_server()?;
    let back = Instant::now();
    let outage = back - killed;
    let extra = extra_endpoint_mirror()?;
    cluster.write(&extra)?;
    let after = answer_with_extra_endpoint();
    let followed = observer.wait_for(&after)?;
    observer.check_history(&[before, after])?;
    eventually("the table age to decrease", || {
        let age = server.try_metric("global_dns_table_age_seconds")?;
        ensure!(age < STALE_SECONDS, "the table age is {age} s");
        Ok(())
    })?;
    let rate = rate(&observer, observed)?;
    print_line(&format!(
        "outage: {:.1} s without an API server, {} queries with the same answer, {rate:.0} per second; changed answer {:.2} s and all watches {:.2} s after readiness",
        outage.as_secs_f64(),
        observer.queries(),
        followed.saturating_duration_since(back).as_secs_f64(),
        back.elapsed().as_secs_f64(),
    ));
    cluster.write(&extra.as_deletion())?;
    Ok(())
}

/// The kernel keeps the connections of a stopped process, and accepts new ones.
fn observe_silence(cluster: &mut Cluster, server: &Server) -> Result<()> {
    let before = answer_after_recordings();
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    let observed = Instant::now();
    observer.wait_for(&before)?;
    let silent = Instant::now();
    cluster.freeze_api_server()?;
    let (detected, warning) = eventually("the warning about the failed watch", || {
        let is_warning = |line: &Value| line["problem"] == "source-unavailable";
        let warning = server
            .log
            .find(is_warning)
            .context("it is not in the log")?;
        Ok((silent.elapsed(), warning))
    })?;
    thread::sleep(SILENCE.saturating_sub(silent.elapsed()));
    let Page { status, body: text } = server.readyz()?;
    ensure!(
        status == 200,
        "/readyz returned {status} while the API server was silent: {text}"
    );
    check_case(server, &case_after_recordings())?;
    observer.check_history(slice::from_ref(&before))?;

    cluster.thaw_api_server()?;
    let back = Instant::now();
    let extra = extra_endpoint_mirror()?;
    cluster.write(&extra)?;
    let after = answer_with_extra_endpoint();
    let followed = observer.wait_for(&after)?;
    observer.check_history(&[before, after])?;
    let rate = rate(&observer, observed)?;
    print_line(&format!(
        "silence: detected after {:.1} s ({}), {} queries with the same answer, {rate:.0} per second; changed answer {:.2} s after readiness",
        detected.as_secs_f64(),
        warning["error"].as_str().unwrap_or_default(),
        observer.queries(),
        followed.saturating_duration_since(back).as_secs_f64(),
    ));
    cluster.write(&extra.as_deletion())?;
    Ok(())
}

/// Returns the queries per second. Fails below [`MIN_RATE`], because the observer could have missed a wrong answer.
fn rate(observer: &Observer, since: Instant) -> Result<f64> {
    let rate = observer.queries() as f64 / since.elapsed().as_secs_f64();
    ensure!(rate > MIN_RATE, "only {rate:.0} queries per second");
    Ok(rate)
}
