//! The printer of all documents: as text in columns, or as JSON.

use std::env;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use clap::builder::styling::{AnsiColor, Style};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use strum::EnumString;

use crate::model::is_deceptive;
use crate::view::{ColumnKind, Document, Section};

/// `--output` of all commands.
#[derive(Clone, Copy, PartialEq, Eq, EnumString)]
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
#[derive(Args)]
pub struct PrintArgs {
    /// Format of the output; wide: all columns
    #[arg(short, long, value_name = "FORM", default_value = "text", value_parser = output(["text", "wide", "json"]))]
    pub output: Output,
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
    /// If standard output cannot be written.
    pub fn print(&self, document: Document) -> anyhow::Result<ExitCode> {
        let exit = ExitCode::from(document.exit);
        if self.output == Output::Json {
            let json = serde_json::to_string_pretty(&document.into_items())?;
            print(&(harmless_json(&json) + "\n"))?;
            return Ok(exit);
        }
        let sections = document.sections.iter();
        let shown = sections.filter(|one| !one.rows.is_empty());
        let mut parts: Vec<String> = shown.map(|one| self.section(one)).collect();
        // The last list is what the document is about, unless a sentence says why it is empty.
        let last = document.sections.last();
        if last.is_none_or(|one| one.rows.is_empty()) {
            let title = last.map(|one| &one.title).filter(|one| !one.is_empty());
            parts.push(format!("no {}\n", title.unwrap_or(&document.kind)));
        }
        print(&parts.join("\n"))?;
        Ok(exit)
    }

    /// Returns a section as text: its title, and its rows with aligned columns. A column without content is left out. States have
    /// colors on a terminal, unless `NO_COLOR` (no-color.org) is set.
    fn section(&self, section: &Section) -> String {
        let is_disabled = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let has_colors = io::stdout().is_terminal() && !is_disabled;
        let (mut text, mut indent) = (String::new(), "");
        if !section.title.is_empty() {
            text = harmless(&section.title) + ":\n";
            indent = "  ";
        }
        let mut lines = vec![indent.to_owned(); section.rows.len() + 1];
        let mut before = indent.len();
        for (index, column) in section.columns.iter().enumerate() {
            // A row of a newer server may have fewer cells.
            let cells = section
                .rows
                .iter()
                .map(|row| row.cells.get(index).map_or("", String::as_str));
            let is_shown = column.priority == 0 || self.output == Output::Wide;
            if !is_shown || cells.clone().all(str::is_empty) {
                continue;
            }
            let mut texts = vec![harmless(&column.name)];
            texts.extend(cells.map(local_text));
            if column.kind == ColumnKind::Sentence && self.output == Output::Text {
                for text in &mut texts {
                    *text = wrapped(text, before);
                }
            }
            let width = |text: &String| text.chars().count();
            let widest = texts.iter().map(width).max().unwrap_or_default();
            before += widest + 2;
            for (line, text) in lines.iter_mut().zip(&texts) {
                let mut style = Style::new();
                if has_colors && column.kind == ColumnKind::State {
                    style = color_of(text);
                }
                let padding = widest - width(text);
                _ = write!(line, "{style}{text}{style:#}{:padding$}  ", "");
            }
        }
        if lines[0].trim().is_empty() {
            lines.remove(0);
        }
        for line in lines {
            text = text + line.trim_end() + "\n";
        }
        text
    }
}

/// Maximum width of lines with a sentence in their last column.
const MAX_WIDTH: usize = 80;

/// Returns a sentence in lines, of which all but the first have an indent. A command stays in one line, so that it can be copied.
fn wrapped(sentence: &str, indent: usize) -> String {
    let (mut lines, mut width, mut is_command) = (String::new(), indent, false);
    for word in sentence.split(' ') {
        let length = word.chars().count();
        is_command |= word == "kubectl";
        if lines.is_empty() {
            width += length;
        } else if is_command && word != "kubectl" || width + 1 + length <= MAX_WIDTH {
            lines.push(' ');
            width += 1 + length;
        } else {
            _ = write!(lines, "\n{:indent$}", "");
            width = indent + length;
        }
        lines += word;
    }
    lines
}

/// Returns the color of a state. Other words have none.
fn color_of(state: &str) -> Style {
    match state {
        "ok" => AnsiColor::Green.on_default(),
        "attention" => AnsiColor::Yellow.on_default(),
        "failing" => AnsiColor::Red.on_default(),
        _ => Style::new(),
    }
}

/// Returns a text as a terminal can show it without harm. The times in it are in the zone of the reader, but for those in quotes, which
/// somebody wrote, and those without seconds, which are examples.
pub fn local_text(text: &str) -> String {
    let is_end = |c: char| " (),;".contains(c);
    let (mut local, mut is_quoted) = (String::new(), false);
    for piece in text.split_inclusive(is_end) {
        let word = piece.trim_end_matches(is_end);
        let is_time = !is_quoted && word.matches(':').count() >= 2;
        let time = local_time(word).filter(|_| is_time);
        local += time.as_deref().unwrap_or(word);
        local += &piece[word.len()..];
        is_quoted = if is_quoted {
            !word.contains('\'')
        } else {
            word.starts_with('\'') && !word[1..].contains('\'')
        };
    }
    harmless(&local)
}

/// Returns a time (RFC 3339) for people: `2026-11-24 03:12:00 CET`, or with an offset if the zone has no name for it. The zone is that
/// of `TZ`, or that of the system. If it is not known, as in an image without data of time zones, times stay in UTC.
fn local_time(text: &str) -> Option<String> {
    let time = text.parse::<Timestamp>().ok()?;
    let fraction = if text.contains('.') { "%.3f" } else { "" };
    let form = format!("%Y-%m-%d %H:%M:%S{fraction} %Z");
    let zone = TimeZone::try_system().unwrap_or(TimeZone::UTC);
    Some(time.to_zoned(zone).strftime(&form).to_string())
}

/// Replaces control characters and marks of direction, but no tab. The text may be from a forged pod or object, and a terminal would
/// execute them.
fn harmless(text: &str) -> String {
    text.replace(|c| is_deceptive(c) && c != '\t', "\u{fffd}")
}

/// Escapes the same characters in a JSON document, where only strings can have them. Another program reads the same strings.
pub fn harmless_json(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        if is_deceptive(c) && c != '\n' {
            _ = write!(safe, "\\u{:04x}", u32::from(c)); // none needs a surrogate pair
        } else {
            safe.push(c);
        }
    }
    safe
}

/// Writes to standard output.
///
/// # Errors
///
/// If it cannot be written.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .context("cannot write to standard output")
}

/// Returns whether nobody reads standard output any more, as with `| head`.
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
        let written = format!("'east until {time}' is not written like 2026-12-01T12:00Z");
        assert_eq!(local_text(&written), written);
    }
}
