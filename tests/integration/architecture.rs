//! Architecture rules, checked in the source text: dependencies between modules, pure modules, the modules that may use
//! each outside crate, and the entries of the top-level folder.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use support::differences::assert_none;
use support::repository::repository;

/// The modules of `src`. Each module may use only modules that follow it.
const MODULES: [&str; 16] = [
    "app", "cli", "admin", "server", "source", "check", "explain", "corefile", "report", "wire",
    "zone", "table", "mirror", "log", "clock", "random",
];
/// Pure modules. Their functions depend only on their arguments, without clocks, I/O, locks or logs.
const PURE: [&str; 8] = [
    "check", "corefile", "explain", "mirror", "report", "table", "wire", "zone",
];
/// Exceptions: the queries of `global-dns check`, the pool of interned texts, the swap of tables.
const IMPURE: [&str; 3] = ["check/dns_client", "mirror/interned", "table/publish"];
const EFFECTS: [&str; 16] = [
    "File",
    "Instant",
    "LazyLock",
    "Mutex",
    "OnceLock",
    "RwLock",
    "SystemTime",
    "TcpStream",
    "UdpSocket",
    "eprintln",
    "fs",
    "parking_lot",
    "println",
    "thread",
    "tokio",
    "tracing",
];
/// Interning takes a lock. Only the module that parses objects may use it.
const INTERNED: &str = "interned";
/// Outside crates with the only modules that may use them.
const CRATE_USERS: [(&str, &[&str]); 18] = [
    ("arc_swap", &["table/publish"]),
    ("arcstr", &["mirror/interned"]),
    ("clap", &["cli"]),
    ("clap_complete", &["cli"]),
    // Its numbers are predictable. Secrets and IDs come from the kernel (`src/random.rs`).
    ("fastrand", &["server", "source/backoff", "zone/order"]),
    ("foldhash", &["table/shared"]),
    (
        "hickory_proto",
        &["check/dns_client", "server/encrypted", "wire/records"],
    ),
    ("hickory_server", &["server/encrypted"]),
    ("ipnet", &["wire/access"]),
    ("k8s_openapi", &["source/kube"]),
    ("kube", &["source/kube"]),
    (
        "nix",
        &["server/accept", "server/descriptors", "server/udp"],
    ),
    ("procfs", &["admin/metrics"]),
    ("rustix", &["random", "server/bind"]),
    ("rustls", &["server/encrypted"]),
    // For tests only.
    ("support", &[]),
    ("triomphe", &["mirror/interned"]),
    ("x509_cert", &["server/encrypted"]),
];

/// The support library of the tests.
const SUPPORT: &str = "tests/support";

/// A source file without test code.
struct Source {
    /// Path below `src` without `.rs`.
    path: String,
    tokens: Vec<String>,
}

impl Source {
    fn new(path: &str, text: &str) -> Self {
        let (path, mut tokens) = (path.to_owned(), Vec::new());
        flatten(text.parse().unwrap(), &mut tokens);
        Self { path, tokens }
    }

    /// Returns whether the file belongs to a module. A module consists of its file and the folder of the same name.
    fn is_in(&self, module: &str) -> bool {
        let rest = self.path.strip_prefix(module);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    fn names(&self, word: &str) -> bool {
        self.tokens.iter().any(|token| token == word)
    }

    /// Returns the modules that occur in paths from `crate`.
    fn used_modules(&self) -> impl Iterator<Item = &str> {
        let paths = self.tokens.windows(3).filter(|three| three[0] == "crate");
        paths.map(|three| three[2].as_str())
    }

    /// Returns whether the file uses an outside crate, not a module of the same name.
    fn names_crate(&self, name: &str) -> bool {
        let tokens = || self.tokens.iter().map(String::as_str);
        let imports = || {
            self.tokens
                .split(|token| token == ";")
                .filter_map(|statement| {
                    let start = statement.iter().rposition(|token| token == "use")?;
                    let path = &statement[start + 1..];
                    Some(path.strip_prefix(&["::".to_owned()][..]).unwrap_or(path))
                })
        };
        let of_crate = |path: &[String]| path.first().is_some_and(|first| first == name);
        let of_ours = |path: &[String]| path.iter().skip(1).any(|token| token == name);
        let is_ours = imports().any(|path| !of_crate(path) && of_ours(path))
            || tokens()
                .zip(tokens().skip(1))
                .any(|pair| pair == ("mod", name));
        let before = || std::iter::once("").chain(tokens());
        let two_before = || std::iter::once("").chain(before());
        let places = two_before()
            .zip(before())
            .zip(tokens().zip(tokens().skip(1)));
        let is_bare = { places }.any(|((two_before, before), (token, after))| {
            // `source::kube::` is a module, `<::kube::` is the crate.
            let is_first = before != "::" || !two_before.ends_with(char::is_alphanumeric);
            is_first && token == name && after == "::"
        });
        imports().any(of_crate) || (is_bare && !is_ours)
    }
}

/// Collects identifiers and punctuation. `::` is one token. Omits comments, literals and items with `#[cfg(test)]`.
fn flatten(stream: TokenStream, tokens: &mut Vec<String>) {
    let mut trees = stream.into_iter().peekable();
    while let Some(tree) = trees.next() {
        match &tree {
            TokenTree::Group(group) if group.to_string().replace(' ', "") == "[cfg(test)]" => {
                let is_end = |tree: &TokenTree| match tree {
                    TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                    TokenTree::Punct(punct) => [';', ','].contains(&punct.as_char()),
                    TokenTree::Ident(_) | TokenTree::Literal(_) => false,
                };
                trees.by_ref().find(is_end);
            }
            TokenTree::Group(group) => {
                tokens.push("{".to_owned());
                flatten(group.stream(), tokens);
                tokens.push("}".to_owned());
            }
            TokenTree::Punct(punct)
                if punct.as_char() == ':' && punct.spacing() == Spacing::Joint =>
            {
                trees.next();
                tokens.push("::".to_owned());
            }
            TokenTree::Literal(_) => {}
            TokenTree::Ident(_) | TokenTree::Punct(_) => tokens.push(tree.to_string()),
        }
    }
}

/// Reads all source files except files of tests.
fn sources() -> Vec<Source> {
    sources_below("src")
}

/// Reads all source files below a folder of this repository, except files of tests.
fn sources_below(folder: &str) -> Vec<Source> {
    fn collect(root: &Path, folder: &Path, found: &mut Vec<Source>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let below = path.strip_prefix(root).unwrap();
            let below = below.with_extension("").to_str().unwrap().to_owned();
            let is_test = below
                .split('/')
                .any(|part| ["tests", "testing", "scripted"].contains(&part));
            match path.is_dir() {
                true => collect(root, &path, found),
                false if is_test || path.extension().is_none_or(|end| end != "rs") => {}
                false => found.push(Source::new(
                    &below,
                    &std::fs::read_to_string(&path).unwrap(),
                )),
            }
        }
    }
    let (root, mut found) = (repository(folder), Vec::new());
    collect(&root, &root, &mut found);
    found
}

#[test]
fn modules_use_only_modules_below_them() {
    let mut differences = Vec::new();
    for source in sources() {
        let place = MODULES.iter().position(|module| source.is_in(module));
        let Some(place) = place else {
            let is_root = ["main", "lib"].contains(&source.path.as_str());
            differences
                .extend((!is_root).then(|| format!("{} is in no listed module", source.path)));
            continue;
        };
        let is_above = |name: &&str| MODULES[..place].contains(name);
        let above = source
            .used_modules()
            .filter(|name| is_above(name) || *name == "{");
        differences.extend(above.map(|name| format!("{} uses {name}", source.path)));
    }
    assert_none(&differences);
}

#[test]
fn pure_modules_use_no_clock_no_io_no_lock_and_no_log() {
    let mut differences = Vec::new();
    let mut exceptions = BTreeSet::from(IMPURE);
    for source in sources() {
        let Some(module) = PURE.iter().find(|module| source.is_in(module)) else {
            continue;
        };
        let interned = Some(INTERNED).filter(|_| *module != "mirror");
        let named: Vec<&str> = EFFECTS
            .into_iter()
            .chain(interned)
            .filter(|word| source.names(word))
            .collect();
        if named.is_empty() || exceptions.remove(source.path.as_str()) {
            continue;
        }
        differences.push(format!("{} names {}", source.path, named.join(" ")));
    }
    assert!(exceptions.is_empty(), "unused exceptions: {exceptions:?}");
    assert_none(&differences);
}

#[test]
fn outside_crates_are_used_only_by_their_modules() {
    let mut differences = Vec::new();
    let mut unused: BTreeSet<(&str, &str)> = CRATE_USERS
        .into_iter()
        .flat_map(|(name, modules)| modules.iter().map(move |module| (name, *module)))
        .collect();
    for source in sources() {
        for (name, modules) in CRATE_USERS
            .into_iter()
            .filter(|(name, _)| source.names_crate(name))
        {
            match modules.iter().find(|module| source.is_in(module)) {
                Some(module) => _ = unused.remove(&(name, *module)),
                None => differences.push(format!("{} uses crate {name}", source.path)),
            }
        }
    }
    differences.extend(
        unused
            .iter()
            .map(|(name, module)| format!("{module} does not use crate {name}")),
    );
    assert_none(&differences);
}

#[test]
fn crates_are_distinguished_from_modules_of_the_same_name() {
    for (text, names) in [
        ("use kube::Client;", true),
        ("use ::kube::Client;", true),
        ("use kube as api;", true),
        ("fn f(c: kube::Client) {}", true),
        ("type T = Vec<::kube::Client>;", true),
        ("#[derive(kube::CustomResource)] struct S;", true),
        ("use crate::source::kube::Cluster;", false),
        (
            "use crate::source::{self, kube}; fn f() { kube::open() }",
            false,
        ),
        ("use super::kube; fn f() { kube::open() }", false),
        ("pub mod kube; fn f() { kube::open() }", false),
        ("fn f() { source::kube::open() }", false),
        ("/// [`kube::Client`]\nfn f() {} // kube::Client", false),
        (
            "const A: &str = \"kube::Client\"; fn f<'kube>(kube: u8) {}",
            false,
        ),
        ("#[cfg(test)] use kube::Client; fn f() {}", false),
        (
            "#[cfg(test)] mod tests { use kube::Client; } fn f() {}",
            false,
        ),
    ] {
        assert_eq!(Source::new("", text).names_crate("kube"), names, "{text}");
    }
}

/// Unit tests use the support library, too, so it must not depend on the library under test.
#[test]
fn support_library_is_one_crate_without_dependency_on_global_dns() {
    let support = sources_below(SUPPORT);
    let ours = support
        .iter()
        .filter(|source| source.names_crate("global_dns"));
    let mut differences: Vec<String> = ours.map(|source| source.path.clone()).collect();
    for source in sources_below("tests") {
        // Two crates share the checks of the fuzz targets.
        if source.is_in("support") || source.is_in("fuzz") {
            continue;
        }
        let mut tokens = source.tokens.windows(4);
        if tokens.any(|four| four == ["#", "{", "path", "="]) || source.names("Child") {
            differences.push(source.path);
        }
    }
    assert_none(&differences);
}

#[test]
fn top_level_folder_has_only_the_listed_entries() {
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
    let unexpected = top
        .iter()
        .filter(|name| !name.starts_with('.') && !allowed.contains(name));
    assert_none(
        &unexpected
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>(),
    );
    for name in ["Cargo.toml", "src", "tests"] {
        assert!(top.contains(name), "{name} is missing");
    }
}

#[test]
fn no_source_file_has_more_than_450_lines() {
    // A longer file usually has a second responsibility.
    const MAX_LINES: usize = 450;
    let mut long = Vec::new();
    for folder in ["src", SUPPORT] {
        for source in sources_below(folder) {
            let path = format!("{folder}/{}.rs", source.path);
            let text = std::fs::read_to_string(repository(&path)).unwrap();
            long.extend((text.lines().count() > MAX_LINES).then_some(path));
        }
    }
    assert_none(&long);
}
