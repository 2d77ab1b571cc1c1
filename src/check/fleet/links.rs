//! Who links whom. A direction that does not work is the cause of every service that differs because of it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::difference::Differences;
use super::observer::{Observer, columns};
use crate::check::finding::{Check, Finding, State, items, text};
use crate::model::ProblemKind as K;
use crate::view::Section;

/// Returns how an observer has another cluster: `linked`, `frozen`, `unlinked` (mirrors are left), `excluded` by its settings,
/// `endpoints` (Links are not known), `unknown`, or `none`.
fn direction(from: &Observer<'_>, to: &str) -> &'static str {
    let is_to = |name: &str| from.name_of(name) == to;
    let excluded = items(&from.status["settings"], "excludeClusters");
    if excluded.filter_map(|one| one.as_str()).any(is_to) {
        return "excluded";
    }
    let mut clusters = items(from.status, "clusters");
    let cluster = clusters.find(|one| one["isOwn"] != true && is_to(text(one, "name")));
    let link = cluster.and_then(|one| one["link"].as_str());
    let mut endpoints = from.table.endpoints.iter();
    match link {
        Some("linked") => "linked",
        Some("frozen") => "frozen",
        Some("missing" | "unlinked") => "unlinked",
        _ if endpoints.any(|one| is_to(text(one, "cluster"))) => "endpoints",
        Some(_) => "unknown",
        None => "none",
    }
}

/// Returns why an observer has other endpoints of a cluster than that cluster itself, if its link to it does not work. The
/// mirrors of a stopped controller may still be right.
pub(super) fn cause(from: &Observer<'_>, to: &str) -> Option<Finding> {
    let (state, what, hint) = match direction(from, to) {
        "frozen" => (State::Attention, K::Frozen.row().sentence, K::Frozen.hint()),
        "unlinked" => (State::Failing, "mirrors without a Link", K::Unlinked.hint()),
        "excluded" => {
            let hint = "remove it from excludeClusters, or set it in every cluster";
            (State::Failing, "excluded", hint.to_owned())
        }
        "none" => {
            let hint =
                format!("link {to} there: linkerd multicluster link-gen (before 2.18: link)");
            (State::Failing, "neither a Link nor a mirror", hint)
        }
        _ => return None,
    };
    let sentence = format!("{} has of {to}: {what}", from.name);
    Some(Finding::new(state, Check::FleetLinks, sentence, hint))
}

/// Adds the directions that do not work, unless nothing shows that they should.
pub(super) fn compare(observers: &[Observer<'_>], found: &mut Differences<'_>) {
    let own = observers.iter().map(|one| one.cluster.as_str());
    let others = observers.iter().flat_map(|one| {
        let others = one.other_clusters().into_iter();
        others.map(|name| one.name_of(name))
    });
    let clusters: BTreeSet<&str> = own.chain(others).collect();
    for from in observers {
        for to in clusters.iter().filter(|to| **to != from.cluster) {
            let is_wrong = match direction(from, to) {
                "frozen" | "unlinked" => true,
                "none" => {
                    let mut back = observers.iter().filter(|one| one.cluster == *to);
                    let known = ["linked", "frozen", "unlinked", "endpoints"];
                    back.any(|one| known.contains(&direction(one, &from.cluster)))
                }
                _ => false,
            };
            found.add(cause(from, to).filter(|_| is_wrong));
        }
    }
}

/// Makes the section with a row for each observer and a column for each cluster.
pub(super) fn matrix(observers: &[Observer<'_>]) -> Section {
    let mut section = Section::new("links", columns(&["FROM / TO"], observers));
    for from in observers.iter().filter(|_| observers.len() > 1) {
        let state = |other: &Observer<'_>| match other.cluster == from.cluster {
            true => "-",
            false => direction(from, &other.cluster),
        };
        let states = observers.iter();
        let states = states.map(|one| (one.cluster.as_str(), state(one)));
        let to: BTreeMap<&str, &str> = states.clone().filter(|(_, one)| *one != "-").collect();
        let object = json!({"section": "links", "from": from.name, "to": to});
        let cells = std::iter::once(from.name.as_str()).chain(states.map(|(_, state)| state));
        section.push(cells.map(str::to_owned), &object);
    }
    section
}
