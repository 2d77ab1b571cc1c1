//! A checkup for people and for programs.

use std::fmt::Write as _;

use serde::Serialize;

use super::{Category, Check, Checkup, Finding, Health};

/// Whether a reader sees colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
    /// On a terminal.
    Shown,
    /// Everywhere else.
    Plain,
}

/// A checkup for programs.
#[derive(Debug, Serialize)]
struct Report<'c> {
    /// Nothing is red.
    success: bool,
    green: usize,
    yellow: usize,
    red: usize,
    checks: Vec<Line<'c>>,
}

#[derive(Debug, Serialize)]
struct Line<'c> {
    category: Category,
    check: Check,
    health: Health,
    sentence: &'c str,
    hint: Option<&'c str>,
    link: Option<String>,
}

// === impl Checkup ===

impl Checkup {
    /// Tells whether nothing is red.
    pub fn is_success(&self) -> bool {
        self.count(Health::Red) == 0
    }

    fn count(&self, health: Health) -> usize {
        self.0.iter().filter(|one| one.health == health).count()
    }

    /// Writes the checkup for people.
    pub fn to_text(&self, colours: Colours) -> String {
        let mut text = String::new();
        // Writing to a `String` cannot fail.
        let _ = self.write(&mut text, colours);
        text
    }

    fn write(&self, text: &mut String, colours: Colours) -> std::fmt::Result {
        let mut last = None;
        for finding in &self.0 {
            let category = finding.check.category();
            if last != Some(category) {
                let title = category.title();
                let line = "-".repeat(title.len());
                let gap = if last.is_some() { "\n" } else { "" };
                writeln!(text, "{gap}{title}\n{line}")?;
                last = Some(category);
            }
            finding.write(text, colours)?;
        }
        self.write_status(text, colours)
    }

    /// Writes the last line: the worst that was found, and how many findings there are of each kind.
    fn write_status(&self, text: &mut String, colours: Colours) -> std::fmt::Result {
        let counts = [Health::Green, Health::Yellow, Health::Red];
        let counts = counts.map(|health| format!("{} {}", self.count(health), health.name()));
        let sum = match self.is_success() {
            true => Health::Green,
            false => Health::Red,
        };
        let (sign, counts) = (sum.sign(colours), counts.join(", "));
        writeln!(text, "\nStatus: {sign} ({counts})")
    }
}

impl Finding {
    /// Writes the finding for people: a line, and what to do about it.
    fn write(&self, text: &mut String, colours: Colours) -> std::fmt::Result {
        writeln!(text, "{} {}", self.health.sign(colours), self.sentence)?;
        if let Some(hint) = &self.hint {
            writeln!(text, "    {hint}\n    see {}", self.check.link())?;
        }
        Ok(())
    }
}

impl Serialize for Checkup {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Report {
            success: self.is_success(),
            green: self.count(Health::Green),
            yellow: self.count(Health::Yellow),
            red: self.count(Health::Red),
            checks: self.0.iter().map(Line::of).collect(),
        }
        .serialize(serializer)
    }
}

impl<'c> Line<'c> {
    fn of(finding: &'c Finding) -> Self {
        Self {
            category: finding.check.category(),
            check: finding.check,
            health: finding.health,
            sentence: &finding.sentence,
            hint: finding.hint.as_deref(),
            link: finding.hint.as_ref().map(|_| finding.check.link()),
        }
    }
}

// === impl Health ===

impl Health {
    fn name(self) -> &'static str {
        match self {
            Self::Green => "green",
            Self::Yellow => "yellow",
            Self::Red => "red",
        }
    }

    /// Returns the sign before a line, as `linkerd check` has it.
    fn sign(self, colours: Colours) -> String {
        // SGR 32, 33 and 31 of ECMA-48.
        let (sign, colour) = match self {
            Self::Green => ('√', 32),
            Self::Yellow => ('‼', 33),
            Self::Red => ('×', 31),
        };
        match colours {
            Colours::Shown => format!("\u{1b}[{colour}m{sign}\u{1b}[0m"),
            Colours::Plain => sign.to_string(),
        }
    }
}
