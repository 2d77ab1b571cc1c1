//! The name of the program, which a link can change: `kubectl-global_dns` and `linkerd-globaldns` are plug-ins.

use std::env::args_os;
use std::path::Path;

use clap::CommandFactory as _;

use super::command::Cli;
use super::examples;
use super::variables::with_variable;

/// The name without a link.
const NAME: &str = "global-dns";

/// Returns the definition of the command line, with the variables of its flags. Usage and help show the name that the user
/// typed.
pub(super) fn command() -> clap::Command {
    let name = typed_name(&file_name());
    let cli = Cli::command();
    cli.mut_subcommands(|command| {
        let examples = examples::of(command.get_name(), &name);
        command.mut_args(with_variable).after_help(examples)
    })
    .after_help(examples::of("", &name))
    .bin_name(name)
}

/// Returns the name of the file that was executed.
pub(super) fn file_name() -> String {
    let path = args_os().next().unwrap_or_default();
    let name = Path::new(&path).file_name().and_then(|name| name.to_str());
    name.unwrap_or(NAME).to_owned()
}

/// Returns the words that start a program. kubectl replaces `-` by `_` within the name of a plug-in.
fn typed_name(file: &str) -> String {
    match (file.strip_prefix("kubectl-"), file.strip_prefix("linkerd-")) {
        (Some(plugin), _) => format!("kubectl {}", plugin.replace('-', " ").replace('_', "-")),
        (_, Some(extension)) => format!("linkerd {extension}"),
        (None, None) => file.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plug_in_is_called_by_two_words() {
        for (file, typed) in [
            ("global-dns", "global-dns"),
            ("gdns", "gdns"),
            ("kubectl-global_dns", "kubectl global-dns"),
            ("linkerd-globaldns", "linkerd globaldns"),
        ] {
            assert_eq!(typed_name(file), typed);
        }
    }
}
