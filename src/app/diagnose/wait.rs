//! `check --wait`: repeats the checks until none fails.

use std::io::IsTerminal as _;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use crate::app::output::print_to_stderr;
use crate::app::screen::CLEAR_LINE;
use crate::check::Diagnosis;

/// The pause between two diagnoses. Each of them lists all objects.
const PAUSE: Duration = Duration::from_secs(2);

/// Repeats the diagnosis until no check fails, or until the time is over. Returns the last complete one.
pub(super) async fn diagnose_until(
    limit: Duration,
    diagnose: impl AsyncFn() -> anyhow::Result<Diagnosis>,
) -> anyhow::Result<Diagnosis> {
    let is_terminal = std::io::stderr().is_terminal();
    let end = Instant::now() + limit;
    let mut last = diagnose().await?;
    while !last.is_success() && Instant::now() + PAUSE < end {
        if is_terminal {
            let left = end.saturating_duration_since(Instant::now());
            print_to_stderr(&format!("{CLEAR_LINE}{}", last.progress(left)));
        }
        sleep(PAUSE).await;
        match timeout_at(end, diagnose()).await {
            Ok(diagnosis) => last = diagnosis?,
            Err(_) => break,
        }
    }
    if is_terminal {
        print_to_stderr(CLEAR_LINE);
    }
    Ok(last)
}
