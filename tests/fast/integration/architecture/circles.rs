//! Circles between files: a file must not use a file that uses it, directly or through others. A parent that lists its
//! parts with `mod` and `pub use` does not use them.

use std::collections::{BTreeMap, BTreeSet};

use support::differences::assert_none;

use super::source::{Source, sources};

/// A path of names, such as `zone`, `read`, from the root of the crate.
pub(super) type Path = Vec<String>;

/// The imports of a file.
#[derive(Default)]
struct Imports {
    /// What each imported name stands for.
    names: BTreeMap<String, Path>,
    /// The names that are only exported again.
    exported: BTreeSet<String>,
}

/// All files, by module.
pub(super) struct Files<'s> {
    sources: BTreeMap<Path, &'s Source>,
    imports: BTreeMap<Path, Imports>,
}

// === impl Files ===

impl<'s> Files<'s> {
    pub(super) fn new(sources: &'s [Source]) -> Self {
        let module = |source: &Source| match source.path.as_str() {
            "lib" => Path::new(),
            path => path.split('/').map(str::to_owned).collect(),
        };
        let mut files = Self {
            sources: sources.iter().map(|one| (module(one), one)).collect(),
            imports: BTreeMap::new(),
        };
        let imports = files.sources.iter();
        files.imports = imports
            .map(|(module, source)| (module.clone(), files.imports_of(module, source)))
            .collect();
        files
    }

    fn imports_of(&self, module: &[String], source: &Source) -> Imports {
        let mut imports = Imports::default();
        for (statement, is_public) in statements(&source.tokens) {
            for (path, name) in expand(statement) {
                if let Some(path) = self.absolute(module, &path) {
                    if is_public {
                        imports.exported.insert(name.clone());
                    }
                    imports.names.insert(name, path);
                }
            }
        }
        imports
    }

    /// Returns a path from the root of the crate, or `None` for a path of another crate.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Path> {
        let ups = path.iter().take_while(|name| *name == "super").count();
        let below = |base: &[String], rest: &[String]| Some([base, rest].concat());
        match path.first()?.as_str() {
            "crate" => below(&[], &path[1..]),
            "self" => below(module, &path[1..]),
            "super" => below(module.get(..module.len().checked_sub(ups)?)?, &path[ups..]),
            first => {
                let child = [module, &[first.to_owned()]].concat();
                self.sources
                    .contains_key(&child)
                    .then(|| below(module, path))?
            }
        }
    }

    /// Returns the file that defines what a path stands for. Exports of other files are followed.
    fn file_of(&self, path: &[String], depth: usize) -> Option<Path> {
        let length = (0..=path.len()).rev();
        let module = length
            .map(|length| &path[..length])
            .find(|start| self.sources.contains_key(*start))?;
        let import = path.get(module.len()).and_then(|name| {
            let target = self.imports.get(module)?.names.get(name)?;
            Some([target, &path[module.len() + 1..]].concat())
        });
        match import {
            Some(target) if depth > 0 => self.file_of(&target, depth - 1),
            _ => Some(module.to_vec()),
        }
    }

    /// Returns the files that each file uses.
    pub(super) fn uses(&self) -> BTreeMap<Path, BTreeSet<Path>> {
        let modules = self.sources.keys();
        modules
            .map(|module| (module.clone(), self.used_by(module)))
            .collect()
    }

    /// Returns the files that a file uses.
    fn used_by(&self, module: &[String]) -> BTreeSet<Path> {
        let (tokens, imports) = (&self.sources[module].tokens, &self.imports[module]);
        let is_use = use_tokens(tokens);
        let body = || {
            let tokens = tokens.iter().zip(&is_use);
            tokens
                .filter(|(_, is_use)| !**is_use)
                .map(|(token, _)| token)
        };
        let named = body().skip(1).zip(body());
        let named = named.filter(|(_, before)| *before != "mod");
        let named: BTreeSet<&String> = named.map(|(name, _)| name).collect();
        let imported = imports.names.iter();
        let imported = imported
            .filter(|(name, _)| !imports.exported.contains(*name) || named.contains(name))
            .map(|(_, path)| path.clone());
        let body: Vec<&str> = body().map(String::as_str).collect();
        let inline = paths(&body).filter_map(|path| self.absolute(module, &path));
        let used = imported.chain(inline);
        let used = used.filter_map(|path| self.file_of(&path, 8));
        used.filter(|file| file != module && !file.is_empty())
            .collect()
    }
}

/// Returns whether a `use` statement starts here, and not a list of captured lifetimes, `+ use<'t>`.
fn starts_use(tokens: &[String], index: usize) -> bool {
    tokens[index] == "use" && tokens.get(index + 1).is_some_and(|next| next != "<")
}

/// Marks the tokens of `use` statements.
fn use_tokens(tokens: &[String]) -> Vec<bool> {
    let mut is_in_use = false;
    let mark = |index| {
        is_in_use |= starts_use(tokens, index);
        let marked = is_in_use;
        is_in_use &= tokens[index] != ";";
        marked
    };
    (0..tokens.len()).map(mark).collect()
}

/// Returns the trees of all `use` statements, and whether they export what they import.
fn statements(tokens: &[String]) -> impl Iterator<Item = (&[String], bool)> {
    let starts = (0..tokens.len()).filter(|&index| starts_use(tokens, index));
    starts.map(|start| {
        let length = tokens[start..].iter().position(|token| token == ";");
        let tree = &tokens[start + 1..start + length.unwrap_or(1)];
        let before = tokens[..start].iter().rev().take(4);
        let before: Vec<&str> = before.map(String::as_str).collect();
        let is_public = matches!(before[..], ["pub", ..] | ["}", _, "{", "pub", ..]);
        (tree, is_public)
    })
}

/// Returns each path of a `use` tree with the name that it gets.
fn expand(tree: &[String]) -> Vec<(Path, String)> {
    let is_name = |token: &&String| token.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let Some(open) = tree.iter().position(|token| token == "{") else {
        let (path, alias) = match tree.iter().position(|token| token == "as") {
            Some(place) => (&tree[..place], tree.last()),
            None => (tree, None),
        };
        let mut path: Path = path.iter().filter(is_name).cloned().collect();
        path.pop_if(|last| last == "self");
        let name = alias.or(path.last()).cloned();
        return name.into_iter().map(|name| (path.clone(), name)).collect();
    };
    let start: Path = tree[..open].iter().filter(is_name).cloned().collect();
    let inner = &tree[open + 1..tree.len() - 1];
    let mut depth = 0;
    let parts = inner.split(|token| {
        depth += usize::from(token == "{");
        depth -= usize::from(token == "}");
        depth == 0 && token == ","
    });
    let parts = parts.filter(|part| !part.is_empty()).flat_map(expand);
    parts
        .map(|(path, name)| ([&start[..], &path].concat(), name))
        .collect()
}

/// Returns all paths with `::` in the tokens.
fn paths(tokens: &[&str]) -> impl Iterator<Item = Path> {
    let starts = (0..tokens.len()).filter(|&start| {
        // The path of `pub(in crate::integration::server)` is no use.
        let before = start.checked_sub(1).map(|before| tokens[before]);
        tokens.get(start + 1) == Some(&"::") && !matches!(before, Some("::" | "in"))
    });
    starts.map(|start| {
        let mut path = vec![tokens[start].to_owned()];
        let rest = tokens[start + 1..].chunks(2);
        let rest = rest.take_while(|pair| pair[0] == "::" && pair.len() == 2);
        path.extend(rest.map(|pair| pair[1].to_owned()));
        path
    })
}

/// Returns the files of each circle.
fn circles(uses: &BTreeMap<Path, BTreeSet<Path>>) -> BTreeSet<BTreeSet<Path>> {
    let reachable = |from: &Path| {
        let mut found = BTreeSet::new();
        let mut next = vec![from];
        while let Some(file) = next.pop() {
            let used = uses.get(file).into_iter().flatten();
            next.extend(used.filter(|used| found.insert((*used).clone())));
        }
        found
    };
    let reached: BTreeMap<&Path, BTreeSet<Path>> =
        uses.keys().map(|file| (file, reachable(file))).collect();
    let of_circle = |file: &&Path| reached[*file].contains(*file);
    let circle = |file: &Path| {
        let others = reached[file].iter();
        others
            .filter(|other| reached.get(other).is_some_and(|files| files.contains(file)))
            .cloned()
            .collect()
    };
    uses.keys().filter(of_circle).map(circle).collect()
}

#[test]
fn no_file_uses_a_file_that_uses_it() {
    let sources = sources();
    let uses = Files::new(&sources).uses();
    let describe = |circle: &BTreeSet<Path>| {
        let lines = circle.iter().map(|file| {
            let used: Vec<String> = uses[file]
                .intersection(circle)
                .map(|one| one.join("/"))
                .collect();
            format!("{} uses {}", file.join("/"), used.join(", "))
        });
        lines.collect::<Vec<_>>().join("\n    ")
    };
    let circles = circles(&uses);
    assert_none(&circles.iter().map(describe).collect::<Vec<_>>());
}

#[test]
fn circle_through_a_parent_is_found() {
    let circles_of = |parent: &str, child: &str| {
        let sources = [Source::new("zone", parent), Source::new("zone/read", child)];
        circles(&Files::new(&sources).uses()).len()
    };
    let child = "use super::Zone; pub fn read() -> Zone { Zone }";
    assert_eq!(
        circles_of("mod read; pub use read::read; pub struct Zone;", child),
        0
    );
    assert_eq!(
        circles_of("mod read; pub struct Zone; fn f() { read::read(); }", child),
        1
    );
    assert_eq!(
        circles_of(
            "mod read; use read::{read}; pub struct Zone; fn f() { read(); }",
            child
        ),
        1
    );
    assert_eq!(
        circles_of(
            "mod read; mod zones; pub use read::read; fn f() { read(); }",
            child
        ),
        1
    );
}
