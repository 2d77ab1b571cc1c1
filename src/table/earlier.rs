//! What a process knows of the time before it: the facts that held in the last table of the process before, with their times, the
//! clusters that left services, and the states of links. The snapshot has it.
//!
//! The first table is built with it. A fact of it that does not hold any more is forgotten, so that it has a new time if it begins
//! again.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::content::Table;
use super::left::LeftCluster;
use super::links::Links;
use super::times::{self, Times};
use crate::model::{Problem, ServiceKey, Timestamp};

/// What holds, and since when.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Earlier {
    pub(super) facts: Arc<Times>,
    pub(super) left: Vec<(ServiceKey, Vec<LeftCluster>)>,
    pub(super) links: Links,
}

impl Earlier {
    /// Collects what holds in a table.
    pub fn of(table: &Table, links: Links) -> Self {
        let problems = table
            .problems()
            .filter_map(|one| Some((times::hash_problem(&one), one.since()?)));
        let endpoints = table.services().flat_map(|service| {
            let endpoints = service.endpoints.iter().chain(&service.not_ready);
            endpoints.filter_map(|endpoint| {
                let since = service.since(endpoint)?;
                Some((times::hash_endpoint_of(&service.key, endpoint), since))
            })
        });
        let left = table.services().filter(|service| !service.left.is_empty());
        Self {
            facts: Arc::new(problems.chain(endpoints).collect()),
            left: left
                .map(|service| (service.key.clone(), service.left.to_vec()))
                .collect(),
            links,
        }
    }

    /// Returns it as a process knows it that starts at a time: nothing began later.
    pub(super) fn until(mut self, now: Timestamp) -> Self {
        self.facts = Arc::new(self.facts.until(now));
        for left in self.left.iter_mut().flat_map(|(_, left)| left) {
            left.since = left.since.min(now);
        }
        self
    }

    /// Returns the time since which a problem holds.
    pub fn since(&self, problem: &Problem) -> Option<Timestamp> {
        self.facts.get(times::hash_problem(problem))
    }
}
