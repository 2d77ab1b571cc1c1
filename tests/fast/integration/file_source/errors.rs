//! Invalid input: files at start, single objects at any time.

use std::path::Path;

use support::objects::{Manifest, mirror};
use support::process::run_global_dns;

fn valid() -> Manifest {
    mirror("prod", "db", "east")
        .endpoint("db-0", &["10.96.1.1"])
        .into()
}

/// Runs a command with invalid files. Returns its standard error without the folder name.
fn error_of(command: &[&str], files: &[(&str, Option<&str>)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut arguments: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
    for (name, text) in files {
        let path = folder.path().join(name);
        if let Some(text) = text {
            std::fs::write(&path, text).unwrap();
        }
        arguments.push(format!("--file={}", path.display()));
    }
    let ended = run_global_dns(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(1), ""),
        "{}",
        ended.stderr
    );
    let folder = Path::new(folder.path()).display().to_string();
    ended.stderr.replace(&format!("{folder}/"), "")
}

const SERVE: [&str; 4] = [
    "serve",
    "--listen=127.0.0.1:0",
    "--admin-listen=127.0.0.1:0",
    "--api-listen=127.0.0.1:0",
];

#[test]
fn invalid_file_is_an_error_at_start() {
    let broken = "apiVersion: v1\nkind: Service\nmetadata:\n  name: db\n name: [\n";
    let cut = valid().text().trim_end().trim_end_matches('}').to_owned();
    let cases = [
        (
            "missing",
            None,
            "error: cannot read a.yaml: No such file or directory (os error 2)\n",
        ),
        (
            "empty",
            Some(""),
            "error: a.yaml: contains no Service or EndpointSlice\n",
        ),
        (
            "other kinds alone",
            Some("kind: Pod\nmetadata: {name: x}\n---\nkind: PodList\nitems: [{}]\n"),
            "error: a.yaml: contains no Service or EndpointSlice\n",
        ),
        (
            "no object at all",
            Some("just words\n"),
            "error: a.yaml: contains no Service or EndpointSlice\n",
        ),
    ];
    for (what, text, expected) in cases {
        for command in [&["table"][..], &SERVE] {
            assert_eq!(error_of(command, &[("a.yaml", text)]), expected, "{what}");
        }
    }
    // The text of a syntax error comes from the parser, but the location is required.
    for (what, text, place) in [
        ("broken YAML", broken, "error: a.yaml:5:"),
        ("truncated JSON", cut.as_str(), "error: a.yaml:"),
    ] {
        for command in [&["table"][..], &SERVE] {
            let message = error_of(command, &[("a.yaml", Some(text))]);
            let rest = message.strip_prefix(place);
            let rest = rest.unwrap_or_else(|| panic!("{what}: {message}"));
            let (position, reason) = rest.split_once(": ").unwrap();
            assert!(
                position.chars().all(|c| c.is_ascii_digit() || c == ':'),
                "{what}: {message}"
            );
            assert!(
                reason.len() > 10 && reason.lines().count() == 1,
                "{what}: {message}"
            );
        }
    }
}

#[test]
fn duplicate_object_is_an_error_that_names_it_and_both_files() {
    let text = valid().text();
    let twice = format!("{text}{text}");
    let slice = Manifest(vec![valid().0[2].clone()]).text();
    for (files, expected) in [
        (
            vec![("a.yaml", Some(text.as_str())), ("b.yaml", Some(&text))],
            "error: Service/prod/db-east occurs twice, in a.yaml and in b.yaml\n",
        ),
        (
            vec![("a.yaml", Some(twice.as_str()))],
            "error: Service/prod/db-east occurs twice, in a.yaml and in a.yaml\n",
        ),
        (
            vec![("a.yaml", Some(text.as_str())), ("b.yaml", Some(&slice))],
            "error: EndpointSlice/prod/db-0-east-7xk2p occurs twice, in a.yaml and in b.yaml\n",
        ),
    ] {
        assert_eq!(error_of(&["table"], &files), expected);
    }
}
