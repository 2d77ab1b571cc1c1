//! Rows of the README whose programs have no new results: they stay when the others are written.

use std::collections::BTreeSet;

/// A table of Markdown with numbered notes below it.
struct Parsed<'t> {
    head: Vec<&'t str>,
    rows: Vec<Row<'t>>,
}

/// A row, and the notes to which its marks refer.
struct Row<'t> {
    text: &'t str,
    notes: Vec<&'t str>,
}

/// A part of a row.
enum Part<'t> {
    Text(&'t str),
    /// ` [1]`, the mark of a note.
    Mark(usize),
}

/// Adds those rows of the old table whose programs the new one lacks. Sorts the rows, and numbers the notes again.
pub fn with_kept_rows(old: &str, new: &str) -> String {
    let (old, new) = (Parsed::read(old), Parsed::read(new));
    let known: BTreeSet<&str> = new
        .rows
        .iter()
        .filter_map(|row| program(row.text))
        .collect();
    let is_kept = |row: &Row<'_>| program(row.text).is_some_and(|name| !known.contains(name));
    let kept = old.rows.into_iter().filter(is_kept);
    let mut rows: Vec<Row<'_>> = kept.chain(new.rows).collect();
    // The ways of a program stay in their order.
    rows.sort_by_key(|row| row.text.split(']').next().map(str::to_lowercase));
    let mut notes: Vec<&str> = Vec::new();
    let mut lines: Vec<String> = new.head.iter().map(|line| (*line).to_owned()).collect();
    lines.extend(rows.iter().map(|row| renumbered(row, &mut notes)));
    if !notes.is_empty() {
        lines.push(String::new());
        let notes = notes.iter().zip(1..);
        lines.extend(notes.map(|(note, number)| format!("{number}. {note}")));
    }
    lines.join("\n") + "\n"
}

/// Returns the directory of the program of a row: `| [Go](go/README.md) …`.
fn program(row: &str) -> Option<&str> {
    let (_, rest) = row.strip_prefix("| [")?.split_once("](")?;
    rest.split_once("/README.md)").map(|(name, _)| name)
}

/// Returns a row with the numbers of its notes among all notes.
fn renumbered<'t>(row: &Row<'t>, notes: &mut Vec<&'t str>) -> String {
    let mut own = row.notes.iter();
    let parts = parts(row.text).into_iter().map(|part| match part {
        Part::Text(text) => text.to_owned(),
        Part::Mark(_) => {
            let note = *own.next().expect("the note of the mark");
            let known = notes.iter().position(|each| *each == note);
            let index = known.unwrap_or_else(|| {
                notes.push(note);
                notes.len() - 1
            });
            format!(" [{}]", index + 1)
        }
    });
    parts.collect()
}

/// Splits a row at the marks of notes.
fn parts(row: &str) -> Vec<Part<'_>> {
    let (mut parts, mut start) = (Vec::new(), 0);
    for (at, _) in row.match_indices(" [") {
        let digits = row[at + 2..].split_once(']').map(|(digits, _)| digits);
        let number = digits.and_then(|digits| digits.parse().ok());
        if let (Some(digits), Some(number)) = (digits, number) {
            parts.push(Part::Text(&row[start..at]));
            parts.push(Part::Mark(number));
            start = at + 3 + digits.len();
        }
    }
    parts.push(Part::Text(&row[start..]));
    parts
}

// === impl Parsed ===

impl<'t> Parsed<'t> {
    fn read(text: &'t str) -> Self {
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let (table, others): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with('|'));
        let notes = others.iter().filter_map(|line| line.split_once(". "));
        let notes: Vec<&str> = notes.map(|(_, note)| note).collect();
        let note = |part: &Part<'_>| match part {
            Part::Mark(number) => Some(notes[number - 1]),
            Part::Text(_) => None,
        };
        let row = |text: &&'t str| Row {
            text,
            notes: parts(text).iter().filter_map(note).collect(),
        };
        let (head, rows) = table.split_at(table.len().min(2));
        Self {
            head: head.to_vec(),
            rows: rows.iter().map(row).collect(),
        }
    }
}

#[test]
fn rows_without_new_results_are_kept_and_notes_are_numbered_again() {
    let old = "| program | time |\n|---|---|\n\
        | [Go](go/README.md) 1 | 1.0 s [1] |\n\
        | [Kafka](kafka/README.md) 4 | 2.0 s [2] |\n\
        | [Node](node/README.md) 20 | 3.0 s [1] and [2] |\n\n\
        1. first\n2. second\n";
    let new = "| program | time |\n|---|---|\n\
        | [etcd](etcd/README.md) 3 | 4.0 s [1] |\n\
        | [Kafka](kafka/README.md) 5 | 5.0 s |\n\n\
        1. third\n";
    let expected = "| program | time |\n|---|---|\n\
        | [etcd](etcd/README.md) 3 | 4.0 s [1] |\n\
        | [Go](go/README.md) 1 | 1.0 s [2] |\n\
        | [Kafka](kafka/README.md) 5 | 5.0 s |\n\
        | [Node](node/README.md) 20 | 3.0 s [2] and [3] |\n\n\
        1. third\n2. first\n3. second\n";
    assert_eq!(with_kept_rows(old, new), expected);
}
