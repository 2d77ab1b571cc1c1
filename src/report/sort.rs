//! The order of the services and endpoints of a report.

use std::cmp::Reverse;

use strum::{IntoStaticStr, VariantArray};

use super::{CellState, EndpointReport, Report, ServiceReport, ServiceRow, Summary};

/// What a report is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum SortKey {
    /// Namespace and name.
    Name,
    /// The worst state first.
    State,
    /// The latest change of a state first.
    Since,
}

// === impl SortKey ===

impl SortKey {
    /// Returns the name of the key.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

// === impl Report ===

impl Report {
    /// Sorts the services, and the endpoints of each. What is equal stays in the order of names.
    pub fn sort(&mut self, key: SortKey) {
        for service in &mut self.services {
            let endpoints = &mut service.endpoints;
            match key {
                SortKey::Name => {}
                SortKey::State => endpoints.sort_by_key(cell_state),
                SortKey::Since => endpoints.sort_by(|one, other| other.since.cmp(&one.since)),
            }
        }
        match key {
            SortKey::Name => {}
            SortKey::State => self.services.sort_by_key(badness),
            SortKey::Since => self.services.sort_by(|one, other| {
                let latest = |one: &ServiceReport| {
                    let first = one.endpoints.first();
                    first.and_then(|first| first.since.clone())
                };
                latest(other).cmp(&latest(one))
            }),
        }
    }
}

/// Returns how bad a service is: first names that return nothing alive, then by the worst endpoint.
fn badness(service: &ServiceReport) -> (bool, CellState) {
    let mut endpoints = service.endpoints.iter();
    let has_answer = endpoints.any(|one| one.returned && one.state.is_alive());
    let worst = service.endpoints.iter().map(cell_state).min();
    (has_answer, worst.unwrap_or(CellState::Left))
}

fn cell_state(endpoint: &EndpointReport) -> CellState {
    endpoint.state.into()
}

// === impl Summary ===

impl Summary {
    /// Sorts the services. Without a key, those with trouble come first.
    pub fn sort(&mut self, key: Option<SortKey>) {
        let level = |row: &ServiceRow| Reverse(row.level);
        let worst = |row: &ServiceRow| row.cells.iter().map(|cell| cell.state).min();
        let since = |row: &ServiceRow| {
            let times = row.cells.iter().filter_map(|cell| cell.since.as_ref());
            Reverse(times.max().cloned())
        };
        match key {
            None => self.services.sort_by_key(level),
            Some(SortKey::Name) => {}
            Some(SortKey::State) => self.services.sort_by_key(|row| (level(row), worst(row))),
            Some(SortKey::Since) => self.services.sort_by_key(since),
        }
    }
}
