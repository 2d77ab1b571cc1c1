//! Faults as a person on call meets them. Each file of `tests/fixtures/first-look` changes the world of `world.yaml`, and has the words
//! that each view must have on its first screen. `README.md` there lists all faults, with the tests of each.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use anyhow::{Result, ensure};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use support::process::run_global_dns;
use support::repository::{repository, tracked_files};
use support::server::Server;
use support::standin::{Behavior, StandIn};
use support::wait::{eventually, wait_for};

const FOLDER: &str = "tests/fixtures/first-look";
/// Lines of the first screen of a view: a small terminal for the table, the answer with its problems for an explanation.
const SCREEN: usize = 40;

/// Changes of objects by their name, such as `Service/prod/db`: a merge patch (RFC 7386). Null deletes the object.
type Changes = BTreeMap<String, Value>;

/// A fault.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fault {
    /// Settings of the server.
    #[serde(default)]
    settings: Vec<String>,
    /// The world before the fault, if it differs from that of all faults.
    #[serde(default)]
    before: Changes,
    /// What happens, one after the other.
    steps: Vec<Step>,
    /// The name that is explained.
    explain: String,
    /// For each view, the words that it must have.
    says: BTreeMap<View, Vec<String>>,
    /// Words that no view may have: they are false, or do harm.
    #[serde(default)]
    never: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Step {
    /// Objects change.
    Objects(Changes),
    /// The API server behaves in another way.
    Api(Behavior),
    /// The API server forbids a resource.
    Forbid(String),
    /// A client asks.
    Ask(String),
}

#[derive(Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
enum View {
    /// The documents of the first screen of the page.
    Page,
    Table,
    Explain,
    Events,
    Check,
    Log,
    Metrics,
}

/// A world with a server of it.
struct World {
    objects: BTreeMap<String, Value>,
    standin: StandIn,
    server: Server,
}

// === impl World ===

impl World {
    fn start(fault: &Fault) -> Self {
        let mut objects = BTreeMap::new();
        for changes in [
            &read::<Changes>(&repository(FOLDER).join("world.yaml")),
            &fault.before,
        ] {
            for (name, patch) in changes {
                change(&mut objects, name, patch).ok();
            }
        }
        let all: Vec<Value> = objects.values().cloned().collect();
        let standin = StandIn::start(Behavior::Normal, &all).unwrap();
        standin.keep_watches();
        let settings: Vec<&str> = fault.settings.iter().map(String::as_str).collect();
        let server = Server::ready_of_cluster(&standin.kubeconfig, &settings);
        Self {
            objects,
            standin,
            server,
        }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Objects(changes) => {
                for (name, patch) in changes {
                    match change(&mut self.objects, name, patch) {
                        Ok(new) => self.standin.put(&new),
                        Err(old) => self.standin.delete(&old),
                    }
                }
            }
            Step::Api(behavior) => {
                self.standin.set_behavior(*behavior);
                self.standin.lose_history();
            }
            Step::Forbid(resource) => {
                self.standin.forbid(resource);
                self.standin.lose_history();
            }
            Step::Ask(name) => drop(self.server.outcome(name)),
        }
    }

    /// Returns the first screen of a view.
    fn view(&self, view: View, name: &str) -> Result<String> {
        let server = format!("--server=http://{}", self.server.api);
        let run = |arguments: &[&str]| {
            let ended = run_global_dns(&[arguments, &[&server]].concat());
            let lines: Vec<&str> = ended.stdout.lines().take(SCREEN).collect();
            let (text, code) = (lines.join("\n"), ended.code.unwrap());
            format!("{text}\n{}exit code {code}", ended.stderr)
        };
        Ok(match view {
            View::Page => {
                let status = &self.server.try_items("status")?[0];
                let causes = self.server.try_items("problems")?;
                let causes = causes.iter().filter(|one| one["section"] == "causes");
                let fields = ["level", "services", "gone", "clusters"].map(|name| &status[name]);
                let fields = fields.map(Value::to_string).join("\n");
                causes.fold(fields, |text, cause| format!("{text}\n{cause}"))
            }
            View::Table => run(&["table"]),
            View::Explain => run(&["explain", name]),
            View::Events => run(&["events"]),
            View::Check => run(&["check"]),
            View::Log => self.server.log.text(),
            View::Metrics => self.server.admin("/metrics").body,
        })
    }
}

/// Applies a merge patch to an object. Returns the object, or the one that is deleted.
fn change(
    objects: &mut BTreeMap<String, Value>,
    name: &str,
    patch: &Value,
) -> Result<Value, Value> {
    if patch.is_null() {
        return Err(objects.remove(name).unwrap());
    }
    let parts: Vec<&str> = name.split('/').collect();
    let object = objects.entry(name.to_owned());
    let object = object.or_insert_with(
        || json!({"kind": parts[0], "metadata": {"namespace": parts[1], "name": parts[2]}}),
    );
    merge(object, patch);
    Ok(object.clone())
}

/// Applies a merge patch (RFC 7386).
fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *value = patch.clone();
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    for (name, field) in fields {
        if field.is_null() {
            value.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut value[name.as_str()], field);
        }
    }
}

fn read<T: for<'t> Deserialize<'t>>(path: &Path) -> T {
    let text = fs::read_to_string(path).unwrap();
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns a text with one space in place of each gap, as that between two lines of a sentence.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Plants a fault, and waits until each view says what it must.
fn plant(path: &Path) -> Result<()> {
    let fault: Fault = read(path);
    let mut world = World::start(&fault);
    for step in &fault.steps {
        let tables = world.server.status()["tables"].clone();
        world.take(step);
        if fault.steps.len() > 1 {
            wait_for("the table of the step", || {
                (world.server.status()["tables"] != tables).then_some(())
            });
        }
    }
    for (view, words) in &fault.says {
        let what = format!("{} in {view:?}", path.display());
        eventually(&what, || {
            let text = world.view(*view, &fault.explain)?;
            let has = |words: &str| unwrapped(&text).contains(&unwrapped(words));
            let missing = words.iter().find(|one| !has(one));
            ensure!(missing.is_none(), "no {missing:?} in:\n{text}\n");
            let wrong = fault.never.iter().find(|one| has(one));
            ensure!(wrong.is_none(), "{wrong:?} in:\n{text}\n");
            Ok(())
        })?;
    }
    Ok(())
}

/// Number of faults that are planted at the same time. Most of the time of each is a wait.
const THREADS: usize = 6;

#[test]
fn each_fault_is_named_at_first_look() {
    let entries = fs::read_dir(repository(FOLDER)).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|one| one.unwrap().path()).collect();
    files.retain(|path| !path.ends_with("world.yaml") && !path.ends_with("README.md"));
    files.sort();
    let waiting = Mutex::new(files.into_iter());
    let wrong = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(path) = { waiting.lock().unwrap().next() } {
                    if let Err(error) = plant(&path) {
                        wrong.lock().unwrap().push(format!("{error:#}"));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The lists of faults and of situations name a file or a test for each of them.
#[test]
fn each_fault_has_a_test() {
    let list = fs::read_to_string(repository(FOLDER).join("README.md")).unwrap();
    let is_row = |line: &&str| line.starts_with("| ") && line.contains('`');
    let rows: Vec<&str> = list.lines().filter(is_row).collect();
    assert_eq!(rows.len(), 55 + 52, "{rows:#?}");
    let mut sources = tracked_files();
    sources.retain(|path| path.ends_with(".rs"));
    let read = |path: &String| fs::read_to_string(repository(path)).unwrap();
    let sources: String = sources.iter().map(read).collect();
    for row in rows {
        for test in row.split('`').skip(1).step_by(2) {
            let is_file = repository(FOLDER).join(test).exists();
            let is_test = sources.contains(&format!("fn {test}("));
            assert!(is_file || is_test, "{test} in {row}");
        }
    }
}
