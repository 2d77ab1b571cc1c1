//! Output that changes: redrawn on a terminal, repeated elsewhere.

use std::io::{self, IsTerminal as _, Write as _};
use std::ops::ControlFlow;

use anyhow::Context as _;
use terminal_size::{Height, terminal_size};

use crate::model::is_deceptive;
use crate::report::map_between_colors;

/// Moves to the upper left corner and clears the screen (ECMA-48: CUP, ED).
const CLEAR: &str = "\u{1b}[H\u{1b}[J";

/// Returns to the start of the line and clears it (ECMA-48: CR, EL).
pub(super) const CLEAR_LINE: &str = "\r\u{1b}[K";

/// A text that is printed again when it changes.
#[derive(Default)]
pub(super) struct Screen {
    last: Option<String>,
}

// === impl Screen ===

impl Screen {
    /// Shows the text, unless it is shown already. Breaks if nobody reads the output.
    pub(super) fn show(&mut self, text: String) -> anyhow::Result<ControlFlow<()>> {
        if self.last.as_ref() == Some(&text) {
            return Ok(ControlFlow::Continue(()));
        }
        let is_first = self.last.is_none();
        let output = if io::stdout().is_terminal() {
            format!("{CLEAR}{}", fit(&text, terminal_height()))
        } else if is_first {
            text.clone()
        } else {
            format!("\n{text}")
        };
        self.last = Some(text);
        write(&output)
    }
}

/// Writes to standard output. Breaks if nobody reads it.
pub(super) fn write(text: &str) -> anyhow::Result<ControlFlow<()>> {
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

/// Replaces control characters and marks of direction, except line feeds and tabs. The text may be from a forged pod or
/// object, and a terminal would execute them.
pub(super) fn harmless(text: &str) -> String {
    let is_harmful = |c: char| is_deceptive(c) && !['\n', '\t'].contains(&c);
    text.replace(is_harmful, "\u{fffd}")
}

/// Like [`harmless`], but keeps the colors of this program.
pub(super) fn harmless_but_colors(text: &str) -> String {
    map_between_colors(text, harmless)
}

fn terminal_height() -> usize {
    terminal_size().map_or(usize::MAX, |(_, Height(rows))| usize::from(rows))
}

/// Cuts a text to the rows of a terminal. The last row says what is missing.
fn fit(text: &str, rows: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    // The cursor needs a row.
    let room = rows.saturating_sub(1).max(1);
    if lines.len() <= room {
        return text.to_owned();
    }
    let shown = lines[..room - 1].join("\n");
    let hidden = lines.len() - (room - 1);
    format!("{shown}\n… {hidden} more lines; a filter shows fewer\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced() {
        let text = harmless("a\tb\n\u{1b}[2J\u{7}\u{9b}é\u{202e}");
        assert_eq!(text, "a\tb\n\u{fffd}[2J\u{fffd}\u{fffd}é\u{fffd}");
    }

    #[test]
    fn text_is_cut_to_the_rows_of_the_terminal() {
        assert_eq!(fit("a\nb\n", 3), "a\nb\n");
        assert_eq!(
            fit("a\nb\nc\nd\n", 4),
            "a\nb\n… 2 more lines; a filter shows fewer\n"
        );
        assert_eq!(fit("a\nb\n", 1), "\n… 2 more lines; a filter shows fewer\n");
    }
}
