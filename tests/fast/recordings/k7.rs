//! The sequences that `tests/k7/sequences.py` wrote (rule K7). The layer `peers` has others in each run.

#[path = "../../k7/player.rs"]
mod player;

use std::fs;

use support::repository::repository;

#[test]
fn steps_answer_as_the_program_of_the_rule_wrote() {
    let lines = fs::read_to_string(repository("tests/fixtures/k7/sequences.jsonl")).unwrap();
    assert_eq!(player::check(&lines), 317);
}
