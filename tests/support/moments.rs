//! The one table of what recordings answer, `moments.txt`: names at the start, at each moment, and at the end.

use std::collections::BTreeMap;

use crate::names::{Answer, Case, lines, origins};

/// What names answer in the course of some events.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Before the first event.
    pub start: Vec<Case>,
    /// One after the other.
    pub moments: Vec<Moment>,
    /// After the last event.
    pub end: Vec<Case>,
}

/// What names answer after an event.
#[derive(Clone, Debug)]
pub struct Moment {
    /// The event, as [`Event::title`](crate::recordings::Event::title) names it.
    pub write: String,
    /// The answers that it changes, and others to be asked for.
    pub cases: Vec<Case>,
}

/// Which names of a service are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// With its namespace.
    Canonical,
    /// Without it, too.
    All,
}

const TABLE: &str = include_str!("moments.txt");

/// What a recording has and who writes the mirrors alone has not: the addresses of pods of this cluster.
const POD: &str = "10.0.0.";

// === impl History ===

impl History {
    /// What a recording answers, by its name.
    pub fn of(recording: &str, names: Names) -> Self {
        let head = format!("$RECORDING {recording}\n");
        let (_, rest) = TABLE
            .split_once(&head)
            .unwrap_or_else(|| panic!("moments.txt has no {recording}"));
        let own = rest.split("$RECORDING ").next().unwrap_or_default();
        Self::read(own, names)
    }

    /// The same of the mirrors alone.
    pub fn of_mirrors(recording: &str) -> Self {
        let mut history = Self::of(recording, Names::Canonical);
        let moments = history.moments.iter_mut();
        let moments = moments.flat_map(|moment| &mut moment.cases);
        for case in history
            .start
            .iter_mut()
            .chain(moments)
            .chain(&mut history.end)
        {
            if let Answer::Data(data) = &mut case.answer {
                data.retain(|data| !data.starts_with(POD));
            }
        }
        history
    }

    /// Reads a part of the table.
    pub fn read(text: &str, names: Names) -> Self {
        let defined = definitions();
        let mut history = Self::default();
        let (mut above, mut is_over) = (Vec::new(), false);
        for line in lines(text) {
            if let Some(origin) = line.strip_prefix("$ORIGIN ") {
                above = origins(origin);
                above.truncate(if names == Names::All { 2 } else { 1 });
            } else if ["ADDED ", "MODIFIED ", "DELETED "]
                .iter()
                .any(|verb| line.starts_with(verb))
            {
                history.moments.push(Moment {
                    write: line,
                    cases: Vec::new(),
                });
            } else if line == "END" {
                is_over = true;
            } else {
                let cases = above.iter().map(|origin| Case::read(&line, origin));
                let cases = cases.map(|case| with_addresses(case, &defined));
                match history.moments.last_mut() {
                    _ if is_over => history.end.extend(cases),
                    Some(moment) => moment.cases.extend(cases),
                    None => history.start.extend(cases),
                }
            }
        }
        history
    }

    /// The names whose every answer is listed, and their first ones.
    pub fn followed(&self) -> BTreeMap<&str, &Answer> {
        let followed = self.start.iter().filter(|case| case.rtype == "A");
        followed.map(|case| (&*case.name, &case.answer)).collect()
    }

    /// The last answers of those names.
    pub fn last(&self) -> Vec<&Case> {
        let moments = self.moments.iter().flat_map(|moment| &moment.cases);
        let all = self.start.iter().chain(moments);
        let last: BTreeMap<&str, &Case> = all
            .filter(|case| self.follows(case))
            .map(|case| (&*case.name, case))
            .collect();
        last.into_values().collect()
    }

    /// Whether a case is the next answer of a name that is followed.
    pub fn follows(&self, case: &Case) -> bool {
        case.rtype == "A" && self.followed().contains_key(&*case.name)
    }
}

fn definitions() -> BTreeMap<&'static str, &'static str> {
    let defined = TABLE.lines();
    let defined = defined.filter_map(|line| line.strip_prefix("$DEFINE ")?.split_once(' '));
    defined.collect()
}

/// Replaces words by the addresses that they stand for.
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
