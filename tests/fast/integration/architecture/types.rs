//! Names of types: one name stands for one type in the whole package.

use std::collections::BTreeMap;

use support::differences::assert_none;

use super::source::{Source, sources};

/// Returns a line for each name of several types, with their files.
fn ambiguous(sources: &[Source]) -> Vec<String> {
    let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for source in sources {
        for name in &source.types {
            files.entry(name).or_default().push(&source.path);
        }
    }
    let several = files.into_iter().filter(|(_, files)| files.len() > 1);
    several
        .map(|(name, files)| format!("{name} is defined in {}", files.join(", ")))
        .collect()
}

#[test]
fn each_name_stands_for_one_type() {
    let sources = sources();
    let count: usize = sources.iter().map(|source| source.types.len()).sum();
    assert!(count > 300, "found {count} types");
    assert_none(&ambiguous(&sources));
}

#[test]
fn name_of_two_types_is_found() {
    for (text, is_ambiguous) in [
        ("pub struct Zone;", true),
        ("pub(super) enum Zone { A }", true),
        ("trait Zone {}", true),
        ("type Zone = u8;", true),
        (
            "fn read() -> impl Iterator<Item = u8> { struct Zone; }",
            true,
        ),
        ("impl Name { fn read(self) { type Zone = u8; } }", true),
        ("impl FromStr for Name { type Zone = u8; }", false),
        ("trait Name { type Zone; }", false),
        ("#[cfg(test)] mod tests { struct Zone; }", false),
        ("use super::Zone; struct Names(Zone);", false),
    ] {
        let sources = [
            Source::new("zone", "pub struct Zone {}"),
            Source::new("wire", text),
        ];
        assert_eq!(!ambiguous(&sources).is_empty(), is_ambiguous, "{text}");
    }
}
