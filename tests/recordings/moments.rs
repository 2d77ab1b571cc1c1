//! What each recording answers, event by event, by the table that the end-to-end tests read, too; and what answers do not
//! show: who is skipped, missing or not ready, and other rules.

use std::collections::{BTreeMap, BTreeSet};

use global_dns::mirror::{GatewayDown, SkipReason};
use global_dns::report::{Report, State};
use global_dns::table::LocalMembers;
use support::moments::{History, Moment, Names};
use support::names::{Answer, Case};
use support::recordings;

use crate::replay::{Recording, Replay, hub_rules, zones};

/// Asserts a whole answer, in any order.
#[track_caller]
fn expect(replay: &Replay, question: &str, answer: &Answer) {
    let wanted: BTreeSet<String> = match answer {
        Answer::Data(data) => data.clone(),
        Answer::NoData => ["NODATA".to_owned()].into(),
        Answer::NxDomain => ["NXDOMAIN".to_owned()].into(),
        Answer::Refused => unreachable!("of another zone"),
    };
    let found = replay.ask(question);
    let count = found.len();
    let found: BTreeSet<String> = found.into_iter().collect();
    let place = format!("{question} after {} events", replay.at);
    assert_eq!((found, count), (wanted.clone(), wanted.len()), "{place}");
}

fn expect_case(replay: &Replay, case: &Case) {
    expect(replay, &case.question(), &case.answer);
}

/// Names whose every answer is listed, and what they answer now.
struct Followed<'h>(BTreeMap<&'h str, &'h Answer>);

impl<'h> Followed<'h> {
    /// Takes the answers of a moment, and asks for all else.
    fn take(&mut self, replay: &Replay, history: &History, moment: &'h Moment) {
        for case in &moment.cases {
            match history.follows(case) {
                true => drop(self.0.insert(&case.name, &case.answer)),
                false => expect_case(replay, case),
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
fn each_recording_answers_what_the_table_says_after_every_event() {
    for recording in recordings::Recording::names() {
        let history = History::of(&recording, Names::All);
        let mut replay = Replay::of(&recording[..2]);
        let mut followed = Followed(history.followed());
        history
            .start
            .iter()
            .for_each(|case| expect_case(&replay, case));
        let mut to_come: Vec<&Moment> = history.moments.iter().collect();
        while replay.step() {
            let title = replay.last_event().title();
            // Slices of different names come in another order than what they are made of.
            if let Some(next) = to_come.iter().position(|moment| moment.write == title) {
                followed.take(&replay, &history, to_come.remove(next));
            }
            followed.check(&replay);
        }
        let left: Vec<&str> = to_come.iter().map(|moment| &*moment.write).collect();
        assert_eq!(left, [""; 0], "recording {recording}");
        history
            .end
            .iter()
            .for_each(|case| expect_case(&replay, case));
    }
}

/// The hosts that headless mirrors list without an endpoint mirror.
fn missing(replay: &Replay) -> Vec<String> {
    let now = replay.reader.load();
    let services = now.table.as_ref().unwrap().sorted_services().into_iter();
    let hosts = services.flat_map(|service| service.missing.iter());
    hosts
        .map(|host| format!("{} of {}", host.hostname, host.mirror.key.name))
        .collect()
}

/// Linkerd's lists and its endpoint mirrors agree when it has come to rest.
#[test]
fn no_host_is_missing_when_a_recording_is_over() {
    for number in Recording::numbers() {
        let mut replay = Replay::of(&number);
        replay.finish();
        assert_eq!(missing(&replay), [""; 0], "recording {number}");
    }
}

#[test]
fn r03_a_host_is_missing_while_the_headless_slice_still_lists_it() {
    let mut replay = Replay::of("03");
    assert_eq!(missing(&replay), [""; 0]);
    replay.until("DELETED", "nginx-set-4-east");
    // Which is what a lost mirror looks like, for a moment.
    assert_eq!(missing(&replay), ["nginx-set-4 of nginx-east"]);
}

#[test]
fn r05_other_gateway_rules() {
    let rules = |gateway_down| global_dns::table::Rules {
        gateway_down,
        ..hub_rules()
    };
    let history = History::of("05-gateway-down-west", Names::Canonical);
    let mut include = Replay::with("05", rules(GatewayDown::Include));
    include.finish();
    history
        .start
        .iter()
        .for_each(|case| expect_case(&include, case));

    let mut exclude = Replay::with("05", rules(GatewayDown::Exclude));
    exclude.finish();
    for case in history.last() {
        // Nothing is left at this name, and no last resort.
        let is_emptied = case.name.starts_with("west.");
        let answer = if is_emptied {
            &Answer::NoData
        } else {
            &case.answer
        };
        expect(&exclude, &case.question(), answer);
    }
    let west = "_sql._tcp.west.nginx.default.global SRV";
    expect(&exclude, west, &Answer::NoData);
    let host = "nginx-set-0.west.nginx.default.global.";
    let record = format!("0 10 26257 {host}");
    let srv = Answer::Data([record].into());
    expect(&exclude, &format!("_sql._tcp.{host} SRV"), &srv);
}

#[test]
fn r07_13_15_clobbered_slices_and_other_kinds_of_mirrors_move_nothing() {
    let cache = "Service/default/cache-east";
    let others = [
        "Service/default/api-east",
        "Service/default/api-north",
        cache,
        "Service/default/gw-only-east",
        "Service/default/gw-only-north",
        "Service/default/web-federated",
    ];
    for (number, not_headless) in [("07", &[][..]), ("13", &[cache]), ("15", &others)] {
        let mut replay = Replay::of(number);
        let (records, generation) = (replay.records(), replay.reader.load().generation);
        replay.finish();
        assert_eq!(replay.records(), records, "recording {number}");
        // Those of other kinds are reported as skipped, which is another table.
        if not_headless.is_empty() {
            assert_eq!(replay.reader.load().generation, generation);
        }
        let report = Report::new(&zones(), &replay.reader.load());
        let skipped = report.skipped.iter();
        let skipped = skipped.filter(|skip| skip.reason == SkipReason::NotHeadless);
        let mut skipped: Vec<&str> = skipped.map(|skip| skip.object.as_str()).collect();
        skipped.sort_unstable();
        assert_eq!(skipped, not_headless, "recording {number}");
    }
}

#[test]
fn r19_a_pod_that_terminates_is_not_ready_and_then_gone() {
    let mut replay = Replay::of("19");
    let states = |replay: &Replay| -> Vec<(String, State)> {
        let report = Report::new(&zones(), &replay.reader.load());
        let mut services = report.services.into_iter();
        let nginx = services.find(|service| service.service == "nginx").unwrap();
        let local = nginx.endpoints.into_iter();
        let local = local.filter(|endpoint| endpoint.cluster == "hub");
        local
            .map(|endpoint| (endpoint.hostname, endpoint.state))
            .collect()
    };
    let (first, second) = ("nginx-set-0".to_owned(), "nginx-set-1".to_owned());
    replay.step();
    assert_eq!(
        states(&replay),
        [(first.clone(), State::Answered), (second, State::NotReady)]
    );
    replay.step();
    assert_eq!(states(&replay), [(first, State::Answered)]);

    let off = global_dns::table::Rules {
        local_members: LocalMembers::Off,
        ..hub_rules()
    };
    let without = Replay::with("19", off);
    let mirrors = History::of_mirrors("19-local-member-removed-in-hub");
    let mut last = mirrors.last().into_iter();
    let nginx = last.find(|case| case.name.starts_with("nginx."));
    expect_case(&without, nginx.unwrap());
    expect(&without, "hub.nginx.default.global A", &Answer::NxDomain);
}
