//! Reads the settings, and says what is wrong with them.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use super::Settings;
use crate::model::most_similar;
use crate::source::file::reason;

/// The environment variable that contains the settings. The chart sets it.
const VARIABLE: &str = "GLOBAL_DNS_SETTINGS";

// === impl Settings ===

impl Settings {
    /// Reads the settings from a file or from the variable. Without both, they are the defaults.
    ///
    /// # Errors
    ///
    /// If both are given, if the file cannot be read, or if the text is invalid.
    pub fn load(file: Option<&Path>) -> Result<Self, String> {
        let variable = std::env::var(VARIABLE).ok();
        let variable = variable.filter(|text| !text.trim().is_empty());
        let place = file.map_or(VARIABLE.to_owned(), |file| file.display().to_string());
        match (file.map(fs::read_to_string), variable) {
            (None, None) => Ok(Self::default()),
            (None, Some(text)) | (Some(Ok(text)), None) => Self::parse(&place, &text),
            (Some(Err(error)), None) => {
                Err(format!("cannot read the settings from {place}: {error}"))
            }
            (Some(_), Some(_)) => Err(format!(
                "the settings are given twice: by --config {place} and by {VARIABLE}; remove one of them"
            )),
        }
    }

    /// Reads settings from YAML or JSON. `place` is the file or the variable with the text, for errors.
    ///
    /// # Errors
    ///
    /// If the text is no YAML, or if a value is unknown, has another type or contradicts another one.
    pub fn parse(place: &str, text: &str) -> Result<Self, String> {
        let invalid = |line: Option<u64>, what: String| {
            let line = line.map_or_else(String::new, |line| format!(", line {line}"));
            format!("{place}{line}: {what}")
        };
        let value: Value = serde_saphyr::from_str(text)
            .map_err(|error| invalid(line_of(&error), reason(&error)))?;
        // An empty text is `null`.
        let value = without_nulls(value).unwrap_or_else(|| Value::Object(Map::new()));
        if !value.is_object() {
            return Err(invalid(
                None,
                "expected settings, such as ttl: 5".to_owned(),
            ));
        }
        let settings: Self = serde_path_to_error::deserialize(&value).map_err(|error| {
            let path = error.path().to_string();
            let why = explain(&value, &error);
            invalid(line_of_path(text, &path), format!("{path}: {why}"))
        })?;
        settings.checked(place)
    }

    /// Returns the settings if the values are in their ranges, and fit together. `place` names what they are from.
    ///
    /// # Errors
    ///
    /// For the first value that is not accepted.
    pub fn checked(self, place: &str) -> Result<Self, String> {
        self.check().map_err(|why| format!("{place}: {why}"))?;
        Ok(self)
    }

    /// Returns the settings as YAML that `--config` takes.
    ///
    /// # Errors
    ///
    /// Never for settings that were read.
    pub fn to_yaml(&self) -> Result<String, serde_saphyr::ser::Error> {
        serde_saphyr::to_string(self)
    }
}

/// Removes the values that are `null`, which stand for the default.
fn without_nulls(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Object(fields) => {
            let fields = fields.into_iter();
            let fields = fields.filter_map(|(name, value)| Some((name, without_nulls(value)?)));
            Some(Value::Object(fields.collect()))
        }
        other => Some(other),
    }
}

/// Returns the line of the value at a path, if the error of the YAML parser is about the same one. It also stops at the first `null`.
fn line_of_path(text: &str, path: &str) -> Option<u64> {
    let mut is_same = false;
    let read = serde_saphyr::with_deserializer_from_str(text, |yaml| {
        serde_path_to_error::deserialize::<_, Settings>(yaml).map_err(|error| {
            is_same = error.path().to_string() == path;
            error.into_inner()
        })
    });
    read.err().as_ref().and_then(line_of).filter(|_| is_same)
}

fn line_of(error: &serde_saphyr::Error) -> Option<u64> {
    error.location().map(|location| location.line())
}

/// Says what is allowed instead of a value, with an example. The words of serde are those of Rust: ``invalid type: string "5s",
/// expected u32``.
fn explain(settings: &Value, error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let sentence = error.inner().to_string();
    let expected = sentence
        .split_once(", expected ")
        .map(|(_, expected)| expected);
    let Some(expected) = expected.filter(|_| sentence.starts_with("invalid ")) else {
        return with_nearest(&sentence);
    };
    let keys = error.path().iter().map(|segment| {
        let key = segment.to_string().replace('~', "~0").replace('/', "~1");
        format!("/{}", key.trim_matches(['[', ']']))
    });
    let pointer: String = keys.collect();
    let text_in = |root: &Value| {
        let value = root.pointer(&pointer).unwrap_or(&Value::Null);
        value.to_string().replace('"', "")
    };
    let given = text_in(settings);
    let default = || text_in(&serde_json::to_value(Settings::default()).unwrap_or_default());
    let (form, example) = match expected {
        "a sequence" => ("a list", format!("[{given}]")),
        "a boolean" => ("true or false", default()),
        "u32" if pointer.ends_with("/ttl") => ("a number of seconds", "5".to_owned()),
        "u16" | "u32" => ("a whole number", default()),
        "a map" => ("names with values", "{name: value}".to_owned()),
        "struct FailoverSettings" => ("settings", "{default: auto:local:*}".to_owned()),
        _ if expected.starts_with("struct ") => ("settings", default()),
        _ => {
            // A text. The error about the same one says what it must be.
            let mut as_text = settings.clone();
            if let Some(value) = as_text.pointer_mut(&pointer) {
                *value = Value::String(given.clone());
            }
            let read = serde_path_to_error::deserialize::<_, Settings>(&as_text);
            let again = read
                .err()
                .filter(|again| again.path().to_string() == error.path().to_string());
            return match again {
                Some(again) => with_nearest(&again.inner().to_string()),
                None => format!("expected a text: '{given}'"),
            };
        }
    };
    format!("expected {form}, such as {example}, and not {given}")
}

/// Adds the nearest name to an error of serde about an unknown one: ``unknown field `tll`, expected one of `ttl`, …``.
fn with_nearest(sentence: &str) -> String {
    let mut quoted = sentence.split('`').skip(1).step_by(2);
    let Some(given) = quoted.next().filter(|_| sentence.starts_with("unknown ")) else {
        return sentence.to_owned();
    };
    let known: Vec<&str> = quoted.collect();
    let mut sentence = sentence.to_owned();
    if sentence.starts_with("unknown variant ") {
        sentence = format!("'{given}' is not one of {}", known.join(", "));
    }
    match most_similar(given, known.into_iter().map(str::to_owned)) {
        Some(nearest) => format!("{sentence}; did you mean `{nearest}`?"),
        None => sentence,
    }
}
