//! The environment variables of flags: `GLOBAL_DNS_` and the name of the flag.

use clap::Arg;

/// The start of the names of all variables.
pub(super) const PREFIX: &str = "GLOBAL_DNS_";

/// The flags without a variable: each is about one run of a command.
const WITHOUT_VARIABLE: [&str; 10] = [
    "all_namespaces",
    "at",
    "cluster",
    "kind",
    "output",
    "print_settings",
    "since",
    "state",
    "summary",
    "watch",
];

/// Adds the variable of a flag.
pub(super) fn with_variable(flag: Arg) -> Arg {
    let name = flag.get_id().as_str();
    if flag.is_positional() || WITHOUT_VARIABLE.contains(&name) {
        return flag;
    }
    let variable = variable_of_flag(name);
    flag.env(variable)
}

/// Returns the variable of the flag with this ID.
pub(super) fn variable_of_flag(id: &str) -> String {
    format!("{PREFIX}{}", id.to_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::program;

    #[test]
    fn each_flag_without_a_variable_exists_and_has_none() {
        let program = program::command();
        for name in WITHOUT_VARIABLE {
            let commands = program.get_subcommands();
            let flags = commands.flat_map(clap::Command::get_arguments);
            let variables: Vec<_> = flags
                .filter(|flag| flag.get_id() == name)
                .map(Arg::get_env)
                .collect();
            assert!(!variables.is_empty(), "--{name} does not exist");
            assert!(
                variables.iter().all(Option::is_none),
                "--{name}: {variables:?}"
            );
        }
    }
}
