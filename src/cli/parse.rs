//! Parses the arguments, and checks the values that must fit together.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, FromArgMatches as _};

use super::command::{Cli, Command};
use super::encrypted::EncryptedArgs;
use super::environment::name_variables;
use super::groups::ListenArgs;
use super::program;
use super::serve::{DemoArgs, ServeArgs};
use super::values::Output;
use super::view::model_flags;

/// Parses arguments, and the environment variables of their command. Ends the process with exit code 2 if they are
/// invalid.
pub(super) fn parse(arguments: Vec<OsString>) -> Cli {
    let matches = program::command().try_get_matches_from(&arguments);
    let parsed = matches.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let (mut cli, matches) = parsed.unwrap_or_else(|error| {
        let texts: Vec<String> = arguments
            .iter()
            .map(|text| text.to_string_lossy())
            .map(Into::into)
            .collect();
        let is_set = |variable: &str| std::env::var_os(variable).is_some();
        name_variables(error, &texts, is_set).exit()
    });
    cli.command.select_all_namespaces();
    let checked = cli
        .command
        .check()
        .and_then(|()| cli.command.check_max_stale());
    if let Err(problem) = checked.and_then(|()| cli.command.check_view(&matches)) {
        let mut program = program::command();
        program.build();
        let name = matches.subcommand_name().unwrap_or_default();
        match program.find_subcommand_mut(name) {
            Some(command) => command.error(ErrorKind::ValueValidation, problem).exit(),
            None => program.error(ErrorKind::ValueValidation, problem).exit(),
        }
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
            Self::Events(args) => (args.all_namespaces, &mut args.namespace),
            _ => return,
        };
        if is_all {
            namespaces.clear();
        }
    }

    /// Returns an error if values of flags contradict each other.
    fn check(&self) -> Result<(), String> {
        let model = match self {
            Self::Serve(args) => &args.model,
            Self::Explain(args) => &args.view.model,
            Self::Table(args) => &args.view.model,
            Self::Check(args) => &args.model,
            Self::Fleet(args) => return args.check(),
            _ => return Ok(()),
        };
        model.check_zones().and_then(|()| model.check_failover())
    }

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

    /// Returns an error for flags that have no effect: those that the queried server decides, and those that select
    /// parts of a zone file.
    fn check_view(&self, matches: &ArgMatches) -> Result<(), String> {
        let (view, selects_zone) = match self {
            Self::Explain(args) => (&args.view, false),
            Self::Table(args) => (&args.view, args.output == Output::Zone),
            _ => return Ok(()),
        };
        let reads_objects = view.direct || !view.source.file.is_empty();
        let matches = matches.subcommand().map(|(_, matches)| matches);
        if let (Self::Table(args), true, Some(matches)) = (self, selects_zone, matches) {
            let is_given = |flag: &&str| {
                matches.value_source(flag.trim_start_matches("--"))
                    == Some(ValueSource::CommandLine)
            };
            let flags = ["--state", "--cluster", "--sort", "--summary"];
            let useless = flags.into_iter().find(is_given);
            let is_filtered =
                !args.filter.is_empty() || !(reads_objects || view.source.namespace.is_empty());
            if let Some(useless) = useless.or(is_filtered.then_some("the filter")) {
                return Err(format!(
                    "--output zone prints a whole zone; remove {useless}"
                ));
            }
        }
        match matches.filter(|_| !reads_objects) {
            Some(matches) => refuse_model_flags(matches, selects_zone),
            None => Ok(()),
        }
    }
}

/// Returns an error if a flag of [`ModelArgs`](super::model::ModelArgs) is given.
fn refuse_model_flags(matches: &ArgMatches, allows_zone: bool) -> Result<(), String> {
    let refused = model_flags().filter(|flag| !(allows_zone && flag == "zone"));
    let given = refused.filter_map(|flag| {
        let source = matches.value_source(&flag)?;
        if source == ValueSource::EnvVariable {
            return Some(format!("GLOBAL_DNS_{}", flag.to_uppercase()));
        }
        let is_flag = source == ValueSource::CommandLine;
        is_flag.then(|| format!("--{}", flag.replace('_', "-")))
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

// === impl ServeArgs ===

impl From<DemoArgs> for ServeArgs {
    /// Converts the flags of `demo` to those of `serve`. The caller adds the file.
    fn from(demo: DemoArgs) -> Self {
        let DemoArgs {
            listen,
            admin_listen,
            api_listen,
            live: _, // the caller plays the scenes
            log,
        } = demo;
        // The defaults of `serve`, and the values of its environment variables.
        let Command::Serve(mut serve) =
            parse(["global-dns", "serve"].map(OsString::from).into()).command
        else {
            unreachable!("the subcommand is named on the line above")
        };
        serve.listeners = ListenArgs {
            listen: vec![listen],
            admin_listen: vec![admin_listen],
            api_listen: vec![api_listen],
            api_host: Vec::new(),
        };
        serve.encrypted = EncryptedArgs::default();
        serve.snapshot = None; // the sample data is not from a cluster
        serve.log = log;
        *serve
    }
}
