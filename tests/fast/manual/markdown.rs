//! Links and anchors of a Markdown document.

use std::collections::HashMap;

/// Returns the targets of the links and images of a document, also of its reference definitions.
pub fn targets(text: &str) -> Vec<String> {
    let mut found = vec![];
    for line in prose(text) {
        let line = without_code(line);
        let inline = line.split("](").skip(1);
        found.extend(inline.filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())));
        if line.starts_with('[')
            && let Some((_, target)) = line.split_once("]: ")
        {
            found.push(target.trim().to_owned());
        }
    }
    found
}

/// Returns the anchors of a document's headings, as GitHub and mdBook make them.
pub fn anchors(text: &str) -> Vec<String> {
    let mut uses: HashMap<String, usize> = HashMap::new();
    let headings = prose(text).filter_map(|line| {
        line.trim_start_matches('#')
            .strip_prefix(' ')
            .filter(|_| line.starts_with('#'))
    });
    headings
        .map(|heading| {
            let kept = heading
                .trim()
                .chars()
                .filter(|&letter| letter.is_alphanumeric() || "-_ ".contains(letter));
            let anchor: String = kept.collect::<String>().to_lowercase().replace(' ', "-");
            let before = uses.entry(anchor.clone()).or_default();
            *before += 1;
            if *before == 1 {
                anchor
            } else {
                format!("{anchor}-{}", *before - 1)
            }
        })
        .collect()
}

/// Returns the lines outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Removes code from a line.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

#[test]
fn links_in_code_do_not_count() {
    let text = "[a](x.md), `[b](y.md)` [`c`](z.md#d)\n```\n[e](f.md)\n```\n[g]: h.md\n";
    assert_eq!(targets(text), ["x.md", "z.md#d", "h.md"]);
}

#[test]
fn equal_headings_have_numbered_anchors() {
    let text = "# Flags of `serve`\n## A, b: c\n```\n# no\n```\n## A, b: c\n#tag\n";
    assert_eq!(anchors(text), ["flags-of-serve", "a-b-c", "a-b-c-1"]);
}
