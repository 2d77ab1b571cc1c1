//! The environment variables of flags: `GLOBAL_DNS_` and the name of the flag. An error about a flag names the variable if it has the
//! value, and unknown variables are found.

use std::collections::BTreeSet;
use std::env::{args_os, var_os, vars_os};

use clap::Arg;
use clap::error::{ContextKind, ContextValue, Error};
use tracing::warn;

use super::command::command;
use crate::model::most_similar;

/// The start of the names of all variables.
const PREFIX: &str = "GLOBAL_DNS_";

/// Returns the variable of a flag: `GLOBAL_DNS_LOG_LEVEL` for `log_level` and `--log-level`.
fn variable_of(flag: &str) -> String {
    let name = flag.trim_start_matches('-').replace('-', "_");
    format!("{PREFIX}{}", name.to_uppercase())
}

/// Returns what set a flag, such as `--zone <ZONE>`: itself, or its variable if the command line does not have it.
pub(super) fn setter_of(flag: &str) -> String {
    let name = flag.split([' ', '=']).next().unwrap_or_default();
    let mut words = args_os();
    let is_typed = words.any(|word| word.to_string_lossy().split('=').next() == Some(name));
    let variable = variable_of(name);
    match !is_typed && var_os(&variable).is_some() {
        true => format!("{variable} ({flag})"),
        false => flag.to_owned(),
    }
}

/// Adds the variable to an error about a flag whose value is from the environment.
pub(super) fn name_variables(mut error: Error) -> Error {
    for kind in [ContextKind::InvalidArg, ContextKind::PriorArg] {
        let named = match error.get(kind) {
            Some(ContextValue::String(flag)) => ContextValue::String(setter_of(flag)),
            Some(ContextValue::Strings(flags)) => {
                ContextValue::Strings(flags.iter().map(|flag| setter_of(flag)).collect())
            }
            _ => continue,
        };
        error.insert(kind, named);
    }
    error
}

/// Returns the variables of all flags. Flags without one are about one run of a command.
fn variables() -> BTreeSet<String> {
    let command = command();
    let commands = [&command].into_iter().chain(command.get_subcommands());
    let variables = commands.flat_map(|one| one.get_arguments().filter_map(Arg::get_env));
    variables
        .map(|name| name.to_string_lossy().into_owned())
        .collect()
}

/// Logs the variables of the environment that begin like those of this program, but that it does not read, each with the most
/// similar known one. `others` are known variables without a flag. Variables that Kubernetes sets for Services are left out.
pub fn log_unknown_variables(others: &[&str]) {
    let mut known = variables();
    known.extend(others.iter().map(|&name| name.to_owned()));
    for (name, value) in vars_os() {
        let [name, value] = [name, value].map(|text| text.to_string_lossy().into_owned());
        if name.starts_with(PREFIX) && !known.contains(&name) && !is_service_link(&name, &value) {
            let nearest = most_similar(&name, known.iter().cloned());
            warn!(
                variable = name,
                nearest, "Ignored an unknown environment variable"
            );
        }
    }
}

/// Returns whether Kubernetes sets this variable in a Pod for a Service of its namespace. The Service may have any name
/// that begins with `global-dns`.
fn is_service_link(name: &str, value: &str) -> bool {
    let is_number = |part: &str| part.starts_with(|first: char| first.is_ascii_digit());
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || (name.ends_with("_PORT") && value.contains("://"))
        || name.split("_PORT_").skip(1).any(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The variables of Services `global-dns`, `global-dns-east` and `global-dns-metrics`.
    #[test]
    fn variables_of_services_are_known() {
        for (name, value) in [
            ("GLOBAL_DNS_SERVICE_HOST", "10.96.0.53"),
            ("GLOBAL_DNS_SERVICE_PORT", "53"),
            ("GLOBAL_DNS_SERVICE_PORT_DNS_TCP", "53"),
            ("GLOBAL_DNS_PORT", "udp://10.96.0.53:53"),
            ("GLOBAL_DNS_PORT_53_UDP", "udp://10.96.0.53:53"),
            ("GLOBAL_DNS_PORT_53_UDP_ADDR", "10.96.0.53"),
            ("GLOBAL_DNS_PORT_53_UDP_PORT", "53"),
            ("GLOBAL_DNS_PORT_53_UDP_PROTO", "udp"),
            ("GLOBAL_DNS_EAST_SERVICE_HOST", "10.96.0.54"),
            ("GLOBAL_DNS_EAST_PORT", "tcp://10.96.0.54:53"),
            ("GLOBAL_DNS_METRICS_PORT_9153_TCP_ADDR", "10.96.0.54"),
        ] {
            assert!(is_service_link(name, value), "{name}");
        }
        for (name, value) in [
            ("GLOBAL_DNS_PORT", "53"),
            ("GLOBAL_DNS_LISTEN_PORT", "53"),
            ("GLOBAL_DNS_PORT_DNS_UDP", "53"),
            ("GLOBAL_DNS_SERVICES", "x"),
        ] {
            assert!(!is_service_link(name, value), "{name}");
        }
    }

    /// Kubernetes sets such variables in a Pod for each Service of its namespace, also for one whose name begins with
    /// `global-dns`.
    #[test]
    fn no_flag_reads_a_variable_that_kubernetes_sets_for_a_service() {
        for variable in variables() {
            for value in ["53", "tcp://10.96.0.53:53"] {
                assert!(!is_service_link(&variable, value), "{variable}");
            }
        }
    }
}
