//! The log of a command that ends.

use super::variables;
use crate::cli::LogArgs;
use crate::log::start_logging;

/// The default log of a command that ends: errors, without the problems that its output has.
const COMMAND_LOG: &str = "error,global_dns::problem=off";

/// Starts the log of a command that ends, and prints warnings about environment variables.
pub(super) fn log_to_stderr(log: &LogArgs) -> anyhow::Result<()> {
    let level = match &log.log_level {
        Some(given) => given.clone(),
        None => COMMAND_LOG.parse()?,
    };
    start_logging(&level, log.log_format.unwrap_or_default());
    variables::print_unknown();
    Ok(())
}
