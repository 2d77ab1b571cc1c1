//! An API server whose lists are suddenly empty: once, and again and again.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use support::dig::missing;
use support::http::Page;
use support::objects;
use support::observer::{Observer, Seen, addresses_of};
use support::say::say;
use support::server::Server;
use support::standin::{Manner, StandIn};
use support::steps::Steps;
use support::wait::eventually;

use crate::clusters_come_and_go::{FOLLOW, PAUSE};

/// More than ten, of which no list may drop most.
const SERVICES: usize = 20;
/// Few, of which a list may drop some.
const FEW: usize = 2;
/// What is held is confirmed within this time, and a list takes a moment.
const CONFIRMATION: Duration = Duration::from_secs(30);
const HELD: &str = "global_dns_held_lists";

pub fn run(steps: &mut Steps) {
    steps.step("an_empty_list_is_held_until_a_good_one_comes", good_again);
    steps.step("an_empty_list_is_held_however_small_the_table_is", few);
    steps.step(
        "an_empty_list_that_is_confirmed_is_applied",
        really_all_gone,
    );
    steps.step("an_empty_list_is_applied_at_once_without_a_guard", off);
}

fn good_again() -> Result<()> {
    let standin = StandIn::start(Manner::Good, &mirrors(SERVICES))?;
    let server = Server::ready_of_cluster(&standin.kubeconfig, &["--watch-timeout", "30s"]);
    let observers = observe(&server)?;
    let never_lost = || {
        watched(&standin)?;
        standin.behave(Manner::ListsNothing);
        standin.lose_history();
        is_held(&server, SERVICES)?;
        // Events go on meanwhile.
        mirror(SERVICES + 1)
            .iter()
            .for_each(|object| standin.put(object));
        eventually("an event to be followed", FOLLOW, || {
            sees(&server, SERVICES + 1)
        })?;
        standin.behave(Manner::Good);
        standin.lose_history();
        // The second time that history is lost, lists wait for some seconds.
        eventually("the good list", FOLLOW * 2, || {
            let held = server.try_metric(HELD)?;
            ensure!(held == 0.0, "{held} lists are held");
            Ok(())
        })?;
        for number in 1..=SERVICES + 1 {
            sees(&server, number)?;
        }
        let Page { status, body: text } = server.readyz()?;
        ensure!(status == 200 && !text.contains("held"), "{status}: {text}");
        seen(&observers)
    };
    server.with_log(never_lost())
}

fn few() -> Result<()> {
    let standin = StandIn::start(Manner::Good, &mirrors(FEW))?;
    let server = Server::ready_of_cluster(&standin.kubeconfig, &["--watch-timeout", "30s"]);
    let observer = Observer::start(server.dns, &name(1), PAUSE)?;
    let never_lost = || {
        watched(&standin)?;
        standin.behave(Manner::ListsNothing);
        standin.lose_history();
        is_held(&server, FEW)?;
        // What is left of the true list is no reason to hold it.
        mirror(FEW)
            .iter()
            .for_each(|object| standin.delete_quietly(object));
        standin.behave(Manner::Good);
        standin.lose_history();
        eventually("the good list", FOLLOW, || {
            missing(server.dns, &name(FEW))?;
            let held = server.try_metric(HELD)?;
            ensure!(held == 0.0, "{held} lists are held");
            Ok(())
        })?;
        observer.has_seen(&[Seen::addresses(&[&[&address(1)]])])
    };
    server.with_log(never_lost())
}

fn really_all_gone() -> Result<()> {
    let standin = StandIn::start(Manner::Good, &mirrors(SERVICES))?;
    let server = Server::ready_of_cluster(&standin.kubeconfig, &["--watch-timeout", "30s"]);
    let observer = Observer::start(server.dns, &name(1), PAUSE)?;
    let gone = || {
        watched(&standin)?;
        standin.behave(Manner::ListsNothing);
        standin.lose_history();
        let held = is_held(&server, SERVICES)?;
        let nothing = Seen::nothing("NXDOMAIN");
        let took = observer
            .wait_for(&nothing, CONFIRMATION)?
            .saturating_duration_since(held);
        observer.has_seen(&[Seen::addresses(&[&[&address(1)]]), nothing])?;
        for number in 1..=SERVICES {
            missing(server.dns, &name(number))?;
        }
        ensure!(server.try_metric(HELD)? == 0.0, "a list is still held");
        say(&format!(
            "empty list: held for {:.1} s, then confirmed by another one",
            took.as_secs_f64()
        ));
        Ok(())
    };
    server.with_log(gone())
}

fn off() -> Result<()> {
    let standin = StandIn::start(Manner::Good, &mirrors(SERVICES))?;
    let further = ["--watch-timeout", "30s", "--shrink-guard", "off"];
    let server = Server::ready_of_cluster(&standin.kubeconfig, &further);
    let gone = || {
        watched(&standin)?;
        sees(&server, 1)?;
        standin.behave(Manner::ListsNothing);
        standin.lose_history();
        eventually("an empty table", FOLLOW, || missing(server.dns, &name(1)))
    };
    server.with_log(gone())
}

/// Waits until the empty list has come, and looks whether that is told.
fn is_held(server: &Server, services: usize) -> Result<std::time::Instant> {
    eventually("the empty list to be held", FOLLOW, || {
        let held = server.try_metric(HELD)?;
        ensure!(held == 1.0, "{held} lists are held");
        Ok(())
    })?;
    let held = std::time::Instant::now();
    let Page { status, body: text } = server.readyz()?;
    let told = format!("mirror-services: a list that would leave 0 of {services} services is held");
    ensure!(status == 200 && text.contains(&told), "{status}: {text}");
    eventually("the warning", FOLLOW, || {
        let is_told = |fields: &Value| {
            let of_the_list = fields["feed"] == "mirror-services" && fields["left"] == 0;
            of_the_list && fields["services"] == services
        };
        server.log.find(is_told).context("it is not in the log")
    })?;
    for number in 1..=services {
        sees(server, number)?;
    }
    Ok(held)
}

fn watched(standin: &StandIn) -> Result<()> {
    eventually("every watch to be open", FOLLOW, || {
        let watches = standin.asked().iter().filter(|asked| asked.watch).count();
        ensure!(watches == 5, "{watches} are");
        Ok(())
    })
}

/// Some names, asked for again and again.
fn observe(server: &Server) -> Result<Vec<(usize, Observer)>> {
    let observer = |number| Ok((number, Observer::start(server.dns, &name(number), PAUSE)?));
    [1, SERVICES / 2, SERVICES]
        .into_iter()
        .map(observer)
        .collect()
}

fn seen(observers: &[(usize, Observer)]) -> Result<()> {
    let only = |number| Seen::addresses(&[&[&address(number)]]);
    observers
        .iter()
        .try_for_each(|(number, observer)| observer.has_seen(&[only(*number)]))
}

fn sees(server: &Server, number: usize) -> Result<()> {
    let (name, wanted) = (name(number), Seen::addresses(&[&[&address(number)]]));
    let seen = addresses_of(server.dns, &name)?;
    ensure!(seen == wanted, "{name} is {seen}, wanted {wanted}");
    Ok(())
}

// === Objects ===

/// Services of another cluster, with one endpoint each.
fn mirrors(services: usize) -> Vec<Value> {
    (1..=services).flat_map(mirror).collect()
}

/// The headless mirror and its only endpoint mirror.
fn mirror(number: usize) -> [Value; 2] {
    let mirror = objects::mirror("prod", &format!("db{number}"), "east");
    let host = format!("db{number}-0");
    let endpoint = mirror.endpoint_mirror(&host, &[&address(number)]);
    [mirror.service(), endpoint]
}

fn name(number: usize) -> String {
    format!("db{number}.prod.global")
}

fn address(number: usize) -> String {
    format!("10.96.7.{number}")
}
