//! The program as an extension of Linkerd's CLI, which runs it as a part of `linkerd check` (EXTENSIONS.md of linkerd2).

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::Args;

use super::groups::KubeconfigArgs;
use super::print::output;
use crate::check::linkerd::EXTENSION;

/// Flags that Linkerd passes to the `check` of an extension. It writes a list as `[a,b]`.
#[derive(Args)]
#[command(next_help_heading = "Linkerd")]
pub struct LinkerdArgs {
    /// User to impersonate in requests to the API server
    #[arg(long = "as", value_name = "USER")]
    as_user: Option<String>,

    /// Group to impersonate in requests to the API server (repeatable)
    #[arg(long, value_name = "GROUP")]
    as_group: Vec<String>,

    /// Check only whether the API server answers, before an installation
    #[arg(long)]
    pub pre: bool,

    // The others have no effect.
    #[arg(long, hide = true)]
    api_addr: Option<String>,
    #[arg(short = 'L', long, hide = true)]
    linkerd_namespace: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true)]
    verbose: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true)]
    proxy: Option<String>,
    #[arg(long, hide = true)]
    wait: Option<String>,
}

/// Returns whether the program is called by the name of the extension.
pub(super) fn is_extension() -> bool {
    let program = env::args_os().next().unwrap_or_default();
    Path::new(&program).file_name() == Some(OsStr::new(EXTENSION))
}

/// Returns whether Linkerd asks for the metadata of the extension.
pub(super) fn asks_for_metadata() -> bool {
    is_extension()
        && env::args_os()
            .nth(1)
            .is_some_and(|one| one == "_extension-metadata")
}

/// Returns the arguments of the program, without flags of `check` that a newer Linkerd passes: an extension should ignore them.
pub(super) fn arguments(command: &clap::Command) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = env::args_os().collect();
    let check = arguments
        .get(1)
        .and_then(|name| command.find_subcommand(name));
    let Some(check) = check.filter(|one| is_extension() && one.get_name() == "check") else {
        return arguments;
    };
    let is_known = |flag: &str| {
        check
            .get_arguments()
            .chain(command.get_arguments())
            .any(|one| one.get_long() == Some(flag))
    };
    arguments.retain(|argument| {
        let text = argument.to_str();
        let flag = text.and_then(|text| text.strip_prefix("--")?.split_once('='));
        flag.is_none_or(|(name, _)| is_known(name))
    });
    arguments
}

/// Adds the flags of Linkerd to those of `check`, which then has Linkerd's formats.
pub(super) fn with_flags(check: clap::Command) -> clap::Command {
    let flags = LinkerdArgs::augment_args(clap::Command::new(""));
    let check = check.args(flags.get_arguments());
    check.mut_arg("output", |arg| {
        arg.value_parser(output(["table", "basic", "json", "short"]))
            .default_value("table")
            .help("Format of the output; short: only what needs attention")
    })
}

// === impl LinkerdArgs ===

impl LinkerdArgs {
    /// Adds whom to impersonate to the way to the API server.
    pub(super) fn impersonate(&self, kubeconfig: &mut KubeconfigArgs) {
        kubeconfig.as_user.clone_from(&self.as_user);
        for group in &self.as_group {
            let group = group.trim_matches(['[', ']']);
            if !group.is_empty() {
                kubeconfig.as_groups.push(group.to_owned());
            }
        }
    }
}
