//! The house of DESIGN 2, read from the source text: each outside crate comes in by one door, the core knows neither
//! library, and nothing lies about at the top.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::support::{assert_none, repository};

/// A source file: its path below the repository, and its tokens without comments and texts.
struct Source {
    path: String,
    lines: usize,
    tokens: Vec<String>,
}

fn sources() -> Vec<Source> {
    let mut paths = Vec::new();
    collect(&repository("src"), &mut paths);
    paths.sort();
    let root = repository("");
    let source = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let below = path.strip_prefix(&root).unwrap();
        Source {
            path: below.to_str().unwrap().to_owned(),
            lines: text.lines().count(),
            tokens: tokens(&text),
        }
    };
    paths.into_iter().map(source).collect()
}

fn collect(folder: &Path, paths: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, paths);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            paths.push(path);
        }
    }
}

/// Splits Rust into identifiers and punctuation; `::` is one token. Comments and what is in quotes are left out.
fn tokens(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let at = |index: usize| chars.get(index).copied().unwrap_or('\0');
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    let mut index = 0;
    while index < chars.len() {
        match at(index) {
            '/' if at(index + 1) == '/' => {
                while index < chars.len() && at(index) != '\n' {
                    index += 1;
                }
            }
            '/' if at(index + 1) == '*' => {
                let mut depth = 0;
                loop {
                    match (at(index), at(index + 1)) {
                        ('/', '*') => (depth, index) = (depth + 1, index + 2),
                        ('*', '/') => (depth, index) = (depth - 1, index + 2),
                        _ => index += 1,
                    }
                    if depth == 0 || index >= chars.len() {
                        break;
                    }
                }
            }
            '"' => index = after_text(&chars, index),
            'r' if at(index + 1) == '"'
                || (at(index + 1) == '#' && "\"#".contains(at(index + 2))) =>
            {
                index = after_raw_text(&chars, index + 1);
            }
            'b' if at(index + 1) == '"' => index = after_text(&chars, index + 1),
            'b' if at(index + 1) == 'r' && "\"#".contains(at(index + 2)) => {
                index = after_raw_text(&chars, index + 2);
            }
            // A character, or the start of a lifetime.
            '\'' if at(index + 1) == '\\' => {
                index += 3;
                while index < chars.len() && at(index) != '\'' {
                    index += 1;
                }
                index += 1;
            }
            '\'' if at(index + 2) == '\'' => index += 3,
            ':' if at(index + 1) == ':' => {
                tokens.push("::".to_owned());
                index += 2;
            }
            c if is_word(c) => {
                let start = index;
                while is_word(at(index)) {
                    index += 1;
                }
                tokens.push(chars[start..index].iter().collect());
            }
            c => {
                if !c.is_whitespace() {
                    tokens.push(c.to_string());
                }
                index += 1;
            }
        }
    }
    tokens
}

fn after_text(chars: &[char], start: usize) -> usize {
    let mut index = start + 1;
    while index < chars.len() && chars[index] != '"' {
        index += if chars[index] == '\\' { 2 } else { 1 };
    }
    index + 1
}

fn after_raw_text(chars: &[char], start: usize) -> usize {
    let hashes = chars[start..].iter().take_while(|c| **c == '#').count();
    let mut index = start + hashes + 1;
    while index < chars.len() {
        let rest = &chars[index + 1..];
        if chars[index] == '"' && rest.iter().take(hashes).filter(|c| **c == '#').count() == hashes
        {
            return index + 1 + hashes;
        }
        index += 1;
    }
    index
}

/// The paths that `use` declarations of a file name, each as its segments, an alias as `as`, `name`.
fn imports(tokens: &[String]) -> Vec<Vec<String>> {
    let mut imports = Vec::new();
    for (index, _) in tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| *token == "use")
    {
        // `+ use<'t>` in a type is no declaration.
        if tokens.get(index + 1).is_some_and(|next| next == "<") {
            continue;
        }
        let length = tokens[index..]
            .iter()
            .position(|token| token == ";")
            .unwrap();
        expand(&tokens[index + 1..index + length], &[], &mut imports);
    }
    imports
}

fn expand(tree: &[String], prefix: &[String], imports: &mut Vec<Vec<String>>) {
    let Some(brace) = tree.iter().position(|token| token == "{") else {
        let own = tree.iter().filter(|token| *token != "::").cloned();
        imports.push(prefix.iter().cloned().chain(own).collect());
        return;
    };
    let head = tree[..brace].iter().filter(|token| *token != "::").cloned();
    let prefix: Vec<String> = prefix.iter().cloned().chain(head).collect();
    let mut depth = 0;
    let mut start = brace + 1;
    for (index, token) in tree.iter().enumerate().skip(brace + 1) {
        match token.as_str() {
            "{" => depth += 1,
            "}" if depth > 0 => depth -= 1,
            "," | "}" if depth == 0 => {
                if start < index {
                    expand(&tree[start..index], &prefix, imports);
                }
                start = index + 1;
            }
            _ => {}
        }
    }
}

/// Whether a file names an outside crate, rather than something of ours that has the same name.
fn names_crate(tokens: &[String], name: &str) -> bool {
    let imports = imports(tokens);
    if imports.iter().any(|path| path[0] == name) {
        return true;
    }
    // `use crate::source::kube`, `mod kube;`: from here on the name is ours.
    let is_import = |path: &Vec<String>| {
        let last = path.last().is_some_and(|last| last == name);
        last || (path.last().is_some_and(|last| last == "self") && path[path.len() - 2] == name)
    };
    let is_ours = imports.iter().any(is_import)
        || tokens
            .windows(2)
            .any(|pair| pair[0] == "mod" && pair[1] == name);
    let mut bare = false;
    for (index, token) in tokens.iter().enumerate() {
        if token != name || tokens.get(index + 1).is_none_or(|next| next != "::") {
            continue;
        }
        let before = index.checked_sub(1).map(|before| tokens[before].as_str());
        let two_before = index.checked_sub(2).map(|before| tokens[before].as_str());
        match before {
            // `source::kube::…` is ours; `<::kube::…`, `= ::kube::…` is not.
            Some("::") => bare |= two_before.is_none_or(|t| !is_identifier(t) && t != ">"),
            _ => bare |= !is_ours,
        }
    }
    bare || tokens
        .windows(3)
        .any(|three| three[0] == "extern" && three[1] == "crate" && three[2] == name)
}

fn is_identifier(token: &str) -> bool {
    token.chars().all(|c| c.is_alphanumeric() || c == '_')
        && !["in", "as", "return", "if", "match", "else"].contains(&token)
}

/// Files that name a crate.
fn files_with(sources: &[Source], name: &str) -> BTreeSet<String> {
    sources
        .iter()
        .filter(|source| names_crate(&source.tokens, name))
        .map(|source| source.path.clone())
        .collect()
}

#[test]
fn crates_are_told_from_modules_of_the_same_name() {
    for (text, names) in [
        ("use kube::Client;", true),
        ("use kube;", true),
        ("use ::kube::Client;", true),
        ("use {kube::Client, std::fmt};", true),
        ("use kube as api;", true),
        ("extern crate kube;", true),
        ("fn f(c: kube::Client) {}", true),
        ("fn f(c: &::kube::Client) {}", true),
        ("type T = Vec<::kube::Client>;", true),
        ("#[derive(kube::CustomResource)] struct S;", true),
        ("use crate::source::kube; fn f() { ::kube::x() }", true),
        ("use crate::source::kube::Cluster;", false),
        (
            "use crate::source::{self, file, kube}; fn f() { kube::open() }",
            false,
        ),
        ("use super::kube; fn f() { kube::open() }", false),
        (
            "use super::kube::{self, Timing}; fn f() { kube::open() }",
            false,
        ),
        ("pub mod kube; fn f() { kube::open() }", false),
        ("fn f() { crate::source::kube::open() }", false),
        ("fn f() { source::kube::open() }", false),
        ("// kube::Client\n/* kube::Client /* kube::x */ */", false),
        ("/// [`kube::Client`]\nfn f() {}", false),
        ("const A: &str = \"kube::Client\\\" kube::x\";", false),
        (
            "const A: &str = r#\"use kube::Client; \"quoted\" \"#;",
            false,
        ),
        (
            "const A: char = '\"'; const B: &str = \"kube::x\"; const C: char = '\\'';",
            false,
        ),
        ("use kube_runtime::watcher;", false),
        ("fn f(kube: u8) -> u8 { kube }", false),
        ("fn f<'kube>(x: &'kube str) {}", false),
    ] {
        assert_eq!(names_crate(&tokens(text), "kube"), names, "{text}");
    }
}

#[test]
fn each_outside_crate_comes_in_by_one_door() {
    let sources = sources();
    let mut differences = Vec::new();
    for (name, doors) in [
        ("kube", &["source/kube"][..]),
        ("k8s_openapi", &["source/kube"]),
        ("arc_swap", &["table/publish"]),
        ("clap", &["cli"]),
        ("hickory_server", &["server/encrypted"]),
        (
            "hickory_proto",
            &[
                "server/encrypted",
                "wire/records",
                "wire/write",
                "check/ask",
            ],
        ),
        ("rustls", &["server/encrypted"]),
        ("x509_cert", &["server/encrypted"]),
        (
            "nix",
            &["server/accept", "server/descriptors", "server/udp"],
        ),
        ("rustix", &["server/bind", "random"]),
        ("foldhash", &["table/shared"]),
        ("ipnet", &["wire/access"]),
        ("arcstr", &["mirror/interned"]),
        ("triomphe", &["mirror/interned"]),
    ] {
        // A door is a module: its file, and the folder beside it.
        let is_door = |path: &str| {
            doors.iter().any(|door| {
                path == format!("src/{door}.rs") || path.starts_with(&format!("src/{door}/"))
            })
        };
        for path in files_with(&sources, name) {
            if !is_door(&path) {
                differences.push(format!("{name} is named in {path}"));
            }
        }
    }
    // What nobody names would pass without a look.
    for name in [
        "kube",
        "k8s_openapi",
        "arc_swap",
        "clap",
        "hickory_server",
        "hickory_proto",
        "rustls",
        "x509_cert",
        "nix",
        "rustix",
        "foldhash",
        "ipnet",
        "arcstr",
        "triomphe",
    ] {
        assert!(!files_with(&sources, name).is_empty(), "{name}");
    }
    assert_none(&differences);
}

/// Its numbers can be told from a few of them. Secrets and identifiers are the kernel's (`src/random.rs`).
#[test]
fn fastrand_makes_nothing_that_nobody_may_guess() {
    // Where rotations start, shuffles, pauses; tests want the same numbers each time.
    let harmless = [
        "src/server.rs",
        "src/source/backoff.rs",
        "src/zone/order.rs",
    ];
    let found = files_with(&sources(), "fastrand");
    let others = found
        .iter()
        .filter(|path| !harmless.contains(&path.as_str()) && !path.ends_with("/tests.rs"));
    assert_none(&others.cloned().collect::<Vec<_>>());
}

#[test]
fn table_zone_and_mirror_know_no_library_no_runtime_and_no_log() {
    let mut differences = Vec::new();
    let core = ["src/table", "src/zone", "src/mirror"];
    let sources = sources();
    let of_core = sources
        .iter()
        .filter(|source| core.iter().any(|part| source.path.starts_with(part)));
    for source in of_core {
        for name in [
            "hickory_proto",
            "hickory_server",
            "kube",
            "tokio",
            "tracing",
            "axum",
        ] {
            if names_crate(&source.tokens, name) {
                differences.push(format!("{} names {name}", source.path));
            }
        }
    }
    assert_none(&differences);
}

#[test]
fn build_read_answer_and_check_know_no_clock_no_io_and_no_lock() {
    let mut differences = Vec::new();
    let pure = [
        "src/table.rs",
        "src/table/build.rs",
        "src/table/hash.rs",
        "src/table/inputs.rs",
        "src/table/short.rs",
        "src/zone.rs",
        "src/zone/read.rs",
        "src/zone/answer.rs",
        "src/zone/name.rs",
        "src/zone/order.rs",
        "src/zone/print.rs",
        "src/zone/records.rs",
        "src/explain.rs",
        "src/check.rs",
        "src/check/dns.rs",
        "src/check/links.rs",
        "src/check/mirrors.rs",
        "src/check/names.rs",
        "src/check/objects.rs",
        "src/check/permissions.rs",
        "src/check/report.rs",
        "src/check/versions.rs",
    ];
    let sources = sources();
    for path in pure {
        let source = sources.iter().find(|source| source.path == path);
        let source = source.unwrap_or_else(|| panic!("{path} is gone"));
        let impure = [
            "Instant",
            "SystemTime",
            "Mutex",
            "RwLock",
            "println",
            "eprintln",
            "File",
            "fs",
            "env",
            "thread",
            "TcpStream",
            "UdpSocket",
        ];
        for word in impure
            .iter()
            .filter(|word| source.tokens.iter().any(|t| t == *word))
        {
            differences.push(format!("{path} names {word}"));
        }
    }
    assert_none(&differences);
}

#[test]
fn nothing_but_the_house_lies_at_the_top() {
    let output = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-z"])
        .current_dir(repository(""))
        .output();
    let output = output.unwrap_or_else(|error| panic!("git: {error}; install git"));
    assert!(
        output.status.success(),
        "git ls-files: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let listed = String::from_utf8(output.stdout).unwrap();
    let allowed = [
        "CHANGELOG.md",
        "Cargo.lock",
        "Cargo.toml",
        "Dockerfile",
        "LICENSE",
        "README.md",
        "charts",
        "coredns",
        "rust-toolchain.toml",
        "src",
        "tests",
    ];
    let top = listed.split('\0').filter(|path| !path.is_empty());
    let top: BTreeSet<&str> = top.map(|path| path.split('/').next().unwrap()).collect();
    let strangers = top
        .iter()
        .filter(|name| !name.starts_with('.') && !allowed.contains(name));
    assert_none(&strangers.map(|name| (*name).to_owned()).collect::<Vec<_>>());
    for name in ["Cargo.toml", "src", "tests"] {
        assert!(top.contains(name), "{name} is missing");
    }
}

#[test]
fn no_source_file_has_outgrown_its_responsibility() {
    // Most files end up at 80 to 250 lines; around 400, there is a second responsibility (style guide).
    const MOST: usize = 450;
    let sources = sources();
    let is_test = |path: &str| path.ends_with("tests.rs");
    let long = sources
        .iter()
        .filter(|source| source.lines > MOST && !is_test(&source.path));
    let long = long.map(|source| format!("{}: {} lines", source.path, source.lines));
    assert_none(&long.collect::<Vec<_>>());
}
