//! Killed and started again while the API server is away.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use support::dig::dig;
use support::http::Page;
use support::observer::{Observer, Seen, addresses_of};
use support::say::say;
use support::server::Server;
use support::standin::{Manner, StandIn};
use support::steps::Steps;
use support::wait::eventually;
use support::wire::Over;

use crate::clusters_come_and_go::{FOLLOW, NGINX, PAUSE};
use crate::misbehaving_api_server::{ALL, EXTRA, extra, objects};

const STALE: &str = "global_dns_table_stale";

pub fn run(steps: &mut Steps) {
    steps.step(
        "a_restarted_server_answers_from_its_snapshot",
        from_a_snapshot,
    );
    steps.step("a_snapshot_of_other_namespaces_is_ignored", of_others);
    steps.step(
        "without_a_snapshot_a_restarted_server_waits_for_the_api_server",
        without_a_snapshot,
    );
    steps.step(
        "sigterm_in_the_middle_of_a_relist_ends_as_ever",
        ended_in_a_relist,
    );
}

fn from_a_snapshot() -> Result<()> {
    let standin = StandIn::start(Manner::Good, &objects()?)?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("snapshot.json");
    let flags = ["--snapshot", file.to_str().context("a path")?];
    let first = Server::ready_of_cluster(&standin.kubeconfig, &flags);
    let saved = || {
        ensure!(first.try_metric(STALE)? == 0.0, "stale at the first start");
        standin.put(&extra()?);
        // The second one: what changes is saved, too.
        eventually("the extra endpoint to be saved", FOLLOW * 2, || {
            let text = fs::read_to_string(&file)?;
            ensure!(text.contains(EXTRA), "{} octets without it", text.len());
            Ok(())
        })
    };
    first.with_log(saved())?;
    drop(first); // SIGKILL

    standin.behave(Manner::RefusesEverything);
    let second = Server::of_cluster(&standin.kubeconfig, &flags);
    let with_extra = Seen::addresses(&[&ALL, &[EXTRA]]);
    let answers = || {
        let took = second.wait_until_ready();
        let seen = addresses_of(second.dns, NGINX)?;
        ensure!(seen == with_extra, "{seen}, wanted {with_extra}");
        ensure!(second.try_metric(STALE)? == 1.0, "it is not marked");
        ensure!(
            second.try_api("/api/v1/table")?["stale"] == true,
            "the table is not marked"
        );
        let text = second.readyz()?.body;
        ensure!(
            text.starts_with("ok\nanswering from a snapshot of "),
            "/readyz says {text}"
        );
        // Confirmed, it is like any other.
        standin.behave(Manner::Good);
        eventually("the snapshot to be replaced", FOLLOW * 2, || {
            ensure!(second.try_metric(STALE)? == 0.0, "still stale");
            Ok(())
        })?;
        let text = second.readyz()?.body;
        ensure!(text == "ok\n", "/readyz says {text}");
        let seen = addresses_of(second.dns, NGINX)?;
        ensure!(seen == with_extra, "{seen}, wanted {with_extra}");
        ensure!(
            second.try_api("/api/v1/table")?["stale"] == false,
            "still marked"
        );
        say(&format!(
            "restart without an API server: ready from a snapshot after {:.2} s",
            took.as_secs_f64()
        ));
        Ok(())
    };
    second.with_log(answers())
}

fn without_a_snapshot() -> Result<()> {
    let standin = StandIn::start(Manner::Good, &objects()?)?;
    let first = Server::ready_of_cluster(&standin.kubeconfig, &[]);
    drop(first); // SIGKILL

    standin.behave(Manner::Unreachable);
    let second = Server::of_cluster(&standin.kubeconfig, &[]);
    let waits = || {
        // Nothing comes that could be waited for.
        thread::sleep(Duration::from_secs(2));
        let Page { status, body: text } = second.readyz()?;
        let says = "no complete table yet\n";
        ensure!(
            status == 503 && text.starts_with(says),
            "/readyz says {status}: {text}"
        );
        let dug = dig(second.dns, Over::Udp, NGINX, "A")?;
        ensure!(dug.status == "SERVFAIL", "{}", dug.status);
        Ok(())
    };
    second.with_log(waits())
}

fn ended_in_a_relist() -> Result<()> {
    let standin = StandIn::start(Manner::Good, &objects()?)?;
    let mut server = Server::ready_of_cluster(&standin.kubeconfig, &[]);
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    let mut ended = || {
        observer.wait_for(&Seen::addresses(&[&ALL]), FOLLOW)?;
        let lists = || standin.asked().iter().filter(|asked| !asked.watch).count();
        let before = lists();
        standin.behave(Manner::EndlessLists);
        standin.lose_history();
        // One after the other.
        eventually("a feed to be relisted", FOLLOW, || {
            let anew = lists() - before;
            ensure!(anew >= 1, "none is");
            Ok(())
        })?;
        let asked = Instant::now();
        server.signal("TERM");
        let status = server.end()?;
        let took = asked.elapsed();
        ensure!(status.code() == Some(0), "it ended with {status}");
        // The grace is a second.
        ensure!(took < Duration::from_secs(3), "it took {took:?}");
        eventually("no answer any more", FOLLOW, || {
            let history = observer.history();
            let refused =
                |seen: &Seen| matches!(seen, Seen::Nothing(what) if what.contains("refused"));
            match history.as_slice() {
                [first, end] if first.seen == Seen::addresses(&[&ALL]) && refused(&end.seen) => {
                    Ok(())
                }
                other => bail!("{} different answers", other.len()),
            }
        })?;
        say(&format!(
            "SIGTERM in the middle of a list: exit code 0 after {:.2} s, with a grace of 1 s",
            took.as_secs_f64()
        ));
        Ok(())
    };
    ended()
}

fn of_others() -> Result<()> {
    let standin = StandIn::start(Manner::Good, &objects()?)?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("snapshot.json");
    let snapshot = ["--snapshot", file.to_str().context("a path")?];
    let first = Server::ready_of_cluster(&standin.kubeconfig, &snapshot);
    first.with_log(eventually("a snapshot", FOLLOW, || {
        Ok(fs::metadata(&file).map(|_| ())?)
    }))?;
    drop(first);

    standin.behave(Manner::RefusesEverything);
    let flags = [&snapshot[..], &["--namespace", "default"]].concat();
    let second = Server::of_cluster(&standin.kubeconfig, &flags);
    let ignored = || {
        let told = eventually("the log to tell", FOLLOW, || {
            let told = |f: &serde_json::Value| f["message"] == "Ignored the snapshot";
            second.log.find(told).context("nothing yet")
        })?;
        let why = told["why"].as_str().unwrap_or_default();
        ensure!(why.contains("namespaces {}"), "{why}");
        let dug = dig(second.dns, Over::Udp, NGINX, "A")?;
        ensure!(dug.status == "SERVFAIL", "{}", dug.status);
        Ok(())
    };
    second.with_log(ignored())
}
