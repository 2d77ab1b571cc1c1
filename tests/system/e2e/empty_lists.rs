//! An API server that suddenly returns empty lists, once and repeatedly.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use support::dig::check_nxdomain;
use support::http::Page;
use support::objects::numbered_mirror;
use support::observer::{Observation, Observer, addresses_of};
use support::output::print_line;
use support::server::Server;
use support::standin::{Behavior, StandIn};
use support::steps::Steps;
use support::wait::eventually;
use support::watches::WATCHES;

use crate::e2e::linked_clusters::PAUSE;

/// More than ten services: the guard holds a list that removes most of them.
const SERVICES: usize = 20;
/// Few services: a list may remove some of them.
const FEW: usize = 2;
const HELD: &str = "global_dns_held_lists";

pub fn run(steps: &mut Steps) {
    steps.step(
        "empty_list_is_held_until_a_good_list_arrives",
        check_good_list_replaces_held_list,
    );
    steps.step("empty_list_is_held_with_few_services", check_few_services);
    steps.step("confirmed_empty_list_is_applied", check_confirmed_list);
    steps.step(
        "empty_list_is_applied_at_once_without_shrink_guard",
        check_without_guard,
    );
}

fn check_good_list_replaces_held_list() -> Result<()> {
    let standin = StandIn::start(Behavior::Normal, &mirrors(SERVICES))?;
    let server = Server::ready_of_cluster(&standin.kubeconfig, &["--watch-timeout", "30s"]);
    let observers = observe(&server)?;
    let check_answers = || {
        wait_for_watches(&standin)?;
        standin.set_behavior(Behavior::EmptyLists);
        standin.lose_history();
        wait_for_held_list(&server, SERVICES)?;
        // Events are applied while the list is held.
        numbered_mirror(SERVICES + 1)
            .iter()
            .for_each(|object| standin.put(object));
        eventually("an answer after an event", || {
            check_address(&server, SERVICES + 1)
        })?;
        standin.set_behavior(Behavior::Normal);
        standin.lose_history();
        // After the second loss of history, lists are delayed by some seconds.
        eventually("the good list", || {
            let held = server.try_metric(HELD)?;
            ensure!(held == 0.0, "{held} lists are held");
            Ok(())
        })?;
        for number in 1..=SERVICES + 1 {
            check_address(&server, number)?;
        }
        let Page { status, body: text } = server.readyz()?;
        ensure!(status == 200 && !text.contains("held"), "{status}: {text}");
        check_histories(&observers)
    };
    server.with_log(check_answers())
}

fn check_few_services() -> Result<()> {
    let standin = StandIn::start(Behavior::Normal, &mirrors(FEW))?;
    let server = Server::ready_of_cluster(&standin.kubeconfig, &["--watch-timeout", "30s"]);
    let observer = Observer::start(server.dns, &name(1), PAUSE)?;
    let check_answers = || {
        wait_for_watches(&standin)?;
        standin.set_behavior(Behavior::EmptyLists);
        standin.lose_history();
        wait_for_held_list(&server, FEW)?;
        // A list that removes one of the few services is not held.
        numbered_mirror(FEW)
            .iter()
            .for_each(|object| standin.delete_without_event(object));
        standin.set_behavior(Behavior::Normal);
        standin.lose_history();
        eventually("the good list", || {
            check_nxdomain(server.dns, &name(FEW))?;
            let held = server.try_metric(HELD)?;
            ensure!(held == 0.0, "{held} lists are held");
            Ok(())
        })?;
        observer.check_history(&[Observation::addresses(&[&[&address(1)]])])
    };
    server.with_log(check_answers())
}

fn check_confirmed_list() -> Result<()> {
    let standin = StandIn::start(Behavior::Normal, &mirrors(SERVICES))?;
    let server = Server::ready_of_cluster(&standin.kubeconfig, &["--watch-timeout", "30s"]);
    let observer = Observer::start(server.dns, &name(1), PAUSE)?;
    let check_removal = || {
        wait_for_watches(&standin)?;
        standin.set_behavior(Behavior::EmptyLists);
        standin.lose_history();
        let held = wait_for_held_list(&server, SERVICES)?;
        let nothing = Observation::other("NXDOMAIN");
        let took = observer.wait_for(&nothing)?.saturating_duration_since(held);
        observer.check_history(&[Observation::addresses(&[&[&address(1)]]), nothing])?;
        for number in 1..=SERVICES {
            check_nxdomain(server.dns, &name(number))?;
        }
        ensure!(server.try_metric(HELD)? == 0.0, "a list is still held");
        print_line(&format!(
            "empty list: held for {:.1} s, then confirmed by a second list",
            took.as_secs_f64()
        ));
        Ok(())
    };
    server.with_log(check_removal())
}

fn check_without_guard() -> Result<()> {
    let standin = StandIn::start(Behavior::Normal, &mirrors(SERVICES))?;
    let flags = ["--watch-timeout", "30s", "--shrink-guard", "off"];
    let server = Server::ready_of_cluster(&standin.kubeconfig, &flags);
    let check_removal = || {
        wait_for_watches(&standin)?;
        check_address(&server, 1)?;
        standin.set_behavior(Behavior::EmptyLists);
        standin.lose_history();
        eventually("an empty table", || check_nxdomain(server.dns, &name(1)))
    };
    server.with_log(check_removal())
}

/// Waits until the empty list is held, and asserts that the server reports it. Returns the time.
fn wait_for_held_list(server: &Server, services: usize) -> Result<std::time::Instant> {
    eventually("the empty list to be held", || {
        let held = server.try_metric(HELD)?;
        ensure!(held == 1.0, "{held} lists are held");
        Ok(())
    })?;
    let held = std::time::Instant::now();
    let Page { status, body: text } = server.readyz()?;
    let expected = format!("List is held: Services: it would leave 0 of {services} services");
    ensure!(
        status == 200 && text.contains(&expected),
        "{status}: {text}"
    );
    eventually("the warning", || {
        let is_warning = |fields: &Value| {
            let detail = fields["detail"].as_str().unwrap_or_default();
            let is_empty_list = detail.contains(&format!("leave 0 of {services} services"));
            is_empty_list && fields["problem"] == "list-held" && fields["subject"] == "Services"
        };
        server.log.find(is_warning).context("it is not in the log")
    })?;
    for number in 1..=services {
        check_address(server, number)?;
    }
    Ok(held)
}

fn wait_for_watches(standin: &StandIn) -> Result<()> {
    eventually("every watch to be open", || {
        let watches = standin
            .requests()
            .iter()
            .filter(|request| request.watch)
            .count();
        ensure!(watches == WATCHES.len(), "{watches} watches are open");
        Ok(())
    })
}

/// Starts observers of three names.
fn observe(server: &Server) -> Result<Vec<(usize, Observer)>> {
    let observer = |number| Ok((number, Observer::start(server.dns, &name(number), PAUSE)?));
    [1, SERVICES / 2, SERVICES]
        .into_iter()
        .map(observer)
        .collect()
}

fn check_histories(observers: &[(usize, Observer)]) -> Result<()> {
    let expected = |number| Observation::addresses(&[&[&address(number)]]);
    observers
        .iter()
        .try_for_each(|(number, observer)| observer.check_history(&[expected(*number)]))
}

fn check_address(server: &Server, number: usize) -> Result<()> {
    let (name, expected) = (name(number), Observation::addresses(&[&[&address(number)]]));
    let answer = addresses_of(server.dns, &name)?;
    ensure!(
        answer == expected,
        "{name} is {answer}, expected {expected}"
    );
    Ok(())
}

// === Objects ===

/// Returns Services of another cluster, with one endpoint each.
fn mirrors(services: usize) -> Vec<Value> {
    (1..=services).flat_map(numbered_mirror).collect()
}

fn name(number: usize) -> String {
    format!("db{number}.prod.global")
}

fn address(number: usize) -> String {
    format!("10.0.0.{number}")
}
