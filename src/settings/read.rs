//! Reads the settings, and says what is wrong with them.

use std::path::Path;

use serde_json::{Value, json};

use super::Settings;
use super::shape::{Wrong, find_wrong};
use crate::source::file::{MAX_MOUNTED, read_text, reason};

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
        let variable = std::env::var(VARIABLE)
            .ok()
            .filter(|text| !text.trim().is_empty());
        let place = file.map_or(VARIABLE.to_owned(), |file| file.display().to_string());
        match (file.map(|file| read_text(file, MAX_MOUNTED)), variable) {
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
        let at = |line: Option<u64>, what: String| match line {
            Some(line) => format!("{place}, line {line}: {what}"),
            None => format!("{place}: {what}"),
        };
        let given: Option<Value> =
            serde_saphyr::from_str(text).map_err(|error| at(line_of(&error), reason(&error)))?;
        let mut value = given.unwrap_or_else(|| json!({}));
        remove_nulls(&mut value);
        if !value.is_object() {
            return Err(at(None, "expected settings, such as ttl: 5".to_owned()));
        }
        let refused =
            |path: String, why: &str| at(line_of_path(text, &path), format!("{path}: {why}"));
        if let Some(Wrong { path, why }) = find_wrong(&value) {
            return Err(refused(path, &why));
        }
        let settings: Result<Self, _> = serde_path_to_error::deserialize(&value);
        settings
            .map_err(|error| refused(error.path().to_string(), &error.inner().to_string()))?
            .checked(place)
    }

    /// Returns the settings if the values are in their ranges, and fit together. `place` names what they are from.
    ///
    /// # Errors
    ///
    /// For the first value that is not accepted.
    pub fn checked(self, place: &str) -> Result<Self, String> {
        self.check().map_err(|why| format!("{place}: {why:#}"))?;
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
fn remove_nulls(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.retain(|_, value| !value.is_null());
        fields.values_mut().for_each(remove_nulls);
    }
}

/// Returns the line of the value at a path, if the error of the YAML parser is about the same one. It also stops at the first `null`.
fn line_of_path(text: &str, path: &str) -> Option<u64> {
    let mut is_same = false;
    serde_saphyr::with_deserializer_from_str(text, |yaml| {
        serde_path_to_error::deserialize::<_, Settings>(yaml).map_err(|error| {
            is_same = error.path().to_string() == path;
            error.into_inner()
        })
    })
    .err()
    .as_ref()
    .and_then(line_of)
    .filter(|_| is_same)
}

fn line_of(error: &serde_saphyr::Error) -> Option<u64> {
    error.location().map(|location| location.line())
}
