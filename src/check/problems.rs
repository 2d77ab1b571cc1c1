//! The checks that print the problems of the table: one line for each kind.

use std::collections::BTreeSet;

use super::facts::{Facts, ServerProblem};
use super::finding::{Check, Fact, Finding, Health, list_some};
use super::objects::Link;
use crate::model::{Family, Level, Problem, ProblemKind};
use crate::table::Table;

impl Check {
    /// Returns the problems that the check prints.
    fn prints(self, kind: ProblemKind) -> bool {
        use ProblemKind as K;
        match self {
            Self::ShortNames => kind == K::ShortName,
            Self::Conflicts => {
                let is_setting = matches!(kind, K::SettingWithoutEffect | K::UnknownAlias);
                is_setting || kind.row().family == Family::Conflict && kind != K::ShortName
            }
            Self::SkippedObjects => kind.row().family == Family::Skipped,
            Self::OrphanedMirrors => matches!(kind, K::Unlinked | K::LinksUnknown),
            Self::EndpointMirrors => kind == K::MissingHost,
            Self::DeadPorts => kind == K::DeadPort,
            Self::Gateways => matches!(kind, K::GatewayDown | K::ServiceNotReady),
            Self::FailoverOrders => {
                matches!(
                    kind,
                    K::AutoWithPods | K::StandbyAnswers | K::StepWithoutEndpoint
                )
            }
            Self::ExpectedClusters => {
                matches!(kind, K::ExpectedClustersMissing | K::ClusterMissing)
            }
            _ => false,
        }
    }

    /// Prints the problems of the check, or `none` if there is none.
    pub(super) fn problems(self, table: &Fact<Table>, none: &str) -> Vec<Finding> {
        self.selected(table, none, |_| true)
    }

    /// Prints problems of one kind, each with its subject and its detail.
    pub(super) fn of_kind(
        self,
        kind: ProblemKind,
        problems: impl IntoIterator<Item = String>,
    ) -> Finding {
        let row = kind.row();
        let sentence = format!("{}: {}", row.sentence, list_some(problems));
        Finding {
            health: match row.level {
                Level::Error => Health::Red,
                Level::Warning | Level::Note => Health::Yellow,
            },
            ..self.red_problem(kind, sentence)
        }
    }

    /// Prints the problems of one kind that a running server has, or `none` if it has none.
    pub(super) fn of_server(
        self,
        kind: ProblemKind,
        problems: &Fact<Vec<ServerProblem>>,
        none: &str,
    ) -> Finding {
        self.check(problems, |problems| {
            let problems: Vec<String> = problems
                .iter()
                .filter(|problem| problem.kind == kind)
                .map(ServerProblem::describe)
                .collect();
            if problems.is_empty() {
                self.green(none)
            } else {
                self.of_kind(kind, problems)
            }
        })
    }

    /// Prints the selected problems of the check, or `none` if there is none.
    fn selected(
        self,
        table: &Fact<Table>,
        none: &str,
        is_selected: impl Fn(&Problem) -> bool,
    ) -> Vec<Finding> {
        let table = match table {
            Ok(table) => table,
            Err(reason) => return vec![self.not_checked(reason)],
        };
        let sorted: BTreeSet<_> = table
            .problems()
            .filter(|one| one.is_serious() && self.prints(one.kind) && is_selected(one))
            .collect();
        let problems: Vec<_> = sorted.into_iter().collect();
        let kinds = problems.chunk_by(|one, next| one.kind == next.kind);
        let findings: Vec<Finding> = kinds
            .map(|problems| {
                let text = |one: &Problem| match one.subject() {
                    subject if subject.is_empty() => one.detail.to_string(),
                    subject => format!("{subject}: {}", one.detail),
                };
                self.of_kind(problems[0].kind, problems.iter().map(|one| text(one)))
            })
            .collect();
        if findings.is_empty() {
            vec![self.green(none)]
        } else {
            findings
        }
    }
}

// === impl ServerProblem ===

impl ServerProblem {
    /// Returns what the cause concerns.
    fn describe(&self) -> String {
        let count = match self.count {
            1 => String::new(),
            count => format!("{count} problems"),
        };
        let parts: Vec<&str> = [&self.subject, &self.detail, &count]
            .map(String::as_str)
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect();
        parts.join(": ")
    }
}

/// Prints the problems of names and objects.
pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    [
        Check::ShortNames.problems(&facts.table, "no short name is ambiguous"),
        conflicts(&facts.table, &facts.objects.links),
        Check::SkippedObjects.problems(&facts.table, "no object is skipped"),
    ]
    .concat()
}

/// Prints conflicts without a check of their own. If a Link has its own selector, other labels export Services, so
/// `not-exported` is unreliable.
fn conflicts(table: &Fact<Table>, links: &Fact<Vec<Link>>) -> Vec<Finding> {
    let mut links = links.iter().flatten();
    let none = "there are no other conflicts";
    match links.find(|link| link.has_own_selector()) {
        None => Check::Conflicts.problems(table, none),
        Some(link) => {
            let none = format!(
                "{none}; not-exported is not checked, because the Link of cluster '{}' selects exported Services by other \
                 labels",
                link.cluster()
            );
            let is_known = |one: &Problem| one.kind != ProblemKind::NotExported;
            Check::Conflicts.selected(table, &none, is_known)
        }
    }
}
