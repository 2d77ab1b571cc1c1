//! The program under other names: plug-ins of kubectl and Linkerd; completions.

use std::os::unix::fs::symlink;

use support::commands::{binary, command};
use support::process::{ProcessOutput, run};

/// Runs the program by another name.
fn run_as(name: &str, arguments: &[&str]) -> ProcessOutput {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join(name);
    symlink(binary(), &link).unwrap();
    run(command(link).args(arguments))
}

#[test]
fn linked_program_is_a_plug_in_and_shows_the_typed_name() {
    for (name, typed) in [
        ("linkerd-globaldns", "linkerd globaldns"),
        ("kubectl-global_dns", "kubectl global-dns"),
        ("gdns", "gdns"),
    ] {
        for arguments in [&["table", "--help"][..], &["help", "table"]] {
            let ended = run_as(name, arguments);
            let usage = format!("Usage: {typed} table [OPTIONS] [FILTER]...\n");
            assert_eq!(ended.code, Some(0));
            assert!(ended.stdout.contains(&usage), "{}", ended.stdout);
        }
        let ended = run_as(name, &["table", "--no-such-flag"]);
        let usage = format!("Usage: {typed} table [OPTIONS] [FILTER]...");
        assert_eq!(ended.code, Some(2));
        assert!(ended.stderr.contains(&usage), "{}", ended.stderr);
        // The rest works as under its own name.
        let ended = run_as(name, &["help", "serve"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
}
