//! Parses the arguments, reads the settings, and checks the values that must fit together.

use std::ffi::OsString;

use clap::error::{Error, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, FromArgMatches as _};

use super::command::{Cli, Command};
use super::environment::name_variables;
use super::program;
use super::values::Output;
use super::variables::variable_of_flag;
use super::view::{TableArgs, ViewArgs, setting_flags};

/// Parses arguments, and the environment variables of their command. Ends the process with exit code 2 if they are
/// invalid.
pub(super) fn parse(arguments: Vec<OsString>) -> Cli {
    let matches = program::command().try_get_matches_from(&arguments);
    let parsed = matches.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let (mut cli, matches) = parsed.unwrap_or_else(|error| {
        let texts = arguments
            .iter()
            .map(|text| text.to_string_lossy().into_owned());
        let is_set = |variable: &str| std::env::var_os(variable).is_some();
        name_variables(error, &texts.collect::<Vec<_>>(), is_set).exit()
    });
    cli.command.select_all_namespaces();
    let (_, flags) = matches.subcommand().expect("clap requires a subcommand");
    if let Err(problem) = cli.command.load(flags) {
        let error: Error = Error::raw(ErrorKind::ValueValidation, problem + "\n");
        error.exit();
    }
    cli
}

// === impl Command ===

impl Command {
    /// Applies `--all-namespaces`, which overrides `--namespace` and its variable, as in kubectl.
    fn select_all_namespaces(&mut self) {
        let (is_all, namespaces) = match self {
            Self::Explain(args) => (args.view.all_namespaces, &mut args.view.source.namespace),
            Self::Table(args) => (args.view.all_namespaces, &mut args.view.source.namespace),
            Self::Check(args) => (args.view.all_namespaces, &mut args.view.source.namespace),
            _ => return,
        };
        if is_all {
            namespaces.clear();
        }
    }

    /// Reads the settings. Returns an error if they are invalid, or if flags contradict each other or have no effect.
    fn load(&mut self, flags: &ArgMatches) -> Result<(), String> {
        match self {
            Self::Serve(args) => args.load(),
            Self::Demo(args) => args.load(),
            Self::Explain(args) => {
                args.view.check_source(flags, None)?;
                args.view.load()
            }
            Self::Table(args) => {
                args.check_zone_file(flags)?;
                let allowed = (args.output == Output::Zone).then_some("zone");
                args.view.check_source(flags, allowed)?;
                args.view.load()
            }
            Self::Check(args) => {
                args.view.check_source(flags, None)?;
                args.view.load()
            }
            Self::Fleet(args) => args.check(),
            Self::Events(_) | Self::Completions(_) => Ok(()),
        }
    }
}

// === impl ViewArgs ===

impl ViewArgs {
    /// Returns an error if flags of [`SettingsArgs`](super::settings::SettingsArgs), except one that is allowed, have no effect, because
    /// the queried server decides.
    fn check_source(&self, flags: &ArgMatches, allowed: Option<&str>) -> Result<(), String> {
        if self.reads_objects() {
            return Ok(());
        }
        let refused = setting_flags().filter(|flag| Some(flag.as_str()) != allowed);
        let given = refused.filter_map(|flag| match flags.value_source(&flag)? {
            ValueSource::EnvVariable => Some(variable_of_flag(&flag)),
            ValueSource::CommandLine => Some(format!("--{}", flag.replace('_', "-"))),
            _ => None,
        });
        let given: Vec<_> = given.collect();
        let (is, them) = match given.len() {
            0 => return Ok(()),
            1 => ("is", "it"),
            _ => ("are", "them"),
        };
        let given = given.join(", ");
        Err(format!(
            "{given} {is} decided by the server; remove {them}, or read the objects with --file or --direct"
        ))
    }
}

// === impl TableArgs ===

impl TableArgs {
    /// Returns an error if flags select parts of a zone file.
    fn check_zone_file(&self, flags: &ArgMatches) -> Result<(), String> {
        if self.output != Output::Zone {
            return Ok(());
        }
        let is_given = |flag: &&str| {
            let source = flags.value_source(flag.trim_start_matches("--"));
            source == Some(ValueSource::CommandLine)
        };
        let is_filtered = !self.filter.is_empty()
            || !(self.view.reads_objects() || self.view.source.namespace.is_empty());
        let given = ["--state", "--cluster"].into_iter().find(is_given);
        match given.or(is_filtered.then_some("the filter")) {
            Some(useless) => Err(format!(
                "--output zone prints a whole zone; remove {useless}"
            )),
            None => Ok(()),
        }
    }
}
