//! The table of the settings in the manual, and the part of the chart's schema about them, are generated from the schema of
//! `Settings`. With the variable `GLOBAL_DNS_WRITE_SETTINGS`, this test writes them.

use std::collections::BTreeSet;
use std::env;
use std::fmt::Write as _;
use std::fs;

use global_dns::settings::Settings;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use support::manual::Section;
use support::objects::{mirror, objects};
use support::repository::repository;
use support::server::Server;

const PAGE: &str = "charts/global-dns/docs/src/settings.md";
const CHART: &str = "charts/global-dns/values.schema.json";
/// The sections that the chart sets itself.
const OF_CHART: [&str; 2] = ["listen", "tls"];
/// The table, which is the end of the page.
const HEAD: &str = "\
| setting | default | description |
|---|---|---|
";

/// Returns the schema of the settings.
fn schema() -> Value {
    let settings = SchemaSettings::draft07().with(|one| one.inline_subschemas = true);
    let generator = settings.into_generator();
    generator.into_root_schema_for::<Settings>().to_value()
}

/// Returns the setting with its settings, as rows of the table.
fn rows(path: &str, schema: &Value, default: &Value, page: &mut String) {
    let properties = schema["properties"].as_object();
    // Values of a map have no default, and the description of the map says what they are.
    if let Some(properties) = properties {
        for (name, property) in properties {
            let path = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            rows(&path, property, &default[name], page);
        }
        return;
    }
    let description = schema["description"].as_str().unwrap_or_default();
    let description = description.replace('\n', " ");
    let choices = choices(schema);
    let range = range(schema);
    writeln!(
        page,
        "| `{path}` | `{default}` | {description}{range}{choices} |"
    )
    .unwrap();
}

/// Returns the range of a number.
fn range(schema: &Value) -> String {
    match (&schema["minimum"], &schema["maximum"]) {
        (Value::Null, _) => String::new(),
        (least, most) => format!(" {least} to {most}."),
    }
}

/// Returns the values of an enumeration with their descriptions.
fn choices(schema: &Value) -> String {
    let choices = schema["oneOf"].as_array().into_iter().flatten();
    let choice = |one: &Value| {
        let description = one["description"].as_str().unwrap_or_default();
        format!(
            " `{}`: {}",
            one["const"].as_str().unwrap_or_default(),
            description.replace('\n', " ")
        )
    };
    choices.map(choice).collect()
}

/// Compares a file with its generated text, or writes it.
fn check(path: &str, text: &str) {
    let path = repository(path);
    if env::var_os("GLOBAL_DNS_WRITE_SETTINGS").is_some() {
        fs::write(&path, text).unwrap();
    }
    let current = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        current == text,
        "{} is outdated; write it: GLOBAL_DNS_WRITE_SETTINGS=1 cargo test --test fast manual::settings",
        path.display()
    );
}

#[test]
fn table_of_the_manual_is_generated() {
    let text = fs::read_to_string(repository(PAGE)).unwrap();
    let (written, _) = text.split_once(HEAD).unwrap();
    let mut page = format!("{written}{HEAD}");
    let default = serde_json::to_value(Settings::default()).unwrap();
    rows("", &schema(), &default, &mut page);
    check(PAGE, &page);
}

#[test]
fn schema_of_the_chart_has_the_settings() {
    let text = fs::read_to_string(repository(CHART)).unwrap();
    let mut chart: Value = serde_json::from_str(&text).unwrap();
    let mut settings = schema();
    let fields = settings.as_object_mut().unwrap();
    fields
        .retain(|name, _| ["type", "properties", "additionalProperties"].contains(&name.as_str()));
    fields.insert("required".to_owned(), Value::from(vec!["clusterName"]));
    let properties = fields["properties"].as_object_mut().unwrap();
    properties.retain(|name, _| !OF_CHART.contains(&name.as_str()));
    chart["properties"]["config"] = without_documentation(settings);
    check(CHART, &format!("{chart:#}\n"));
}

/// Removes what helm does not check, and admits `null`, which stands for the default.
fn without_documentation(schema: Value) -> Value {
    let Value::Object(fields) = schema else {
        return schema;
    };
    let mut kept = Map::new();
    for (name, value) in fields {
        let value = match (name.as_str(), value) {
            ("description" | "default" | "format" | "title", Value::String(_)) | ("default", _) => {
                continue;
            }
            ("properties", Value::Object(properties)) => properties
                .into_iter()
                .map(|(name, property)| {
                    let property = without_documentation(property);
                    let is_required = name == "clusterName";
                    let property = if is_required {
                        property
                    } else {
                        or_null(property)
                    };
                    (name, property)
                })
                .collect::<Map<_, _>>()
                .into(),
            (_, Value::Array(items)) => items.into_iter().map(without_documentation).collect(),
            (_, value) => without_documentation(value),
        };
        kept.insert(name, value);
    }
    Value::Object(kept)
}

fn or_null(mut schema: Value) -> Value {
    if let Some(choices) = schema.get_mut("oneOf").and_then(Value::as_array_mut) {
        choices.push(json!({"type": "null"}));
    }
    if let Some(Value::String(only)) = schema.get("type").cloned() {
        schema["type"] = Value::from(vec![only, "null".to_owned()]);
    }
    schema
}

/// Collects the values of all enumerations in a schema, in lower case.
fn constants(schema: &Value, found: &mut BTreeSet<String>) {
    let several = schema["enum"].as_array().into_iter().flatten();
    let all = several.chain([&schema["const"]]).filter_map(Value::as_str);
    found.extend(all.map(str::to_lowercase));
    let fields = schema.as_object().into_iter().flat_map(Map::values);
    let items = schema.as_array().into_iter().flatten();
    fields
        .chain(items)
        .for_each(|inner| constants(inner, found));
}

/// Helm reads YAML 1.1, in which these words are booleans. The schema of the chart has that of the settings.
#[test]
fn no_value_is_a_boolean_of_yaml() {
    let text = fs::read_to_string(repository(CHART)).unwrap();
    let mut all = BTreeSet::new();
    constants(&serde_json::from_str(&text).unwrap(), &mut all);
    assert!(all.contains("last-resort"), "{all:?}");
    for word in ["y", "n", "yes", "no", "on", "off", "true", "false"] {
        assert!(!all.contains(word), "{word}");
    }
}

#[test]
fn server_with_the_example_of_the_manual_answers() {
    let section = Section::read("install.md", "Settings").unwrap();
    let text = &section.texts("yaml").unwrap()[0];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("settings.yaml");
    fs::write(&file, text).unwrap();
    let db = mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"]);
    let config = format!("--config={}", file.display());
    let server = Server::with_objects(objects().with(db), &[&config]);
    for name in ["db.prod.global.internal.", "db.global.internal."] {
        assert_eq!(server.outcome(&format!("{name} A")), "10.96.1.1");
    }
}
