//! Every flag of `serve` is reachable by a value, and the chart's defaults are those of `serve`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use support::process::{Ended, run_global_dns};
use support::say::say;

use crate::helm::{arguments, template};
use crate::values::{least, matrix, with};

/// Flags of a subcommand, with their defaults, as its help lists them.
fn flags(subcommand: &str) -> Result<BTreeMap<String, Option<String>>> {
    let ended = run_global_dns(&[subcommand, "--help"]);
    ensure!(ended.is_success(), "global-dns {subcommand} --help");
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
            let name = last.clone().context("a default before any flag")?;
            flags.insert(name, Some(default.trim_end_matches(']').to_owned()));
        }
    }
    flags.remove("help");
    ensure!(flags.len() > 10, "few flags: {flags:?}");
    Ok(flags)
}

/// Flags of an argument list, with their values.
fn given(arguments: &[String]) -> Vec<(&str, &str)> {
    let flags = arguments
        .iter()
        .filter_map(|argument| argument.strip_prefix("--"));
    flags
        .map(|flag| flag.split_once('=').unwrap_or((flag, "")))
        .collect()
}

#[test]
#[ignore = "needs Helm"]
fn every_flag_of_serve_is_reachable_by_a_value() -> Result<()> {
    let mut reachable = BTreeSet::new();
    for (_, mut values) in matrix() {
        // Whatever it is, it would be reachable by that.
        values
            .as_object_mut()
            .context("no object")?
            .remove("extraArgs");
        let arguments = template(&values)?.arguments()?;
        ensure!(
            arguments.first().is_some_and(|first| first == "serve"),
            "{arguments:?}"
        );
        reachable.extend(
            given(&arguments)
                .into_iter()
                .map(|(flag, _)| flag.to_owned()),
        );
    }
    let flags: BTreeSet<String> = flags("serve")?.into_keys().collect();
    let missing: Vec<_> = flags.difference(&reachable).collect();
    ensure!(
        missing.is_empty(),
        "flags of serve that no value sets: {missing:?}"
    );
    let unknown: Vec<_> = reachable.difference(&flags).collect();
    ensure!(
        unknown.is_empty(),
        "flags that serve does not have: {unknown:?}"
    );
    say(&format!(
        "{} flags of serve, each reachable by a value",
        flags.len()
    ));
    Ok(())
}

#[test]
#[ignore = "needs Helm"]
fn defaults_are_those_of_serve() -> Result<()> {
    let flags = flags("serve")?;
    let arguments = template(&least())?.arguments()?;
    let mut compared = 0;
    for (flag, value) in given(&arguments) {
        match (flag, &flags[flag]) {
            // Required here, and long enough for what steers queries in a cluster.
            ("cluster-name" | "grace", _) => {}
            // The Service's address, which `serve` cannot know.
            ("ns-address", None) => {}
            // A pod has a place for it.
            ("snapshot", None) => {}
            (_, Some(default)) => {
                ensure!(
                    value == default,
                    "--{flag} is {value} here, and {default} in serve"
                );
                compared += 1;
            }
            // Told by words: not a default that clap knows.
            ("zone", None) => ensure!(value == "global", "--zone={value}"),
            ("log-level", None) => ensure!(value == "info", "--log-level={value}"),
            (_, None) => anyhow::bail!("--{flag} is {value} here, and serve has no default"),
        }
    }
    ensure!(compared > 10, "only {compared} defaults were compared");
    Ok(())
}

/// A resolver that follows the zone's NS record arrives at a replica, whichever answered it.
#[test]
#[ignore = "needs Helm"]
fn the_zones_name_server_is_the_service_and_never_a_pod() -> Result<()> {
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
        let flags = given(&arguments).into_iter();
        let addresses = flags.filter(|(flag, _)| *flag == "ns-address");
        let addresses: Vec<&str> = addresses.map(|(_, address)| address).collect();
        ensure!(addresses == expected, "{values}: {addresses:?}");
        // Variables of other Services are of no use.
        let links = &rendered.workload()?["spec"]["template"]["spec"]["enableServiceLinks"];
        ensure!(*links == (expected == [chosen]), "{values}: {links}");
    }
    Ok(())
}

/// A container that was started before its node knew the Service is started again.
#[test]
#[ignore = "needs Helm"]
fn a_service_without_an_address_ends_the_server_with_a_sentence() -> Result<()> {
    let arguments = template(&least())?.arguments()?;
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let Ended {
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
#[ignore = "needs Helm"]
fn serve_understands_what_every_combination_of_values_says() -> Result<()> {
    for (name, values) in matrix() {
        let mut arguments = template(&values)?.passed_arguments("10.96.0.53")?;
        // No host has this address, so that it ends for sure: with 1 if the usage is right, with 2 if it is not.
        arguments.push("--listen=192.0.2.1:53".to_owned());
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let Ended { code, stderr, .. } = run_global_dns(&arguments);
        ensure!(code == Some(1), "{name}: {arguments:?}: {code:?}: {stderr}");
    }
    let wrong = run_global_dns(&["serve", "--no-such-flag"]).code;
    ensure!(wrong == Some(2), "wrong usage ends with {wrong:?}");
    Ok(())
}

#[test]
#[ignore = "needs Helm"]
fn the_pod_of_helm_test_says_what_the_server_is_told() -> Result<()> {
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
                argument.starts_with("--server=$(") && argument.ends_with("_SERVICE_HOST)");
            ensure!(
                is_the_address || server.contains(argument),
                "{name}: {argument}"
            );
        }
        // The whole model: another one would judge another table.
        let model: Vec<String> = flags("table")?.into_keys().collect();
        for (flag, value) in given(&server) {
            let is_model = model.iter().any(|known| known == flag) && !flag.starts_with("log-");
            let same = check.contains(&format!("--{flag}={value}"));
            ensure!(
                !is_model || same,
                "{name}: --{flag}={value} is kept from check"
            );
        }
    }
    Ok(())
}
