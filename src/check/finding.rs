//! The findings of `check` and `fleet`, and their document.

use serde::Serialize;
use serde_json::Value;
use strum::Display;

use crate::model::{MAX_LISTED, list_some};
use crate::view::{Column, Document, Section, manual_command};

/// How bad a finding is, from the least to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum FindingState {
    /// It could not be checked.
    Unknown,
    /// Nothing to do.
    Ok,
    /// It deserves attention.
    Attention,
    /// Answers are wrong or missing until somebody acts.
    Failing,
}

/// What is checked beside the problems of servers. The manual names each (`operate.md`, section Checks).
#[derive(Clone, Copy, Display)]
#[cfg_attr(test, derive(strum::VariantArray))]
#[strum(serialize_all = "kebab-case")]
pub enum Check {
    /// A replica answers.
    Server,
    /// Clients reach every service.
    Services,
    /// The pods of the replicas.
    Pods,
    /// The API server answers, and its version has no known fault.
    ApiServer,
    /// The server has every permission that it needs.
    Permissions,
    /// No Link reports that mirroring fails.
    LinkStatus,
    /// The gateways of this cluster forget the address of a pod that is gone.
    GatewayCache,
    /// The server answers a name.
    DirectAnswer,
    /// The cluster's DNS answers it as the server does.
    ClusterAnswer,
    /// The answered addresses accept connections.
    Connections,
    /// `fleet`: every cluster can be read, once.
    FleetClusters,
    /// `fleet`: versions, zones and the answers of replicas.
    FleetServers,
    /// `fleet`: each cluster has one name everywhere.
    FleetNames,
    /// `fleet`: each cluster has the others.
    FleetLinks,
    /// `fleet`: each service has the same hosts everywhere.
    FleetServices,
    /// `fleet`: each service has the same settings everywhere.
    FleetSettings,
}

/// One line: what was found, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub state: FindingState,
    /// The kind of the problem, or the name of the check.
    pub name: String,
    /// What is so.
    pub sentence: String,
    /// What to do. Empty: nothing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hint: String,
    /// The page of the manual and the section.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub anchor: String,
}

/// What a check needs, or why it is not known.
pub type Fact<T> = Result<T, String>;

// === impl Finding ===

impl Finding {
    /// Returns the command that prints the section of the manual, if it is one on a kind of problem.
    pub fn manual_command(&self) -> Option<String> {
        self.anchor
            .starts_with("problems.html")
            .then(|| manual_command(&self.name))
    }
}

// === impl Check ===

impl Check {
    /// Makes a finding that needs no action.
    pub fn ok(self, sentence: impl Into<String>) -> Finding {
        Finding {
            anchor: String::new(),
            ..self.finding(FindingState::Ok, sentence, "")
        }
    }

    /// Makes a finding that deserves attention.
    pub fn attention(self, sentence: impl Into<String>, hint: impl Into<String>) -> Finding {
        self.finding(FindingState::Attention, sentence, hint)
    }

    /// Makes a failing finding.
    pub fn failing(self, sentence: impl Into<String>, hint: impl Into<String>) -> Finding {
        self.finding(FindingState::Failing, sentence, hint)
    }

    /// Makes the finding that something could not be checked.
    pub fn unknown(self, reason: &str, hint: impl Into<String>) -> Finding {
        self.finding(
            FindingState::Unknown,
            format!("not checked: {reason}"),
            hint,
        )
    }

    /// Makes a finding with what to do.
    pub fn finding(
        self,
        state: FindingState,
        sentence: impl Into<String>,
        hint: impl Into<String>,
    ) -> Finding {
        Finding {
            state,
            name: self.to_string(),
            sentence: sentence.into(),
            hint: hint.into(),
            anchor: "operate.html#checks".to_owned(),
        }
    }
}

// === impl FindingState ===

impl FindingState {
    /// Returns the state of a problem of a level, which another version of the server may call otherwise. `None`: a note.
    pub fn of_level(level: &str) -> Option<Self> {
        match level {
            "note" => None,
            "error" => Some(Self::Failing),
            _ => Some(Self::Attention),
        }
    }

    /// Returns the worst state of findings. What could not be checked does not count.
    pub fn worst(findings: &[Finding]) -> Self {
        let states = findings.iter().map(|one| one.state);
        states.fold(Self::Ok, Self::max)
    }
}

/// Makes the document of findings. The exit code is 1 if one is failing.
pub fn document(
    kind: &str,
    replica: &str,
    mut sections: Vec<Section>,
    findings: &[Finding],
) -> Document {
    let columns = [Column::state(""), Column::text(""), Column::text("")];
    let mut lines = Section::new("", columns.clone());
    for finding in findings {
        let cells = [&finding.state.to_string(), &finding.name, &finding.sentence];
        lines.push(cells.map(String::clone), finding);
        if !finding.hint.is_empty() {
            let mut hint = format!("→ {}", finding.hint);
            if let Some(command) = finding.manual_command() {
                hint = format!("{hint}; more: {command}");
            }
            lines.push_text([String::new(), String::new(), hint]);
        }
    }
    let worst = FindingState::worst(findings);
    let mut counts = Vec::new();
    for state in [
        FindingState::Failing,
        FindingState::Attention,
        FindingState::Unknown,
        FindingState::Ok,
    ] {
        let number = findings.iter().filter(|one| one.state == state).count();
        if number > 0 {
            counts.push(format!("{number} {state}"));
        }
    }
    let mut status = Section::new("", columns);
    status.push_text([worst.to_string(), counts.join(", ")]);
    sections.extend([lines, status]);
    Document {
        kind: kind.to_owned(),
        replica: replica.to_owned(),
        exit: u8::from(worst == FindingState::Failing),
        sections,
        ..Document::default()
    }
}

/// Lists the first few things, and the number of the others.
pub(super) fn list<T: std::fmt::Display>(all: impl IntoIterator<Item = T>) -> String {
    list_some(all, MAX_LISTED)
}

/// Returns the value at a path in an object, such as `spec.nodeName`, or null.
fn at<'v>(object: &'v Value, path: &str) -> &'v Value {
    path.split('.').fold(object, |value, field| &value[field])
}

/// Returns the text at a path in an object, or nothing if it has none.
pub fn text<'v>(object: &'v Value, path: &str) -> &'v str {
    at(object, path).as_str().unwrap_or_default()
}

/// Returns the namespace and the name of the service of an item of the API.
pub(super) fn key_of(item: &Value) -> [&str; 2] {
    ["namespace", "service"].map(|field| text(item, field))
}

/// Returns the namespace and the name of an object of Kubernetes.
pub fn name_of(object: &Value) -> [&str; 2] {
    ["metadata.namespace", "metadata.name"].map(|path| text(object, path))
}

/// Returns the condition of an object with this type, or null.
pub fn condition<'v>(object: &'v Value, name: &str) -> &'v Value {
    let found = items(object, "status.conditions").find(|one| one["type"] == name);
    found.unwrap_or(&Value::Null)
}

/// Returns the items of the list at a path in an object.
pub fn items<'v>(object: &'v Value, path: &str) -> impl Iterator<Item = &'v Value> + Clone {
    at(object, path).as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use strum::VariantArray as _;

    use super::*;

    #[test]
    fn exit_code_is_1_if_a_finding_fails() {
        let ok = Check::Server.ok("it answers");
        let unknown = Check::LinkStatus.unknown("no permission", "grant it");
        let failing = Check::ClusterAnswer.failing("NXDOMAIN", "forward it");
        for (findings, exit, last) in [
            (vec![ok.clone()], 0, ["ok", "1 ok"]),
            (vec![ok.clone(), unknown], 0, ["ok", "1 unknown, 1 ok"]),
            (vec![ok, failing], 1, ["failing", "1 failing, 1 ok"]),
        ] {
            let document = document("check", "dns-0", Vec::new(), &findings);
            assert_eq!(document.exit, exit);
            let status = document.sections.last().unwrap();
            assert_eq!(status.rows[0].cells, last);
            assert_eq!(document.objects().len(), findings.len());
        }
    }

    #[test]
    fn each_check_is_in_the_manual() {
        let manual = include_str!("../../charts/global-dns/docs/src/operate.md");
        for check in Check::VARIANTS {
            let name = check.to_string();
            assert!(manual.contains(&format!("\n| `{name}` |")), "{name}");
        }
    }
}
