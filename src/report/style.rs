//! How a text looks: its columns, its colors, its width and its times.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::model::Level;
use crate::table::change::ChangeKind;

/// How a text looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// The columns.
    pub form: TextForm,
    /// Whether the text has colors.
    pub colors: Colors,
    /// The number of columns of the terminal. `None`: lines may be long.
    pub width: Option<usize>,
    /// The zone of times. `None`: UTC, as in documents.
    pub zone: Option<&'static TimeZone>,
}

/// The columns of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextForm {
    /// The usual columns.
    #[default]
    Narrow,
    /// All columns.
    Wide,
}

/// Whether a text has colors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colors {
    /// For a terminal.
    Shown,
    /// For a file or a pipe.
    #[default]
    Plain,
}

/// The color of a word. Each has a word or a sign that says the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shade {
    /// Green: as it should be.
    Good,
    /// Yellow: somebody should look at it.
    Attention,
    /// Red: wrong.
    Bad,
    /// Grey: neither, or not known.
    Idle,
}

/// Returns the text that a function writes.
pub fn text(write: impl FnOnce(&mut String) -> fmt::Result) -> String {
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    let _ = write(&mut text);
    text
}

// === impl Style ===

impl Style {
    /// Returns a time of a document for people: `2026-11-24 03:12:00 CET`, or with an offset if the zone has no name for it. A
    /// time in UTC stays as it is: `2026-11-24T03:12:00Z`. So does a text of another form.
    pub fn time(self, text: &str) -> String {
        let time = text.parse::<Timestamp>().ok().zip(self.zone);
        let local = time.map(|(time, zone)| time.to_zoned(zone.clone()));
        let fraction = if text.contains('.') { "%.3f" } else { "" };
        let form = format!("%Y-%m-%d %H:%M:%S{fraction} %Z");
        local
            .map(|time| time.strftime(&form).to_string())
            .filter(|time| !time.ends_with(" UTC"))
            .unwrap_or_else(|| text.to_owned())
    }
}

// === impl Colors ===

impl Colors {
    /// Returns a text in a color.
    pub fn paint(self, shade: Shade, text: &str) -> String {
        match self {
            Self::Shown => format!("{}{text}{RESET}", shade.sequence()),
            Self::Plain => text.to_owned(),
        }
    }
}

/// Ends a color (SGR 0 of ECMA-48).
const RESET: &str = "\u{1b}[0m";

// === impl Shade ===

impl Shade {
    const ALL: [Self; 4] = [Self::Good, Self::Attention, Self::Bad, Self::Idle];

    /// Returns the sequence that begins the color: SGR 32, 33, 31 and 90.
    fn sequence(self) -> &'static str {
        match self {
            Self::Good => "\u{1b}[32m",
            Self::Attention => "\u{1b}[33m",
            Self::Bad => "\u{1b}[31m",
            Self::Idle => "\u{1b}[90m",
        }
    }

    /// Returns the color of a kind of events, as on the status page.
    pub fn of_change(kind: &str) -> Self {
        use ChangeKind::*;
        let Ok(kind) = kind.parse() else {
            return Self::Idle; // of another version of the server
        };
        match kind {
            Joined | Grew | Up | Linked => Self::Good,
            Left | Down | Unlinked | Frozen | Failing | Step => Self::Attention,
            Shrank | Address | Kind | Order | Gate | Ttl | GatewayDown | ShortName | Demo => {
                Self::Idle
            }
        }
    }

    /// Returns the sign at the start of a line, as `linkerd check` prints it.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Good => "√",
            Self::Attention => "‼",
            Self::Bad => "×",
            Self::Idle => "·",
        }
    }
}

impl From<Level> for Shade {
    fn from(level: Level) -> Self {
        match level {
            Level::Note => Self::Idle,
            Level::Warning => Self::Attention,
            Level::Error => Self::Bad,
        }
    }
}

/// Splits a text at the sequences of colors. The other characters are not changed.
fn parts(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let sequences = Shade::ALL.map(Shade::sequence).into_iter().chain([RESET]);
        let found = sequences.filter_map(|one| Some((rest.find(one)?, one.len())));
        let (start, length) = found.min().unwrap_or((rest.len(), 0));
        let (part, is_sequence) = if start == 0 {
            (&rest[..length], true)
        } else {
            (&rest[..start], false)
        };
        rest = &rest[part.len()..];
        Some((part, is_sequence))
    })
}

/// Returns the number of characters of a text that a terminal shows.
pub(super) fn visible_width(text: &str) -> usize {
    let shown = parts(text).filter(|(_, is_sequence)| !is_sequence);
    shown.map(|(part, _)| part.chars().count()).sum()
}

/// Applies a function to a text, except for its sequences of colors.
pub fn map_between_colors(text: &str, map: impl Fn(&str) -> String) -> String {
    let part = |(part, is_sequence): (&str, bool)| {
        if is_sequence {
            part.to_owned()
        } else {
            map(part)
        }
    };
    parts(text).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn width_counts_what_a_terminal_shows() {
        let down = Colors::Shown.paint(Shade::Bad, "× 0/2");
        assert_eq!(down, "\u{1b}[31m× 0/2\u{1b}[0m");
        assert_eq!(visible_width(&down), 5);
        assert_eq!(Colors::Plain.paint(Shade::Bad, "× 0/2"), "× 0/2");
        assert_eq!(visible_width("\u{1b}[5mx"), 5);
    }

    #[test]
    fn times_are_in_the_zone_of_the_reader_with_its_name() {
        let text = |zone: TimeZone, text: &str| {
            let zone = Some(&*Box::leak(Box::new(zone)));
            let style = Style {
                zone,
                ..Style::default()
            };
            style.time(text)
        };
        let berlin = || TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        for (utc, expected) in [
            ("2026-11-24T03:12:00.250Z", "2026-11-24 04:12:00.250 CET"),
            ("2026-07-01T00:00:00Z", "2026-07-01 02:00:00 CEST"),
            ("", ""),
            ("2026-11-24T03:12:00", "2026-11-24T03:12:00"),
        ] {
            assert_eq!(text(berlin(), utc), expected);
            assert_eq!(text(TimeZone::UTC, utc), utc);
            assert_eq!(Style::default().time(utc), utc);
        }
        let offset = TimeZone::posix("<+0530>-5:30").unwrap();
        let local = text(offset, "2026-11-24T03:12:00Z");
        assert_eq!(local, "2026-11-24 08:42:00 +0530");
    }

    #[test]
    fn only_own_sequences_are_kept() {
        let text = format!("{}\u{1b}[2J", Colors::Shown.paint(Shade::Good, "a\u{1b}b"));
        let mapped = map_between_colors(&text, |part| part.replace('\u{1b}', "?"));
        assert_eq!(mapped, "\u{1b}[32ma?b\u{1b}[0m?[2J");
    }
}
