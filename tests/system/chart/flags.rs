//! A value of the chart sets each flag of `serve`, and the chart's defaults are those of `serve`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use support::output::print_line;
use support::process::{ProcessOutput, run_global_dns};

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
            let name = last
                .clone()
                .context("the help has a default before the first flag")?;
            flags.insert(name, Some(default.trim_end_matches(']').to_owned()));
        }
    }
    flags.remove("help");
    ensure!(flags.len() > 10, "too few flags in the help: {flags:?}");
    Ok(flags)
}

/// Returns the flags of an argument list with their values.
fn parse_flags(arguments: &[String]) -> Vec<(&str, &str)> {
    let flags = arguments
        .iter()
        .filter_map(|argument| argument.strip_prefix("--"));
    flags
        .map(|flag| flag.split_once('=').unwrap_or((flag, "")))
        .collect()
}

#[test]
fn a_value_sets_each_flag_of_serve() -> Result<()> {
    let mut reachable = BTreeSet::new();
    for (_, mut values) in matrix() {
        // extraArgs can set any flag, so it proves nothing.
        values
            .as_object_mut()
            .context("values are not an object")?
            .remove("extraArgs");
        let arguments = template(&values)?.arguments()?;
        ensure!(
            arguments.first().is_some_and(|first| first == "serve"),
            "{arguments:?}"
        );
        reachable.extend(
            parse_flags(&arguments)
                .into_iter()
                .map(|(flag, _)| flag.to_owned()),
        );
    }
    let flags: BTreeSet<String> = flags("serve")?.into_keys().collect();
    let missing: Vec<_> = flags.difference(&reachable).collect();
    ensure!(
        missing.is_empty(),
        "no value sets these flags of serve: {missing:?}"
    );
    let unknown: Vec<_> = reachable.difference(&flags).collect();
    ensure!(
        unknown.is_empty(),
        "serve does not have these flags: {unknown:?}"
    );
    print_line(&format!(
        "{} flags of serve, each set by a value",
        flags.len()
    ));
    Ok(())
}

#[test]
fn defaults_are_those_of_serve() -> Result<()> {
    let flags = flags("serve")?;
    let arguments = template(&minimum())?.arguments()?;
    let mut compared = 0;
    for (flag, value) in parse_flags(&arguments) {
        match (flag, &flags[flag]) {
            // A required value, and a grace period that suits the routing of queries in a cluster.
            ("cluster-name" | "grace", _) => {}
            // The address of the Service, which has no default in `serve`.
            ("ns-address", None) => {}
            (_, Some(default)) => {
                ensure!(
                    value == default,
                    "the default of --{flag} is {value} in the chart and {default} in serve"
                );
                compared += 1;
            }
            // The help describes these defaults in words, so that clap does not print them.
            ("zone", None) => ensure!(value == "global", "--zone={value}"),
            ("log-level", None) => ensure!(value == "info", "--log-level={value}"),
            (_, None) => {
                anyhow::bail!("--{flag} is {value} in the chart, and serve has no default")
            }
        }
    }
    ensure!(compared > 10, "compared only {compared} defaults");
    Ok(())
}

#[test]
fn flags_of_links_follow_their_values() -> Result<()> {
    for (links, expected) in [
        (
            json!({}),
            &[
                "--links=on",
                "--links-namespace=linkerd-multicluster",
                "--unlinked-after=5m",
            ][..],
        ),
        (
            json!({"namespace": ["multicluster", "links"], "unlinkedAfter": "1h"}),
            &[
                "--links=on",
                "--links-namespace=multicluster,links",
                "--unlinked-after=1h",
            ],
        ),
        (
            json!({"enabled": false, "namespace": "links"}),
            &["--links=off"],
        ),
    ] {
        let arguments = template(&with(json!({"links": links})))?.arguments()?;
        let prefixes = ["--links", "--unlinked-after"];
        let found: Vec<&String> = arguments
            .iter()
            .filter(|argument| prefixes.iter().any(|prefix| argument.starts_with(prefix)))
            .collect();
        ensure!(found == expected, "{links}: {found:?}");
    }
    Ok(())
}

/// A resolver that follows the zone's NS record must reach some replica, not only the one that answered.
#[test]
fn zone_name_server_is_the_service_and_not_a_pod() -> Result<()> {
    let long = "a".repeat(63);
    let chosen = "10.96.0.99";
    for (values, expected) in [
        (json!({}), &[chosen][..]),
        (json!({"fullnameOverride": long}), &[chosen]),
        (json!({"kind": "DaemonSet"}), &[chosen]),
        (json!({"hostNetwork": true}), &[chosen]),
        (json!({"service": {"type": "LoadBalancer"}}), &[chosen]),
        (json!({"listen": ["0.0.0.0:53"]}), &[chosen]),
        (
            json!({"service": {"clusterIP": "10.96.0.53"}}),
            &["10.96.0.53"],
        ),
        (
            json!({"service": {"clusterIP": "2001:db8::53"}}),
            &["2001:db8::53"],
        ),
        (
            json!({"nsAddresses": ["192.0.2.1", "2001:db8::1"], "service": {"clusterIP": "10.96.0.53"}}),
            &["192.0.2.1", "2001:db8::1"],
        ),
    ] {
        let rendered = template(&with(values.clone()))?;
        let arguments = rendered.passed_arguments(chosen)?;
        let flags = parse_flags(&arguments).into_iter();
        let addresses = flags.filter(|(flag, _)| *flag == "ns-address");
        let addresses: Vec<&str> = addresses.map(|(_, address)| address).collect();
        ensure!(addresses == expected, "{values}: {addresses:?}");
        // Variables of other Services are not needed.
        let links = &rendered.workload()?["spec"]["template"]["spec"]["enableServiceLinks"];
        ensure!(*links == (expected == [chosen]), "{values}: {links}");
    }
    Ok(())
}

/// A container that starts before its node has the Service must exit, so that the kubelet restarts it.
#[test]
fn server_exits_with_an_error_if_the_service_has_no_address() -> Result<()> {
    let arguments = template(&minimum())?.arguments()?;
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ProcessOutput {
        code, stderr: text, ..
    } = run_global_dns(&arguments);
    ensure!(code == Some(2), "{code:?}: {text}");
    ensure!(
        text.contains("'$(GLOBAL_DNS_SERVICE_HOST)'") && text.contains("--ns-address"),
        "{text}"
    );
    Ok(())
}

#[test]
fn serve_accepts_the_flags_of_every_combination_of_values() -> Result<()> {
    for (name, values) in matrix() {
        let mut arguments = template(&values)?.passed_arguments("10.96.0.53")?;
        // No host has this address, so that the server always exits: with 1 if the flags are valid, with 2 if not.
        arguments.push("--listen=192.0.2.1:53".to_owned());
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let ProcessOutput { code, stderr, .. } = run_global_dns(&arguments);
        ensure!(code == Some(1), "{name}: {arguments:?}: {code:?}: {stderr}");
    }
    let wrong = run_global_dns(&["serve", "--no-such-flag"]).code;
    ensure!(wrong == Some(2), "wrong usage has exit code {wrong:?}");
    Ok(())
}

#[test]
fn helm_test_pod_has_the_flags_of_the_server() -> Result<()> {
    for (name, values) in matrix() {
        let rendered = template(&values)?;
        let check = arguments(rendered.only("Pod")?)?;
        ensure!(
            check.first().is_some_and(|first| first == "check"),
            "{name}: {check:?}"
        );
        let server = rendered.arguments()?;
        for argument in &check[1..] {
            let is_the_address =
                argument.starts_with("--dns=$(") && argument.ends_with("_SERVICE_HOST)");
            ensure!(
                is_the_address || server.contains(argument),
                "{name}: {argument}"
            );
        }
        // All flags of the table, because other flags would give another table.
        let model: Vec<String> = flags("table")?.into_keys().collect();
        for (flag, value) in parse_flags(&server) {
            let is_model = model.iter().any(|known| known == flag) && !flag.starts_with("log-");
            let argument = if value.is_empty() {
                format!("--{flag}")
            } else {
                format!("--{flag}={value}")
            };
            let is_same = check.contains(&argument);
            ensure!(!is_model || is_same, "{name}: check lacks {argument}");
        }
    }
    Ok(())
}
