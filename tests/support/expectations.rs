//! The table of expected answers of recordings, `expectations.txt`: at the start, after each event, and at the end.

use std::collections::BTreeMap;

use crate::names::{Answer, Case, lines, origins};

/// The expected answers during a sequence of events.
#[derive(Clone, Debug, Default)]
pub struct Expectations {
    /// Answers before the first event.
    pub start: Vec<Case>,
    /// Answers after single events, in order.
    pub checkpoints: Vec<Checkpoint>,
    /// Answers after the last event.
    pub end: Vec<Case>,
}

/// The expected answers after an event.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// The event, as [`Event::title`](crate::recordings::Event::title) names it.
    pub write: String,
    /// The answers that the event changes, and others to check at this point.
    pub cases: Vec<Case>,
}

/// The names of a service to query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Names with the namespace.
    Canonical,
    /// Also short names.
    All,
}

const TABLE: &str = include_str!("expectations.txt");

/// Prefix of the addresses of local pods, which exist in recordings but not in a test that writes only the mirrors.
const LOCAL_POD_PREFIX: &str = "10.0.0.";

// === impl Expectations ===

impl Expectations {
    /// Reads the expectations of a recording.
    pub fn of_recording(recording: &str, names: Names) -> Self {
        let head = format!("$RECORDING {recording}\n");
        let (_, rest) = TABLE
            .split_once(&head)
            .unwrap_or_else(|| panic!("expectations.txt has no {recording}"));
        let own = rest.split("$RECORDING ").next().unwrap_or_default();
        Self::read(own, names)
    }

    /// Reads the expectations of a recording without its local members.
    pub fn of_mirrors(recording: &str) -> Self {
        let mut expectations = Self::of_recording(recording, Names::Canonical);
        let checkpoints = expectations.checkpoints.iter_mut();
        let checkpoints = checkpoints.flat_map(|checkpoint| &mut checkpoint.cases);
        for case in expectations
            .start
            .iter_mut()
            .chain(checkpoints)
            .chain(&mut expectations.end)
        {
            if let Answer::Data(data) = &mut case.answer {
                data.retain(|data| !data.starts_with(LOCAL_POD_PREFIX));
            }
        }
        expectations
    }

    /// Parses a part of the table.
    pub fn read(text: &str, names: Names) -> Self {
        let defined = definitions();
        let mut expectations = Self::default();
        let (mut current_origins, mut is_end) = (Vec::new(), false);
        for line in lines(text) {
            if let Some(origin) = line.strip_prefix("$ORIGIN ") {
                current_origins = origins(origin);
                current_origins.truncate(if names == Names::All { 2 } else { 1 });
            } else if ["ADDED ", "MODIFIED ", "DELETED "]
                .iter()
                .any(|verb| line.starts_with(verb))
            {
                expectations.checkpoints.push(Checkpoint {
                    write: line,
                    cases: Vec::new(),
                });
            } else if line == "END" {
                is_end = true;
            } else {
                let cases = current_origins
                    .iter()
                    .map(|origin| Case::read(&line, origin))
                    .map(|case| with_addresses(case, &defined));
                match expectations.checkpoints.last_mut() {
                    _ if is_end => expectations.end.extend(cases),
                    Some(checkpoint) => checkpoint.cases.extend(cases),
                    None => expectations.start.extend(cases),
                }
            }
        }
        expectations
    }

    /// Returns the tracked names with their first answers. The table lists all answers of a tracked name.
    pub fn tracked(&self) -> BTreeMap<&str, &Answer> {
        let tracked = self.start.iter().filter(|case| case.rtype == "A");
        tracked.map(|case| (&*case.name, &case.answer)).collect()
    }

    /// Returns the last answers of the tracked names.
    pub fn last_answers(&self) -> Vec<&Case> {
        let checkpoints = self.checkpoints.iter();
        let checkpoints = checkpoints.flat_map(|checkpoint| &checkpoint.cases);
        let all = self.start.iter().chain(checkpoints);
        let last: BTreeMap<&str, &Case> = all
            .filter(|case| self.is_tracked(case))
            .map(|case| (&*case.name, case))
            .collect();
        last.into_values().collect()
    }

    /// Returns whether a case belongs to a tracked name.
    pub fn is_tracked(&self, case: &Case) -> bool {
        case.rtype == "A" && self.tracked().contains_key(&*case.name)
    }
}

fn definitions() -> BTreeMap<&'static str, &'static str> {
    let defined = TABLE.lines();
    let defined = defined.filter_map(|line| line.strip_prefix("$DEFINE ")?.split_once(' '));
    defined.collect()
}

/// Replaces defined words by their addresses.
fn with_addresses(mut case: Case, defined: &BTreeMap<&str, &str>) -> Case {
    if let Answer::Data(data) = &mut case.answer {
        let address = |word: &String| {
            defined
                .get(&**word)
                .map_or(word.clone(), |ip| (*ip).to_owned())
        };
        *data = data.iter().map(address).collect();
    }
    case
}
