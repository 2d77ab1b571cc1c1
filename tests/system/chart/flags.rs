//! A value of the chart sets each flag of `serve`, and the chart's defaults are those of `serve`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use support::output::print_line;
use support::process::run_global_dns;

use crate::chart::values::{matrix, minimum, with};
use support::helm::{arguments, template};

/// Returns the flags of a subcommand with their defaults, read from its help.
fn flags(subcommand: &str) -> Result<BTreeMap<String, Option<String>>> {
    let ended = run_global_dns(&[subcommand, "--help"]);
    ensure!(ended.is_success(), "global-dns {subcommand} --help failed");
    let mut flags = BTreeMap::new();
    let mut last = None;
    for line in ended.stdout.lines().map(str::trim) {
        let flag = line
            .strip_prefix("--")
            .or_else(|| line.split_once(", --").map(|(_, flag)| flag));
        if let Some(flag) = flag.filter(|_| line.starts_with('-') && !line.starts_with("- ")) {
            let name = flag.split([' ', '=']).next().unwrap_or_default();
            flags.insert(name.to_owned(), None);
            last = Some(name.to_owned());
        } else if let Some(default) = line.strip_prefix("[default: ") {
            let name = last.clone().context("a default before the first flag")?;
            flags.insert(name, Some(default.trim_end_matches(']').to_owned()));
        }
    }
    flags.remove("help");
    ensure!(flags.len() > 10, "too few flags in the help: {flags:?}");
    Ok(flags)
}

/// Returns the flags of an argument list with their values.
fn parse_flags(arguments: &[String]) -> Vec<(&str, &str)> {
    let flags = arguments.iter().filter_map(|one| one.strip_prefix("--"));
    flags
        .map(|flag| flag.split_once('=').unwrap_or((flag, "")))
        .collect()
}

#[test]
fn a_value_sets_each_flag_of_serve_and_serve_accepts_all_of_them() -> Result<()> {
    let of_table = flags("table")?;
    let mut reachable = BTreeSet::new();
    for (name, values) in matrix() {
        let rendered = template(&values)?;
        let server = rendered.arguments()?;
        ensure!(server[0] == "serve", "{name}: {server:?}");
        // The value `extraArgs` can set any flag, so it proves nothing.
        if values.get("extraArgs").is_none() {
            let flags = parse_flags(&server).into_iter();
            reachable.extend(flags.map(|(flag, _)| flag.to_owned()));
        }
        // No host has this address, so that the server always exits: with 1 if the flags are valid, with 2 if not.
        let mut passed = rendered.passed_arguments("10.96.0.53")?;
        passed.push("--listen=192.0.2.1:53".to_owned());
        let passed: Vec<&str> = passed.iter().map(String::as_str).collect();
        let ended = run_global_dns(&passed);
        ensure!(ended.code == Some(1), "{name}: {passed:?}: {ended:?}");
        // The pod of `helm test` has all flags of the table, because other flags would give another table.
        let check = arguments(rendered.only("Pod")?)?;
        ensure!(check[0] == "check", "{name}: {check:?}");
        let is_of_table = |argument: &&String| {
            let flag = argument.trim_start_matches("--").split('=').next();
            flag.is_some_and(|flag| of_table.contains_key(flag) && !flag.starts_with("log-"))
        };
        for argument in server.iter().filter(is_of_table) {
            let is_same = check.contains(argument);
            ensure!(is_same, "{name}: check lacks {argument}");
        }
        for argument in &check[1..] {
            let is_known = argument.starts_with("--dns=$(") || server.contains(argument);
            ensure!(is_known, "{name}: serve lacks {argument}");
        }
    }
    let flags: BTreeSet<String> = flags("serve")?.into_keys().collect();
    let differing: Vec<_> = flags.symmetric_difference(&reachable).collect();
    ensure!(differing.is_empty(), "no value or no flag: {differing:?}");
    print_line(&format!("{} flags, each set by a value", flags.len()));
    Ok(())
}

#[test]
fn defaults_are_those_of_serve() -> Result<()> {
    let flags = flags("serve")?;
    let arguments = template(&minimum())?.arguments()?;
    let mut compared = 0;
    for (flag, value) in parse_flags(&arguments) {
        match (flag, &flags[flag]) {
            // A required value, a grace period that suits the routing of queries in a cluster, and the Service's address.
            ("cluster-name" | "grace", _) | ("ns-address", None) => {}
            (_, Some(default)) => {
                ensure!(value == default, "--{flag}: {value}, not {default}");
                compared += 1;
            }
            // The help describes these defaults in words, so that clap does not print them.
            ("zone", None) => ensure!(value == "global", "--zone={value}"),
            ("log-level", None) => ensure!(value == "info", "--log-level={value}"),
            (_, None) => bail!("--{flag} is {value}, and serve has no default"),
        }
    }
    ensure!(compared > 10, "compared only {compared} defaults");
    Ok(())
}

/// A resolver that follows the zone's NS record must reach some replica, not only the one that answered.
#[test]
fn zone_name_server_is_the_service_and_not_a_pod() -> Result<()> {
    let chosen = "10.96.0.99";
    for (values, expected) in [
        (json!({}), chosen),
        (json!({"kind": "DaemonSet", "hostNetwork": true}), chosen),
        (json!({"service": {"type": "LoadBalancer"}}), chosen),
        (
            json!({"service": {"clusterIP": "2001:db8::53"}}),
            "2001:db8::53",
        ),
        (json!({"nsAddresses": ["192.0.2.1"]}), "192.0.2.1"),
    ] {
        let rendered = template(&with(values.clone()))?;
        let arguments = rendered.passed_arguments(chosen)?;
        let flags = parse_flags(&arguments).into_iter();
        let addresses: Vec<_> = flags.filter(|(flag, _)| *flag == "ns-address").collect();
        ensure!(
            addresses == [("ns-address", expected)],
            "{values}: {addresses:?}"
        );
    }
    // A container that starts before its node has the Service exits, so that the kubelet restarts it.
    let arguments = template(&minimum())?.arguments()?;
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ended = run_global_dns(&arguments);
    let is_named = ended.stderr.contains("'$(GLOBAL_DNS_SERVICE_HOST)'");
    ensure!(ended.code == Some(2) && is_named, "{ended:?}");
    Ok(())
}
