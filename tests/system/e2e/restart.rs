//! The server is killed and restarted while the API server is unavailable.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use serde_json::Value;
use support::http::Page;
use support::observer::{Observation, Observer};
use support::output::print_line;
use support::recordings::Recording;
use support::server::Server;
use support::standin::{Behavior, StandIn};
use support::steps::Steps;
use support::wait::eventually;

use crate::e2e::linked_clusters::{NGINX, PAUSE};

// nginx-set-0, -1, -2 of east, west and north in recording 02.
const ALL: [&str; 9] = [
    "10.96.146.197",
    "10.96.48.116",
    "10.96.33.115",
    "10.96.200.190",
    "10.96.46.26",
    "10.96.139.176",
    "10.96.195.82",
    "10.96.55.36",
    "10.96.106.244",
];

pub fn run(steps: &mut Steps) {
    steps.step("restarted_server_waits_for_the_api_server", waits);
    steps.step("sigterm_during_a_relist_is_graceful", sigterm_during_relist);
}

fn waits() -> Result<()> {
    let standin = StandIn::start(Behavior::Normal, &recorded_objects()?)?;
    let first = Server::ready_of_cluster(&standin.kubeconfig, &[]);
    drop(first); // SIGKILL

    standin.set_behavior(Behavior::Unreachable);
    let second = Server::of_cluster(&standin.kubeconfig, &[]);
    let check = || {
        // There is no event to wait for.
        thread::sleep(Duration::from_secs(2));
        let Page { status, body: text } = second.readyz()?;
        let expected = "No complete table yet: refusing queries (since ";
        ensure!(
            status == 503 && text.starts_with(expected),
            "/readyz returned {status}: {text}"
        );
        let refused = TcpStream::connect(second.dns).map_err(|error| error.kind());
        ensure!(refused.is_err_and(|error| error == ErrorKind::ConnectionRefused));
        Ok(())
    };
    second.with_log(check())
}

fn sigterm_during_relist() -> Result<()> {
    let standin = StandIn::start(Behavior::Normal, &recorded_objects()?)?;
    let mut server = Server::ready_of_cluster(&standin.kubeconfig, &[]);
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    let mut check = || {
        observer.wait_for(&Observation::addresses(&[&ALL]))?;
        let lists = || {
            standin
                .requests()
                .iter()
                .filter(|request| !request.watch)
                .count()
        };
        let before = lists();
        standin.set_behavior(Behavior::EndlessLists);
        standin.lose_history();
        // Watches relist one after another.
        eventually("a feed to be relisted", || {
            let relists = lists() - before;
            ensure!(relists >= 1, "no feed is relisted");
            Ok(())
        })?;
        let signaled = Instant::now();
        server.signal("TERM");
        let status = server.end()?;
        let took = signaled.elapsed();
        ensure!(status.code() == Some(0), "the server ended with {status}");
        // The list would end after five minutes.
        ensure!(took < Duration::from_secs(20), "shutdown took {took:?}");
        eventually("the end of the answers", || {
            let history = observer.history();
            let refused = |answer: &Observation| matches!(answer, Observation::Other(error) if error.contains("refused"));
            match history.as_slice() {
                [first, end]
                    if first.answer == Observation::addresses(&[&ALL]) && refused(&end.answer) =>
                {
                    Ok(())
                }
                other => bail!("expected 2 different answers, got {}", other.len()),
            }
        })?;
        print_line(&format!(
            "SIGTERM during a list: exit code 0 after {:.2} s, with a grace period of 1 s",
            took.as_secs_f64()
        ));
        Ok(())
    };
    check()
}

/// Returns the Services and slices at the start of recording 02.
fn recorded_objects() -> Result<Vec<Value>> {
    let state = Recording::read("02-scale-up-east")?.state;
    let objects = state.into_iter().map(|event| event.object);
    Ok(objects
        .filter(|object| object["kind"] != "Endpoints")
        .collect())
}
