//! The corpus of the fuzz targets, replayed: what was ever found stays found. `tests/fuzz/run` looks for more.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    unreachable_pub,
    missing_docs,
    reason = "tests"
)]

use std::path::Path;

mod checks;

fn replay(target: &str, check: impl Fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus");
    let mut count = 0;
    for entry in std::fs::read_dir(corpus.join(target)).unwrap() {
        let path = entry.unwrap().path();
        let input = std::fs::read(&path).unwrap();
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&input)));
        assert!(checked.is_ok(), "{} fails", path.display());
        count += 1;
    }
    assert!(count >= 20, "only {count} inputs for {target}");
}

#[test]
fn the_corpus_of_messages_is_answered_as_it_should_be() {
    replay("reply", checks::check);
}

#[test]
fn the_corpus_of_questions_is_answered_as_it_should_be() {
    replay("question", |choices| {
        checks::check(&checks::question(choices))
    });
}

#[test]
fn the_checks_see_answers_of_every_kind() {
    // name, type, class and OPT by their places in the lists of `checks::question`
    let answers = |choices: &[u8]| {
        let packet = checks::question(choices);
        checks::check(&packet);
        checks::codes(&packet)
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
