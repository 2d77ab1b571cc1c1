//! The log lines of problems. The model is pure, so the lines are written here, by everybody who finds a problem: the source,
//! the update loop, and the listeners.

use tracing::{debug, error, info, warn};

use crate::failures::Failures;
use crate::model::{Level, Problem, ProblemKind, Timestamp};

/// The target of the lines, for filters.
const TARGET: &str = "global_dns::problem";

/// Logs a line with the level of a row. A setting that excludes a cluster skips all its objects, so these
/// lines have the level debug.
macro_rules! log_row {
    ($row:expr, $($fields:tt)+) => {
        match $row.level {
            Level::Note if $row.kind == ProblemKind::LeftOut => debug!(target: TARGET, $($fields)+),
            Level::Note => info!(target: TARGET, $($fields)+),
            Level::Warning => warn!(target: TARGET, $($fields)+),
            Level::Error => error!(target: TARGET, $($fields)+),
        }
    };
}

/// Logs a problem with the level of its kind.
pub fn log_problem(problem: &Problem) {
    let Problem { kind, detail, .. } = problem;
    let (row, subject) = (kind.row(), problem.subject());
    log_row!(row, problem = row.kind.name(), %subject, %detail, "{}", row.sentence);
}

/// Returns the problem that there were failures since the start of the process, if there were any.
pub fn problem_of_failures(kind: ProblemKind, failures: &Failures) -> Option<Problem> {
    let count = failures.count();
    let since = Timestamp(failures.first());
    (count > 0).then(|| Problem::new(kind, format!("{count} so far")).holds_since(since))
}

/// Logs that there are more problems of a kind than those that were logged.
pub(super) fn log_more(kind: ProblemKind, count: usize) {
    let row = kind.row();
    log_row!(
        row,
        problem = row.kind.name(),
        count,
        "{}: {count} more",
        row.sentence
    );
}
