//! Variables of the environment that look like settings but are not.

use std::collections::BTreeSet;
use std::env::vars_os;

use clap::Arg;
use tracing::warn;

use super::command::command;
use super::environment::PREFIX;
use crate::model::most_similar;

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
