//! A zone, as the settings and a flag name it.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::ClusterName;
use crate::zone::{Grammar, ZoneName};

/// A zone to answer for: `global`, `{name: clusterset.local, grammar: mcs}`, or `{name: svc.west.example, cluster: west}`.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
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
    expecting = "expected the name of a zone, such as global, {name: clusterset.local, grammar: mcs}, or {name: svc.west.example, \
                 cluster: west}"
)]
enum ZoneForm {
    /// The name of a zone with the names of this server, such as `global`.
    Name(#[schemars(regex(pattern = NAME))] String),
    /// A zone with its grammar, or with its cluster: `{name: clusterset.local, grammar: mcs}`, `{name: svc.west.example, cluster: west}`.
    Full {
        /// Name of the zone.
        #[schemars(regex(pattern = NAME))]
        name: String,
        /// Grammar of the names in it, if it is of no single cluster.
        #[serde(skip_serializing_if = "Option::is_none")]
        grammar: Option<Grammar>,
        /// Cluster whose services have Kubernetes' own names in it, such as `db-0.db.prod.svc.west.example`.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<ClusterName>")]
        cluster: Option<String>,
    },
}

/// The value of the flag `--zone` for the names of the Multi-Cluster Services API.
const MCS: &str = "mcs";

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
        let (name, grammar, cluster) = match form {
            ZoneForm::Name(name) => (name, None, None),
            ZoneForm::Full {
                name,
                grammar,
                cluster,
            } => (name, grammar, cluster),
        };
        let grammar = match (grammar, cluster) {
            (grammar, None) => grammar.unwrap_or(Grammar::Global),
            (None, Some(cluster)) => Grammar::Cluster(
                cluster
                    .parse()
                    .map_err(|why| format!("cluster of zone {name}: {why}"))?,
            ),
            (Some(_), Some(_)) => {
                return Err(format!(
                    "zone {name} has a grammar and a cluster; remove one of them"
                ));
            }
        };
        let name = name.parse()?;
        Ok(Self { name, grammar })
    }
}

impl From<ZoneSetting> for ZoneForm {
    fn from(ZoneSetting { name, grammar }: ZoneSetting) -> Self {
        let name = name.as_str().trim_end_matches('.').to_owned();
        let (grammar, cluster) = match grammar {
            Grammar::Global => return Self::Name(name),
            Grammar::Mcs => (Some(grammar), None),
            Grammar::Cluster(cluster) => (None, Some(cluster.to_string())),
        };
        Self::Full {
            name,
            grammar,
            cluster,
        }
    }
}
