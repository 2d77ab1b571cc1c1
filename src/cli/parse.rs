//! Parses the arguments, and checks the values that must fit together.

use std::ffi::OsString;

use clap::FromArgMatches as _;
use clap::error::ErrorKind;

use super::environment::name_variables;
use super::{Cli, Command, program};

/// Parses arguments, and the environment variables of their command. Ends the process with exit code 2 if they are
/// invalid.
pub(super) fn parse(arguments: Vec<OsString>) -> Cli {
    let matches = program::command().try_get_matches_from(&arguments);
    let parsed = matches.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let (cli, matches) = parsed.unwrap_or_else(|error| {
        let texts = arguments.iter().map(|text| text.to_string_lossy());
        let texts: Vec<String> = texts.map(Into::into).collect();
        let is_set = |variable: &str| std::env::var_os(variable).is_some();
        name_variables(error, &texts, is_set).exit()
    });
    let checked = cli.command.check();
    let checked = checked.and_then(|()| cli.command.check_max_stale());
    if let Err(problem) = checked.and_then(|()| cli.command.check_view(&matches)) {
        program::command()
            .error(ErrorKind::ValueValidation, problem)
            .exit();
    }
    cli
}

impl Command {
    /// Returns an error if tables would expire while their watches are healthy.
    fn check_max_stale(&self) -> Result<(), String> {
        let Self::Serve(args) = self else {
            return Ok(());
        };
        let (max_stale, silence) = (args.max_stale, args.watch_timeout);
        match max_stale.filter(|max_stale| *max_stale < 2 * silence) {
            Some(max_stale) => Err(format!(
                "--max-stale {max_stale:?} is less than twice --watch-timeout {silence:?}: a healthy watch may be \
                 silent that long; set --max-stale to at least {:?}",
                2 * silence
            )),
            None => Ok(()),
        }
    }
}
