//! The corpora of the fuzz targets, replayed: what was ever found stays found. `tests/fuzz/run` looks for more.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    unreachable_pub,
    missing_docs,
    reason = "tests, also of enums that are not ours"
)]

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use checks::requests::{self, Outcome};
use checks::{answers, foreign, framing, manifest, memory, messages, raw, world};
use global_dns::server::encrypted::request::Asked;

#[path = "checks.rs"]
mod checks;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus")
}

fn replay<T>(target: &str, check: impl Fn(&[u8]) -> T) {
    let mut count = 0;
    for entry in std::fs::read_dir(corpus().join(target)).unwrap() {
        let path = entry.unwrap().path();
        let input = std::fs::read(&path).unwrap();
        let checked = catch_unwind(AssertUnwindSafe(|| drop(check(&input))));
        assert!(checked.is_ok(), "{} fails", path.display());
        count += 1;
    }
    assert!(count >= 20, "only {count} inputs for {target}");
}

#[test]
fn the_corpus_of_messages_is_answered_as_it_should_be() {
    replay("reply", messages::check);
}

#[test]
fn the_corpus_of_questions_is_answered_as_it_should_be() {
    replay("question", |choices| {
        messages::check(&messages::question(choices))
    });
}

#[test]
fn the_corpus_of_streams_is_answered_however_it_is_cut() {
    replay("framing", framing::check);
}

#[test]
fn the_corpus_of_requests_is_read_as_it_should_be() {
    replay("request", requests::check);
}

#[test]
fn the_corpus_of_objects_becomes_the_tables_that_it_should() {
    replay("objects", world::check);
}

#[test]
fn the_corpus_of_what_is_no_object_is_not_lost() {
    replay("objects_raw", raw::check);
}

#[test]
fn the_corpora_of_files_are_read_or_refused() {
    replay("manifest", manifest::check);
    replay("manifest_raw", manifest::check_raw);
}

#[test]
fn the_checks_see_answers_of_every_kind() {
    // name, type, class and OPT by their places in the lists of `messages::question`
    let answers = |choices: &[u8]| {
        let packet = messages::question(choices);
        messages::check(&packet);
        messages::codes(&packet)
    };
    assert_eq!(
        answers(&[0, 1, 0, 2, 0, 1, 1, 0, 0, 0]),
        (0, true),
        "db.prod.global A"
    );
    assert_eq!(
        answers(&[0, 1, 0, 2, 20, 1, 1, 0, 0, 0]),
        (3, false),
        "nope.prod.global A"
    );
    assert_eq!(
        answers(&[0, 1, 0, 2, 0, 1, 0, 0, 0, 0]),
        (5, false),
        "db.prod A"
    );
}

#[test]
fn the_checks_see_streams_of_every_kind() {
    let outcome = |name: &str| framing::check(&input("framing", name));
    let (one, two) = (outcome("one"), outcome("two-in-order"));
    assert!(!one.is_closed && one.sent.len() > 12, "{one:?}");
    assert!(!two.is_closed && two.sent.len() > one.sent.len());
    for name in ["response-closes", "announced-4097", "padded-4097"] {
        assert!(outcome(name).is_closed, "{name}");
    }
    for name in ["announced-4096", "padded-4096", "half-a-message"] {
        assert!(!outcome(name).is_closed, "{name}");
    }
    let full = outcome("pipelined-wide-fills-the-outbox");
    assert!(full.times_full > 0 && full.sent.len() > 16 * 1024);
    let padded = outcome("asks-for-padding");
    assert!(padded.sent.len() > 2 && padded.padded > padded.sent.len());
}

#[test]
fn the_checks_see_requests_of_every_kind() {
    let outcome = |name: &str| requests::check(&input("request", name));
    for name in ["get", "head", "get-4096", "get-second-parameter"] {
        let outcome = outcome(name);
        assert!(
            matches!(&outcome, Outcome::Asks(Asked::Message(message)) if message.len() >= 12),
            "{name}: {outcome:?}"
        );
    }
    assert_eq!(outcome("post"), Outcome::Asks(Asked::Body));
    assert_eq!(outcome("options"), Outcome::Asks(Asked::Methods));
    for (name, status) in [
        ("get-none", 400),
        ("get-two", 400),
        ("get-padding", 400),
        ("another-path", 404),
        ("put", 405),
        ("get-4097", 414),
        ("post-no-type", 415),
        ("post-text", 415),
    ] {
        assert_eq!(outcome(name), Outcome::Refused(status), "{name}");
    }
    assert_eq!(outcome("no-uri"), Outcome::NoRequest);
}

#[test]
fn the_checks_see_members_and_who_is_left_out() {
    let seen = |name: &str| world::check(&input("objects", name));
    for (name, count) in [
        (
            "member",
            (|seen| seen.endpoints) as fn(&world::Seen) -> usize,
        ),
        ("member", |seen| seen.pointers),
        ("member", |seen| seen.short_names),
        ("local-exported", |seen| seen.local),
        ("local-foreign-slice", |seen| seen.local),
        ("last-resort", |seen| seen.last_resort),
        ("gateway-down-of-one", |seen| seen.left_out),
        ("orphan", |seen| seen.skipped),
        ("forged-namespace", |seen| seen.skipped),
        ("identity-changes", |seen| seen.conflicts),
        ("two-namespaces-short-name", |seen| seen.conflicts),
        ("nothing-changes", |seen| seen.unmoved),
    ] {
        let seen = seen(name);
        assert!(count(&seen) > 0, "{name}: {seen:?}");
    }
    // db.prod, east.db.prod, db-0.east.db.prod, the same without prod, and each with _sql._tcp; the address.
    assert_eq!(seen("member").names, 13);
    for number in 0..18 {
        let seen = seen(&format!("bad-address-{number:02}"));
        assert_eq!((seen.endpoints, seen.skipped), (0, 2), "{number}: {seen:?}");
    }
}

#[test]
fn the_checks_see_files_of_every_kind() {
    let whole = manifest::check(&input("manifest", "all-kinds"));
    assert_eq!((whole.objects, whole.endpoints), (4, 2), "{whole:?}");
    let raw = |name: &str| manifest::check_raw(&input("manifest_raw", name)).error;
    for (error, told) in [
        (
            raw("lists-nested"),
            "more than 4 lists are within each other",
        ),
        (raw("twice"), "occurs twice"),
        (raw("list-items-number"), "a List cannot be read"),
        (manifest::check(&input("manifest", "bomb")).error, "budget"),
        (
            manifest::check(&input("manifest", "deep-dashes")).error,
            "budget",
        ),
    ] {
        assert!(error.contains(told), "{told}: {error}");
    }
}

#[test]
fn the_checks_can_fail() {
    let fails = |what: &str, check: &dyn Fn()| {
        let checked = catch_unwind(AssertUnwindSafe(check));
        assert!(checked.is_err(), "{what} passes");
    };
    fails("an allocation", &|| {
        memory::allocates_at_most(8, "a vector", || drop(vec![0_u8; 9]));
    });
    fails("a large piece of memory", &|| {
        memory::holds_at_most(8, "a vector", || drop(vec![0_u8; 9]));
    });
    memory::holds_at_most(9, "one vector after the other", || {
        (0..9).for_each(|_| drop(vec![0_u8; 9]));
    });
    // db.prod.global A 0.0.0.0, whole, and with one octet less.
    let mut reply = messages::question(&[0, 1, 0, 2, 0, 1, 1, 0, 0, 0]);
    (reply[2], reply[7]) = (0x84, 1);
    reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 0, 0, 0, 0]);
    let decoded = foreign::decode(&reply, "UDP");
    fails("an address that is nobody's", &|| {
        messages::check_usable(&decoded);
    });
    fails("half a record", &|| {
        foreign::decode(&reply[..reply.len() - 1], "UDP");
    });
    let [one, other] = ["member", "two-clusters"].map(|name| world::table(&input("objects", name)));
    answers::check_same(&one, &one);
    fails("another answer", &|| answers::check_same(&one, &other));
}

#[test]
fn the_targets_are_built_with_the_libraries_of_the_server() {
    let packages = |path: &str| -> BTreeSet<(String, String)> {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path));
        let text = text.unwrap();
        let value = |line: Option<&str>| {
            let quoted = line.and_then(|line| line.split('"').nth(1));
            quoted.unwrap_or_default().to_owned()
        };
        let packages = text.split("[[package]]").skip(1).map(|package| {
            let mut lines = package.lines().skip(1);
            (value(lines.next()), value(lines.next()))
        });
        packages.collect()
    };
    let own = ["arbitrary", "global-dns-fuzz", "jobserver", "libfuzzer-sys"];
    let server = packages("Cargo.lock");
    let targets = packages("tests/fuzz/Cargo.lock");
    let others = targets.difference(&server);
    let others: Vec<_> = others.filter(|(name, _)| !own.contains(&&**name)).collect();
    assert!(targets.len() > 100 && server.len() > 100, "read");
    assert_eq!(
        others,
        [] as [&(String, String); 0],
        "copy Cargo.lock to tests/fuzz, and run cargo metadata there"
    );
}

fn input(target: &str, name: &str) -> Vec<u8> {
    std::fs::read(corpus().join(target).join(name)).unwrap()
}
