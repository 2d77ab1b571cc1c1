//! A zone, as the settings and a flag name it.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::zone::{Grammar, ZoneName};

/// A zone to answer for: `global`, or `{name: clusterset.local, grammar: mcs}`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "ZoneForm", into = "ZoneForm")]
#[schemars(with = "ZoneForm")]
pub struct ZoneSetting {
    /// Its apex.
    pub name: ZoneName,
    /// The grammar of the names in it.
    pub grammar: Grammar,
}

/// The octets of the name of a zone, for its schema.
const NAME: &str = "^[a-zA-Z0-9.-]+$";

/// The forms of a zone in the settings.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "expected the name of a zone, such as global, or {name: clusterset.local, grammar: mcs}"
)]
enum ZoneForm {
    /// The name of a zone with the names of this server, such as `global`.
    Name(#[schemars(regex(pattern = NAME))] String),
    /// A zone with its grammar: `{name: clusterset.local, grammar: mcs}`.
    Full {
        /// Name of the zone.
        #[schemars(regex(pattern = NAME))]
        name: String,
        /// Grammar of the names in it.
        grammar: Grammar,
    },
}

/// The value of the flag `--zone` for the names of the Multi-Cluster Services API.
const MCS: &str = "mcs";

// === impl ZoneSetting ===

/// Parses the value of the flag: `ZONE` or `ZONE=mcs`.
impl FromStr for ZoneSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, grammar) = match text.split_once('=') {
            None => (text, Grammar::Global),
            Some((name, MCS)) => (name, Grammar::Mcs),
            Some((_, other)) => {
                return Err(format!("'{other}' is not a grammar; the only one is {MCS}"));
            }
        };
        let name = name.parse()?;
        Ok(Self { name, grammar })
    }
}

impl TryFrom<ZoneForm> for ZoneSetting {
    type Error = String;

    fn try_from(form: ZoneForm) -> Result<Self, String> {
        let (name, grammar) = match form {
            ZoneForm::Name(name) => (name, Grammar::Global),
            ZoneForm::Full { name, grammar } => (name, grammar),
        };
        let name = name.parse()?;
        Ok(Self { name, grammar })
    }
}

impl From<ZoneSetting> for ZoneForm {
    fn from(ZoneSetting { name, grammar }: ZoneSetting) -> Self {
        let name = name.as_str().trim_end_matches('.').to_owned();
        match grammar {
            Grammar::Global => Self::Name(name),
            Grammar::Mcs => Self::Full { name, grammar },
        }
    }
}
