//! `help`: the help of the program and of its commands, and the table of the flags of `serve`.

use clap::Arg;

use super::command::HelpArgs;
use super::program;
use super::values::Output;

/// The text above the table in Markdown. With the table, it is a chapter of the manual: `flags.md` in
/// `charts/global-dns/docs/src`.
const MARKDOWN_HEAD: &str = "\
# Flags of `serve`

`global-dns help flags --output markdown` generates this document.

Each flag has an environment variable. In a variable, separate items by commas. For `--failover`, \
separate them by semicolons, in the variable and in the flag, because a comma separates steps. A repeatable flag can be given several times. Exit codes of all commands: 0 success; 1 failure, or a check failed; 2 wrong \
usage; 3 `explain`: the name does not exist, `table`: no service has that name.

| flag | environment variable | default | description |
|---|---|---|---|
";

// === impl HelpArgs ===

impl HelpArgs {
    /// Returns the help that clap prints for the topic, or `None` for the table of flags.
    pub(super) fn clap_help(&self) -> Option<clap::Error> {
        let topic = self.topic.as_deref();
        if topic == Some(program::FLAGS) {
            return None;
        }
        let words = ["global-dns"].into_iter().chain(topic).chain(["--help"]);
        program::command().try_get_matches_from(words).err()
    }

    /// Returns all flags of `serve` in the requested format.
    pub fn flags(&self) -> String {
        match self.output {
            Output::Markdown => markdown_table(),
            _ => text_list(),
        }
    }
}

fn text_list() -> String {
    let mut text = String::new();
    for [flag, variable, default, description] in rows_of_serve("") {
        let default = if default.is_empty() {
            default
        } else {
            format!("  [default: {default}]")
        };
        text += &format!("{flag}  [env: {variable}]{default}\n    {description}\n\n");
    }
    text
}

fn markdown_table() -> String {
    let mut text = MARKDOWN_HEAD.to_owned();
    for row in rows_of_serve("`") {
        let [flag, variable, default, description] = row.map(|cell| cell.replace('|', "\\|"));
        text += &format!("| `{flag}` | `{variable}` | {default} | {description} |\n");
    }
    text
}

/// Returns a row for each flag of `serve`, in the order of the help. `quote` encloses the values of a flag.
fn rows_of_serve(quote: &str) -> Vec<[String; 4]> {
    let mut cli = program::command();
    // Completes the arguments: without it, clap cannot print their value names.
    cli.build();
    let serve = cli.find_subcommand("serve");
    let flags = serve.into_iter().flat_map(|serve| serve.get_arguments());
    let flags = flags.filter(|flag| flag.get_id() != "help");
    flags.map(|flag| row(flag, quote)).collect()
}

/// Returns the flag with its value name, the environment variable, the default and the description.
fn row(flag: &Arg, quote: &str) -> [String; 4] {
    let variable = flag.get_env().unwrap_or_default().to_string_lossy();
    let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
    // A default that is not a value of the flag is part of the help: `… [default: all]`.
    let parts = help
        .strip_suffix(']')
        .and_then(|help| help.rsplit_once(" [default: "));
    let (sentence, described_default) = parts.unwrap_or((help.as_str(), ""));
    let defaults = flag.get_default_values().iter();
    let defaults: Vec<_> = defaults.map(|value| value.to_string_lossy()).collect();
    let default = if defaults.is_empty() {
        described_default.to_owned()
    } else {
        defaults.join(", ")
    };
    let mut description = sentence.to_owned();
    for value in flag.get_possible_values() {
        let help = value
            .get_help()
            .map(ToString::to_string)
            .unwrap_or_default();
        description += &format!(". {quote}{}{quote}: {help}", value.get_name());
    }
    [
        flag.to_string(),
        variable.into_owned(),
        default,
        description,
    ]
}
