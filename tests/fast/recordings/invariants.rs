//! Conditions that hold after every event of every recording.

use std::sync::Arc;

use crate::recordings::replay::{Recording, Replay};

#[test]
fn table_is_that_of_a_full_build_and_its_numbers_change_with_it_and_with_answers() {
    for number in Recording::numbers() {
        let mut replay = Replay::of(&number);
        loop {
            let (last, before) = (Arc::clone(&replay.reader.load()), replay.records());
            if !replay.step() {
                break;
            }
            let (next, after) = (Arc::clone(&replay.reader.load()), replay.records());
            let place = format!("recording {number} after {} events", replay.at);
            assert_eq!(next.table, Some(replay.full_build()), "{place}");
            let swaps = u64::from(last.table != next.table);
            assert_eq!(last.version + swaps, next.version, "{place}");
            let changes = next.generation - last.generation;
            assert!(
                changes <= swaps && (changes == 1 || before == after),
                "{place}"
            );
            assert_eq!(u64::from(next.serial - last.serial), changes, "{place}");
        }
    }
}
