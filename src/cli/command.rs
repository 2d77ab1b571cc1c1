//! The subcommands, with the examples of their help.

use std::ffi::OsString;

use clap::builder::styling::{AnsiColor, Styles};
use clap::builder::{OsStr, Resettable, StyledStr};
use clap::error::{Error, ErrorKind};
use clap::{
    Arg, ArgAction, ArgMatches, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand,
};
use clap_complete::{Shell, generate};

use super::fleet::FleetArgs;
use super::groups::{LogArgs, is_given};
use super::linkerd;
use super::serve::{DemoArgs, ServeArgs};
use super::view::{CheckArgs, EventsArgs, ExplainArgs, TableArgs};

/// The name of the program.
const NAME: &str = "global-dns";

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// DNS server: one name for a service in several linked clusters
///
/// Examples:
///   # Try it without a cluster, then ask it in another terminal
///   global-dns demo
///   # What is answered for a service, and why
///   global-dns explain db.prod
///   # Which services have trouble, and in which cluster
///   global-dns table
///   # Find mistakes of an installation
///   global-dns check
#[derive(Parser)]
#[command(name = NAME, version, styles = STYLES, max_term_width = 100, verbatim_doc_comment)]
pub struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,

    /// The log.
    #[command(flatten)]
    pub log: LogArgs,
}

/// The subcommands. The help of each begins with its first line, and ends with the others.
#[derive(Subcommand)]
#[command(verbatim_doc_comment)]
pub enum Command {
    /// Run the DNS server
    ///
    /// Examples:
    ///   # In a pod, or with a kubeconfig
    ///   global-dns serve --cluster-name hub
    ///   # Serve the objects of a file on other ports
    ///   global-dns serve --file objects.yaml --listen :1053 --admin-listen localhost:0
    ///   # Print all settings, as a file to edit
    ///   global-dns serve --print-settings
    #[command(verbatim_doc_comment)]
    Serve(Box<ServeArgs>),
    /// Try the server with built-in sample data of three clusters, at 127.0.0.1:1053
    ///
    /// Examples:
    ///   # Serve the sample; it prints the queries to try
    ///   global-dns demo
    #[command(verbatim_doc_comment, mut_arg("listen", |flag| local(flag, "127.0.0.1:1053")))]
    #[command(mut_arg("admin_listen", |flag| local(flag, "127.0.0.1:9153")))]
    #[command(mut_arg("api_listen", |flag| local(flag, "127.0.0.1:9154")))]
    Demo(Box<DemoArgs>),
    /// Explain the answer for a name, or why there is none
    ///
    /// Examples:
    ///   # The answer for db.prod.global, and why
    ///   global-dns explain db.prod
    ///   # The endpoints of one cluster, with all columns
    ///   global-dns explain east.db.prod -o wide
    ///   # The name of an address
    ///   global-dns explain 10.96.10.1
    ///   # What was answered at 03:12
    ///   global-dns explain db.prod --at 03:12
    ///   # What objects of a file would answer
    ///   global-dns explain db.prod --file objects.yaml
    ///   # What a kind of problem means, and what to do
    ///   global-dns explain --kind gateway-down
    ///
    /// With --file or --direct, the settings of --config apply. A server knows its own.
    ///
    /// Exit codes: 0 the name exists; 1 failure; 2 wrong usage; 3 the name does not exist
    #[command(verbatim_doc_comment)]
    Explain(Box<ExplainArgs>),
    /// Print what is wrong, and all services, those with trouble first
    ///
    /// Examples:
    ///   # What is wrong with the server and its source, and all services, those with trouble first
    ///   global-dns table
    ///   # Trouble of services with an endpoint in one cluster
    ///   global-dns table --cluster east --state failing,attention
    ///   # What was answered at 03:12
    ///   global-dns table db -n prod --at 03:12
    ///   # The objects of the cluster, without a server
    ///   global-dns table --direct --cluster-name hub
    ///
    /// With --file or --direct, the settings of --config apply. A server knows its own.
    ///
    /// Exit codes: 0 success; 1 failure; 2 wrong usage; 3 no service has such a name, namespace or cluster
    #[command(verbatim_doc_comment)]
    Table(Box<TableArgs>),
    /// Print the last changes of the answers
    ///
    /// Examples:
    ///   # The last changes of all answers
    ///   global-dns events
    ///   # Those of one cluster, as they happen
    ///   global-dns events --cluster east --watch
    ///   # The same, for a program
    ///   global-dns events -o json
    ///
    /// Exit codes: 0 success; 1 failure; 2 wrong usage
    #[command(verbatim_doc_comment)]
    Events(Box<EventsArgs>),
    /// Diagnose an installation, with a hint for each problem
    ///
    /// Examples:
    ///   # Check the server in the cluster of the current context
    ///   global-dns check
    ///   # Also the way of queries, which a pod knows by itself
    ///   global-dns check --dns 10.96.0.53 --resolver 10.96.0.10
    ///
    /// With --file or --direct, the settings of --config apply. A server knows its own.
    ///
    /// Exit codes: 0 nothing fails; 1 something fails, or no server answers; 2 wrong usage
    #[command(verbatim_doc_comment)]
    Check(Box<CheckArgs>),
    /// Compare the servers of several clusters, and print every difference
    ///
    /// Examples:
    ///   # Compare three clusters of the kubeconfig
    ///   global-dns fleet --contexts hub,east,west
    ///   # Compare the replicas of the current context
    ///   global-dns fleet
    ///   # One of them by the address of its API
    ///   global-dns fleet --contexts hub,east --server west=127.0.0.1:9154 -o json
    ///
    /// Exit codes: 0 nothing differs; 1 something differs, or a cluster cannot be read; 2 wrong usage
    #[command(verbatim_doc_comment)]
    Fleet(Box<FleetArgs>),
    /// Print the completions of a shell
    ///
    /// Examples:
    ///   # Complete commands and flags in bash
    ///   global-dns completions bash
    #[command(verbatim_doc_comment)]
    Completions(CompletionsArgs),
    /// Print what Linkerd asks its extensions for
    #[command(name = "_extension-metadata", hide = true)]
    ExtensionMetadata,
}

/// Flags of `completions`.
#[derive(Args)]
pub struct CompletionsArgs {
    /// Shell that runs the script
    pub shell: Shell,
}

/// Reads the command line and the settings. Ends the process with exit code 2 if they are invalid, and with exit code 0 after
/// `help`.
pub fn read() -> Cli {
    let command = command();
    let arguments = linkerd::arguments(&command);
    let matches = without_lost_variables(command, &arguments).get_matches_from(arguments);
    let mut cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let flags = matches.subcommand().map_or(&matches, |(_, flags)| flags);
    if let Err(problem) = cli.load(flags) {
        <Error>::raw(ErrorKind::ValueValidation, problem + "\n").exit();
    }
    cli
}

/// Removes the variables that conflict with a flag on the command line: a flag wins.
fn without_lost_variables(command: clap::Command, arguments: &[OsString]) -> clap::Command {
    let without = |flag: Arg| flag.env(Resettable::<OsStr>::Reset);
    let flags_alone = command.clone().mut_subcommands(|one| one.mut_args(without));
    // What is wrong with the flags alone is said when all is read.
    let Ok(matches) = flags_alone.try_get_matches_from(arguments) else {
        return command;
    };
    let Some((name, given)) = matches.subcommand() else {
        return command;
    };
    command.mut_subcommand(name, |mut one| {
        let mut lost = Vec::new();
        for flag in one.get_arguments() {
            for other in one.get_arg_conflicts_with(flag) {
                // A conflict is known to one of both.
                for [winner, loser] in [[flag, other], [other, flag]] {
                    if is_given(given, winner.get_id().as_str()) {
                        lost.push(loser.get_id().clone());
                    }
                }
            }
        }
        for flag in lost {
            one = one.mut_arg(flag, without);
        }
        one
    })
}

/// Gives a flag of the demo its default: without flags, the demo can only be reached from this host.
fn local(flag: Arg, address: &'static str) -> Arg {
    flag.default_value(address).hide_default_value(true)
}

/// Returns the definition of the command line. Commas separate the values of lists.
fn command() -> clap::Command {
    let with_examples = |command: clap::Command| {
        let text = command.get_long_about().map(ToString::to_string);
        let text = text.unwrap_or_default();
        let (_, examples) = text.split_once("\n\n").unwrap_or_default();
        command
            .long_about(Resettable::<StyledStr>::Reset)
            .after_help(examples.to_owned())
    };
    let with_commas = |flag: Arg| match flag.get_action() {
        ArgAction::Append if !flag.is_positional() => flag.value_delimiter(','),
        _ => flag,
    };
    with_examples(Cli::command())
        .mut_subcommands(|command| with_examples(command.mut_args(with_commas)))
}

// === impl Cli ===

impl Cli {
    /// Reads the settings. Returns an error if they are invalid, or if flags contradict each other or have no effect. Variables are
    /// defaults, and may have none.
    fn load(&mut self, flags: &ArgMatches) -> Result<(), String> {
        match &mut self.command {
            Command::Serve(args) => args.demo.load(&args.source.namespace, &self.log),
            Command::Demo(args) => args.load(&[], &self.log),
            Command::Explain(args) => args.view.load(false, flags),
            Command::Table(args) => args.load(flags),
            Command::Check(args) => args.load(flags),
            Command::Fleet(args) => args.check(flags),
            Command::Events(_) | Command::Completions(_) | Command::ExtensionMetadata => Ok(()),
        }
    }
}

// === impl CompletionsArgs ===

impl CompletionsArgs {
    /// Returns the script.
    pub fn script(&self) -> String {
        // In the script for bash of clap_complete 4.6, the labels of subcommands differ from the jumps to them if the name of
        // the program has a hyphen, so only the last lines of the script get the real name.
        let name = match self.shell {
            Shell::Bash => "global_dns",
            _ => NAME,
        };
        let mut script = Vec::new();
        generate(self.shell, &mut command(), name, &mut script);
        let end = |name: &str| format!("-o default {name}\n");
        String::from_utf8_lossy(&script).replace(&end(name), &end(NAME))
    }
}
