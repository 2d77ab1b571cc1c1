//! Parts that all JSON documents share: the version of the format, and records.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::zone::Record;

/// The version of the format of the JSON documents. It changes if a field is removed or gets another meaning. New
/// fields do not change it.
const VERSION: u32 = 2;

/// The field `schemaVersion`, the first of each JSON document. A document of another version is not read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchemaVersion;

/// The items of a list that this program can read, such as problems of the kinds that it knows. A server of another version may
/// have others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownItems<T>(pub Vec<T>);

/// One record of an answer. Joined with tabs and the class, its fields are a line of a zone file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordReport {
    /// Owner name, with the final dot.
    pub name: String,
    /// Type, such as `A`.
    #[serde(rename = "type")]
    pub rtype: String,
    /// TTL, seconds.
    pub ttl: u32,
    /// Data, as in a zone file (RFC 1035 section 5.1).
    pub data: String,
    /// In an explanation: the index of the endpoint that the record comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<usize>,
}

// === impl SchemaVersion ===

impl Serialize for SchemaVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(VERSION)
    }
}

impl<'de> Deserialize<'de> for SchemaVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u32::deserialize(deserializer)? {
            VERSION => Ok(Self),
            other => Err(D::Error::custom(format!(
                "schemaVersion is {other}, and this program reads {VERSION}; use the version of the server"
            ))),
        }
    }
}

// === impl KnownItems ===

impl<'de, T: DeserializeOwned> Deserialize<'de> for KnownItems<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let all = Vec::<serde_json::Value>::deserialize(deserializer)?.into_iter();
        let known = all.filter_map(|one| serde_json::from_value(one).ok());
        Ok(Self(known.collect()))
    }
}

// === impl RecordReport ===

impl From<&Record<'_>> for RecordReport {
    fn from(record: &Record<'_>) -> Self {
        let text = record.data.to_string();
        let (rtype, data) = text.split_once('\t').unwrap_or_default();
        Self {
            name: record.owner.to_string(),
            rtype: rtype.to_owned(),
            ttl: record.ttl,
            data: data.to_owned(),
            endpoint: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_of_another_version_is_refused_with_both_versions() {
        #[derive(Debug, Serialize, Deserialize)]
        struct Document {
            #[serde(rename = "schemaVersion")]
            schema_version: SchemaVersion,
        }
        let read = |text: &str| serde_json::from_str::<Document>(text);
        let current = read(r#"{"schemaVersion": 2}"#).unwrap();
        let text = serde_json::to_string(&current).unwrap();
        assert_eq!(text, r#"{"schemaVersion":2}"#);
        let error = read(r#"{"schemaVersion": 1}"#).unwrap_err();
        let start = "schemaVersion is 1, and this program reads 2; use the version of the server";
        assert!(error.to_string().starts_with(start), "{error}");
        assert!(read("{}").is_err());
    }
}
