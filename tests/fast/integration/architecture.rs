//! Architecture rules, checked in the source text: modules use only modules below them, files form no circle, pure modules have no
//! effects, and the files that the tour in `src/lib.rs` names exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::LazyLock;

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use support::differences::assert_none;
use support::repository::{repository, tracked_files};

/// The modules of `src`. Each module may use only modules that follow it.
const MODULES: &str = "app cli settings http check view server source wire zone table model log failures clock \
                       heartbeat histogram setting_text";
/// Pure modules. Their functions depend only on their arguments, without clocks, I/O, locks or logs.
const PURE: &str = "check model table wire zone";
/// Exceptions: the requests, queries and connections of `global-dns check`, the pools of interned texts and ports, the swap of tables.
const IMPURE: &str = "check/cluster check/connection check/dns_client check/path model/interned model/ports table/publish";
const EFFECTS: &str = "File Instant LazyLock Mutex OnceLock RwLock SystemTime TcpStream UdpSocket eprintln fs parking_lot \
                       println thread tokio tracing TokioRuntimeProvider";
/// The ways of the tour in `src/lib.rs`.
const WAYS: [&str; 2] = ["An A query over UDP", "A changed EndpointSlice"];

/// The source files without test code. A path is `zone/read`, for a file or for a name from the root of the crate.
#[derive(Default)]
struct Files {
    /// Identifiers and punctuation. `::` is the token `/`.
    tokens: BTreeMap<String, Vec<String>>,
    /// What each name that a file imports stands for, and whether it is exported.
    imports: BTreeMap<String, BTreeMap<String, (String, bool)>>,
}

static FILES: LazyLock<Files> = LazyLock::new(read_files);

fn read_files() -> Files {
    let mut files = Files::default();
    for path in tracked_files() {
        let excluded = ["/tests", "/testing", "/scripted", "/lib.rs"];
        let is_excluded = excluded.iter().any(|part| path.contains(part));
        let inner = path.strip_prefix("src/").filter(|_| !is_excluded);
        if let Some(file) = inner.and_then(|path| path.strip_suffix(".rs")) {
            let text = fs::read_to_string(repository(&path)).unwrap();
            let tokens = files.tokens.entry(file.to_owned()).or_default();
            flatten(text.parse().unwrap(), tokens);
        }
    }
    for (file, tokens) in &files.tokens {
        let mut imports = BTreeMap::new();
        for (tree, is_public) in split(tokens).0 {
            for (path, name) in expand(tree) {
                let target = files.absolute(file, &path);
                imports.extend(target.map(|target| (name, (target, is_public))));
            }
        }
        files.imports.insert(file.clone(), imports);
    }
    files
}

/// Collects tokens. Omits comments, literals and items with `#[cfg(test)]`.
fn flatten(stream: TokenStream, tokens: &mut Vec<String>) {
    let mut trees = stream.into_iter();
    while let Some(tree) = trees.next() {
        match tree {
            TokenTree::Group(group) if group.to_string().replace(' ', "") == "[cfg(test)]" => {
                trees.find(|tree| match tree {
                    TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                    other => [";", ","].contains(&&*other.to_string()),
                });
            }
            TokenTree::Group(group) => {
                tokens.push("{".to_owned());
                flatten(group.stream(), tokens);
                tokens.push("}".to_owned());
            }
            TokenTree::Punct(one) if one.as_char() == ':' && one.spacing() == Spacing::Joint => {
                trees.next();
                tokens.push("/".to_owned());
            }
            TokenTree::Literal(_) => {}
            tree => tokens.push(tree.to_string()),
        }
    }
}

/// Returns the trees of all `use` statements, with whether they export what they import, and all other tokens.
fn split(tokens: &[String]) -> (Vec<(&[String], bool)>, Vec<&str>) {
    let (mut statements, mut body, mut rest) = (vec![], vec![], tokens);
    while let [token, after @ ..] = rest {
        rest = after;
        // A list of captured lifetimes is `+ use<'t>`.
        if token == "use" && after.first().is_some_and(|next| next != "<") {
            let length = after.iter().position(|token| token == ";").unwrap();
            let is_public = matches!(body[..], [.., "pub"] | [.., "pub", "{", _, "}"]);
            statements.push((&after[..length], is_public));
            rest = &after[length..];
        } else {
            body.push(token.as_str());
        }
    }
    (statements, body)
}

/// Returns each path of a `use` tree with the name that it gets.
fn expand(tree: &[String]) -> Vec<(String, String)> {
    let Some(open) = tree.iter().position(|token| token == "{") else {
        let end = tree.iter().position(|token| token == "as");
        let path = tree[..end.unwrap_or(tree.len())].concat();
        let path = path.trim_end_matches("/self").to_owned();
        let own = path.rsplit('/').next().unwrap_or_default();
        let name = end.map_or(own, |_| &tree[tree.len() - 1]).to_owned();
        return vec![(path, name)];
    };
    let mut depth = 0;
    let parts = tree[open + 1..tree.len() - 1].split(|token| {
        depth += usize::from(token == "{");
        depth -= usize::from(token == "}");
        depth == 0 && token == ","
    });
    let parts = parts.filter(|part| !part.is_empty());
    parts
        .flat_map(|part| expand(&[&tree[..open], part].concat()))
        .collect()
}

// === impl Files ===

impl Files {
    /// Returns a path from the root of the crate, or `None` for a path of another crate.
    fn absolute(&self, file: &str, path: &str) -> Option<String> {
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        let parent = file.rsplit_once('/').map_or("", |(parent, _)| parent);
        let is_child = self.tokens.contains_key(&format!("{file}/{first}"));
        match first {
            "crate" => Some(rest.to_owned()),
            "self" => Some(format!("{file}/{rest}")),
            "super" if rest.starts_with("super/") => self.absolute(parent, rest),
            "super" => Some(format!("{parent}/{rest}")),
            _ => is_child.then(|| format!("{file}/{path}")),
        }
    }

    /// Returns the file that defines what a path stands for. Exports of other files are followed.
    fn file_of(&self, path: &str, depth: usize) -> Option<String> {
        let path = path.trim_matches('/');
        let mut file = path;
        while !self.tokens.contains_key(file) {
            file = file.rsplit_once('/')?.0;
        }
        let rest = path[file.len()..].trim_start_matches('/');
        let (name, rest) = rest.split_once('/').unwrap_or((rest, ""));
        match self.imports[file].get(name).filter(|_| depth > 0) {
            Some((target, _)) => self.file_of(&format!("{target}/{rest}"), depth - 1),
            None => Some(file.to_owned()),
        }
    }

    /// Returns the files that a file uses. A parent that lists its parts with `mod` and `pub use` does not use them.
    fn used_by(&self, file: &str) -> BTreeSet<String> {
        let (_, body) = split(&self.tokens[file]);
        let text = format!(" {} ", body.join(" ")).replace(" / ", "/");
        let named = body.windows(2).filter(|pair| pair[0] != "mod");
        let named: BTreeSet<&str> = named.map(|pair| pair[1]).collect();
        let imports = self.imports[file].iter();
        let imports =
            imports.filter(|(name, (_, is_public))| !is_public || named.contains(&***name));
        // The path of `pub(in crate::server)` is no use.
        let text = text.replace(" in crate/", " ");
        let paths = text.split(' ').filter(|word| word.contains('/'));
        let paths = paths.filter_map(|path| self.absolute(file, path));
        let used = imports.map(|(_, (path, _))| path.clone()).chain(paths);
        let used = used.filter_map(|path| self.file_of(&path, 8));
        used.filter(|used| used != file).collect()
    }
}

fn module(file: &str) -> &str {
    file.split('/').next().unwrap()
}

#[test]
fn modules_use_only_modules_below_them() {
    let place = |file: &str| MODULES.split(' ').position(|one| one == module(file));
    let mut differences = Vec::new();
    for file in FILES.tokens.keys().filter(|file| *file != "main") {
        let used = FILES.used_by(file).into_iter();
        // A module that is not listed has no place, so that it is below none.
        let wrong = used.filter(|used| place(used) < place(file));
        differences.extend(wrong.map(|used| format!("{file} uses {used}")));
        assert!(place(file).is_some(), "{file} is in no listed module");
    }
    assert_none(&differences);
}

#[test]
fn no_file_uses_a_file_that_uses_it() {
    let uses = |file: &String| (file.clone(), FILES.used_by(file));
    let uses: BTreeMap<String, _> = FILES.tokens.keys().map(uses).collect();
    let is_in_circle = |file: &&String| {
        let (mut found, mut next) = (BTreeSet::new(), vec![*file]);
        while let Some(one) = next.pop() {
            next.extend(uses[one].iter().filter(|used| found.insert(*used)));
        }
        found.contains(*file)
    };
    let circle = uses.keys().filter(is_in_circle);
    let lines = circle.map(|file| format!("{file} uses {:?}", uses[file]));
    assert_none(&lines.collect::<Vec<_>>());
}

#[test]
fn pure_modules_have_no_effects() {
    let mut differences = Vec::new();
    for (file, tokens) in &FILES.tokens {
        let is_pure = PURE.split(' ').any(|one| one == module(file));
        let has_effect = |effect: &&str| tokens.iter().any(|token| token == effect);
        let effects: Vec<&str> = EFFECTS.split_whitespace().filter(has_effect).collect();
        if is_pure && effects.is_empty() == IMPURE.split(' ').any(|one| one == file) {
            differences.push(format!("{file} has the effects {effects:?}"));
        }
    }
    assert_none(&differences);
}

#[test]
fn tour_follows_both_ways_through_files_that_exist() {
    let tour = fs::read_to_string(repository("src/lib.rs")).unwrap();
    let mut missing = Vec::new();
    for way in WAYS {
        let (_, rest) = tour.split_once(&format!("//! **{way}**")).unwrap();
        let section = rest.split("//! **").next().unwrap();
        let named = section
            .split('`')
            .filter_map(|word| word.strip_suffix(".rs"));
        assert!(named.clone().count() > 4, "{way}");
        let absent = named.filter(|file| !FILES.tokens.contains_key(*file));
        missing.extend(absent.map(str::to_owned));
    }
    assert_none(&missing);
}
