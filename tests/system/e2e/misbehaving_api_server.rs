//! An API server that refuses requests, stops responding, loses its history, and sends undecodable objects.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::dig::dig;
use support::http::Page;
use support::objects::{mirror, with_cluster_ip};
use support::observer::{Observation, Observer, addresses_of};
use support::output::print_line;
use support::recordings::Recording;
use support::server::Server;
use support::standin::{ApiRequest, Behavior, RETRY_AFTER, StandIn};
use support::steps::Steps;
use support::wait::eventually;
use support::watches::WATCHES;
use support::wire::Transport;

use crate::e2e::linked_clusters::{NGINX, PAUSE};

/// Age of an old table.
const OLD_SECONDS: f64 = 10.0;
/// A failed relist would reset the age later than this after the end of the watches.
const LAST_EVENT_SECONDS: f64 = 5.0;
const UNDECODABLE: &str = "global_dns_skipped_objects{reason=\"unusable-object\"}";

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
        "silent_connection_is_detected_and_replaced",
        check_silent_connection,
    );
    steps.step(
        "api_server_that_refuses_everything_gets_few_requests",
        check_few_requests,
    );
    steps.step(
        "failed_requests_do_not_reset_the_table_age: 500 to every request",
        || check_last_table_answers(Behavior::InternalErrors),
    );
    steps.step(
        "failed_requests_do_not_reset_the_table_age: truncated lists",
        || check_last_table_answers(Behavior::TruncatedLists),
    );
    steps.step(
        "failed_requests_do_not_reset_the_table_age: endless lists",
        || check_last_table_answers(Behavior::EndlessLists),
    );
    steps.step(
        "retry_after_of_an_overloaded_api_server_is_respected",
        check_retry_after,
    );
    steps.step(
        "undecodable_object_does_not_affect_other_objects",
        check_undecodable_objects,
    );
    steps.step("lost_history_is_repaired_by_a_relist", check_lost_history);
}

fn check_silent_connection() -> Result<()> {
    let standin = StandIn::start(Behavior::SilentWatches, &recorded_objects()?)?;
    let server = Server::ready_of_cluster(&standin.kubeconfig, &[]);
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    let check = || {
        let retried = eventually("a second request of every watch", || {
            let requests: Vec<ApiRequest> = standin
                .requests()
                .into_iter()
                .filter(|request| request.watch)
                .collect();
            let mut waits = Vec::new();
            for (index, first) in requests.iter().enumerate() {
                if requests[..index]
                    .iter()
                    .any(|earlier| earlier.has_same_selection(first))
                {
                    continue;
                }
                let second = requests[index + 1..]
                    .iter()
                    .find(|later| later.has_same_selection(first));
                waits.push(
                    second
                        .with_context(|| format!("only one request: {first:?}"))?
                        .at
                        - first.at,
                );
            }
            ensure!(
                waits.len() == WATCHES.len(),
                "requests of {} watches",
                waits.len()
            );
            Ok(waits)
        })?;
        let slowest = retried.into_iter().max().unwrap_or_default();
        ensure!(server.log.count_level("WARN") > 0, "the log has no warning");
        let Page { status, body: text } = server.readyz()?;
        ensure!(status == 200, "/readyz returned {status}: {text}");
        // After the API server recovers, answers follow changes again.
        standin.set_behavior(Behavior::Normal);
        standin.put(&extra_object()?);
        let put = Instant::now();
        let with_extra = Observation::addresses(&[&ALL, &[EXTRA]]);
        let caught_up = observer
            .wait_for(&with_extra)?
            .saturating_duration_since(put);
        observer.check_history(&[Observation::addresses(&[&ALL]), with_extra])?;
        print_line(&format!(
            "silent watch: replaced after {:.1} s; next change {:.1} s after recovery",
            slowest.as_secs_f64(),
            caught_up.as_secs_f64()
        ));
        Ok(())
    };
    server.with_log(check())
}

fn check_few_requests() -> Result<()> {
    let standin = StandIn::start(Behavior::InternalErrors, &recorded_objects()?)?;
    let mut server = Server::of_cluster(&standin.kubeconfig, &[]);
    let refused = eventually("/readyz to report the refusals", || {
        let Page { status, body: text } = server.readyz()?;
        ensure!(status == 503, "/readyz returned {status}: {text}");
        for watch in WATCHES {
            ensure!(
                text.contains(watch),
                "/readyz does not name {watch}: {text}"
            );
        }
        ensure!(
            text.contains("simulated internal error"),
            "/readyz does not have the error of the API server: {text}"
        );
        Ok(())
    });
    server.with_log(refused)?;
    for over in Transport::BOTH {
        let output = dig(server.dns, over, NGINX, "A")?;
        ensure!(
            output.status == "SERVFAIL",
            "{} over {over:?}",
            output.status
        );
    }
    // Counts requests within a time. The retry delays are one second, then two, then four.
    let window = Duration::from_secs(4);
    thread::sleep(window.saturating_sub(server.started.elapsed()));
    let requests = standin.requests();
    let is_early = |request: &&ApiRequest| request.at < requests[0].at + window;
    let early = requests.iter().filter(is_early).count();
    ensure!(
        (1..=3).contains(&early),
        "{early} requests within {window:?}"
    );
    server.check()?;

    standin.set_behavior(Behavior::Normal);
    let good = Instant::now();
    server.wait_until_ready();
    server.with_log(check_addresses(&server, NGINX, &ALL))?;
    print_line(&format!(
        "refused everything: {early} requests in the first {} s; ready {:.1} s after the refusals ended",
        window.as_secs(),
        good.elapsed().as_secs_f64()
    ));
    Ok(())
}

/// If all requests fail, the last table answers, and its age grows.
fn check_last_table_answers(behavior: Behavior) -> Result<()> {
    let standin = StandIn::start(Behavior::Normal, &recorded_objects()?)?;
    let server = Server::ready_of_cluster(&standin.kubeconfig, &["links.enabled=false"]);
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    let check = || {
        observer.wait_for(&Observation::addresses(&[&ALL]))?;
        standin.set_behavior(behavior);
        // Ends the watches, because an open watch resets the age.
        standin.lose_history();
        let lost = Instant::now();
        // Open watches end within three seconds. Their end is the last event that resets the age.
        let age = server.wait_for_old_table(lost, LAST_EVENT_SECONDS, OLD_SECONDS)?;
        observer.check_history(&[Observation::addresses(&[&ALL])])?;
        // An endless list times out after five minutes. Each watch logs its first failed list, if it relists at all.
        let expected = if behavior == Behavior::EndlessLists {
            0..=0
        } else {
            1..=WATCHES.len()
        };
        let warnings = server.log.count_level("WARN");
        ensure!(
            expected.contains(&warnings),
            "{warnings} warnings, expected {expected:?}"
        );
        standin.set_behavior(Behavior::Normal);
        let good = Instant::now();
        eventually("a source that works", || {
            let age = server.try_metric("global_dns_table_age_seconds")?;
            ensure!(age < OLD_SECONDS, "the table is {age:.1} s old");
            Ok(())
        })?;
        print_line(&format!(
            "{behavior:?}: table age {age:.1} s, {warnings} warnings; confirmed {:.2} s after recovery",
            good.elapsed().as_secs_f64()
        ));
        Ok(())
    };
    server.with_log(check())
}

/// The refusal is a line of text with the header `Retry-After`.
fn check_retry_after() -> Result<()> {
    let standin = StandIn::start(Behavior::Normal, &recorded_objects()?)?;
    let server = Server::ready_of_cluster(&standin.kubeconfig, &[]);
    let check = || {
        standin.set_behavior(Behavior::TooManyRequests);
        let refused = Instant::now();
        thread::sleep(2 * RETRY_AFTER + Duration::from_secs(2));
        let mut requests = standin.requests();
        requests.retain(|request| request.at > refused);
        // The watches wait for each other. Leases are polled in their own time.
        requests.retain(|one| matches!(&*one.resource, "services" | "endpointslices"));
        let delays: Vec<Duration> = requests
            .windows(2)
            .map(|pair| pair[1].at - pair[0].at)
            .collect();
        let shortest = delays.iter().min().context("no request was retried")?;
        ensure!(*shortest >= RETRY_AFTER, "retried after {shortest:?}");
        let longest = delays.iter().max().context("no request was retried")?;
        print_line(&format!(
            "429 with Retry-After of {} s: {} delays of {:.1} to {:.1} s",
            RETRY_AFTER.as_secs(),
            delays.len(),
            shortest.as_secs_f64(),
            longest.as_secs_f64()
        ));
        let text = server.readyz()?.body;
        let error = "the API server returned 429: Too many requests, please try again later.";
        ensure!(text.contains(error), "/readyz returned {text}");
        Ok(())
    };
    server.with_log(check())
}

fn check_undecodable_objects() -> Result<()> {
    let mut objects = recorded_objects()?;
    objects.push(undecodable_object("nginx-set-8-east"));
    let standin = StandIn::start(Behavior::Normal, &objects)?;
    let server = Server::ready_of_cluster(&standin.kubeconfig, &[]);
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    let check = || {
        observer.wait_for(&Observation::addresses(&[&ALL]))?;
        ensure!(
            server.try_metric(UNDECODABLE)? == 1.0,
            "the metric must count the undecodable object of the list"
        );
        standin.put(&undecodable_object("nginx-set-9-east"));
        standin.put(&extra_object()?);
        let with_extra = Observation::addresses(&[&ALL, &[EXTRA]]);
        observer.wait_for(&with_extra)?;
        ensure!(
            server.try_metric(UNDECODABLE)? == 2.0,
            "the metric must count the undecodable object of the event"
        );
        let table = server.try_api("/api/v1/table")?;
        let skipped = table["skipped"]
            .as_array()
            .context("the table has no list of skipped objects")?;
        for object in [
            "Service/default/nginx-set-8-east",
            "Service/default/nginx-set-9-east",
        ] {
            let is_reported = skipped
                .iter()
                .any(|skip| skip["object"] == object && skip["reason"] == "unusable-object");
            ensure!(
                is_reported,
                "/api/v1/table does not report {object}: {skipped:#?}"
            );
        }
        // The repaired object is served.
        let mut repaired = extra_object()?;
        repaired["metadata"]["name"] = json!("nginx-set-9-east");
        repaired["metadata"]["annotations"]["mirror.linkerd.io/remote-svc-fq-name"] =
            json!("nginx-set-9.nginx.default.svc.cluster.local");
        standin.put(&with_cluster_ip(repaired, "10.96.9.9"));
        let with_repaired = Observation::addresses(&[&ALL, &[EXTRA, "10.96.9.9"]]);
        observer.wait_for(&with_repaired)?;
        ensure!(
            server.try_metric(UNDECODABLE)? == 1.0,
            "the metric must not count the repaired object"
        );
        observer.check_history(&[Observation::addresses(&[&ALL]), with_extra, with_repaired])
    };
    server.with_log(check())
}

fn check_lost_history() -> Result<()> {
    let standin = StandIn::start(Behavior::Normal, &recorded_objects()?)?;
    standin.keep_watches();
    let server = Server::ready_of_cluster(&standin.kubeconfig, &[]);
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    let check = || {
        eventually("every watch to be open", || {
            let watches = standin
                .requests()
                .iter()
                .filter(|request| request.watch)
                .count();
            ensure!(watches == WATCHES.len(), "{watches} watches are open");
            Ok(())
        })?;
        // No watch reports this object; only a list has it.
        standin.put_without_event(&extra_object()?);
        standin.lose_history();
        let lost = Instant::now();
        let with_extra = Observation::addresses(&[&ALL, &[EXTRA]]);
        let elapsed = observer
            .wait_for(&with_extra)?
            .saturating_duration_since(lost);
        observer.check_history(&[Observation::addresses(&[&ALL]), with_extra])?;
        print_line(&format!(
            "lost history (410): relisted and answered after {:.2} s, without an incomplete answer",
            elapsed.as_secs_f64()
        ));
        Ok(())
    };
    server.with_log(check())
}

/// Returns the Services and slices at the start of recording 02.
pub fn recorded_objects() -> Result<Vec<Value>> {
    let state = Recording::read("02-scale-up-east")?.state;
    Ok(state
        .into_iter()
        .map(|event| event.object)
        .filter(|object| object["kind"] != "Endpoints")
        .collect())
}

/// Returns the first Service that recording 02 adds.
pub fn extra_object() -> Result<Value> {
    let events = Recording::read("02-scale-up-east")?.events;
    let extra = events
        .into_iter()
        .find(|event| event.title() == "ADDED Service nginx-set-4-east");
    Ok(extra.context("recording 02 has changed")?.object)
}

/// Returns an endpoint mirror with ports that are not a list.
fn undecodable_object(name: &str) -> Value {
    let mut object = mirror("default", "nginx", "east").endpoint_mirror("db-0", &["10.96.8.8"]);
    object["metadata"]["name"] = json!(name);
    object["spec"]["ports"] = json!("http");
    object
}

fn check_addresses(server: &Server, name: &str, expected: &[&str]) -> Result<()> {
    let answer = addresses_of(server.dns, name)?;
    ensure!(
        answer == Observation::addresses(&[expected]),
        "{name} is {answer}, expected {expected:?}"
    );
    Ok(())
}
