//! Compares the answers of each recording, event by event, with the table that the end-to-end tests also use. Other
//! tests check results that answers do not show: skipped, missing and unready objects, and other rules.

use std::collections::{BTreeMap, BTreeSet};

use global_dns::model::{Family, GatewayDown, Problem, ProblemKind};
use global_dns::table::LocalMembers;
use support::expectations::{Checkpoint, Expectations, Names};
use support::names::{Answer, Case};
use support::recordings;

use crate::recordings::replay::{Recording, Replay, hub_rules};

/// Fails unless the answer is exactly the expected one, in any order.
#[track_caller]
fn expect(replay: &Replay, question: &str, answer: &Answer) {
    let expected: BTreeSet<String> = match answer {
        Answer::Data(data) => data.clone(),
        Answer::NoData => ["NODATA".to_owned()].into(),
        Answer::NxDomain => ["NXDOMAIN".to_owned()].into(),
        Answer::ServFail => ["SERVFAIL".to_owned()].into(),
        Answer::Refused => unreachable!("the table has no name of another zone"),
    };
    let answers = replay.ask(question);
    let count = answers.len();
    let answers: BTreeSet<String> = answers.into_iter().collect();
    let place = format!("{question} after {} events", replay.at);
    assert_eq!(
        (answers, count),
        (expected.clone(), expected.len()),
        "{place}"
    );
}

fn expect_case(replay: &Replay, case: &Case) {
    expect(replay, &case.question(), &case.answer);
}

/// The tracked names with their current answers.
struct TrackedAnswers<'e>(BTreeMap<&'e str, &'e Answer>);

impl<'e> TrackedAnswers<'e> {
    /// Updates the tracked answers from a checkpoint and checks its other cases.
    fn apply(&mut self, replay: &Replay, expectations: &Expectations, checkpoint: &'e Checkpoint) {
        for case in &checkpoint.cases {
            if expectations.is_tracked(case) {
                self.0.insert(&case.name, &case.answer);
            } else {
                expect_case(replay, case);
            }
        }
    }

    fn check(&self, replay: &Replay) {
        for (name, answer) in &self.0 {
            expect(replay, &format!("{name} A"), answer);
        }
    }
}

#[test]
fn each_recording_answers_as_expected_after_every_event() {
    for recording in recordings::Recording::names() {
        let expectations = Expectations::of_recording(&recording, Names::All);
        let mut replay = Replay::of(&recording[..2]);
        let mut tracked = TrackedAnswers(expectations.tracked());
        expectations
            .start
            .iter()
            .for_each(|case| expect_case(&replay, case));
        let mut pending: Vec<&Checkpoint> = expectations.checkpoints.iter().collect();
        while replay.step() {
            let title = replay.last_event().title();
            // Slices of different names come in another order than their Endpoints.
            if let Some(next) = pending.iter().position(|next| next.write == title) {
                tracked.apply(&replay, &expectations, pending.remove(next));
            }
            tracked.check(&replay);
        }
        let pending: Vec<&str> = pending.iter().map(|next| &*next.write).collect();
        assert_eq!(pending, [""; 0], "recording {recording}");
        expectations
            .end
            .iter()
            .for_each(|case| expect_case(&replay, case));
    }
}

/// Returns the hosts in slices of headless mirrors that have no endpoint mirror.
fn missing(replay: &Replay) -> Vec<String> {
    let now = replay.reader.load();
    let mut hosts = Vec::new();
    for service in now.table.as_ref().unwrap().sorted_services() {
        let missing = service.missing.iter();
        let name = &service.key.service;
        hosts.extend(missing.map(|host| format!("{} of {name}-{}", host.hostname, host.cluster)));
    }
    hosts
}

/// When the mirror controller is idle, its headless slices and its endpoint mirrors agree.
#[test]
fn no_host_is_missing_at_the_end_of_a_recording() {
    for number in Recording::numbers() {
        let mut replay = Replay::of(&number);
        replay.finish();
        assert_eq!(missing(&replay), [""; 0], "recording {number}");
    }
}

#[test]
fn r03_host_without_endpoint_mirror_is_missing_while_the_headless_slice_lists_it() {
    let mut replay = Replay::of("03");
    assert_eq!(missing(&replay), [""; 0]);
    replay.run_until("DELETED", "nginx-set-4-east");
    // A lost endpoint mirror looks the same.
    assert_eq!(missing(&replay), ["nginx-set-4 of nginx-east"]);
}

#[test]
fn r05_gateway_down_include() {
    let rules = |gateway_down| global_dns::table::Rules {
        gateway_down,
        ..hub_rules()
    };
    let expectations = Expectations::of_recording("05-gateway-down-west", Names::Canonical);
    let mut include = Replay::with_rules("05", rules(GatewayDown::Include));
    include.finish();
    expectations
        .start
        .iter()
        .for_each(|case| expect_case(&include, case));
}

#[test]
fn r07_overwritten_slice_changes_no_record() {
    let mut replay = Replay::of("07");
    let (records, generation) = (replay.records(), replay.reader.load().generation);
    replay.finish();
    assert_eq!(replay.records(), records);
    assert_eq!(replay.reader.load().generation, generation);
}

#[test]
fn r25_28_30_services_have_the_kind_of_their_objects() {
    let kinds = |replay: &Replay| -> Vec<(String, String)> {
        let now = replay.reader.load();
        let services = now.table.as_ref().unwrap().sorted_services().into_iter();
        let listed = services.filter(|service| service.should_answer());
        listed
            .map(|service| (service.key.service.to_string(), service.kind.to_string()))
            .collect()
    };
    for number in ["25", "28", "30"] {
        let mut replay = Replay::of(number);
        replay.finish();
        let expected = [
            ("api", "flat"),
            ("nginx", "headless"),
            ("pay", "gateway"),
            ("web", "federated"),
        ]
        .map(|(service, kind)| (service.to_owned(), kind.to_owned()));
        assert_eq!(kinds(&replay), expected, "recording {number}");
        let now = replay.reader.load();
        let table = now.table.as_ref().unwrap();
        let is_skip = |one: &Problem| one.kind.row().family == Family::Skipped;
        assert!(!table.problems().any(is_skip));
        let is_conflict = |one: &&Problem| one.kind.row().family == Family::Conflict;
        let conflicts = table.problems().filter(is_conflict);
        let conflicts: Vec<_> = conflicts
            .map(|one| (one.kind, one.subject().to_string()))
            .collect();
        // The Service of this cluster is behind a cluster IP, and the other ones are in a flat network (rule K1).
        let mixed = (ProblemKind::Kind, "default/api".to_owned());
        let expected = [mixed].into_iter().filter(|_| number == "30");
        assert_eq!(
            conflicts,
            expected.collect::<Vec<_>>(),
            "recording {number}"
        );
    }
}

/// Returns the clusters of the federated service after each event that changes them.
fn federated_clusters(number: &str) -> Vec<String> {
    let mut replay = Replay::of(number);
    let mut history = Vec::new();
    loop {
        let now = replay.reader.load();
        let web = now.table.as_ref().unwrap().service("default", "web");
        let clusters = web.unwrap().federated.iter();
        let clusters: Vec<&str> = clusters.map(|cluster| cluster.as_str()).collect();
        history.push(clusters.join(" "));
        drop(now);
        if !replay.step() {
            break;
        }
    }
    history.dedup();
    history
}

/// The answer is the same all the time, so only the members show that a cluster leaves and returns.
#[test]
fn r29_33_34_members_of_a_federation_are_those_of_its_annotations() {
    let (all, without_west) = ("east north west", "east north");
    assert_eq!(federated_clusters("29"), [all, without_west, all]);
    assert_eq!(federated_clusters("33"), [all, "east west"]);
    assert_eq!(
        federated_clusters("34"),
        [
            "east",
            "east hub",
            "east hub west",
            "east west",
            "east hub west"
        ]
    );
}

#[test]
fn r19_terminating_pod_is_first_not_ready_and_then_removed() {
    let mut replay = Replay::of("19");
    let states = |replay: &Replay| -> Vec<(String, bool)> {
        let now = replay.reader.load();
        let nginx = now.table.as_ref().unwrap().service("default", "nginx");
        let nginx = nginx.unwrap();
        let endpoints = nginx.endpoints.iter().chain(&nginx.not_ready);
        let local = endpoints.filter(|one| one.is_local());
        local
            .map(|one| (one.labels()[0].to_owned(), one.is_alive()))
            .collect()
    };
    let (first, second) = ("nginx-set-0".to_owned(), "nginx-set-1".to_owned());
    replay.step();
    assert_eq!(states(&replay), [(first.clone(), true), (second, false)]);
    replay.step();
    assert_eq!(states(&replay), [(first, true)]);

    let off = global_dns::table::Rules {
        local_members: LocalMembers::None,
        ..hub_rules()
    };
    let without = Replay::with_rules("19", off);
    let mirrors = Expectations::of_mirrors("19-local-member-removed-in-hub");
    let mut last = mirrors.last_answers().into_iter();
    let nginx = last.find(|case| case.name.starts_with("nginx."));
    expect_case(&without, nginx.unwrap());
    expect(&without, "hub.nginx.default.global A", &Answer::NxDomain);
}
