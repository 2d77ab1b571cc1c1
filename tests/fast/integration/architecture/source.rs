//! Reads source files as lists of tokens.

use std::iter::Peekable;
use std::path::Path;

use proc_macro2::token_stream::IntoIter;
use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};
use support::repository::repository;

/// A source file without test code.
pub struct Source {
    /// Path below `src` without `.rs`.
    pub path: String,
    /// Identifiers and punctuation. `::` is one token, and `super::` up to the root of the crate is `crate::integration::`.
    pub tokens: Vec<String>,
    /// The names of the types and traits that it defines, also in functions. Associated types have none of their own.
    pub types: Vec<String>,
}

impl Source {
    /// Reads the text of a file.
    pub fn new(path: &str, text: &str) -> Self {
        let (path, mut tokens, mut types) = (path.to_owned(), Vec::new(), Vec::new());
        let depth = path.split('/').filter(|part| !part.is_empty()).count();
        let stream: TokenStream = text.parse().unwrap();
        flatten(stream.clone(), depth, &mut tokens);
        collect_types(stream, false, &mut types);
        Self {
            path,
            tokens,
            types,
        }
    }

    /// Returns whether the file belongs to a module. A module consists of its file and the folder of the same name.
    pub fn is_in(&self, module: &str) -> bool {
        let rest = self.path.strip_prefix(module);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns whether the file has this path, such as `File` or `ObjectKey::new`.
    pub fn names(&self, path: &str) -> bool {
        let path: Vec<&str> = path.split_inclusive("::").flat_map(split_end).collect();
        self.tokens.windows(path.len()).any(|tokens| tokens == path)
    }

    /// Returns the modules that occur in paths from `crate`.
    pub fn used_modules(&self) -> impl Iterator<Item = &str> {
        let paths = self.tokens.windows(3).filter(|three| three[0] == "crate");
        paths.map(|three| three[2].as_str())
    }

    /// Returns whether the file uses an outside crate, not a module of the same name.
    pub fn names_crate(&self, name: &str) -> bool {
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

/// Splits a part of a path into its name and `::`.
fn split_end(part: &str) -> impl Iterator<Item = &str> {
    let name = part.strip_suffix("::");
    let end = name.map(|_| "::");
    std::iter::once(name.unwrap_or(part)).chain(end)
}

/// Collects the tokens of a module. `depth` is the number of modules above it. Omits comments, literals and items with
/// `#[cfg(test)]`.
fn flatten(stream: TokenStream, depth: usize, tokens: &mut Vec<String>) {
    let mut trees = stream.into_iter().peekable();
    while let Some(tree) = trees.next() {
        match tree {
            TokenTree::Group(group) if is_cfg_test(&group) => skip_item(&mut trees),
            TokenTree::Group(group) => {
                let depth = depth + usize::from(is_module(tokens, &group));
                tokens.push("{".to_owned());
                flatten(group.stream(), depth, tokens);
                tokens.push("}".to_owned());
            }
            TokenTree::Punct(punct)
                if punct.as_char() == ':' && punct.spacing() == Spacing::Joint =>
            {
                trees.next();
                tokens.push("::".to_owned());
                resolve_super(depth, tokens);
            }
            TokenTree::Literal(_) => {}
            TokenTree::Ident(_) | TokenTree::Punct(_) => tokens.push(tree.to_string()),
        }
    }
}

/// Collects the names of the types and traits that are defined in a module, a function or an `impl` block. Omits items with
/// `#[cfg(test)]`, and the associated types of an `impl` block or a trait.
fn collect_types(stream: TokenStream, is_in_impl: bool, types: &mut Vec<String>) {
    let mut trees = stream.into_iter().peekable();
    // The keyword of the current item.
    let mut item = String::new();
    while let Some(tree) = trees.next() {
        match tree {
            TokenTree::Group(group) if is_cfg_test(&group) => skip_item(&mut trees),
            TokenTree::Group(group) => {
                let is_impl = ["impl", "trait"].contains(&item.as_str());
                collect_types(group.stream(), is_impl, types);
                if group.delimiter() == Delimiter::Brace {
                    item.clear();
                }
            }
            TokenTree::Punct(punct) if punct.as_char() == ';' => item.clear(),
            TokenTree::Ident(ident) if item.is_empty() => {
                let keyword = ident.to_string();
                let is_definition = match keyword.as_str() {
                    "struct" | "enum" | "trait" | "union" => true,
                    "type" => !is_in_impl,
                    _ => false,
                };
                // A macro defines types with names like `$name`.
                let is_name = |tree: &&TokenTree| matches!(tree, TokenTree::Ident(_));
                let name = trees.peek().filter(is_name).filter(|_| is_definition);
                types.extend(name.map(ToString::to_string));
                let is_item = is_definition || ["fn", "impl", "let", "type"].contains(&&*keyword);
                item.extend(is_item.then_some(keyword));
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

fn is_cfg_test(group: &Group) -> bool {
    group.to_string().replace(' ', "") == "[cfg(test)]"
}

/// Skips the item that an attribute belongs to.
fn skip_item(trees: &mut Peekable<IntoIter>) {
    let is_end = |tree: &TokenTree| match tree {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => [';', ','].contains(&punct.as_char()),
        TokenTree::Ident(_) | TokenTree::Literal(_) => false,
    };
    trees.find(is_end);
}

/// Returns whether a group after these tokens is the content of a module.
fn is_module(tokens: &[String], group: &Group) -> bool {
    let is_after_mod = tokens
        .iter()
        .rev()
        .nth(1)
        .is_some_and(|token| token == "mod");
    is_after_mod && group.delimiter() == Delimiter::Brace
}

/// Replaces `super::` by `crate::integration::` if it occurs as often as there are modules above.
fn resolve_super(depth: usize, tokens: &mut Vec<String>) {
    let mut pairs = tokens.rchunks_exact(2);
    let start = pairs.position(|pair| pair != ["super", "::"]);
    let count = start.unwrap_or(tokens.len() / 2);
    if depth > 0 && count == depth {
        tokens.truncate(tokens.len() - 2 * count);
        tokens.extend(["crate", "::"].map(str::to_owned));
    }
}

/// Reads all source files except files of tests.
pub fn sources() -> Vec<Source> {
    sources_below("src")
}

/// Reads all source files below a folder of this repository, except files of tests.
pub fn sources_below(folder: &str) -> Vec<Source> {
    fn collect(root: &Path, folder: &Path, found: &mut Vec<Source>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let below = path.strip_prefix(root).unwrap();
            let below = below.with_extension("").to_str().unwrap().to_owned();
            let is_test = below
                .split('/')
                .any(|part| ["tests", "testing", "scripted"].contains(&part));
            if path.is_dir() {
                collect(root, &path, found);
            } else if !is_test && path.extension().is_some_and(|end| end == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push(Source::new(&below, &text));
            }
        }
    }
    let (root, mut found) = (repository(folder), Vec::new());
    collect(&root, &root, &mut found);
    found
}

#[test]
fn super_up_to_the_root_is_resolved() {
    for (path, text, expected) in [
        ("zone", "use super::server::Server;", vec!["server"]),
        ("zone", "fn f() { super::server::f() }", vec!["server"]),
        ("zone", "use super::{server};", vec!["{"]),
        ("zone", "mod inner { use super::server; }", vec![]),
        (
            "zone",
            "mod inner { use super::super::server; }",
            vec!["server"],
        ),
        ("zone/read", "use super::server;", vec![]),
        ("zone/read", "use super::super::server;", vec!["server"]),
        ("zone/read", "pub(super) fn f() {}", vec![]),
        (
            "zone/read",
            "use crate::integration::server;",
            vec!["server"],
        ),
    ] {
        let source = Source::new(path, text);
        assert_eq!(
            source.used_modules().collect::<Vec<_>>(),
            expected,
            "{path}: {text}"
        );
    }
}

#[test]
fn path_is_found_in_tokens() {
    let source = Source::new("zone", "fn f() { ObjectKey::new(interned_text) }");
    assert!(source.names("ObjectKey::new") && source.names("ObjectKey") && source.names("new"));
    assert!(!source.names("ObjectName::new") && !source.names("interned"));
}
