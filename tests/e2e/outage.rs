//! The API server is killed and comes back while queries run.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use crate::ask::{Observer, a, answered};
use crate::cluster::Cluster;
use crate::clusters_come_and_go::{
    EAST_REPAIRED, NGINX, NORTH_AGAIN, WEST_LAST, answer_after_the_recordings,
    answer_with_the_extra_one, extra_endpoint_mirror, state_after_the_recordings,
};
use crate::harness::{eventually, say};
use crate::server::Server;
use crate::steps::Steps;

/// Makes more than 1000 questions a second.
const PAUSE: Duration = Duration::from_micros(100);
/// How old the table is to become before the API server may return; longer than the watch timeout of 3 s.
const STALE_SECONDS: f64 = 5.0;
/// Watches are retried, with longer and longer pauses.
const RETRY: Duration = Duration::from_secs(60);

pub fn run(steps: &mut Steps, cluster: &mut Cluster) {
    let mut server = None;
    let passed = steps.step("an_outage_of_the_api_server_changes_no_answer", || {
        cluster.become_state(&state_after_the_recordings()?)?;
        let started = server.insert(Server::start_ready(&cluster.kubeconfig, &[])?);
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
            let (warnings, errors) = (server.log().count("WARN"), server.log().count("ERROR"));
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
}

fn follow_through_an_outage(cluster: &mut Cluster, server: &Server) -> Result<()> {
    let before = answer_after_the_recordings();
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    observer.wait_for(&before, RETRY)?;

    let killed = Instant::now();
    cluster.kill_the_api_server();
    eventually("the table to grow old", RETRY, || {
        let age = server.metric("global_dns_table_age_seconds")?;
        ensure!(age > STALE_SECONDS, "its age is {age} s");
        Ok(())
    })?;
    let (status, text) = server.readyz()?;
    ensure!(status == 200, "/readyz says {status} in an outage: {text}");
    answered(
        server.dns,
        NGINX,
        "A",
        &a(NGINX, &[&EAST_REPAIRED, &WEST_LAST, &NORTH_AGAIN]),
    )?;
    cluster.restart_the_api_server()?;
    let back = Instant::now();
    let outage = back - killed;
    let extra = extra_endpoint_mirror()?;
    cluster.write(&extra)?;
    let after = answer_with_the_extra_one();
    let followed = observer.wait_for(&after, RETRY)?;
    observer.has_seen(&[before, after])?;
    eventually("the table to be young again", RETRY, || {
        let age = server.metric("global_dns_table_age_seconds")?;
        ensure!(age < STALE_SECONDS, "its age is {age} s");
        Ok(())
    })?;
    say(&format!(
        "outage: {:.1} s without an API server, {} queries answered alike; ready to changed answer {:.2} s, all watches back after {:.2} s",
        outage.as_secs_f64(),
        observer.queries(),
        followed.saturating_duration_since(back).as_secs_f64(),
        back.elapsed().as_secs_f64(),
    ));
    cluster.write(&extra.undone())?;
    Ok(())
}
