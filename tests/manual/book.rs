//! The built pages: no warning, and no dead link.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use support::commands::{guarded, tool};
use support::process::run;
use support::repository::repository;

#[test]
#[ignore = "needs mdBook"]
fn book_builds_without_a_warning_and_its_links_resolve() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = guarded(tool("mdbook").unwrap());
    command.arg("build").arg("--dest-dir").arg(folder.path());
    let built = run(command.arg(repository("charts/global-dns/docs")));
    let output = format!("{}{}", built.stdout, built.stderr);
    assert!(built.is_success(), "{output}");
    assert!(
        !output.contains("WARN") && !output.contains("ERROR"),
        "{output}"
    );

    let mut pages = BTreeMap::new();
    for entry in fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        // The page of all chapters repeats their links. The page for a wrong address has those of a web site's root.
        if name.ends_with(".html") && !["print.html", "404.html"].contains(&&*name) {
            pages.insert(name, fs::read_to_string(path).unwrap());
        }
    }
    assert!(
        pages.contains_key("introduction.html"),
        "{:?}",
        pages.keys()
    );
    let anchors: BTreeMap<&str, BTreeSet<&str>> = pages
        .iter()
        .map(|(name, text)| (&**name, attributes(text, "id").collect()))
        .collect();
    let mut dead = vec![];
    for (name, text) in &pages {
        for target in attributes(text, "href").chain(attributes(text, "src")) {
            // `links.rs` tests the links to other documents of the repository.
            if target.contains("://") || target.starts_with("../") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { name } else { file };
            let has_anchor = || anchors.get(file).is_some_and(|page| page.contains(anchor));
            if !folder.path().join(file).is_file() || !anchor.is_empty() && !has_anchor() {
                dead.push(format!("{name}: {target}"));
            }
        }
    }
    assert!(dead.is_empty(), "dead links: {dead:#?}");
}

/// Returns the values of an attribute in a page.
fn attributes<'t>(page: &'t str, name: &str) -> impl Iterator<Item = &'t str> {
    let start = format!(" {name}=\"");
    let starts: Vec<usize> = page
        .match_indices(&start)
        .map(|(index, _)| index + start.len())
        .collect();
    starts
        .into_iter()
        .filter_map(|start| Some(page[start..].split_once('"')?.0))
}
