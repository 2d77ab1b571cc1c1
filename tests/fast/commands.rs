//! Commands as cases in files: `tests/fixtures/commands/*.txt` have commands with their output and exit code.
//!
//! The first line of a file names the objects, which each command reads with `--file`. Times and serials are `TIME` and `SERIAL`. With
//! `SNAPSHOTS=overwrite`, the test writes what the commands print now; look at the difference before it is committed.

use std::fs;

use snapbox::{Assert, Data};
use support::commands::global_dns;
use support::process::run;
use support::repository::repository;

/// The folder of the cases.
const FOLDER: &str = "tests/fixtures/commands";

/// What separates the words of an output.
const SEPARATORS: [char; 7] = [' ', '"', '(', ')', ';', '\n', '\t'];

/// Replaces what differs from run to run: times, and the serial of a SOA record.
fn stable(text: &str) -> String {
    let (mut result, mut last) = (String::new(), "");
    for piece in text.split_inclusive(SEPARATORS) {
        let word = piece.trim_end_matches(SEPARATORS);
        let is_serial = last.starts_with("hostmaster.") && word.parse::<u32>().is_ok();
        result += match word.parse::<jiff::Timestamp>() {
            Ok(_) => "TIME",
            Err(_) if is_serial => "SERIAL",
            Err(_) => word,
        };
        result += &piece[word.len()..];
        last = word;
    }
    result
}

/// Returns what a command prints, with its exit code if that is not 0.
fn output(objects: &str, line: &str) -> String {
    let mut arguments: Vec<&str> = line.split(' ').collect();
    let file = format!("--file={objects}");
    if !["--file", "--server"]
        .iter()
        .any(|flag| line.contains(flag))
    {
        arguments.extend([&*file, "--cluster-name=hub"]);
    }
    let mut command = global_dns(&arguments);
    command.current_dir(repository("")).env("TZ", "UTC");
    let ended = run(&mut command);
    let code = ended.code.unwrap();
    let exit = if code == 0 {
        String::new()
    } else {
        format!("exit code {code}\n")
    };
    stable(&format!("{}{}{exit}", ended.stdout, ended.stderr))
}

#[test]
fn commands_print_what_their_cases_say() {
    let assert = Assert::new().action_env("SNAPSHOTS");
    let mut files: Vec<_> = fs::read_dir(repository(FOLDER))
        .unwrap()
        .map(|one| one.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() >= 2, "{files:?}");
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let (objects, cases) = text.split_once('\n').unwrap();
        let commands = cases
            .lines()
            .filter_map(|line| line.strip_prefix("$ global-dns "));
        let case = |line: &str| format!("\n$ global-dns {line}\n{}", output(objects, line));
        let printed = format!("{objects}\n{}", commands.map(case).collect::<String>());
        assert.eq(printed, Data::read_from(&path, None));
    }
}
