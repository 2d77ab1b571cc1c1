//! Settings as arguments of a test: `answers.udpMax=4096` is a path in the settings, and its value in YAML.

use std::process::Command;

use serde_json::{Map, Value};

/// The variable with the settings of the program.
pub const VARIABLE: &str = "GLOBAL_DNS_SETTINGS";
/// The names with which the path of a setting begins.
const NAMES: [&str; 20] = [
    "clusterName",
    "zones",
    "namespaces",
    "clusterAliases",
    "excludeClusters",
    "localMembers",
    "gatewayDown",
    "ttl",
    "shortNames",
    "aliases",
    "services",
    "failover",
    "links",
    "answers",
    "listen",
    "tls",
    "limits",
    "history",
    "grace",
    "log",
];

/// Adds arguments to a command of the program. Settings among them are added to the variable; the last one of a path counts.
pub fn add_arguments<A: AsRef<str>>(command: &mut Command, arguments: &[A]) {
    let mut settings = settings_of(command);
    for argument in arguments.iter().map(AsRef::as_ref) {
        match setting(argument) {
            Some((path, value)) => set(&mut settings, &path, value),
            None => {
                command.arg(argument);
            }
        }
    }
    if settings != Value::Null {
        command.env(VARIABLE, settings.to_string());
    }
}

fn settings_of(command: &Command) -> Value {
    let mut variables = command.get_envs();
    let own = variables.find(|(name, _)| *name == VARIABLE);
    let text = own.and_then(|(_, value)| value?.to_str());
    text.map_or(Value::Null, |text| serde_json::from_str(text).unwrap())
}

/// Returns the path and the value of a setting.
fn setting(argument: &str) -> Option<(Vec<&str>, Value)> {
    let (path, value) = argument.split_once('=')?;
    let path: Vec<&str> = path.split('.').collect();
    let value = || serde_saphyr::from_str(value).unwrap_or_else(|_| Value::from(value));
    NAMES.contains(&path[0]).then(|| (path, value()))
}

fn set(settings: &mut Value, path: &[&str], value: Value) {
    let [name, rest @ ..] = path else {
        *settings = value;
        return;
    };
    if !settings.is_object() {
        *settings = Value::Object(Map::new());
    }
    set(&mut settings[*name], rest, value);
}
