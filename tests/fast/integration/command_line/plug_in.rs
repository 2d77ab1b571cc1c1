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

#[test]
fn completions_are_scripts_for_the_name_of_the_program() {
    for (shell, start) in [
        ("bash", "_gdns() {"),
        ("zsh", "#compdef gdns"),
        ("fish", "complete -c gdns"),
        ("elvish", "edit:completion:arg-completer[gdns]"),
        ("powershell", "-CommandName 'gdns'"),
    ] {
        let ended = run_as("gdns", &["completions", shell]);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
        for part in [start, "server-namespace"] {
            assert!(ended.stdout.contains(part), "{shell} lacks {part}");
        }
    }
    assert_eq!(run_as("gdns", &["completions", "tcsh"]).code, Some(2));
}

/// Bash itself completes a flag and its value.
#[test]
fn bash_accepts_its_completions() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("completions");
    std::fs::write(
        &script,
        run_as("global-dns", &["completions", "bash"]).stdout,
    )
    .unwrap();
    let complete = |words: &str| {
        let count = words.split(' ').count() - 1;
        let text = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD={count}; \
             function=$(complete -p global-dns | grep -o -- '-F [^ ]*'); ${{function#-F }} global-dns \
             \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"; echo \"${{COMPREPLY[*]}}\"",
            script.display()
        );
        run(command("bash").args(["-c", &text])).stdout
    };
    assert_eq!(complete("global-dns ta"), "table\n");
    assert_eq!(
        complete("global-dns table --server-n"),
        "--server-namespace\n"
    );
    assert_eq!(complete("global-dns table --output w"), "wide\n");
}
