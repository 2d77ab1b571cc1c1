//! The end: readiness goes first, the answers last.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use crate::ask::{Observer, Seen, Sighting};
use crate::cluster::Cluster;
use crate::clusters_come_and_go::{
    FOLLOW, NGINX, PAUSE, answer_after_the_recordings, state_after_the_recordings,
};
use crate::harness::{eventually, say};
use crate::server::Server;
use crate::steps::Steps;

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.step(
        "sigterm_ends_readiness_then_after_the_grace_the_answers",
        || sigterm_is_graceful(cluster),
    );
    steps.step("a_second_sigterm_ends_at_once", || {
        second_sigterm_ends_at_once(cluster)
    });
}

fn sigterm_is_graceful(cluster: &Cluster) -> Result<()> {
    cluster.become_state(&state_after_the_recordings()?)?;
    let mut server = Server::start_ready(&cluster.kubeconfig, &["--grace", "1s"])?;
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    let asked = Instant::now();
    server.ask_to_end()?;
    eventually("readiness to end", Duration::from_millis(900), || {
        let (status, text) = server.readyz()?;
        ensure!(status == 503, "/readyz says {status}: {text}");
        Ok(())
    })?;
    observer.wait("no answer any more", FOLLOW, |seen| {
        *seen != answer_after_the_recordings()
    })?;
    let status = server.wait_for_the_end()?;
    ensure!(status.code() == Some(0), "it ended with {status}");
    let history = observer.history();
    let [
        answers,
        Sighting {
            seen: Seen::Nothing(end),
            ..
        },
        ..,
    ] = history.as_slice()
    else {
        bail!("the answer changed at the end");
    };
    let grace = answers.last - asked;
    ensure!(
        grace >= Duration::from_millis(950),
        "answers ended {grace:?} after SIGTERM, before the grace of 1 s"
    );
    say(&format!(
        "shutdown: answers for {:.2} s after SIGTERM, exit code 0; the next query {end}",
        grace.as_secs_f64()
    ));
    Ok(())
}

fn second_sigterm_ends_at_once(cluster: &Cluster) -> Result<()> {
    let mut server = Server::start_ready(&cluster.kubeconfig, &["--grace", "60s"])?;
    server.ask_to_end()?;
    eventually("readiness to end", FOLLOW, || {
        let (status, text) = server.readyz()?;
        ensure!(status == 503, "/readyz says {status}: {text}");
        Ok(())
    })?;
    server.ask_to_end()?;
    // Long before the grace of a minute: the end is waited for twenty seconds only.
    server.wait_for_the_end().map(drop)
}
