use super::*;
use crate::model::Mcs;
use crate::table::Profile;
use clap::{CommandFactory as _, Parser as _, ValueEnum as _};

/// The flags of names and members alone.
#[derive(clap::Parser)]
struct Model {
    #[command(flatten)]
    args: ModelArgs,
}

fn model(flags: &[&str]) -> ModelArgs {
    Model::parse_from([&["x"], flags].concat()).args
}

#[test]
fn zone_of_the_multi_cluster_services_api_implies_its_objects() {
    for (flags, expected) in [
        (&[][..], Mcs::Off),
        (&["--zone=global"], Mcs::Off),
        (&["--mcs"], Mcs::On),
        (&["--zone=clusterset.local=mcs"], Mcs::On),
        (&["--zone=global,clusterset.local=mcs"], Mcs::On),
    ] {
        assert_eq!(model(flags).mcs(), expected, "{flags:?}");
    }
}

#[test]
fn zone_below_another_one_is_a_child_of_the_nearest() {
    let flags = [
        "--zone=global,prod.global,set=mcs,xglobal,svc.set=mcs",
        "--zone=a.b.prod.global",
        "--reverse-zone=10.in-addr.arpa,1.10.in-addr.arpa",
    ];
    let rules = model(&flags).rules();
    let children: Vec<_> = rules
        .child_zones
        .iter()
        .map(|child| {
            (
                child.name.as_str(),
                child.parent.as_str(),
                child.parent_profile,
                child.labels.join(" "),
            )
        })
        .collect();
    let global = Profile::Global;
    assert_eq!(
        children,
        [
            ("prod.global.", "global.", global, "prod".to_owned()),
            ("svc.set.", "set.", Profile::ClusterSet, "svc".to_owned()),
            ("a.b.prod.global.", "prod.global.", global, "a b".to_owned()),
        ]
    );
}

#[test]
fn every_flag_has_help_and_an_environment_variable() {
    Cli::command().debug_assert();
    for command in Cli::command().get_subcommands() {
        for flag in command.get_arguments().filter(|a| !a.is_positional()) {
            let name = flag.get_id().as_str();
            assert!(flag.get_help().is_some(), "--{name} has no help");
            if matches!(
                name,
                "help"
                    | "version"
                    | "output"
                    | "explain"
                    | "watch"
                    | "at"
                    | "since"
                    | "cluster"
                    | "kind"
            ) {
                continue;
            }
            let env = format!("GLOBAL_DNS_{}", name.to_uppercase());
            assert_eq!(flag.get_env().and_then(|e| e.to_str()), Some(env.as_str()));
            let help = flag.get_help().unwrap().to_string();
            assert!(!help.ends_with('.'), "help of --{name} ends in a full stop");
        }
    }
}

/// Kubernetes sets such variables in a Pod for each Service of its namespace, also for one whose name begins with
/// `global-dns`.
#[test]
fn no_flag_reads_a_variable_that_kubernetes_sets_for_a_service() {
    for command in Cli::command().get_subcommands() {
        for flag in command.get_arguments() {
            let Some(variable) = flag.get_env().and_then(|name| name.to_str()) else {
                continue;
            };
            let ends = ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT"];
            let has_part = ["_SERVICE_PORT_", "_PORT_"].map(|part| variable.contains(part));
            let is_set = ends.iter().any(|end| variable.ends_with(end));
            assert!(!is_set && has_part == [false; 2], "{variable}");
        }
    }
}

#[test]
fn topics_of_help_are_the_commands_and_flags() {
    let cli = Cli::command();
    let mut expected: Vec<&str> = cli.get_subcommands().map(|one| one.get_name()).collect();
    expected.push("flags");
    let topics: Vec<String> = Topic::value_variants()
        .iter()
        .filter_map(|topic| topic.to_possible_value())
        .map(|value| value.get_name().to_owned())
        .collect();
    assert_eq!(topics, expected);
}

#[test]
fn manual_has_the_flags_of_serve() {
    let generated = HelpArgs {
        topic: Some(Topic::Flags),
        output: HelpOutput::Markdown,
    }
    .flags();
    assert!(
        include_str!("../../charts/global-dns/docs/src/flags.md") == generated,
        "flags.md is outdated; regenerate it: cargo run -- help flags --output markdown > charts/global-dns/docs/src/flags.md"
    );
}

#[test]
fn default_without_a_value_is_in_the_column_of_defaults() {
    let markdown = HelpArgs {
        topic: Some(Topic::Flags),
        output: HelpOutput::Markdown,
    }
    .flags();
    for (flag, default) in [
        ("--zone <ZONE[=mcs]>", "global"),
        ("--ttl <SECONDS>", "5"),
        ("--listen <ADDRESS>", "0.0.0.0:5353 and [::]:5353"),
        ("--reverse-zone <ZONE>", ""),
    ] {
        let name = flag.trim_start_matches("--").split(' ').next().unwrap();
        let variable = name.to_uppercase().replace('-', "_");
        let start = format!("| `{flag}` | `GLOBAL_DNS_{variable}` | {default} | ");
        let has_row = markdown.lines().any(|line| line.starts_with(&start));
        assert!(has_row, "no row '{start}' in {markdown}");
    }
    assert!(!markdown.contains("[default"), "{markdown}");
}
