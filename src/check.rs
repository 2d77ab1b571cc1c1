//! The doctor: what ails an installation, what to do about it, and where to read on.
//!
//! Pure, like what it judges: [`check`] takes [`Facts`], which `app` has gathered from the API server or from files and
//! from the network, and gives a [`Checkup`]. Only [`ask`] talks to anybody. The manner is that of `linkerd check`: one
//! line for each fact, green, yellow or red; below each that is not green a hint and a link into the README.
//!
//! Red is what keeps names from being answered rightly and will not heal by itself; yellow is what is worth knowing,
//! what others have to mend, and what could not be looked at.

pub mod ask;
pub mod dns;
mod links;
mod mirrors;
mod names;
pub mod objects;
pub mod permissions;
mod report;
mod versions;

use serde::Serialize;

use crate::mirror::Namespace;
use crate::table::{Conflict, Rules, Table};
use crate::zone::Zones;
use objects::{HeadlessSlice, Link, MirrorPorts};
use permissions::ApiServer;
pub use report::Colours;

/// What was found, or why it was not looked for.
pub type Known<T> = Result<T, NotChecked>;

/// Why something was not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotChecked {
    /// The reason, a few words.
    pub why: String,
    /// What would help.
    pub hint: String,
}

/// Everything that the checks judge.
#[derive(Debug)]
pub struct Facts {
    /// The API server, and what the caller may do there.
    pub api: Known<ApiServer>,
    /// By which rules the table was built.
    pub rules: Rules,
    /// The first complete table.
    pub table: Known<Table>,
    /// The zones.
    pub zones: Zones,
    /// Slices of headless mirrors, which the table is not built from.
    pub headless_slices: Known<Vec<HeadlessSlice>>,
    /// Links: the clusters that are mirrored from.
    pub links: Known<Vec<Link>>,
    /// The namespaces that flags name, and whether each exists.
    pub namespaces: Known<Vec<(Namespace, bool)>>,
    /// Ports of headless mirrors.
    pub mirror_ports: Known<Vec<MirrorPorts>>,
    /// Objects that no watch selects for the value of a label.
    pub odd_labels: Known<Vec<String>>,
    /// The conflicts that a running server tells of.
    pub server_conflicts: Known<Vec<Conflict>>,
    /// Who made the gateways' probe Services.
    pub makers: Known<Vec<String>>,
    /// What name servers say, zone by zone.
    pub dns: dns::Dns,
}

/// How one check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// As it should be.
    Green,
    /// Worth a look, or not checked.
    Yellow,
    /// Wrong.
    Red,
}

/// What checks are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Category {
    /// The API server.
    ApiServer,
    /// What Linkerd mirrors.
    Mirrors,
    /// What is served out of it.
    Names,
    /// How it is asked.
    Dns,
    /// Versions.
    Versions,
}

/// The checks. A paragraph of the README belongs to each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// The API server answers.
    ApiServer,
    /// Everything that is needed may be listed and watched.
    Permissions,
    /// Nothing else is allowed.
    MorePermissions,
    /// There are mirrors.
    Mirrors,
    /// Headless ones.
    HeadlessMirroring,
    /// Each mirror's cluster has a Link.
    OrphanedMirrors,
    /// No Link says that mirroring fails.
    LinkStatus,
    /// The namespaces that Links and flags name exist.
    Namespaces,
    /// Each headless mirror has endpoint mirrors.
    EndpointMirrors,
    /// No headless mirror lists gateways.
    ClobberedMirrors,
    /// No two Links write one mirror.
    Identity,
    /// Every object with the label of mirrors has it with the value of mirrors.
    MirrorLabels,
    /// No mirror would have a name of more than 63 characters.
    LongNames,
    /// Ports of unknown protocol are marked opaque.
    OpaquePorts,
    /// Gateways are up.
    Gateways,
    /// Each short name has one claimant, or a flag decides whose it is.
    ShortNames,
    /// Nothing else contradicts.
    Conflicts,
    /// Every object can be used.
    SkippedObjects,
    /// Every answer fits a message.
    AnswerSizes,
    /// The server answers.
    Server,
    /// The cluster's DNS forwards to it.
    Forwarding,
    /// Versions of everybody.
    Versions,
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The check.
    pub check: Check,
    /// How it ended.
    pub health: Health,
    /// One sentence: what is so.
    pub sentence: String,
    /// One sentence: what to do. Every finding has one that is not green.
    pub hint: Option<String>,
}

/// Every finding, in the order of the checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkup(pub Vec<Finding>);

/// Judges the facts.
pub fn check(facts: &Facts) -> Checkup {
    let parts = [
        permissions::check(&facts.api),
        mirrors::check(facts),
        names::check(facts),
        dns::check(&facts.dns),
        versions::check(facts),
    ];
    Checkup(parts.concat())
}

// === impl Check ===

impl Check {
    /// Every check.
    pub const ALL: [Self; 22] = [
        Self::ApiServer,
        Self::Permissions,
        Self::MorePermissions,
        Self::Mirrors,
        Self::HeadlessMirroring,
        Self::OrphanedMirrors,
        Self::LinkStatus,
        Self::Namespaces,
        Self::EndpointMirrors,
        Self::ClobberedMirrors,
        Self::Identity,
        Self::MirrorLabels,
        Self::LongNames,
        Self::OpaquePorts,
        Self::Gateways,
        Self::ShortNames,
        Self::Conflicts,
        Self::SkippedObjects,
        Self::AnswerSizes,
        Self::Server,
        Self::Forwarding,
        Self::Versions,
    ];

    /// Returns what the check is about.
    pub fn category(self) -> Category {
        match self {
            Self::ApiServer | Self::Permissions | Self::MorePermissions => Category::ApiServer,
            Self::Mirrors
            | Self::HeadlessMirroring
            | Self::OrphanedMirrors
            | Self::LinkStatus
            | Self::Namespaces
            | Self::EndpointMirrors
            | Self::ClobberedMirrors
            | Self::Identity
            | Self::MirrorLabels
            | Self::LongNames
            | Self::OpaquePorts
            | Self::Gateways => Category::Mirrors,
            Self::ShortNames | Self::Conflicts | Self::SkippedObjects | Self::AnswerSizes => {
                Category::Names
            }
            Self::Server | Self::Forwarding => Category::Dns,
            Self::Versions => Category::Versions,
        }
    }

    /// Returns the anchor of the README's heading that belongs to the check.
    pub fn anchor(self) -> &'static str {
        match self {
            Self::ApiServer => "the-api-server-answers",
            Self::Permissions => "permissions",
            Self::MorePermissions => "more-permissions-than-needed",
            Self::Mirrors => "mirrors",
            Self::HeadlessMirroring => "headless-mirroring",
            Self::OrphanedMirrors => "orphaned-mirrors",
            Self::LinkStatus => "what-links-report",
            Self::Namespaces => "missing-namespaces",
            Self::EndpointMirrors => "missing-endpoint-mirrors",
            Self::ClobberedMirrors => "clobbered-headless-mirrors",
            Self::Identity => "mirrors-that-two-links-write",
            Self::MirrorLabels => "labels-of-mirrors",
            Self::LongNames => "long-names",
            Self::OpaquePorts => "opaque-ports",
            Self::Gateways => "gateways",
            Self::ShortNames => "short-names",
            Self::Conflicts => "other-conflicts",
            Self::SkippedObjects => "skipped-objects",
            Self::AnswerSizes => "answer-sizes",
            Self::Server => "the-server-answers",
            Self::Forwarding => "the-clusters-dns-forwards",
            Self::Versions => "versions",
        }
    }

    /// Returns where to read on: in the repository that Cargo.toml names, else in the file.
    pub fn link(self) -> String {
        let page = match crate::REPOSITORY {
            "" => "README.md",
            repository => repository,
        };
        format!("{page}#{}", self.anchor())
    }

    fn green(self, sentence: impl Into<String>) -> Finding {
        Finding {
            check: self,
            health: Health::Green,
            sentence: sentence.into(),
            hint: None,
        }
    }

    fn yellow(self, sentence: impl Into<String>, hint: impl Into<String>) -> Finding {
        Finding {
            health: Health::Yellow,
            hint: Some(hint.into()),
            ..self.green(sentence)
        }
    }

    fn red(self, sentence: impl Into<String>, hint: impl Into<String>) -> Finding {
        Finding {
            health: Health::Red,
            ..self.yellow(sentence, hint)
        }
    }

    /// Judges what is known, or says why it is not.
    fn of<T>(self, what: &str, known: &Known<T>, judge: impl FnOnce(&T) -> Finding) -> Finding {
        match known {
            Ok(known) => judge(known),
            Err(reason) => self.not_checked(what, reason),
        }
    }

    /// Judges two things if both are known, or says why one is not.
    fn of_both<T, U>(
        self,
        what: &str,
        one: &Known<T>,
        other: &Known<U>,
        judge: impl FnOnce(&T, &U) -> Finding,
    ) -> Finding {
        self.of(what, one, |one| {
            self.of(what, other, |other| judge(one, other))
        })
    }

    /// What was not looked at; `what` would have been.
    fn not_checked(self, what: &str, reason: &NotChecked) -> Finding {
        let sentence = format!("{what}: not checked, {}", reason.why);
        self.yellow(sentence, reason.hint.clone())
    }
}

// === impl NotChecked ===

impl NotChecked {
    /// Makes a reason.
    pub fn new(why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            hint: hint.into(),
        }
    }
}

// === impl Category ===

impl Category {
    /// Returns the heading above the category's lines.
    pub fn title(self) -> &'static str {
        match self {
            Self::ApiServer => "API server",
            Self::Mirrors => "Mirrors",
            Self::Names => "Names",
            Self::Dns => "DNS",
            Self::Versions => "Versions",
        }
    }
}

/// Names some of many: a report must stay readable where a thousand things are wrong.
fn some_of<T: ToString>(all: impl IntoIterator<Item = T>) -> String {
    const NAMED: usize = 5;
    let all: Vec<String> = all.into_iter().map(|one| one.to_string()).collect();
    match all.len().checked_sub(NAMED) {
        None | Some(0) => all.join(", "),
        Some(more) => format!("{} and {more} more", all[..NAMED].join(", ")),
    }
}

/// Counts things: `1 mirror`, `2 mirrors`.
fn count(number: usize, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        _ => format!("{number} {thing}s"),
    }
}

#[cfg(test)]
mod tests;
