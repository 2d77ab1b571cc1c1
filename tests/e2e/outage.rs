//! The API server is killed and comes back while queries run.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::ask::{Observer, a, answered};
use crate::cluster::Cluster;
use crate::clusters_come_and_go::{
    EAST_REPAIRED, NGINX, NORTH_AGAIN, WEST_LAST, answer_after_the_recordings,
    extra_endpoint_mirror, state_after_the_recordings,
};
use crate::harness::{eventually, say};
use crate::server::Server;
use crate::steps::Steps;

/// Some 2000 questions a second.
const PAUSE: Duration = Duration::from_micros(400);
/// How old the table is to become before the API server may return; longer than the watch timeout of 3 s.
const STALE_SECONDS: f64 = 5.0;
/// Watches are retried, with longer and longer pauses.
const RETRY: Duration = Duration::from_secs(60);

pub fn run(steps: &mut Steps, cluster: &mut Cluster) {
    let passed = steps.step("an_outage_of_the_api_server_changes_no_answer", || {
        outage_changes_no_answer(cluster)
    });
    if !passed {
        steps.step("the_api_server_is_back", || {
            cluster.restart_the_api_server()
        });
    }
}

fn outage_changes_no_answer(cluster: &mut Cluster) -> Result<()> {
    cluster.become_state(&state_after_the_recordings()?)?;
    let server = Server::start_ready(&cluster.kubeconfig, &[])?;
    let followed = follow_through_an_outage(cluster, &server);
    server.with_log(followed)
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
    ensure!(server.log().warnings() > 0, "the log has no warning");

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
