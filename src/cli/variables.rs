//! The environment variables of flags: `GLOBAL_DNS_` and the name of the flag.

use clap::Arg;

/// The start of the names of all variables.
pub(super) const PREFIX: &str = "GLOBAL_DNS_";

/// The flags without a variable: each is about one run of a command.
const WITHOUT_VARIABLE: [&str; 9] = [
    "all_namespaces",
    "at",
    "cluster",
    "kind",
    "output",
    "print_settings",
    "since",
    "state",
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
