use super::*;
use clap::FromArgMatches as _;

#[test]
fn every_flag_has_help() {
    program::command().debug_assert();
    for command in program::command().get_subcommands() {
        for flag in command.get_arguments().filter(|a| !a.is_positional()) {
            let name = flag.get_id().as_str();
            assert!(flag.get_help().is_some(), "--{name} has no help");
            let help = flag.get_help().unwrap().to_string();
            assert!(!help.ends_with('.'), "help of --{name} ends in a full stop");
        }
    }
}

/// Kubernetes sets such variables in a Pod for each Service of its namespace, also for one whose name begins with
/// `global-dns`.
#[test]
fn no_flag_reads_a_variable_that_kubernetes_sets_for_a_service() {
    for command in program::command().get_subcommands() {
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

/// Returns what `--help` prints for each command, and for the program itself, with its name.
fn helps() -> Vec<(String, String)> {
    let program = program::command().term_width(100);
    let names = program
        .get_subcommands()
        .map(|one| one.get_name())
        .map(|name| (name.to_owned(), vec!["x", name, "--help"]));
    let own = ("global-dns".to_owned(), vec!["x", "--help"]);
    let all = std::iter::once(own).chain(names);
    all.map(|(name, words)| {
        let help = program.clone().try_get_matches_from(words);
        (name, help.unwrap_err().to_string())
    })
    .collect()
}

/// Parses a command line, as the program does.
fn parse(words: &[&str]) -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(&program::command().try_get_matches_from(words)?)
}

#[test]
fn every_command_has_examples_that_are_parsed() {
    let program = program::file_name();
    for (name, help) in helps() {
        let (_, examples) = help.split_once("\nExamples:\n").unwrap_or_default();
        let examples = examples.lines().take_while(|line| line.starts_with("  "));
        let lines: Vec<&str> = examples.map(|line| &line[2..]).collect();
        assert!(!lines.is_empty(), "{name} has no examples: {help}");
        for pair in lines.chunks(2) {
            assert!(pair[0].starts_with("# "), "{name}: {pair:?}");
            let words: Vec<&str> = pair[1].split(' ').collect();
            assert_eq!(words[0], program, "{name}: {pair:?}");
            let is_own = name == "global-dns" || words[1] == name;
            assert!(is_own, "an example of another command: {pair:?}");
            parse(&words).unwrap_or_else(|error| panic!("{pair:?}: {error}"));
        }
    }
}

/// A screen has 60 lines, and one is 100 columns wide.
#[test]
fn help_of_serve_fits_a_screen_and_that_of_commands_a_screen_and_a_third() {
    for (name, help) in helps() {
        let lines = help.lines().count();
        let limit = if name == "serve" { 60 } else { 80 };
        assert!(lines <= limit, "{name}: {lines} lines: {help}");
    }
}
