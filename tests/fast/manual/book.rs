//! The built pages: no warning, a search, and no dead link.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use support::commands::{guarded, tool};
use support::process::run;
use support::repository::repository;

use crate::manual::links::joined;

#[test]
#[ignore = "needs mdBook"]
fn book_builds_without_a_warning_and_has_a_search_and_its_links_resolve() {
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

    let names = fs::read_dir(folder.path()).unwrap();
    let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(
        names.any(|name| name.starts_with("searchindex")),
        "the book has no search"
    );

    let mut pages = BTreeMap::new();
    for name in html_files(folder.path(), "") {
        // The page of all chapters repeats their links. The page for a wrong address has those of a web site's root.
        if !["print.html", "404.html"].contains(&&*name) {
            let text = fs::read_to_string(folder.path().join(&name)).unwrap();
            pages.insert(name, text);
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
        let own = name.rsplit_once('/').map_or("", |(own, _)| own);
        for target in attributes(text, "href").chain(attributes(text, "src")) {
            if target.contains("://") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() {
                Some(name.clone())
            } else {
                joined(own, file)
            };
            let resolves = file.is_some_and(|file| {
                let has_anchor = || {
                    anchors
                        .get(&*file)
                        .is_some_and(|page| page.contains(anchor))
                };
                folder.path().join(&file).is_file() && (anchor.is_empty() || has_anchor())
            });
            if !resolves {
                dead.push(format!("{name}: {target}"));
            }
        }
    }
    assert!(dead.is_empty(), "dead links: {dead:#?}");
}

/// Returns the paths of the pages in a folder of the book and below it.
fn html_files(book: &Path, folder: &str) -> Vec<String> {
    let mut found = vec![];
    for entry in fs::read_dir(book.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = joined(folder, &name).unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(html_files(book, &path));
        } else if path.ends_with(".html") {
            found.push(path);
        }
    }
    found
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
