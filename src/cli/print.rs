//! The printer of all documents: as text in columns, or as JSON.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::sync::LazyLock;

use anyhow::Context as _;
use clap::builder::styling::{AnsiColor, Style};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::groups::ColorArgs;
use super::values::Output;
use crate::model::is_deceptive;
use crate::view::{Column, ColumnKind, Document, Section};

/// The zone of the reader: that of `TZ`, or that of the system. If it is not known, as in an image without data of time zones,
/// times stay in UTC, and a note says so if somebody asked for another zone.
static ZONE: LazyLock<TimeZone> = LazyLock::new(|| {
    TimeZone::try_system().unwrap_or_else(|_| {
        if let Some(named) = std::env::var("TZ").ok().filter(|named| !named.is_empty()) {
            let named = named.escape_default();
            note(&format!(
                "time zone '{named}' of TZ is not known here; times are in UTC"
            ));
        }
        TimeZone::UTC
    })
});

/// How documents are printed.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// The format.
    pub output: Output,
    /// Whether states have colors.
    pub has_colors: bool,
}

// === impl Form ===

impl Form {
    /// Returns the form that flags select.
    pub fn new(output: Output, colors: &ColorArgs) -> Self {
        Self {
            output,
            has_colors: colors.is_shown(),
        }
    }

    /// Prints a document. JSON has the objects of its rows.
    ///
    /// # Errors
    ///
    /// If standard output cannot be written. A closed pipe, as with `| head`, is no error.
    pub fn print(self, document: Document) -> anyhow::Result<()> {
        let text = match self.output {
            Output::Json => json(&document.into_items())?,
            Output::Text | Output::Wide | Output::Zone => self.text(&document),
        };
        print(&text)
    }

    /// Returns the sections as text.
    pub fn text(self, document: &Document) -> String {
        let texts = document.sections.iter().map(|one| self.section(one));
        let texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
        texts.join("\n")
    }

    /// Returns a section as text: its title, and its rows with aligned columns. A column without content is left out.
    fn section(self, section: &Section) -> String {
        let mut text = String::new();
        if section.rows.is_empty() {
            return text;
        }
        if !section.title.is_empty() {
            _ = writeln!(text, "{}:", harmless(&section.title));
        }
        let columns: Vec<(usize, &Column)> = self.shown(section);
        let mut rows: Vec<Vec<String>> = Vec::with_capacity(section.rows.len() + 1);
        if columns.iter().any(|(_, column)| !column.name.is_empty()) {
            let names = columns.iter().map(|(_, column)| harmless(&column.name));
            rows.push(names.collect());
        }
        for row in &section.rows {
            let cell = |index: usize| row.cells.get(index).map_or("", String::as_str);
            let cells = columns.iter().map(|(index, _)| local_text(cell(*index)));
            rows.push(cells.collect());
        }
        let width = |index: usize| rows.iter().map(|row| row[index].chars().count()).max();
        let widths: Vec<usize> = (0..columns.len()).filter_map(width).collect();
        let indent = if section.title.is_empty() { "" } else { "  " };
        for row in &rows {
            let mut line = indent.to_owned();
            for ((cell, width), (_, column)) in row.iter().zip(&widths).zip(&columns) {
                let padding = width - cell.chars().count();
                _ = write!(line, "{}{:padding$}  ", self.painted(column.kind, cell), "");
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// Returns the columns that are shown, with their indexes.
    fn shown(self, section: &Section) -> Vec<(usize, &Column)> {
        let is_shown = |(index, column): &(usize, &Column)| {
            let has_content =
                |cells: &[String]| cells.get(*index).is_some_and(|one| !one.is_empty());
            let is_of_form = column.priority == 0 || self.output == Output::Wide;
            is_of_form && section.rows.iter().any(|row| has_content(&row.cells))
        };
        let columns = section.columns.iter().enumerate();
        columns.filter(is_shown).collect()
    }

    /// Returns a text in the color of a state. Other words have none.
    fn painted(self, kind: ColumnKind, cell: &str) -> String {
        let color = match cell {
            _ if !self.has_colors || kind != ColumnKind::State => None,
            "ok" => Some(AnsiColor::Green),
            "attention" => Some(AnsiColor::Yellow),
            "failing" => Some(AnsiColor::Red),
            _ => None,
        };
        match color.map(|color| Style::new().fg_color(Some(color.into()))) {
            Some(style) => format!("{style}{cell}{style:#}"),
            None => cell.to_owned(),
        }
    }
}

/// Returns a text as a terminal can show it without harm. The times in it are in the zone of the reader.
pub fn local_text(text: &str) -> String {
    let is_end = |c: char| " (),;".contains(c);
    let pieces = text.split_inclusive(is_end).map(|piece| {
        let word = piece.trim_end_matches(is_end);
        let time = local_time(word);
        time.unwrap_or_else(|| word.to_owned()) + &piece[word.len()..]
    });
    harmless(&pieces.collect::<String>())
}

/// Returns a time (RFC 3339) for people: `2026-11-24 03:12:00 CET`, or with an offset if the zone has no name for it.
fn local_time(text: &str) -> Option<String> {
    let time = text.parse::<Timestamp>().ok()?;
    let fraction = if text.contains('.') { "%.3f" } else { "" };
    let form = format!("%Y-%m-%d %H:%M:%S{fraction} %Z");
    Some(time.to_zoned(ZONE.clone()).strftime(&form).to_string())
}

/// Replaces control characters and marks of direction, but no tab. The text may be from a forged pod or object, and a terminal would
/// execute them.
pub fn harmless(text: &str) -> String {
    text.replace(|c| is_deceptive(c) && c != '\t', "\u{fffd}")
}

/// Returns a value as JSON.
///
/// # Errors
///
/// If it has other keys than texts.
pub fn json(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// Writes to standard output. Ignores a closed pipe, as with `| head`.
///
/// # Errors
///
/// If it cannot be written.
pub fn print(text: &str) -> anyhow::Result<()> {
    write(text).map(|_| ())
}

/// Writes to standard output. Breaks if nobody reads it.
///
/// # Errors
///
/// If it cannot be written.
pub fn write(text: &str) -> anyhow::Result<ControlFlow<()>> {
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    match written {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        Err(error) => Err(error).context("cannot write to standard output"),
    }
}

/// Prints a sentence to standard error. Ignores a stream that cannot be written.
pub fn note(sentence: &str) {
    let _ = writeln!(io::stderr(), "note: {}", harmless(sentence));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_sentences_are_those_of_the_reader() {
        let time = "2026-11-27T10:27:30Z";
        let own = local_time(time).unwrap();
        assert!(own.starts_with("2026-11-2"), "{own}");
        assert_eq!(&own[10..11], " ", "{own}");
        let sentence = format!("waits for east until {time}; it is down (before {time})");
        let expected = format!("waits for east until {own}; it is down (before {own})");
        assert_eq!(local_text(&sentence), expected);
    }
}
