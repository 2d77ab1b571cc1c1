//! The environment: errors about a flag name the variable if it has the value, and unknown variables are found.

use std::ffi::OsStr;

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Arg, Command};

use super::program;
use super::variables::PREFIX;
use crate::model::most_similar;

/// A variable that no flag reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownVariable {
    /// Its name.
    pub name: String,
    /// The known variable with the most similar name, if one is similar.
    pub nearest: Option<String>,
}

/// Returns the variables of the environment that begin like those of this program, but that it does not read. `others`
/// are known variables without a flag. Variables that Kubernetes sets for Services are left out.
pub fn unknown_variables(others: &[&str]) -> Vec<UnknownVariable> {
    let mut known: Vec<String> = others.iter().map(|&name| name.to_owned()).collect();
    known.extend(variables_of_flags());
    let set = std::env::vars_os().map(|(name, value)| {
        let text = |text: &OsStr| text.to_string_lossy().into_owned();
        (text(&name), text(&value))
    });
    unknown(set, &known)
}

fn unknown(set: impl Iterator<Item = (String, String)>, known: &[String]) -> Vec<UnknownVariable> {
    let is_unknown = |(name, value): &(String, String)| {
        name.starts_with(PREFIX) && !known.contains(name) && !is_service_link(name, value)
    };
    let describe = |(name, _): (String, String)| UnknownVariable {
        nearest: most_similar(&name, known.iter().cloned()),
        name,
    };
    let mut unknown: Vec<_> = set.filter(is_unknown).map(describe).collect();
    unknown.sort_by(|one, other| one.name.cmp(&other.name));
    unknown
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

/// Returns the variables of the flags of all commands.
fn variables_of_flags() -> Vec<String> {
    let cli = program::command();
    let flags = cli.get_subcommands().flat_map(Command::get_arguments);
    flags.filter_map(variable).collect()
}

fn variable(flag: &Arg) -> Option<String> {
    Some(flag.get_env()?.to_str()?.to_owned())
}

// === Errors ===

/// Adds the variable to an error about a flag whose value is from the environment.
pub(super) fn name_variables(
    mut error: Error,
    arguments: &[String],
    is_set: impl Fn(&str) -> bool,
) -> Error {
    let kinds = [
        ErrorKind::ValueValidation,
        ErrorKind::InvalidValue,
        ErrorKind::ArgumentConflict,
    ];
    if !kinds.contains(&error.kind()) {
        return error;
    }
    let rename = |flag: &String| match variable_of(flag, arguments, &is_set) {
        Some(variable) => format!("{variable} ({flag})"),
        None => flag.clone(),
    };
    for kind in [ContextKind::InvalidArg, ContextKind::PriorArg] {
        let renamed = match error.get(kind) {
            Some(ContextValue::String(flag)) => ContextValue::String(rename(flag)),
            Some(ContextValue::Strings(flags)) => {
                ContextValue::Strings(flags.iter().map(rename).collect())
            }
            _ => continue,
        };
        error.insert(kind, renamed);
    }
    error
}

/// Returns the variable that sets a flag of the command, such as `ttl <SECONDS>`, unless the command line has the flag.
fn variable_of(flag: &str, arguments: &[String], is_set: impl Fn(&str) -> bool) -> Option<String> {
    let cli = program::command();
    let mut words = arguments.iter();
    let command = words.find_map(|word| cli.find_subcommand(word))?;
    let name = flag.split([' ', '=']).next()?.strip_prefix("--")?;
    let flag = command
        .get_arguments()
        .find(|flag| flag.get_long() == Some(name))?;
    let is_long = |word: &str| {
        word.strip_prefix("--")
            .and_then(|word| word.split('=').next())
            == Some(name)
    };
    let is_short = |word: &str| {
        let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        letters.is_some_and(|letters| {
            flag.get_short()
                .is_some_and(|short| letters.starts_with(short))
        })
    };
    let is_given = words.any(|word| is_long(word) || is_short(word));
    variable(flag).filter(|variable| !is_given && is_set(variable))
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
}
