//! The layout of the repository: the entries of the top-level folder, and the support library.

use std::collections::BTreeSet;

use super::source::sources_below;
use support::differences::assert_none;
use support::repository::{repository, tracked_files};

/// The support library of the tests.
const SUPPORT: &str = "tests/support";

/// Unit tests use the support library, too, so it must not depend on the library under test.
#[test]
fn support_library_is_one_crate_without_dependency_on_global_dns() {
    let support = sources_below(SUPPORT);
    let ours = support
        .iter()
        .filter(|source| source.names_crate("global_dns"));
    let mut differences: Vec<String> = ours.map(|source| source.path.clone()).collect();
    for source in sources_below("tests") {
        // Two crates share the checks of the fuzz targets, and a third one their generators.
        if ["support", "fuzz", "differential"]
            .iter()
            .any(|module| source.is_in(module))
        {
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
    let listed = tracked_files();
    let allowed = [
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
    let top: BTreeSet<&str> = listed
        .iter()
        .map(|path| path.split('/').next().unwrap())
        .collect();
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

/// `tests/mutants/run` names folders of the sources, and `run-tests` names slow tests beside them.
#[test]
fn folders_and_tests_that_the_mutants_name_exist() {
    let read = |path: &str| std::fs::read_to_string(repository(path)).unwrap();
    let list = |text: &str, name: &str| -> Vec<String> {
        let (_, rest) = text.split_once(&format!("\n{name}=(")).unwrap();
        let (list, _) = rest.split_once(')').unwrap();
        list.split_whitespace().map(str::to_owned).collect()
    };
    let script = read("tests/mutants/run");
    let folders = list(&script, "folders");
    assert!(!folders.is_empty());
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_/.".contains(c);
    let paths = script.split(|c| !is_part(c)).filter_map(|path| {
        let path = path.trim_end_matches('.');
        (path.starts_with("src/") && path != "src/").then(|| path.to_owned())
    });
    let modules = folders.iter().map(|folder| format!("src/{folder}.rs"));
    let paths = paths.chain(modules);
    let mut missing: Vec<String> = paths.filter(|path| !repository(path).exists()).collect();

    let sources: Vec<String> = tracked_files()
        .iter()
        .filter(|path| path.starts_with("src/") && path.ends_with(".rs"))
        .map(|path| read(path))
        .collect();
    let slow = list(&read("tests/mutants/run-tests"), "slow");
    let is_test = |name: &String| {
        let definition = format!("fn {name}(");
        sources.iter().any(|source| source.contains(&definition))
    };
    missing.extend(slow.into_iter().filter(|name| !is_test(name)));
    assert_none(&missing);
}

/// The tour in `lib.rs` names the files of each way.
#[test]
fn files_that_the_tour_names_exist() {
    let tour = std::fs::read_to_string(repository("src/lib.rs")).unwrap();
    let is_path = |word: &&str| word.ends_with(".rs") || word.ends_with(".js");
    let named: BTreeSet<&str> = tour.split('`').filter(is_path).collect();
    assert!(named.len() > 50, "the tour names {} files", named.len());
    let exists = |path: &str| {
        let below_src = repository("src").join(path);
        below_src.exists() || repository(path).exists()
    };
    let missing = named.iter().filter(|path| !exists(path));
    assert_none(&missing.map(ToString::to_string).collect::<Vec<_>>());
}
