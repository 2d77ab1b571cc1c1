//! Diagnosis of an installation: `global-dns check`.
//!
//! [`check`] is a pure function: it takes [`Facts`] and returns a [`Diagnosis`]. `app` gathers the facts from the API
//! server or from files, and from name servers. Only [`dns_client`] sends queries. The report follows `linkerd check`:
//! one line for each fact, green, yellow or red. Below each line that is not green are a hint and a link to its section
//! of the manual.
//!
//! Red: a condition that makes answers wrong and lasts until somebody fixes it. Yellow: a condition that deserves
//! attention, that must be fixed in another cluster, or that could not be checked.

pub mod dns;
pub mod dns_client;
mod documentation;
pub mod end_to_end;
mod facts;
mod failover;
mod finding;
pub mod fleet;
mod gateway;
mod links;
mod mirrors;
mod names;
pub mod objects;
pub mod permissions;
mod problems;
pub mod question;
mod report;
pub mod resolv_conf;
mod root;
mod versions;

pub use facts::{Facts, ServerProblem};
pub use finding::{Check, Diagnosis, Fact, Finding, NotChecked};

/// Checks the facts.
pub fn check(facts: &Facts) -> Diagnosis {
    let parts = [
        permissions::check(&facts.api),
        mirrors::check(facts),
        problems::check(facts),
        names::check(facts),
        failover::check(facts),
        dns::check(&facts.dns),
        end_to_end::check(&facts.end_to_end),
        versions::check(facts),
    ];
    Diagnosis(root::one_red_line(parts.concat(), facts))
}

#[cfg(test)]
mod tests;
