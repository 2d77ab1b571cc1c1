//! Commands and flags in the documents of this repository.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::*;

/// Flags of other programs that documents name.
const FOREIGN_FLAGS: &[&str] = &[
    // AWS, k3s and the API server
    "--addon-name",
    "--addon-version",
    "--service-cidr",
    // CockroachDB
    "--advertise-host",
    "--join",
    // etcd
    "--discovery-srv",
    "--experimental-peer-skip-client-san-verification",
    "--initial-cluster",
    "--initial-cluster-state",
    "--peer-skip-client-san-verification",
    // kube-controller-manager
    "--controllers",
    // kubectl
    "--all-namespaces",
    "--raw",
    // Helm
    "--force",
    "--force-conflicts",
    "--force-replace",
    "--logs",
    "--reset-then-reuse-values",
    "--reuse-values",
    "--server-side",
    "--set",
    // Linkerd
    "--api-server-address",
    "--gateway-addresses",
    "--ignore-cluster",
    // cargo
    "--path",
    "--release",
];

/// Returns the text of each document for users, with its path.
fn documents() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = vec![root.join("README.md")];
    let mut folders: Vec<PathBuf> = ["charts", "coredns", "src", ".github"]
        .map(|name| root.join(name))
        .into();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                paths.push(path);
            }
        }
    }
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        (path, text)
    };
    paths.into_iter().map(read).collect()
}

/// Returns the command lines of this program in a document's code blocks, without prompts, comments and what a shell does.
/// Blocks of other languages than `sh` have outputs, and commands after prompts.
fn commands(document: &str) -> Vec<String> {
    let mut found = vec![];
    let mut language = None;
    for line in document.replace("\\\n", " ").lines() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix("```") {
            language = language.is_none().then_some(name);
            continue;
        }
        let command = line.strip_prefix("$ ");
        let is_command = command.is_some() || language == Some("sh");
        let line = command.unwrap_or(line);
        let line = line.strip_prefix("kubectl ").unwrap_or(line);
        if is_command && line.starts_with("global-dns ") {
            let end = line.find([';', '|', '>', '<', '&', '#']);
            found.push(line[..end.unwrap_or(line.len())].trim().to_owned());
        }
    }
    found
}

/// Returns the flags in the inline code of a document.
fn flags(document: &str) -> BTreeSet<&str> {
    let codes = document
        .lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    let words = codes.flat_map(|code| code.split([' ', '=', '[', ']', '"', '…']));
    words
        .filter(|word| {
            word.strip_prefix("--")
                .is_some_and(|name| name.starts_with(|first: char| first.is_ascii_lowercase()))
        })
        .collect()
}

#[test]
fn commands_in_documents_are_parsed() {
    let (mut count, mut wrong) = (0, vec![]);
    for (path, text) in documents() {
        for line in commands(&text) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let Err(error) = parse(&words) {
                wrong.push(format!("{}: {line}: {error}", path.display()));
            }
            count += 1;
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count > 20, "{count} commands");
}

#[test]
fn flags_in_documents_exist() {
    let program = program::command();
    let all = std::iter::once(&program).chain(program.get_subcommands());
    let arguments = all.flat_map(|command| command.get_arguments());
    let mut known: BTreeSet<String> = arguments
        .filter_map(|argument| Some(format!("--{}", argument.get_long()?)))
        .collect();
    known.extend(["--help", "--version"].map(str::to_owned));
    let mut foreign: BTreeSet<&str> = FOREIGN_FLAGS.iter().copied().collect();
    let mut unknown = vec![];
    for (path, text) in documents() {
        for flag in flags(&text) {
            let is_foreign = FOREIGN_FLAGS.contains(&flag);
            foreign.remove(flag);
            if !is_foreign && !known.contains(flag) {
                unknown.push(format!("{}: {flag}", path.display()));
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
    assert!(foreign.is_empty(), "no document names {foreign:?}");
}

#[test]
fn commands_and_flags_of_a_document_are_found() {
    let text = "`--a` and `x --b=1`, --c\n```sh\n$ global-dns table \\\n  --d | head # e\nother\n```\nglobal-dns is\n";
    assert_eq!(commands(text), ["global-dns table    --d"]);
    assert_eq!(flags(text).into_iter().collect::<Vec<_>>(), ["--a", "--b"]);
}
