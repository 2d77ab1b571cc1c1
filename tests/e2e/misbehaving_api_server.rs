//! An API server that refuses, falls silent, forgets, and says things that cannot be decoded.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::dig::{dig, missing};
use support::http::Page;
use support::objects::{Manifest, local, mirror, with_cluster_ip};
use support::observer::{Observer, Seen, addresses_of};
use support::recordings::Recording;
use support::say::say;
use support::server::Server;
use support::standin::{Asked, Manner, PATIENCE, StandIn};
use support::steps::Steps;
use support::wait::eventually;
use support::wire::Over;

use crate::clusters_come_and_go::{FOLLOW, NGINX, PAUSE};

/// Watches are retried, with longer and longer pauses.
const RETRY: Duration = Duration::from_secs(60);
/// The names under which the watches appear.
const WATCHES: [&str; 5] = [
    "mirror-services",
    "local-services",
    "mirror-slices",
    "local-slices",
    "foreign-slices",
];
const UNDECODABLE: &str = "global_dns_skipped_objects{reason=\"undecodable\"}";

// nginx-set-0, -1, -2 of east, west and north in recording 02.
pub const ALL: [&str; 9] = [
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
/// nginx-set-4 of east, which recording 02 adds.
pub const EXTRA: &str = "10.96.134.180";

pub fn run(steps: &mut Steps) {
    steps.step(
        "a_refused_field_selector_is_left_out_and_reduced_on_arrival",
        refused_field_selector,
    );
    steps.step(
        "a_silent_connection_is_noticed_and_replaced",
        silent_connection,
    );
    steps.step(
        "an_api_server_that_refuses_everything_is_asked_seldom",
        refuses_everything,
    );
    steps.step("a_refusal_is_no_sign_of_life: 500 to everything", || {
        grows_old(Manner::RefusesEverything)
    });
    steps.step(
        "a_refusal_is_no_sign_of_life: lists cut in the middle",
        || grows_old(Manner::CutsLists),
    );
    steps.step("a_refusal_is_no_sign_of_life: lists that never end", || {
        grows_old(Manner::EndlessLists)
    });
    steps.step(
        "lists_that_fail_beside_a_good_watch_are_one_warning",
        failing_relists,
    );
    steps.step(
        "an_api_server_that_has_too_much_to_do_is_left_alone_as_long_as_it_asks",
        asks_for_patience,
    );
    steps.step(
        "an_undecodable_object_never_stops_the_rest",
        undecodable_objects,
    );
    steps.step("lost_history_is_healed_by_a_new_list", lost_history);
    steps.step(
        "a_deletion_that_nobody_reported_is_healed_by_the_relist",
        relist_heals,
    );
}

fn refused_field_selector() -> Result<()> {
    let standin = StandIn::start(Manner::RefusesFieldSelectors, &objects()?)?;
    for (name, cluster_ip, address) in [
        ("redis", "None", "10.0.0.78"),
        ("mysql", "10.96.7.7", "10.0.0.79"),
    ] {
        let objects = exported(name, cluster_ip, address);
        objects
            .iter()
            .for_each(|object| standin.put_quietly(object));
    }
    let server = Server::ready_of_cluster(&standin.kubeconfig, &[]);
    let fallen_back = || {
        sees(&server, NGINX, &ALL)?;
        sees(&server, "redis.default.global", &["10.0.0.78"])?;
        missing(server.dns, "mysql.default.global")?;
        // And as events.
        let observer = Observer::start(server.dns, "cache.default.global", PAUSE)?;
        for (name, cluster_ip, address) in [
            ("queue", "10.96.7.8", "10.0.0.80"),
            ("cache", "None", "10.0.0.81"),
        ] {
            let objects = exported(name, cluster_ip, address);
            objects.iter().for_each(|object| standin.put(object));
        }
        observer.wait_for(&Seen::addresses(&[&["10.0.0.81"]]), FOLLOW)?;
        missing(server.dns, "queue.default.global")?;
        let asked = standin.asked();
        let with_field = asked
            .iter()
            .filter(|asked| !asked.fields.is_empty())
            .count();
        ensure!(
            with_field >= 1,
            "the field selector was never tried: {asked:#?}"
        );
        ensure!(
            asked
                .iter()
                .any(|asked| asked.watch && asked.labels == "!mirror.linkerd.io/mirrored-service"),
            "no watch with the label selector alone: {asked:#?}"
        );
        say(&format!(
            "refused field selector: {with_field} refused, then the label selector alone"
        ));
        Ok(())
    };
    server.with_log(fallen_back())
}

fn silent_connection() -> Result<()> {
    let standin = StandIn::start(Manner::SilentOnWatches, &objects()?)?;
    let server = Server::ready_of_cluster(&standin.kubeconfig, &["--watch-timeout", "2s"]);
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    let noticed = || {
        let asked_again = eventually(
            "every watch to be asked for again",
            Duration::from_secs(15),
            || {
                let asked: Vec<Asked> = standin
                    .asked()
                    .into_iter()
                    .filter(|asked| asked.watch)
                    .collect();
                let mut waits = Vec::new();
                for (index, first) in asked.iter().enumerate() {
                    if asked[..index].iter().any(|earlier| earlier.is_alike(first)) {
                        continue;
                    }
                    let second = asked[index + 1..]
                        .iter()
                        .find(|later| later.is_alike(first));
                    waits.push(
                        second.with_context(|| format!("{first:?} only once"))?.at - first.at,
                    );
                }
                ensure!(
                    waits.len() == WATCHES.len(),
                    "{} watches were asked for",
                    waits.len()
                );
                Ok(waits)
            },
        )?;
        let slowest = asked_again.into_iter().max().unwrap_or_default();
        ensure!(slowest < Duration::from_secs(10), "it took {slowest:?}");
        ensure!(
            server.log.count_level("WARN") > 0,
            "there is no warning in the log"
        );
        let Page { status, body: text } = server.readyz()?;
        ensure!(status == 200, "/readyz says {status}: {text}");
        // Once it speaks again, so do the answers.
        standin.behave(Manner::Good);
        standin.put(&extra()?);
        let put = Instant::now();
        let with_extra = Seen::addresses(&[&ALL, &[EXTRA]]);
        let caught_up = observer
            .wait_for(&with_extra, RETRY)?
            .saturating_duration_since(put);
        observer.has_seen(&[Seen::addresses(&[&ALL]), with_extra])?;
        say(&format!(
            "silent watch: replaced after {:.1} s with a watch timeout of 2 s; {:.1} s to the next change after it spoke again",
            slowest.as_secs_f64(),
            caught_up.as_secs_f64()
        ));
        Ok(())
    };
    server.with_log(noticed())
}

fn refuses_everything() -> Result<()> {
    let standin = StandIn::start(Manner::RefusesEverything, &objects()?)?;
    let mut server = Server::of_cluster(&standin.kubeconfig, &[]);
    let refused = eventually("/readyz to say what is wrong", RETRY, || {
        let Page { status, body: text } = server.readyz()?;
        ensure!(status == 503, "/readyz says {status}: {text}");
        for watch in WATCHES {
            ensure!(
                text.contains(watch),
                "/readyz does not name {watch}: {text}"
            );
        }
        ensure!(
            text.contains("refuses everything"),
            "/readyz does not say what the API server said: {text}"
        );
        Ok(())
    });
    server.with_log(refused)?;
    for over in Over::BOTH {
        let dug = dig(server.dns, over, NGINX, "A")?;
        ensure!(dug.status == "SERVFAIL", "{} over {over:?}", dug.status);
    }
    // What is measured is how often it asks, which takes time by nature. The first pause is five seconds.
    let window = Duration::from_secs(4);
    thread::sleep(window.saturating_sub(server.started.elapsed()));
    let asked = standin.asked().len();
    ensure!(asked == 1, "{asked} requests within {window:?}");
    server.check()?;

    standin.behave(Manner::Good);
    let good = Instant::now();
    server.wait_until_ready();
    server.with_log(sees(&server, NGINX, &ALL))?;
    say(&format!(
        "refused everything: {asked} request in the first {} s; ready {:.1} s after the refusals ended",
        window.as_secs(),
        good.elapsed().as_secs_f64()
    ));
    Ok(())
}

/// Nobody can tell whether the table is still true: it grows old, and is not answered from any more.
fn grows_old(manner: Manner) -> Result<()> {
    let standin = StandIn::start(Manner::Good, &objects()?)?;
    let limits = "--relist=2s --watch-timeout=1s --max-stale=4s";
    let flags: Vec<&str> = limits.split([' ', '=']).collect();
    let server = Server::ready_of_cluster(&standin.kubeconfig, &flags);
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    let grew = || {
        observer.wait_for(&Seen::addresses(&[&ALL]), FOLLOW)?;
        standin.behave(manner);
        // Watches that go on would be signs of life.
        standin.lose_history();
        let lost = Instant::now();
        let mut age = 0.0;
        while lost.elapsed() < Duration::from_secs(10) {
            let now = server.try_metric("global_dns_table_age_seconds")?;
            // Watches that were open at that moment end within a second, and that is the last that is heard.
            ensure!(
                now > age || lost.elapsed() < Duration::from_secs(2),
                "{now} s old after {age} s"
            );
            age = now;
            thread::sleep(Duration::from_millis(50));
        }
        ensure!(age > 7.5, "{age} s old after 10 s");
        let expired = Seen::Nothing("SERVFAIL".to_owned());
        observer.has_seen(&[Seen::addresses(&[&ALL]), expired])?;
        // A list that goes on is given up after five minutes. Of those that fail, each watch tells once, if it has its turn.
        let expected = if manner == Manner::EndlessLists {
            0..=0
        } else {
            1..=WATCHES.len()
        };
        let warnings = server.log.count_level("WARN");
        ensure!(
            expected.contains(&warnings),
            "{warnings} warnings, wanted {expected:?}"
        );
        standin.behave(Manner::Good);
        let good = Instant::now();
        observer.wait("answers", RETRY, |seen| *seen == Seen::addresses(&[&ALL]))?;
        say(&format!(
            "{manner:?}: {age:.1} s old after 10 s, {warnings} warnings; answers again {:.2} s after its end",
            good.elapsed().as_secs_f64()
        ));
        Ok(())
    };
    server.with_log(grew())
}

fn failing_relists() -> Result<()> {
    let standin = StandIn::start(Manner::Good, &objects()?)?;
    let flags = ["--relist", "2s", "--watch-timeout", "1s"];
    let server = Server::ready_of_cluster(&standin.kubeconfig, &flags);
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    let warned = || {
        standin.behave(Manner::CutsLists);
        let asked = standin.asked().len();
        thread::sleep(Duration::from_secs(10));
        let lists = standin.asked().split_off(asked);
        let lists = lists.iter().filter(|asked| !asked.watch).count();
        // Of all watches, with pauses of five seconds and of fifteen.
        ensure!((1..=3).contains(&lists), "{lists} lists within 10 s");
        let age = server.try_metric("global_dns_table_age_seconds")?;
        ensure!(age < 4.0, "the watches go on, and it is {age} s old");
        let warnings = server.log.count_level("WARN");
        ensure!((1..=lists).contains(&warnings), "{warnings} warnings");
        let text = server.readyz()?.body;
        let told = text.matches(": the last list failed: ").count();
        ensure!((1..=lists).contains(&told), "/readyz says {text}");
        standin.behave(Manner::Good);
        eventually("/readyz to be content", RETRY, || {
            let text = server.readyz()?.body;
            ensure!(text == "ok\n", "/readyz says {text}");
            Ok(())
        })?;
        observer.has_seen(&[Seen::addresses(&[&ALL])])
    };
    server.with_log(warned())
}

/// Its refusal is a line of text, and a header that says for how long.
fn asks_for_patience() -> Result<()> {
    let standin = StandIn::start(Manner::Good, &objects()?)?;
    let flags = ["--relist", "3s", "--watch-timeout", "1s"];
    let server = Server::ready_of_cluster(&standin.kubeconfig, &flags);
    let left_alone = || {
        standin.behave(Manner::AsksForPatience);
        let refused = Instant::now();
        thread::sleep(2 * PATIENCE + Duration::from_secs(2));
        let mut asked = standin.asked();
        asked.retain(|asked| asked.at > refused);
        // Every watch at the start, after one pause, and after another; and two lists of any of them.
        ensure!(
            asked.len() <= 3 * WATCHES.len() + 2,
            "{} requests",
            asked.len()
        );
        let mut last: Vec<&Asked> = Vec::new();
        let mut pauses = Vec::new();
        for asked in asked.iter().filter(|asked| !asked.probe) {
            let is_earlier =
                |earlier: &&mut &Asked| earlier.watch == asked.watch && earlier.is_alike(asked);
            let earlier = last.iter_mut().find(is_earlier);
            match earlier {
                Some(earlier) => {
                    pauses.push(asked.at - earlier.at);
                    *earlier = asked;
                }
                None => last.push(asked),
            }
        }
        let watches = last.iter().filter(|asked| asked.watch).count();
        ensure!(watches == WATCHES.len(), "{watches} watches asked for");
        let shortest = pauses.iter().min().context("nobody asked again")?;
        ensure!(*shortest >= PATIENCE, "asked again after {shortest:?}");
        let longest = pauses.iter().max().context("nobody asked again")?;
        say(&format!(
            "429 with Retry-After of {} s: {} pauses of {:.1} to {:.1} s",
            PATIENCE.as_secs(),
            pauses.len(),
            shortest.as_secs_f64(),
            longest.as_secs_f64()
        ));
        let text = server.readyz()?.body;
        let told = "the API server says 429: Too many requests, please try again later.";
        ensure!(text.contains(told), "/readyz says {text}");
        Ok(())
    };
    server.with_log(left_alone())
}

fn undecodable_objects() -> Result<()> {
    let mut objects = objects()?;
    objects.push(undecodable("nginx-set-8-east"));
    let standin = StandIn::start(Manner::Good, &objects)?;
    let server = Server::ready_of_cluster(&standin.kubeconfig, &[]);
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    let carried_on = || {
        observer.wait_for(&Seen::addresses(&[&ALL]), FOLLOW)?;
        ensure!(
            server.try_metric(UNDECODABLE)? == 1.0,
            "one object of the list is undecodable, the metric says otherwise"
        );
        standin.put(&undecodable("nginx-set-9-east"));
        standin.put(&extra()?);
        let with_extra = Seen::addresses(&[&ALL, &[EXTRA]]);
        observer.wait_for(&with_extra, FOLLOW)?;
        ensure!(
            server.try_metric(UNDECODABLE)? == 2.0,
            "one more came in an event, the metric says otherwise"
        );
        let table = server.try_api("/api/v1/table")?;
        let skipped = table["skipped"].as_array().context("no skipped objects")?;
        for object in [
            "Service/default/nginx-set-8-east",
            "Service/default/nginx-set-9-east",
        ] {
            let found = skipped
                .iter()
                .any(|skip| skip["object"] == object && skip["reason"] == "undecodable");
            ensure!(
                found,
                "/api/v1/table does not report {object}: {skipped:#?}"
            );
        }
        // Repaired, it joins.
        let mut repaired = extra()?;
        repaired["metadata"]["name"] = json!("nginx-set-9-east");
        repaired["metadata"]["annotations"]["mirror.linkerd.io/remote-svc-fq-name"] =
            json!("nginx-set-9.nginx.default.svc.cluster.local");
        standin.put(&with_cluster_ip(repaired, "10.96.9.9"));
        let with_repaired = Seen::addresses(&[&ALL, &[EXTRA, "10.96.9.9"]]);
        observer.wait_for(&with_repaired, FOLLOW)?;
        ensure!(
            server.try_metric(UNDECODABLE)? == 1.0,
            "one was repaired, the metric says otherwise"
        );
        observer.has_seen(&[Seen::addresses(&[&ALL]), with_extra, with_repaired])
    };
    server.with_log(carried_on())
}

fn lost_history() -> Result<()> {
    let standin = StandIn::start(Manner::Good, &objects()?)?;
    let server = Server::ready_of_cluster(&standin.kubeconfig, &["--watch-timeout", "30s"]);
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    let healed = || {
        eventually("every watch to be open", FOLLOW, || {
            let watches = standin.asked().iter().filter(|asked| asked.watch).count();
            ensure!(watches == WATCHES.len(), "{watches} are");
            Ok(())
        })?;
        // Seen by no watch, ever: only a new list has it.
        standin.put_quietly(&extra()?);
        standin.lose_history();
        let lost = Instant::now();
        let with_extra = Seen::addresses(&[&ALL, &[EXTRA]]);
        let found = observer
            .wait_for(&with_extra, RETRY)?
            .saturating_duration_since(lost);
        observer.has_seen(&[Seen::addresses(&[&ALL]), with_extra])?;
        say(&format!(
            "lost history (410): listed anew and answered after {:.2} s, nothing missing in between",
            found.as_secs_f64()
        ));
        Ok(())
    };
    server.with_log(healed())
}

fn relist_heals() -> Result<()> {
    let objects = objects()?;
    let standin = StandIn::start(Manner::Good, &objects)?;
    let server = Server::ready_of_cluster(
        &standin.kubeconfig,
        &["--relist", "2s", "--watch-timeout", "30s"],
    );
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    let healed = || {
        observer.wait_for(&Seen::addresses(&[&ALL]), FOLLOW)?;
        let victim = objects.iter().find(|object| {
            object["metadata"]["name"] == "nginx-set-2-north" && object["kind"] == "Service"
        });
        standin.delete_quietly(victim.context("recording 02 has changed")?);
        let deleted = Instant::now();
        let without = Seen::addresses(&[&ALL[..8]]);
        let gone = observer
            .wait_for(&without, RETRY)?
            .saturating_duration_since(deleted);
        observer.has_seen(&[Seen::addresses(&[&ALL]), without])?;
        say(&format!(
            "silent gap: healed after {:.1} s with a relist of one watch every 2 s",
            gone.as_secs_f64()
        ));
        Ok(())
    };
    server.with_log(healed())
}

/// The Services and slices at the start of recording 02, as recorded.
pub fn objects() -> Result<Vec<Value>> {
    let state = Recording::read("02-scale-up-east")?.state;
    Ok(state
        .into_iter()
        .map(|event| event.object)
        .filter(|object| object["kind"] != "Endpoints")
        .collect())
}

/// The first Service that recording 02 adds.
pub fn extra() -> Result<Value> {
    let events = Recording::read("02-scale-up-east")?.events;
    let extra = events
        .into_iter()
        .find(|event| event.title() == "ADDED Service nginx-set-4-east");
    Ok(extra.context("recording 02 has changed")?.object)
}

/// An endpoint mirror whose ports are no list.
fn undecodable(name: &str) -> Value {
    let mut object = mirror("default", "nginx", "east").endpoint_mirror("db-0", &["10.96.8.8"]);
    object["metadata"]["name"] = json!(name);
    object["spec"]["ports"] = json!("http");
    object
}

/// A Service of this cluster that is exported, so that it needs no mirror to have a name, with a slice that somebody else
/// than Kubernetes' own controllers manages.
fn exported(name: &str, cluster_ip: &str, address: &str) -> Vec<Value> {
    let service = local("default", name).exported().without_selector();
    let mut objects = Manifest::from(service.endpoint(Some("main-0"), address, true)).0;
    objects[0] = with_cluster_ip(objects[0].take(), cluster_ip);
    objects
}

fn sees(server: &Server, name: &str, wanted: &[&str]) -> Result<()> {
    let seen = addresses_of(server.dns, name)?;
    ensure!(
        seen == Seen::addresses(&[wanted]),
        "{name} is {seen}, wanted {wanted:?}"
    );
    Ok(())
}
