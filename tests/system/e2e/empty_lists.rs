//! An API server that returns empty lists again and again. The faults have one that does so for a moment.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use support::dig::check_nxdomain;
use support::faults::LACKS_OBJECTS;
use support::objects::numbered_mirror;
use support::observer::{Observation, Observer};
use support::output::print_line;
use support::server::Server;
use support::standin::{Behavior, StandIn};
use support::steps::Steps;
use support::wait::eventually;
use support::watches::WATCHES;

use crate::e2e::linked_clusters::PAUSE;

/// More than ten objects: a list that lacks most of them is not applied.
const SERVICES: usize = 20;
/// The pause between a list that is not applied and the next one.
const DOUBT_PAUSE: Duration = Duration::from_secs(10);

pub fn run(steps: &mut Steps) {
    steps.step("second_empty_list_is_applied", check_second_empty_list);
}

fn check_second_empty_list() -> Result<()> {
    let standin = StandIn::start(Behavior::Normal, &mirrors())?;
    standin.keep_watches();
    let server = Server::ready_of_cluster(&standin.kubeconfig, &[]);
    let observer = Observer::start(server.dns, &name(1), PAUSE)?;
    let check_removal = || {
        wait_for_watches(&standin)?;
        standin.set_behavior(Behavior::EmptyLists);
        standin.lose_history();
        let first = wait_for_empty_list(&server)?;
        let nothing = Observation::other("NXDOMAIN");
        let took = observer
            .wait_for(&nothing)?
            .saturating_duration_since(first);
        ensure!(took + Duration::from_secs(2) > DOUBT_PAUSE, "{took:?}");
        observer.check_history(&[Observation::addresses(&[&["10.0.0.1"]]), nothing])?;
        check_nxdomain(server.dns, &name(SERVICES))?;
        print_line(&format!(
            "empty list: applied {:.1} s later, after a second one",
            took.as_secs_f64()
        ));
        Ok(())
    };
    server.with_log(check_removal())
}

/// Waits for an empty list, after which the server is ready. Returns the time.
fn wait_for_empty_list(server: &Server) -> Result<Instant> {
    eventually("the warning", || {
        let is_warning =
            |fields: &Value| fields["message"] == LACKS_OBJECTS && fields["feed"] == "Services";
        server.log.find(is_warning).context("it is not in the log")
    })?;
    let first = Instant::now();
    ensure!(server.readyz()?.status == 200, "/readyz fails");
    Ok(first)
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

// === Objects ===

/// Returns Services of another cluster, with one endpoint each.
fn mirrors() -> Vec<Value> {
    (1..=SERVICES).flat_map(numbered_mirror).collect()
}

fn name(number: usize) -> String {
    format!("db{number}.prod.global")
}
