//! Since when something holds.

use serde::Serialize;

use crate::model::{Problem, Timestamp};
use crate::source::SteadyClock;

/// Since when something holds, as far as the server knows. That of a [`Problem`] is of the clock of the process until it is printed.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Age {
    /// The time since which it holds to the second, if it is known (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Whether it held in the first table of the process, so that it began at an unknown time before `since`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_older: bool,
}

// === impl Age ===

impl Age {
    /// Returns the age of what began first.
    pub(super) fn earliest(self, other: Self) -> Self {
        let known = [self, other].into_iter().filter(|age| age.since.is_some());
        known
            .min_by_key(|age| (age.since, !age.is_older))
            .unwrap_or_default()
    }

    /// Returns the age in wall time, to the second. `clock` is that of the process.
    pub(super) fn printed(self, clock: SteadyClock) -> Self {
        let wall = |time| Timestamp(clock.wall(time).0 / 1000 * 1000);
        Self {
            since: self.since.map(wall),
            ..self
        }
    }

    /// Returns the age in words, if it is known: `since TIME`, or `before TIME`.
    pub(super) fn words(&self) -> Option<String> {
        let word = if self.is_older { "" } else { "since " };
        self.since.map(|_| format!("{word}{}", self.cell()))
    }

    /// Returns the time as a cell: `TIME`, or `before TIME`. Empty: it is not known.
    pub fn cell(&self) -> String {
        let word = if self.is_older { "before " } else { "" };
        self.since
            .map(Timestamp::to_text)
            .map_or_else(String::new, |time| format!("{word}{time}"))
    }
}

impl From<&Problem> for Age {
    fn from(problem: &Problem) -> Self {
        Self {
            since: problem.since,
            is_older: problem.is_older,
        }
    }
}

/// Returns a problem as one sentence with its age. `clock` is that of the process.
pub fn problem_with_age(problem: &Problem, clock: SteadyClock) -> String {
    match Age::from(problem).printed(clock).words() {
        Some(age) => format!("{problem} ({age})"),
        None => problem.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::{unix_milliseconds, unix_seconds};
    use crate::model::ProblemKind;
    use crate::source::{Feeds, SteadyClock};
    use crate::table::links::LinkList;
    use crate::table::{Built, Difference, Publisher};
    use crate::testing::{self, backends, link, local, rules, service_mirror, store, zones};
    use crate::view::{Filter, Identity, Server, ViewKind, document};

    const HOUR: Duration = Duration::from_secs(3600);

    /// A node starts with a wall clock that is two hours behind, and is corrected while the process runs.
    #[test]
    fn times_of_every_view_follow_a_wall_clock_that_is_corrected() {
        let now = Timestamp(unix_milliseconds());
        let mut feeds = Feeds::new(&[]);
        feeds.clock = SteadyClock::started_at(now.before(2 * HOUR));
        feeds.note_failure(&feeds.all().pop_first().unwrap(), "refused");
        let [mut own, _] = local("prod", "web", &[]);
        own["metadata"]["annotations"]["global-dns/failover"] = "auto:east:west".into();
        let mut objects = vec![own, link("west", "west"), link("east", "east")];
        for cluster in ["east", "west"] {
            objects.push(service_mirror("prod", "web", cluster, "10.96.0.1"));
            objects.push(backends("prod", &format!("web-{cluster}"), true, false));
        }
        let mut process = testing::Server::new(rules());
        let steady = feeds.clock.now();
        let publisher = Publisher::new(steady, HOUR);
        for count in [objects.len(), 2] {
            objects.retain(|one| count > 2 || one["metadata"]["name"] != "east");
            let list = LinkList::Listed { is_complete: true };
            let links = &mut process.timers.links;
            links.update(&mut store(&objects), Some(list), &rules(), steady);
            process.see(steady.0 / 1000, &objects);
            let built = Built {
                table: process.table.clone(),
                difference: Difference::Answers,
                ..Built::default()
            };
            publisher.publish(built, steady, unix_seconds());
        }
        let zones = zones(&["global"]);
        let server = Server::of_objects(publisher.reader(), feeds, zones, Identity::default());
        server.refused.note([192, 0, 2, 7].into(), unix_seconds());
        let is_of_time = |c: char| c.is_ascii_digit() || "TZ:.-".contains(c);
        let mut seen = 0;
        for view in [
            ViewKind::Table,
            ViewKind::Endpoints,
            ViewKind::Explain,
            ViewKind::Problems,
            ViewKind::Status,
        ] {
            let filter = Filter {
                name: (view == ViewKind::Explain).then(|| "web.prod".to_owned()),
                ..Filter::default()
            };
            let document = document(view, &server, &filter).unwrap();
            let text =
                serde_json::to_string(&(&document.sections, document.clone().objects())).unwrap();
            for word in text.split(|c| !is_of_time(c)) {
                if let Some(time) = Timestamp::from_text(word.trim_matches(['.', ':', '-'])) {
                    seen += 1;
                    assert!(time > now.before(HOUR), "{view:?}: {word} in {text}");
                }
            }
        }
        assert!(seen > 20, "{seen}");
        // Its time is of the wall clock.
        let problems = server.problems(&server.reader.load());
        let mut refused = problems
            .iter()
            .filter(|one| one.kind == ProblemKind::RefusedClient);
        let age = Age::from(refused.next().unwrap()).printed(server.feeds.clock);
        assert!(age.since.unwrap() < now.after(HOUR));
    }
}
