//! The diagnosis as text and as JSON.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::finding::{Category, Check, Diagnosis, Finding, Health};
use crate::model::ProblemKind;
use crate::report::{Colors, SchemaVersion, Shade, text};

/// The diagnosis as JSON.
#[derive(Debug, Serialize)]
struct CheckReport<'c> {
    #[serde(rename = "schemaVersion")]
    schema_version: SchemaVersion,
    /// No finding is red.
    success: bool,
    green: usize,
    yellow: usize,
    red: usize,
    /// Not checked.
    grey: usize,
    checks: Vec<FindingReport<'c>>,
}

#[derive(Debug, Serialize)]
struct FindingReport<'c> {
    category: Category,
    check: Check,
    health: Health,
    sentence: &'c str,
    hint: Option<&'c str>,
    link: Option<String>,
    problem: Option<ProblemKind>,
    anchor: Option<String>,
}

// === impl Diagnosis ===

impl Diagnosis {
    /// Returns whether no finding is red.
    pub fn is_success(&self) -> bool {
        self.count(Health::Red) == 0
    }

    pub(super) fn count(&self, health: Health) -> usize {
        self.0.iter().filter(|one| one.health == health).count()
    }

    /// Returns the diagnosis as text.
    pub fn to_text(&self, colors: Colors) -> String {
        text(|text| self.write(text, colors))
    }

    fn write(&self, text: &mut String, colors: Colors) -> std::fmt::Result {
        let categories = self
            .0
            .chunk_by(|one, next| one.check.row().category == next.check.row().category);
        for (number, findings) in categories.enumerate() {
            let title = findings[0].check.row().category.title();
            let line = "-".repeat(title.len());
            let gap = if number > 0 { "\n" } else { "" };
            writeln!(text, "{gap}{title}\n{line}")?;
            let mut own = findings.iter().filter(|one| !one.is_consequence);
            own.try_for_each(|finding| finding.write(text, colors))?;
            write_consequences(findings, text, colors)?;
        }
        self.write_status(text, colors)
    }

    /// Returns the line of `--wait`: what is red, and the time that is left.
    pub fn progress(&self, left: Duration) -> String {
        let mut red: Vec<&str> = self
            .0
            .iter()
            .filter(|one| one.health == Health::Red)
            .map(|one| one.check.name())
            .collect();
        red.dedup();
        format!("waiting for {} ({} s left)", red.join(", "), left.as_secs())
    }

    /// Writes the last line: the overall result, and the number of findings of each color.
    fn write_status(&self, text: &mut String, colors: Colors) -> std::fmt::Result {
        let counts = [Health::Green, Health::Yellow, Health::Red, Health::Grey]
            .map(|health| (health, self.count(health)));
        // What was not checked is rare.
        let counts: Vec<String> = counts
            .into_iter()
            .filter(|count| *count != (Health::Grey, 0))
            .map(|(health, count)| format!("{count} {}", health.name()))
            .collect();
        let result = if self.is_success() {
            Health::Green
        } else {
            Health::Red
        };
        let (sign, counts) = (result.sign(colors), counts.join(", "));
        writeln!(text, "\nStatus: {sign} ({counts})")
    }
}

/// Writes one line with the checks that another finding is the cause of.
fn write_consequences(findings: &[Finding], text: &mut String, colors: Colors) -> std::fmt::Result {
    let own = findings.iter().filter(|one| one.is_consequence);
    let mut names: Vec<&str> = own.map(|one| one.check.name()).collect();
    names.dedup();
    if names.is_empty() {
        Ok(())
    } else {
        writeln!(
            text,
            "{} not checked: {}",
            Health::Grey.sign(colors),
            names.join(", ")
        )
    }
}

impl Finding {
    /// Writes the finding as text: a line and, if it is not green, the hint and where to read more.
    fn write(&self, text: &mut String, colors: Colors) -> std::fmt::Result {
        writeln!(text, "{} {}", self.health.sign(colors), self.sentence)?;
        if let Some(hint) = &self.hint {
            write!(text, "    {hint}\n    see {}", self.check.link())?;
            match self.problem {
                Some(kind) => writeln!(text, "; in the manual: {}", kind.anchor())?,
                None => writeln!(text)?,
            }
        }
        Ok(())
    }
}

impl Serialize for Diagnosis {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        CheckReport {
            schema_version: SchemaVersion,
            success: self.is_success(),
            green: self.count(Health::Green),
            yellow: self.count(Health::Yellow),
            red: self.count(Health::Red),
            grey: self.count(Health::Grey),
            checks: self.0.iter().map(FindingReport::from).collect(),
        }
        .serialize(serializer)
    }
}

impl<'c> From<&'c Finding> for FindingReport<'c> {
    fn from(finding: &'c Finding) -> Self {
        Self {
            category: finding.check.row().category,
            check: finding.check,
            health: finding.health,
            sentence: &finding.sentence,
            hint: finding.hint.as_deref(),
            link: finding.hint.as_ref().map(|_| finding.check.link()),
            problem: finding.problem,
            anchor: finding.problem.map(ProblemKind::anchor),
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
            Self::Grey => "not checked",
        }
    }

    /// Returns the sign at the start of a line.
    fn sign(self, colors: Colors) -> String {
        let shade = match self {
            Self::Green => Shade::Good,
            Self::Yellow => Shade::Attention,
            Self::Red => Shade::Bad,
            Self::Grey => Shade::Idle,
        };
        colors.paint(shade, shade.sign())
    }
}
