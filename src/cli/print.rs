//! The printer of all documents: as text in columns, or as JSON.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::LazyLock;

use anyhow::Context as _;
use clap::builder::styling::{AnsiColor, Style};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ColorChoice};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use strum::EnumString;

use crate::model::is_deceptive;
use crate::view::{Column, ColumnKind, Document, Row, Section};

/// The zone of the reader: that of `TZ`, or that of the system. If it is not known, as in an image without data of time zones,
/// times stay in UTC, which they name.
static ZONE: LazyLock<TimeZone> = LazyLock::new(|| TimeZone::try_system().unwrap_or(TimeZone::UTC));

/// `--output` of all commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum Output {
    /// Text for people.
    Text,
    /// Text with all columns.
    Wide,
    /// One JSON document.
    Json,
    /// A zone file (RFC 1035). Only `table` has it.
    Zone,
}

/// The output of a command that ends.
#[derive(Debug, Args)]
pub struct PrintArgs {
    /// Format of the output; wide: all columns
    #[arg(short, long, value_name = "FORM", default_value = "text", value_parser = output(["text", "wide", "json"]))]
    pub output: Output,

    /// Whether text has colors; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
}

/// Returns the parser of a format of the output, with those that a command has.
pub(super) fn output<const N: usize>(
    names: [&'static str; N],
) -> impl TypedValueParser<Value = Output> {
    PossibleValuesParser::new(names).try_map(|text| text.parse::<Output>())
}

// === impl PrintArgs ===

impl PrintArgs {
    /// Prints a document. JSON has the objects of its rows. Returns its exit code.
    ///
    /// # Errors
    ///
    /// If standard output cannot be written. A closed pipe, as with `| head`, is no error.
    pub fn print(&self, document: Document) -> anyhow::Result<ExitCode> {
        let exit = ExitCode::from(document.exit);
        let text = match self.output {
            Output::Json => serde_json::to_string_pretty(&document.into_items())? + "\n",
            Output::Text | Output::Wide | Output::Zone => {
                let texts = document.sections.iter().map(|one| self.section(one));
                let texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
                texts.join("\n")
            }
        };
        print(&text)?;
        Ok(exit)
    }

    /// Returns whether states have colors: on a terminal, unless a flag or `NO_COLOR` (no-color.org) says otherwise.
    fn has_colors(&self) -> bool {
        let is_disabled = || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        match self.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => io::stdout().is_terminal() && !is_disabled(),
        }
    }

    /// Returns a section as text: its title, and its rows with aligned columns. A column without content is left out.
    fn section(&self, section: &Section) -> String {
        let columns = self.shown(section);
        let mut rows: Vec<Vec<String>> = Vec::with_capacity(section.rows.len() + 1);
        if columns.iter().any(|(_, column)| !column.name.is_empty()) {
            let names = columns.iter().map(|(_, column)| harmless(&column.name));
            rows.push(names.collect());
        }
        rows.extend(section.rows.iter().map(|row| {
            let cells = columns.iter();
            cells
                .map(|(index, _)| local_text(cell(row, *index)))
                .collect()
        }));
        let width = |index: usize| rows.iter().map(|row| row[index].chars().count()).max();
        let widths: Vec<usize> = (0..columns.len()).filter_map(width).collect();
        let has_colors = self.has_colors();
        let (mut text, indent) = match section.title.as_str() {
            _ if rows.is_empty() => return String::new(),
            "" => (String::new(), ""),
            title => (format!("{}:\n", harmless(title)), "  "),
        };
        for row in &rows {
            let mut line = indent.to_owned();
            for ((cell, width), (_, column)) in row.iter().zip(&widths).zip(&columns) {
                let padding = width - cell.chars().count();
                let has_color = has_colors && column.kind == ColumnKind::State;
                _ = write!(line, "{}{:padding$}  ", painted(cell, has_color), "");
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }

    /// Returns the columns that are shown, with their indexes.
    fn shown<'s>(&self, section: &'s Section) -> Vec<(usize, &'s Column)> {
        let columns = section.columns.iter().enumerate();
        let of_form = columns.filter(|(_, one)| one.priority == 0 || self.output == Output::Wide);
        let has_content =
            |index: usize| section.rows.iter().any(|row| !cell(row, index).is_empty());
        of_form.filter(|(index, _)| has_content(*index)).collect()
    }
}

/// Returns a cell of a row. A row of a newer server may have fewer.
fn cell(row: &Row, index: usize) -> &str {
    row.cells.get(index).map_or("", String::as_str)
}

/// Returns a text in the color of a state. Other words have none.
fn painted(text: &str, has_color: bool) -> String {
    let color = match text {
        _ if !has_color => None,
        "ok" => Some(AnsiColor::Green),
        "attention" => Some(AnsiColor::Yellow),
        "failing" => Some(AnsiColor::Red),
        _ => None,
    };
    let style = color.map_or_else(Style::new, |color| color.on_default());
    format!("{style}{text}{style:#}")
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

/// Writes to standard output. Ignores a closed pipe, as with `| head`.
///
/// # Errors
///
/// If it cannot be written.
pub fn print(text: &str) -> anyhow::Result<()> {
    let written = write(text);
    written.or_else(|error| {
        if is_closed(&error) {
            Ok(())
        } else {
            Err(error)
        }
    })
}

/// Writes to standard output.
///
/// # Errors
///
/// If it cannot be written.
pub fn write(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes());
    let written = written.and_then(|()| stdout.flush());
    written.context("cannot write to standard output")
}

/// Returns whether nobody reads standard output any more.
pub fn is_closed(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
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
