//! The output of commands.

use std::io::Write as _;
use std::sync::LazyLock;

use jiff::tz::TimeZone;
use terminal_size::{Width, terminal_size_of};

use super::origin::note;
use super::screen::{self, harmless_but_colors};
use crate::cli::Output;
use crate::report::{Colors, Style, TextForm};

/// Returns a document in a format. `text` makes the formats for people, which a terminal can show without harm.
pub(super) fn render(
    output: Output,
    colors: Colors,
    document: &impl serde::Serialize,
    text: impl FnOnce(Style) -> String,
) -> anyhow::Result<String> {
    let form = match output {
        Output::Json => return json(document),
        Output::Wide => TextForm::Wide,
        Output::Text | Output::Zone => TextForm::Narrow,
    };
    let width = terminal_size_of(std::io::stdout()).map(|(Width(columns), _)| columns.into());
    let style = Style {
        form,
        colors,
        width,
        zone: Some(&ZONE),
    };
    Ok(harmless_but_colors(&text(style)))
}

/// The zone of the reader: that of `TZ`, or that of the system. If it is not known, as in an image without data of time zones,
/// times stay in UTC, and a note says so if somebody asked for another zone.
static ZONE: LazyLock<TimeZone> = LazyLock::new(|| {
    TimeZone::try_system().unwrap_or_else(|_| {
        if let Some(named) = std::env::var("TZ").ok().filter(|named| !named.is_empty()) {
            note(&format!(
                "time zone '{}' of TZ is not known here; times are in UTC",
                named.escape_default()
            ));
        }
        TimeZone::UTC
    })
});

/// Returns a value as JSON.
pub(super) fn json(value: &impl serde::Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// Writes to standard output. Ignores a closed pipe, as with `| head`.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    screen::write(text).map(|_| ())
}

/// Writes to standard error. Ignores a stream that cannot be written.
pub(super) fn print_to_stderr(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr
        .write_all(text.as_bytes())
        .and_then(|()| stderr.flush());
}
