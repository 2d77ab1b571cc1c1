//! The API server is killed, or falls silent, and comes back while queries run.

use std::slice;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;
use support::cluster::Cluster;
use support::http::Page;
use support::observer::Observer;
use support::say::say;
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;

use crate::clusters_come_and_go::{
    NGINX, after_the_recordings, answer_after_the_recordings, answer_with_the_extra_one,
    extra_endpoint_mirror, says, state_after_the_recordings,
};

/// Between an answer and the next question: the server is asked as fast as one client can.
const PAUSE: Duration = Duration::ZERO;
/// Questions a second, at least: somebody asks all along. How many more it could be is the machine's doing.
const RATE: f64 = 100.0;
/// How old the table is to become before the API server may return: no relist that is refused meanwhile makes it young.
const STALE_SECONDS: f64 = 8.0;
/// When everything is relisted: several times in the outage.
const RELIST: &str = "2s";
/// Watches end after 3 s, so that this long before the outage one was heard for the last time, if it was quiet.
const QUIET_SECONDS: f64 = 3.5;
/// Watches are retried, with longer and longer pauses.
const RETRY: Duration = Duration::from_secs(60);
/// Within this time a silent API server is noticed, if watches may be silent for two seconds.
const NOTICE: Duration = Duration::from_secs(10);
/// How long it is silent at least: longer than it takes to notice.
const SILENCE: Duration = Duration::from_secs(12);

/// Writes, twice as many, between a backup and its end.
const REVISIONS: usize = 150;

pub fn run(steps: &mut Steps, cluster: &mut Cluster) {
    let mut server = None;
    let passed = steps.step("an_outage_of_the_api_server_changes_no_answer", || {
        cluster.become_state(&state_after_the_recordings()?)?;
        let started = server.insert(Server::ready_of_cluster(
            &cluster.kubeconfig,
            &["--relist", RELIST],
        ));
        let followed = follow_through_an_outage(cluster, started);
        started.with_log(followed)
    });
    if !passed {
        steps.step("the_api_server_is_back", || {
            cluster.restart_the_api_server()
        });
    }
    steps.step(
        "an_outage_is_a_warning_for_each_watch_and_not_for_each_attempt",
        || {
            let server = server.as_ref().context("there is no server")?;
            let (warnings, errors) = (
                server.log.count_level("WARN"),
                server.log.count_level("ERROR"),
            );
            // Per watch: its end, then what opening it says while the API server is down, and while it starts.
            let expected = (1..=15).contains(&warnings) && errors == 0;
            server.with_log(if expected {
                Ok(())
            } else {
                Err(anyhow!(
                    "{warnings} warnings and {errors} errors in the log"
                ))
            })
        },
    );
    drop(server);
    steps.step(
        "a_silent_api_server_is_noticed_and_changes_no_answer",
        || {
            cluster.become_state(&state_after_the_recordings()?)?;
            let server = Server::ready_of_cluster(&cluster.kubeconfig, &["--watch-timeout", "2s"]);
            let followed = follow_through_silence(cluster, &server);
            // Later steps need it, whatever has failed.
            cluster.thaw_the_api_server()?;
            server.with_log(followed)
        },
    );
}

/// What leaves the controllers behind.
pub fn run_last(steps: &mut Steps, cluster: &mut Cluster) {
    steps.step(
        "an_etcd_that_was_restored_from_a_backup_is_noticed_long_before_the_relist",
        || {
            cluster.become_state(&state_after_the_recordings()?)?;
            cluster.back_up_etcd()?;
            let server = Server::ready_of_cluster(&cluster.kubeconfig, &["--watch-timeout", "30s"]);
            let followed = follow_through_a_restore(cluster, &server);
            server.with_log(followed)
        },
    );
}

fn follow_through_a_restore(cluster: &mut Cluster, server: &Server) -> Result<()> {
    let (before, after) = (answer_after_the_recordings(), answer_with_the_extra_one());
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    observer.wait_for(&before, RETRY)?;
    let extra = extra_endpoint_mirror()?;
    // A starting API server writes too, and must not catch up.
    for _ in 0..REVISIONS {
        cluster.write(&extra)?;
        cluster.write(&extra.undone())?;
    }
    cluster.write(&extra)?;
    observer.wait_for(&after, RETRY)?;
    cluster.restore_etcd()?;
    let back = Instant::now();
    let followed = observer.wait_for(&before, RETRY)?;
    say(&format!(
        "etcd restored: true answers {:.2} s after the API server was ready, with a relist every 15 min",
        followed.saturating_duration_since(back).as_secs_f64()
    ));
    let is_future = |line: &Value| {
        let reason = line["reason"].as_str().unwrap_or_default();
        line["message"] == "Listing anew" && reason.contains("Too large resource version")
    };
    eventually("a version that is yet to come", NOTICE, || {
        server.log.find(is_future).context("it is not in the log")
    })?;
    Ok(())
}

fn follow_through_an_outage(cluster: &mut Cluster, server: &Server) -> Result<()> {
    let before = answer_after_the_recordings();
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    let observed = Instant::now();
    observer.wait_for(&before, RETRY)?;

    let killed = Instant::now();
    cluster.kill_the_api_server();
    let mut age = 0.0;
    while age < STALE_SECONDS {
        let down = killed.elapsed().as_secs_f64();
        age = server.try_metric("global_dns_table_age_seconds")?;
        let sound = down - 1.0..=down + QUIET_SECONDS;
        ensure!(
            sound.contains(&age),
            "{age:.1} s old {down:.1} s after the end"
        );
        thread::sleep(Duration::from_millis(50));
    }
    let Page { status, body: text } = server.readyz()?;
    ensure!(status == 200, "/readyz says {status} in an outage: {text}");
    says(server, &after_the_recordings())?;
    cluster.restart_the_api_server()?;
    let back = Instant::now();
    let outage = back - killed;
    let extra = extra_endpoint_mirror()?;
    cluster.write(&extra)?;
    let after = answer_with_the_extra_one();
    let followed = observer.wait_for(&after, RETRY)?;
    observer.has_seen(&[before, after])?;
    eventually("the table to be young again", RETRY, || {
        let age = server.try_metric("global_dns_table_age_seconds")?;
        ensure!(age < STALE_SECONDS, "its age is {age} s");
        Ok(())
    })?;
    let rate = rate(&observer, observed)?;
    say(&format!(
        "outage: {:.1} s without an API server, {} queries answered alike, {rate:.0} a second; ready to changed answer {:.2} s, all watches back after {:.2} s",
        outage.as_secs_f64(),
        observer.queries(),
        followed.saturating_duration_since(back).as_secs_f64(),
        back.elapsed().as_secs_f64(),
    ));
    cluster.write(&extra.undone())?;
    Ok(())
}

/// The kernel keeps the connections of a stopped process, and takes new ones for it.
fn follow_through_silence(cluster: &mut Cluster, server: &Server) -> Result<()> {
    let before = answer_after_the_recordings();
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    let observed = Instant::now();
    observer.wait_for(&before, RETRY)?;
    let silent = Instant::now();
    cluster.freeze_the_api_server()?;
    let (noticed, warning) = eventually("the warning of a lost watch", NOTICE, || {
        let lost = |line: &Value| {
            line["message"]
                .as_str()
                .is_some_and(|text| text.starts_with("Lost the watch"))
        };
        let warning = server.log.find(lost).context("it is not in the log")?;
        Ok((silent.elapsed(), warning))
    })?;
    thread::sleep(SILENCE.saturating_sub(silent.elapsed()));
    let Page { status, body: text } = server.readyz()?;
    ensure!(status == 200, "/readyz says {status} in a silence: {text}");
    says(server, &after_the_recordings())?;
    observer.has_seen(slice::from_ref(&before))?;

    cluster.thaw_the_api_server()?;
    let back = Instant::now();
    let extra = extra_endpoint_mirror()?;
    cluster.write(&extra)?;
    let after = answer_with_the_extra_one();
    let followed = observer.wait_for(&after, RETRY)?;
    observer.has_seen(&[before, after])?;
    let rate = rate(&observer, observed)?;
    say(&format!(
        "silence: noticed after {:.1} s ({}), {} queries answered alike, {rate:.0} a second; ready to changed answer {:.2} s",
        noticed.as_secs_f64(),
        warning["error"].as_str().unwrap_or_default(),
        observer.queries(),
        followed.saturating_duration_since(back).as_secs_f64(),
    ));
    cluster.write(&extra.undone())?;
    Ok(())
}

/// Queries a second; too few of them have seen nothing.
fn rate(observer: &Observer, since: Instant) -> Result<f64> {
    let rate = observer.queries() as f64 / since.elapsed().as_secs_f64();
    ensure!(rate > RATE, "only {rate:.0} queries a second");
    Ok(rate)
}
