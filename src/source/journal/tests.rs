use std::fs;

use super::*;
use crate::source::Events;
use crate::source::events::{EventFilter, MAX_EVENTS};
use crate::table::change::ChangeKind;

const MAX: u64 = 256 * 1024;

fn change(number: usize) -> Change {
    Change {
        cluster: Some(format!("c{}", number % 2).parse().unwrap()),
        ..Change::new(ChangeKind::GatewayDown, format!("Number {number}."))
    }
}

/// Returns events with a journal beside `snapshot`, after the earlier ones are read.
fn start(files: &JournalFiles) -> Events {
    let events = Events::default();
    events.keep_in(files.clone()).unwrap();
    events.flush();
    events
}

fn numbers(events: &[Arc<Event>]) -> Vec<usize> {
    let number = |event: &Arc<Event>| {
        let text = event.change.text.strip_prefix("Number ").unwrap();
        text.strip_suffix('.').unwrap().parse().unwrap()
    };
    events.iter().map(number).collect()
}

fn folder() -> (tempfile::TempDir, JournalFiles) {
    let folder = tempfile::tempdir().unwrap();
    let files = JournalFiles::beside(&folder.path().join("snapshot.json"), MAX);
    (folder, files)
}

fn size(files: &JournalFiles) -> u64 {
    let size = |path| fs::metadata(path).map_or(0, |metadata| metadata.len());
    size(&files.current) + size(&files.older)
}

#[test]
fn events_of_an_earlier_process_have_ids_of_this_one() {
    let (_folder, files) = folder();
    let first = start(&files);
    first.record((0..3).map(change));
    first.flush();
    let written = first.all();
    drop(first);
    let second = start(&files);
    let start_id = second.latest().id;
    let restored = second.all();
    assert_eq!(numbers(&restored), [0, 1, 2]);
    for (old, new) in written.iter().zip(&restored) {
        assert_eq!(
            (&old.change, old.moment, &old.time),
            (&new.change, new.moment, &new.time)
        );
    }
    second.record([change(3)]);
    let ids: Vec<u64> = second.all().iter().map(|event| event.id).collect();
    assert_eq!(ids, [start_id - 2, start_id - 1, start_id, start_id + 1]);
    // A reader continues from each of them, and one that knows more of the process before starts again.
    assert_eq!(numbers(&second.after(start_id - 2, 10).unwrap()), [1, 2, 3]);
    assert_eq!(
        numbers(&second.after(start_id - 3, 10).unwrap()),
        [0, 1, 2, 3]
    );
    assert_eq!(second.after(start_id - 4, 10), None);
    assert_eq!(second.after(written[0].id, 10), None);
    assert_eq!(second.known_since(), written[0].moment);
}

#[test]
fn both_files_together_stay_within_the_limit() {
    let (_folder, files) = folder();
    let events = start(&files);
    let mut largest = 0;
    for round in 0..50 {
        events.record((0..200).map(|number| change(200 * round + number)));
        events.flush();
        largest = largest.max(size(&files));
        assert!(size(&files) <= MAX, "{}", size(&files));
    }
    assert!(largest > MAX * 3 / 4, "{largest}");
    assert_eq!(events.lost().count(), 0);
    let mut read = Vec::new();
    files.read(|event, _| read.push(Arc::new(event))).unwrap();
    let read = numbers(&read);
    // The newest are there without a gap.
    assert!(read.len() > 500);
    let expected: Vec<usize> = (10_000 - read.len()..10_000).collect();
    assert_eq!(read, expected);
}

#[test]
fn torn_damaged_foreign_and_huge_lines_cost_themselves_only() {
    let (_folder, files) = folder();
    let events = start(&files);
    events.record((0..3).map(change));
    events.flush();
    drop(events);
    let text = fs::read_to_string(&files.current).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let huge = "x".repeat(3 * MAX_LINE);
    let long = format!("{}{}", lines[0], " ".repeat(MAX_LINE));
    let no_time = lines[0].replace(
        "unixMilliseconds\":",
        "unixMilliseconds\":99999999999999999",
    );
    let other_kind = lines[0].replace("gateway-down", "of-a-newer-version");
    let half = &lines[2][..lines[2].len() / 2];
    let damaged = [
        "just words",
        lines[0],
        "{}",
        "[1,2]",
        &huge,
        "\u{0}\u{0}",
        &long,
        lines[1],
        &no_time,
        "",
        &other_kind,
        lines[2],
        half,
    ];
    fs::write(&files.current, damaged.join("\n")).unwrap();
    let events = start(&files);
    assert_eq!(numbers(&events.all()), [0, 1, 2]);
    // The torn line does not damage the next one.
    events.record([change(3)]);
    events.flush();
    drop(events);
    assert_eq!(numbers(&start(&files).all()), [0, 1, 2, 3]);
}

#[test]
fn unusable_files_cost_their_events_and_are_counted() {
    // Opening a pipe would block; a folder and a missing one cannot be written.
    let (folder, files) = folder();
    fs::create_dir(&files.current).unwrap();
    let missing = JournalFiles::beside(&folder.path().join("missing").join("snapshot"), MAX);
    for files in [files, missing] {
        let events = start(&files);
        events.record((0..3).map(change));
        events.flush();
        assert_eq!((events.all().len(), events.lost().count()), (3, 3));
    }
}

#[test]
fn journal_is_written_again_when_the_disk_has_room_again() {
    let (_folder, files) = folder();
    fs::create_dir(&files.current).unwrap();
    let events = start(&files);
    events.record([change(0)]);
    events.flush();
    fs::remove_dir(&files.current).unwrap();
    events.record([change(1)]);
    events.flush();
    // Somebody removes the file.
    fs::remove_file(&files.current).unwrap();
    events.record([change(2)]);
    events.flush();
    drop(events);
    assert_eq!(numbers(&start(&files).all()), [2]);
}

#[test]
fn full_queue_loses_events_and_blocks_nobody() {
    let (folder, _) = folder();
    let files = JournalFiles::beside(&folder.path().join("snapshot"), 64 * MAX);
    let (release, is_released) = sync_channel::<()>(0);
    let restore = move |_: &JournalFiles| {
        _ = is_released.recv();
        Ok(())
    };
    let lost = Failures::default();
    let journal = Journal::start(files.clone(), lost.clone(), restore).unwrap();
    let events = Events::default();
    events.record([change(0)]);
    let event = &events.all()[0];
    for _ in 0..MAX_QUEUED + 7 {
        journal.write(event.clone());
    }
    assert_eq!(lost.count(), 7);
    drop(release);
    journal.flush();
    let mut count = 0;
    files.read(|_, _| count += 1).unwrap();
    assert_eq!(count, MAX_QUEUED);
    journal.write(event.clone());
    assert_eq!(lost.count(), 7);
}

#[test]
fn second_process_writes_when_the_first_has_ended() {
    let (_folder, files) = folder();
    let first = File::options()
        .create(true)
        .append(true)
        .open(&files.current)
        .unwrap();
    first.lock().unwrap();
    let events = Events::default();
    events.keep_in(files.clone()).unwrap();
    events.record([change(1)]);
    // The first process also replaces the file that the second one waits for.
    fs::rename(&files.current, &files.older).unwrap();
    drop(first);
    events.flush();
    assert_eq!(events.lost().count(), 0);
    assert_eq!(numbers(&start(&files).all()), [1]);
    assert!(size(&files) > 0);
}

#[test]
fn events_that_the_ring_forgot_are_found_in_the_journal() {
    let (_folder, files) = folder();
    let events = start(&files);
    let count = MAX_EVENTS + 200;
    // Each at its own time.
    let start = events.known_since().0;
    for number in 0..count {
        events.record_timed(vec![(Timestamp(start + number as u64), change(number))]);
    }
    events.flush();
    let filter = |since: u64| EventFilter {
        since: Some(Timestamp(since)),
        clusters: [format!("c{}", 1).parse().unwrap()].into(),
        kinds: [ChangeKind::GatewayDown].into(),
    };
    let all = filter(start);
    assert!(events.needs_journal(&all));
    let found = events.find(&all, 1 << 20);
    let odd: Vec<usize> = (0..count).filter(|number| number % 2 == 1).collect();
    assert_eq!(numbers(&found.events), odd);
    assert_eq!(found.known_since, Timestamp(start));
    // Less memory: the newest, and since when they are complete.
    let found = events.find(&all, 2000);
    let least = numbers(&found.events);
    assert!((501..odd.len()).contains(&least.len()), "{}", least.len());
    assert!(odd.ends_with(&least));
    let first = found.events[0].moment;
    assert!(found.known_since <= first && found.known_since > Timestamp(start));
    // The ring suffices.
    let late = filter(start + 200);
    assert!(!events.needs_journal(&late));
    assert_eq!(numbers(&events.find(&late, 0).events), odd[100..]);
}
