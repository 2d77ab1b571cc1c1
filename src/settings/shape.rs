//! Compares settings with their schema, so that errors are in the words of settings. Those of serde are in the words of Rust.

use std::net::IpAddr;

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::Settings;
use crate::model::most_similar;

/// A value that the schema does not allow.
pub(super) struct Wrong {
    /// Its path, such as `failover.delay`.
    pub path: String,
    /// What is allowed, with an example.
    pub why: String,
}

/// Finds the first value of the settings that has another type than it must have, or that is unknown or out of range.
pub(super) fn find_wrong(value: &Value) -> Option<Wrong> {
    let schema = SchemaSettings::draft07()
        .with(|one| one.inline_subschemas = true)
        .into_generator()
        .into_root_schema_for::<Settings>();
    find_in(schema.as_value(), &json!(Settings::default()), value, "")
}

/// Finds the first such value at or below a path. `default` is the one that the path has by default.
fn find_in(schema: &Value, default: &Value, value: &Value, path: &str) -> Option<Wrong> {
    if let Some(choices) = schema["oneOf"].as_array() {
        return find_unknown(
            "one of",
            choices
                .iter()
                .filter_map(|one| one["const"].as_str())
                .collect(),
            value,
            path,
        );
    }
    let documentation = schema["description"].as_str().unwrap_or_default();
    let types = &schema["type"]; // an optional value has `null`, too
    let expected = types.as_str().or(types[0].as_str())?;
    let given = match expected {
        "boolean" | "integer" => value.to_string(), // with its quotes
        _ => flow(value),
    };
    let (form, example) = match (expected, value) {
        ("object", Value::Object(fields)) => {
            return fields
                .iter()
                .find_map(|(name, one)| find_in_field(schema, default, name, one, path));
        }
        ("array", Value::Array(items)) => {
            return items.iter().enumerate().find_map(|(index, item)| {
                let path = format!("{path}[{index}]");
                find_in(&schema["items"], &default[0], item, &path)
            });
        }
        ("string", Value::String(text)) => {
            if schema["format"] != "ip" || text.parse::<IpAddr>().is_ok() {
                return None;
            }
            ("an IP address", "10.96.0.53".to_owned())
        }
        ("boolean", Value::Bool(_)) => return None,
        ("object", _) => (
            "settings",
            documentation
                .split('`')
                .find(|one| one.starts_with('{'))
                .map_or_else(|| flow(default), str::to_owned),
        ),
        ("array", _) => ("a list", format!("[{given}]")),
        ("boolean", _) => ("true or false", flow(default)),
        ("string", _) => match default.as_str() {
            None | Some("") => {
                let first = given.trim_matches(['[', ']']).split(',').next();
                ("a text", format!("\"{}\"", first.unwrap_or_default()))
            }
            Some(default) => ("a text", default.to_owned()),
        },
        (_, number) => {
            let (least, most) = (&schema["minimum"], &schema["maximum"]);
            let is_allowed =
                |number| least.as_u64() <= Some(number) && Some(number) <= most.as_u64();
            if number.as_u64().is_some_and(is_allowed) {
                return None;
            }
            let what = documentation.split('.').next().unwrap_or_default();
            let example = default.as_u64().or(least.as_u64()).unwrap_or_default();
            let range = format!("from {least} to {most}, such as {example}");
            let why = format!("{given} is not a whole number {range} ({what})");
            return Some(Wrong::new(path, why));
        }
    };
    let why = format!("expected {form}, such as {example}, and not {given}");
    Some(Wrong::new(path, why))
}

/// Finds the first wrong value in a field of settings, which may be unknown.
fn find_in_field(
    schema: &Value,
    default: &Value,
    name: &str,
    value: &Value,
    path: &str,
) -> Option<Wrong> {
    let path = format!("{path}.{name}");
    let known = &schema["properties"];
    // The names of a map have a pattern, which serde checks by parsing them.
    let any = schema["patternProperties"].as_object();
    match known.get(name).or_else(|| any?.values().next()) {
        Some(schema) => find_in(schema, &default[name], value, &path),
        None => {
            let names = known.as_object()?.keys().map(String::as_str);
            find_unknown("a setting; there are", names.collect(), &json!(name), &path)
        }
    }
}

/// Returns what is wrong with a value that is none of the names.
fn find_unknown(what: &str, names: Vec<&str>, value: &Value, path: &str) -> Option<Wrong> {
    let given = flow(value);
    if names.contains(&given.as_str()) {
        return None;
    }
    let mut why = format!("'{given}' is not {what} {}", names.join(", "));
    if value.is_boolean() {
        why += "; YAML reads on, off, yes and no as true and false";
    }
    if let Some(nearest) = most_similar(&given, names.into_iter().map(str::to_owned)) {
        why += &format!("; did you mean `{nearest}`?");
    }
    Some(Wrong::new(path, why))
}

/// Returns a value as people write it.
fn flow(value: &Value) -> String {
    value
        .to_string()
        .replace("\":", "\": ")
        .replace(",\"", ", \"")
        .replace('"', "")
}

// === impl Wrong ===

impl Wrong {
    fn new(path: &str, why: String) -> Self {
        let path = path.trim_start_matches('.').to_owned();
        Self { path, why }
    }
}
