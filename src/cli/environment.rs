//! The environment variables of flags: `GLOBAL_DNS_` and the name of the flag. An error about a flag names the variable if it has the
//! value.

use std::env::{args_os, var_os};

use clap::error::{ContextKind, ContextValue, Error};

/// The start of the names of all variables.
pub(super) const PREFIX: &str = "GLOBAL_DNS_";

/// Returns what set a flag, such as `--zone <ZONE>`: itself, or its variable if the command line does not have it.
pub(super) fn setter_of(flag: &str) -> String {
    let name = flag.split([' ', '=']).next().unwrap_or_default();
    let mut words = args_os();
    let is_typed = words.any(|word| word.to_string_lossy().split('=').next() == Some(name));
    // That of `--log-level` is `GLOBAL_DNS_LOG_LEVEL`.
    let variable = name.trim_start_matches('-').replace('-', "_");
    let variable = format!("{PREFIX}{}", variable.to_uppercase());
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
