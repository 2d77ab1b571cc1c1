//! Links between documents, and names of chapters in other files.

use std::collections::BTreeSet;
use std::fs;

use support::repository::{repository, tracked_files};

use crate::manual::markdown::{anchors, targets};

/// Folder of the chapters.
pub const CHAPTERS: &str = "charts/global-dns/docs/src";

#[test]
fn links_of_documents_resolve() {
    let files = tracked_files();
    let documents = files.iter().filter(|path| path.ends_with(".md"));
    let mut dead = vec![];
    for path in documents {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for target in targets(&read(path)) {
            let is_inside = !target.contains("://") && !target.starts_with("mailto:");
            if is_inside && !resolves(&files, path, folder, &target) {
                dead.push(format!("{path}: {target}"));
            }
        }
    }
    assert!(dead.is_empty(), "dead links: {dead:#?}");
}

/// Hints, values and comments name chapters by their path, such as `docs/src/install.md`.
#[test]
fn names_of_chapters_in_other_files_resolve() {
    let files = tracked_files();
    let others = files.iter().filter(|path| {
        path.starts_with("charts/") || path.starts_with("src/") || path.starts_with("coredns/")
    });
    let mut dead = vec![];
    let mut count = 0;
    for path in others {
        let Ok(text) = fs::read_to_string(repository(path)) else {
            continue; // a picture
        };
        for rest in text.split("docs/src/").skip(1) {
            let end = rest
                .find(|letter: char| !letter.is_ascii_alphanumeric() && !"-_#.".contains(letter));
            let target = rest[..end.unwrap_or(rest.len())].trim_end_matches('.');
            count += 1;
            if !target.is_empty() && !resolves(&files, "", CHAPTERS, target) {
                dead.push(format!("{path}: docs/src/{target}"));
            }
        }
    }
    assert!(dead.is_empty(), "dead names: {dead:#?}");
    assert!(count > 0, "no file names a chapter");
}

#[test]
fn summary_lists_each_chapter_once() {
    let mut listed = targets(&read(&format!("{CHAPTERS}/SUMMARY.md")));
    listed.sort();
    let files = tracked_files();
    let chapters: BTreeSet<&str> = files
        .iter()
        .filter_map(|path| path.strip_prefix(CHAPTERS)?.strip_prefix('/'))
        .filter(|name| name.ends_with(".md") && *name != "SUMMARY.md")
        .collect();
    assert_eq!(listed, chapters.into_iter().collect::<Vec<_>>());
}

/// Returns whether a target is a file or a folder of this repository, and has the anchor.
fn resolves(files: &[String], document: &str, folder: &str, target: &str) -> bool {
    let (file, anchor) = target
        .split_once('#')
        .map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let path = if file.is_empty() {
        document.to_owned()
    } else {
        let Some(path) = joined(folder, file) else {
            return false;
        };
        path
    };
    let is_file = files.contains(&path);
    let is_folder = || {
        files.iter().any(|file| {
            file.strip_prefix(&*path)
                .is_some_and(|rest| rest.starts_with('/'))
        })
    };
    match anchor {
        None => is_file || is_folder(),
        Some(anchor) => is_file && anchors(&read(&path)).iter().any(|one| one == anchor),
    }
}

/// Joins a folder and a relative path without `.` and `..`. Returns `None` if the path leaves the root.
pub fn joined(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop()?,
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn read(path: &str) -> String {
    fs::read_to_string(repository(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}
