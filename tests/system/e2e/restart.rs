//! The server is killed and restarted while the API server is unavailable.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use support::dig::dig;
use support::http::Page;
use support::observer::{Observation, Observer, addresses_of};
use support::output::print_line;
use support::server::Server;
use support::standin::{Behavior, StandIn};
use support::steps::Steps;
use support::wait::eventually;
use support::wire::Transport;

use crate::e2e::linked_clusters::{NGINX, PAUSE};
use crate::e2e::misbehaving_api_server::{ALL, EXTRA, extra_object, recorded_objects};

const FROM_SNAPSHOT: &str = "global_dns_table_from_snapshot";

pub fn run(steps: &mut Steps) {
    steps.step(
        "restarted_server_answers_from_its_snapshot",
        answers_from_snapshot,
    );
    steps.step(
        "snapshot_of_other_namespaces_is_ignored",
        snapshot_of_other_namespaces,
    );
    steps.step(
        "restarted_server_without_a_snapshot_waits_for_the_api_server",
        waits_without_snapshot,
    );
    steps.step("sigterm_during_a_relist_is_graceful", sigterm_during_relist);
}

fn answers_from_snapshot() -> Result<()> {
    let standin = StandIn::start(Behavior::Normal, &recorded_objects()?)?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("snapshot.json");
    let flags = [
        "--snapshot",
        file.to_str().context("the path is not UTF-8")?,
    ];
    let first = Server::ready_of_cluster(&standin.kubeconfig, &flags);
    let check = || {
        ensure!(
            first.try_metric(FROM_SNAPSHOT)? == 0.0,
            "the table is from a snapshot at the first start"
        );
        standin.put(&extra_object()?);
        // The second snapshot: changes are saved, too.
        eventually("the extra endpoint to be saved", || {
            let text = fs::read_to_string(&file)?;
            ensure!(
                text.contains(EXTRA),
                "the snapshot has {} octets, without the endpoint",
                text.len()
            );
            Ok(())
        })
    };
    first.with_log(check())?;
    drop(first); // SIGKILL

    standin.set_behavior(Behavior::InternalErrors);
    let second = Server::of_cluster(&standin.kubeconfig, &flags);
    let with_extra = Observation::addresses(&[&ALL, &[EXTRA]]);
    let check = || {
        let took = second.wait_until_ready();
        let answer = addresses_of(second.dns, NGINX)?;
        ensure!(
            answer == with_extra,
            "{NGINX} is {answer}, expected {with_extra}"
        );
        ensure!(
            second.try_metric(FROM_SNAPSHOT)? == 1.0,
            "the metric does not say that the table is from a snapshot"
        );
        ensure!(
            second.try_api("/api/v1/table")?["fromSnapshot"] == true,
            "the table is not marked as from a snapshot"
        );
        let text = second.readyz()?.body;
        ensure!(
            text.starts_with("ok\nTable comes from a snapshot: its age is "),
            "/readyz returned {text}"
        );
        // After the API server recovers, the table is not from a snapshot any more.
        standin.set_behavior(Behavior::Normal);
        eventually("the snapshot to be replaced", || {
            ensure!(
                second.try_metric(FROM_SNAPSHOT)? == 0.0,
                "the table is still from a snapshot"
            );
            Ok(())
        })?;
        let text = second.readyz()?.body;
        ensure!(text == "ok\n", "/readyz returned {text}");
        let answer = addresses_of(second.dns, NGINX)?;
        ensure!(
            answer == with_extra,
            "{NGINX} is {answer}, expected {with_extra}"
        );
        ensure!(
            second.try_api("/api/v1/table")?["fromSnapshot"] == false,
            "the table is still marked as from a snapshot"
        );
        print_line(&format!(
            "restart without an API server: ready from a snapshot after {:.2} s",
            took.as_secs_f64()
        ));
        Ok(())
    };
    second.with_log(check())
}

fn waits_without_snapshot() -> Result<()> {
    let standin = StandIn::start(Behavior::Normal, &recorded_objects()?)?;
    let first = Server::ready_of_cluster(&standin.kubeconfig, &[]);
    drop(first); // SIGKILL

    standin.set_behavior(Behavior::Unreachable);
    let second = Server::of_cluster(&standin.kubeconfig, &[]);
    let check = || {
        // There is no event to wait for.
        thread::sleep(Duration::from_secs(2));
        let Page { status, body: text } = second.readyz()?;
        let expected = "No complete table yet: answering SERVFAIL (since ";
        ensure!(
            status == 503 && text.starts_with(expected),
            "/readyz returned {status}: {text}"
        );
        let output = dig(second.dns, Transport::Udp, NGINX, "A")?;
        ensure!(output.status == "SERVFAIL", "{NGINX}: {}", output.status);
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

fn snapshot_of_other_namespaces() -> Result<()> {
    let standin = StandIn::start(Behavior::Normal, &recorded_objects()?)?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("snapshot.json");
    let snapshot = [
        "--snapshot",
        file.to_str().context("the path is not UTF-8")?,
    ];
    let first = Server::ready_of_cluster(&standin.kubeconfig, &snapshot);
    first.with_log(eventually("a snapshot", || {
        Ok(fs::metadata(&file).map(|_| ())?)
    }))?;
    drop(first);

    standin.set_behavior(Behavior::InternalErrors);
    let flags = [&snapshot[..], &["--namespace", "default"]].concat();
    let second = Server::of_cluster(&standin.kubeconfig, &flags);
    let check = || {
        let message = eventually("the log message", || {
            let is_message = |f: &serde_json::Value| f["message"] == "Ignored the snapshot";
            second.log.find(is_message).context("it is not in the log")
        })?;
        let why = message["why"].as_str().unwrap_or_default();
        ensure!(why.contains("namespaces {}"), "unexpected reason: {why}");
        let output = dig(second.dns, Transport::Udp, NGINX, "A")?;
        ensure!(output.status == "SERVFAIL", "{NGINX}: {}", output.status);
        Ok(())
    };
    second.with_log(check())
}
