//! The explanation of a name.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::context::Context;
use super::kinds::service_notes;
use super::missing::{cluster_set_notes, missing_notes, occupant_notes};
use super::names::{is_in_cluster_set, labels_below, services_of_name};
use super::nearest::nearest;
use crate::model::{Namespace, Port, Problem, ProblemKind, ServiceKey};
use crate::report::{
    ConflictReport, EndpointReport, NameReply, ProblemReport, RecordReport, SchemaVersion,
    SkipReport, TextForm, write_rows,
};
use crate::table::{NoOwner, Published, Service, Table};
use crate::zone::answer::answer_question;
use crate::zone::{
    Answer, AnswerContext, MissingReason, Name, Reading, RecordType, Scope, Section, View, Zones,
    read,
};

/// The explanation of a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// Version of the document's format.
    #[serde(rename = "schemaVersion")]
    pub schema_version: SchemaVersion,
    /// The absolute name.
    pub name: String,
    /// The meaning of the name, in words.
    pub reading: String,
    /// Whether the name exists.
    pub exists: bool,
    /// The answer for each record type.
    pub answers: Vec<AnswerReport>,
    /// For an address: the names that return it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<AnsweringName>,
    /// All endpoints of the service, those that the replies contain first.
    pub endpoints: Vec<EndpointReport>,
    /// The problems of objects that are skipped.
    pub skipped: Vec<SkipReport>,
    /// The problems that are conflicts.
    pub conflicts: Vec<ConflictReport>,
    /// All problems that concern the name.
    pub problems: Vec<ProblemReport>,
    /// If the name does not exist: the most similar names that exist.
    pub nearest: Vec<String>,
    /// Further information.
    pub notes: Vec<String>,
}

/// The answer for one record type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnswerReport {
    /// `A`, `AAAA`, `SRV`.
    pub rtype: String,
    /// `NOERROR`, `NODATA`, `NXDOMAIN`, `REFUSED`, `SERVFAIL`.
    pub result: String,
    /// TTL of the records, or of the negative answer, in seconds.
    pub ttl: Option<u32>,
    /// The records of the answer section.
    pub records: Vec<RecordReport>,
}

/// A name whose answer contains an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnsweringName {
    /// The absolute name.
    pub name: String,
    /// The namespace of its service.
    pub namespace: String,
    /// Its service.
    pub service: String,
}

/// Returns the service of a canonical name or of a name below it. The service need not exist.
pub fn service_of(zones: &Zones, name: &Name) -> Option<ServiceKey> {
    zones.find(name)?;
    let labels = labels_below(zones, name);
    let [.., service, namespace] = labels.as_slice() else {
        return None;
    };
    Some(ServiceKey {
        namespace: namespace.parse().ok()?,
        service: service.parse().ok()?,
    })
}

/// Explains a name. Returns `None` before the first complete table.
pub fn explain(
    zones: &Zones,
    published: &Published,
    context: &Context<'_>,
    name: &Name,
) -> Option<Explanation> {
    let table = published.table.as_ref()?;
    let reading = read(zones, table, name);
    let services = services_of_name(zones, table, name, &reading);
    let exists = exists(&reading);
    let mut problems = problems(zones, table, &services, name, &reading);
    let mut notes = reading_notes(zones, table, context, name, &reading, &problems);
    if !matches!(reading, Reading::Outside) {
        problems.extend(published.problems(None));
    }
    notes.extend(service_notes(&services, context));
    let answer = |rtype| answer_report(zones, published, name, rtype);
    let reply = NameReply::of_name(zones, published, name);
    let endpoints = services.iter().flat_map(|service| reply.reports(service));
    let mut endpoints: Vec<EndpointReport> = endpoints.collect();
    endpoints.sort_by_key(|endpoint| !endpoint.returned);
    Some(Explanation {
        schema_version: SchemaVersion,
        name: name.to_string(),
        reading: describe_reading(zones, table, name, &reading),
        exists,
        answers: RecordType::OF_SERVICES.map(answer).into(),
        names: Vec::new(),
        endpoints,
        skipped: reports(&problems, Problem::is_skip),
        conflicts: reports(&problems, Problem::is_conflict),
        problems: reports(&problems, |_| true),
        nearest: if exists {
            Vec::new()
        } else {
            nearest(zones, table, name)
        },
        notes,
    })
}

/// Returns whether a name exists (RFC 8020).
pub(super) fn exists(reading: &Reading<'_>) -> bool {
    match reading {
        Reading::Outside | Reading::Missing(..) => false,
        Reading::Apex(..)
        | Reading::NsHost(_)
        | Reading::Version(_)
        | Reading::Empty(_)
        | Reading::Pointers(..)
        | Reading::Failing(..)
        | Reading::View(..) => true,
    }
}

/// Returns the notes about the meaning of a name.
fn reading_notes(
    zones: &Zones,
    table: &Table,
    context: &Context<'_>,
    name: &Name,
    reading: &Reading<'_>,
    problems: &BTreeSet<Problem>,
) -> Vec<String> {
    match reading {
        Reading::View(_, view) => occupant_notes(view.service, table),
        Reading::Failing(_, service, _) => occupant_notes(service, table),
        Reading::Missing(_, reason) => {
            let labels = labels_below(zones, name);
            let services = services_of_name(zones, table, name, reading);
            let service = services.first().copied();
            let is_explained = !problems.is_empty();
            if is_in_cluster_set(zones, name) {
                cluster_set_notes(*reason, &labels, service, table, context, is_explained)
            } else {
                missing_notes(*reason, &labels, service, table, context, is_explained)
            }
        }
        Reading::Outside => {
            let served: Vec<&str> = zones.iter().map(|zone| zone.name.as_str()).collect();
            vec![format!("zones served here: {}", served.join(" "))]
        }
        Reading::NsHost(zone) if zone.ns_addresses.is_empty() => {
            vec!["no address with port 53 is known; set --ns-address of serve".to_owned()]
        }
        Reading::Pointers(_, pointers) if pointers.targets().next().is_none() => {
            let hidden = "the names of its endpoints belong to another zone or to the zone itself, so no record names them";
            vec![hidden.to_owned()]
        }
        Reading::Apex(..)
        | Reading::NsHost(_)
        | Reading::Version(_)
        | Reading::Pointers(..)
        | Reading::Empty(_) => Vec::new(),
    }
}

fn answer_report(
    zones: &Zones,
    published: &Published,
    name: &Name,
    rtype: RecordType,
) -> AnswerReport {
    let answer = answer_question(zones, published, name, rtype);
    let result = match answer {
        Answer::Data(..)
        | Answer::Address(..)
        | Answer::Pointers(..)
        | Answer::Soa(_)
        | Answer::Ns(_)
        | Answer::Text(_) => "NOERROR",
        Answer::NoData(_) => "NODATA",
        Answer::NxDomain(_) => "NXDOMAIN",
        Answer::Refused => "REFUSED",
        Answer::NotReady | Answer::Failed(_) | Answer::Expired => "SERVFAIL",
    };
    let records = answer.records(AnswerContext::new(name, published.serial));
    let answered = records.iter().filter(|r| r.section == Section::Answer);
    AnswerReport {
        rtype: rtype.to_string(),
        result: result.to_owned(),
        ttl: records.first().map(|record| record.ttl),
        records: answered.map(RecordReport::from).collect(),
    }
}

// === The meaning of the name ===

/// Describes the meaning of a name.
fn describe_reading(zones: &Zones, table: &Table, name: &Name, reading: &Reading<'_>) -> String {
    match reading {
        Reading::Outside => "outside the zones of this server".to_owned(),
        Reading::Apex(zone, _) => format!("the apex of zone {}", zone.name),
        Reading::NsHost(_) => "this server's own name".to_owned(),
        Reading::Version(_) => "the version of the Kubernetes DNS specification".to_owned(),
        Reading::Empty(_) => {
            "an empty non-terminal: names exist below it, and it has no records".to_owned()
        }
        Reading::Pointers(..) => "an address of endpoints".to_owned(),
        Reading::Failing(_, service, failure) => format!(
            "service '{}' in namespace '{}', whose name fails: {}",
            service.key.service,
            service.key.namespace,
            failure.reason()
        ),
        Reading::View(_, view) => describe_view(view),
        Reading::Missing(_, reason) => match reason {
            MissingReason::NoForm => "not a valid form of name",
            MissingReason::NoAddress => "not the address of an endpoint",
            MissingReason::NoService | MissingReason::NoOwner => {
                return describe_unknown(table, &labels_below(zones, name));
            }
            MissingReason::NoEndpoint => "a service without endpoints",
            MissingReason::NoCluster => "a service without endpoints in that cluster",
            MissingReason::NoHost => "a cluster without an endpoint of that hostname",
            MissingReason::NoPort => "a name without an endpoint with that port",
        }
        .to_owned(),
    }
}

/// Describes a name without a service: no namespace has it, or several have it.
fn describe_unknown(table: &Table, labels: &[&str]) -> String {
    let own = labels.iter().filter(|label| !label.starts_with('_'));
    let own: Vec<&str> = own.copied().collect();
    let short = own.last().and_then(|name| table.short_name(name));
    match (own.as_slice(), short) {
        ([.., name], Some(short)) if short.owner == Err(NoOwner::Contested) => {
            let namespaces: Vec<&str> = short.claimants.iter().map(Namespace::as_str).collect();
            let namespaces = namespaces.join(", ");
            format!("ambiguous: '{name}' exists in the namespaces {namespaces}")
        }
        (_, Some(_)) => "a short name that belongs to no namespace".to_owned(),
        ([.., service, namespace], None) => {
            format!(
                "a name of service '{service}' in namespace '{namespace}', which does not exist"
            )
        }
        _ => "a short name that no service has".to_owned(),
    }
}

fn describe_view(view: &View<'_>) -> String {
    let key = &view.service.key;
    let first = view.covered.first().map(|e| e.labels());
    let [host, cluster] = first.unwrap_or_default();
    let scope = match view.scope {
        Scope::Service => "every endpoint of every cluster".to_owned(),
        Scope::Cluster => format!("every endpoint of cluster '{cluster}'"),
        Scope::Host => format!("endpoint '{host}' of cluster '{cluster}'"),
    };
    let describe_port = |port: &Port| {
        let (name, protocol) = (port.name.as_ref()?, port.protocol.label());
        Some(format!(", port '{name}' over {protocol}"))
    };
    let port = view.port.and_then(describe_port).unwrap_or_default();
    format!(
        "service '{}' in namespace '{}': {scope}{port}",
        key.service, key.namespace
    )
}

/// Returns the problems of the services, of their short names, of the name itself, and of its zone. If there is no service:
/// those of the objects that would make one.
fn problems(
    zones: &Zones,
    table: &Table,
    services: &[&Service],
    name: &Name,
    reading: &Reading<'_>,
) -> BTreeSet<Problem> {
    let labels = labels_below(zones, name);
    let (relative_name, absolute_name) = (labels.join("."), name.to_string());
    let own_names = [relative_name.as_str(), &absolute_name]; // a problem of a zone has the name of that zone
    // A name that is hidden hides the names below it. Below a short name without an owner, no name exists.
    let has_no_owner = matches!(reading, Reading::Missing(_, MissingReason::NoOwner));
    let is_below = |kind: ProblemKind, name: &str| {
        let is_kind =
            kind == ProblemKind::Shadowed || (kind == ProblemKind::ShortName && has_no_owner);
        let is_below = |own: &&str| {
            let labels = own.strip_suffix(name);
            labels.is_some_and(|labels| labels.ends_with('.'))
        };
        is_kind && own_names.iter().any(is_below)
    };
    let is_short = |name: &str| {
        services.iter().any(|service| {
            let below = name.strip_suffix(service.key.service.as_str());
            below.is_some_and(|below| below.is_empty() || below.ends_with('.'))
        })
    };
    let concerns = |problem: &&Problem| {
        let name = problem.subject();
        own_names.contains(&name.as_str()) || is_below(problem.kind, &name) || is_short(&name)
    };
    let asked = match labels.as_slice() {
        [.., service, namespace] => [*service, *namespace],
        _ => [""; 2],
    };
    let keys: Vec<[&str; 2]> = match services {
        [] => vec![asked],
        some => some.iter().map(|service| service.key.labels()).collect(),
    };
    let is_about = |problem: &&Problem| match (&problem.service, &problem.object) {
        (Some(key), _) => keys.contains(&key.labels()),
        // Only the name of the object is known.
        (None, Some(object)) => keys.iter().any(|[service, namespace]| {
            object.key.name.text().contains(service) && *object.key.namespace == **namespace
        }),
        (None, None) => false,
    };
    let non_members = keys.iter().filter_map(|[service, namespace]| {
        table.non_member(&ServiceKey {
            namespace: namespace.parse().ok()?,
            service: service.parse().ok()?,
        })
    });
    let own = services.iter().flat_map(|service| service.problems());
    let of_names = table.name_problems().filter(concerns).cloned();
    let of_links = services
        .iter()
        .flat_map(|service| table.link_problems(service));
    let skipped = table.skipped().filter(is_about).cloned();
    let all = own.map(Cow::into_owned).chain(of_names).chain(skipped);
    all.chain(of_links).chain(non_members).collect()
}

/// Reports the problems that are selected.
fn reports<'p, R: From<&'p Problem>>(
    problems: &'p BTreeSet<Problem>,
    is_selected: impl Fn(&Problem) -> bool,
) -> Vec<R> {
    let selected = problems.iter().filter(|problem| is_selected(problem));
    selected.map(R::from).collect()
}

// === impl Explanation ===

impl Explanation {
    /// Returns the explanation as text.
    pub fn to_text(&self) -> String {
        self.to_text_of(TextForm::Narrow)
    }

    /// Returns it as text with the given columns.
    pub fn to_text_of(&self, form: TextForm) -> String {
        let mut text = String::new();
        // Writing to a `String` cannot fail.
        let _ = self.write(&mut text, form);
        text
    }

    fn write(&self, text: &mut String, form: TextForm) -> std::fmt::Result {
        writeln!(text, "{}\n  is {}", self.name, self.reading)?;
        self.write_names(text)?;
        if !self.answers.is_empty() {
            writeln!(text, "\nanswers:")?;
        }
        for answer in &self.answers {
            let ttl = answer
                .ttl
                .map(|ttl| format!(", TTL {ttl}"))
                .unwrap_or_default();
            writeln!(text, "  {:4}  {}{ttl}", answer.rtype, answer.result)?;
            for record in &answer.records {
                writeln!(text, "        {}", record.data)?;
            }
        }
        if !self.endpoints.is_empty() {
            writeln!(text, "\nendpoints of the service:")?;
            self.write_endpoints(text, form)?;
        }
        if !self.problems.is_empty() {
            writeln!(text, "\nproblems:")?;
            let rows = self.problems.iter().map(ProblemReport::row);
            write_rows(text, &rows.collect::<Vec<_>>())?;
            let kinds: BTreeSet<ProblemKind> = self.problems.iter().map(|one| one.kind).collect();
            for row in kinds.into_iter().map(ProblemKind::row) {
                writeln!(text, "  {}: {} ({})", row.name, row.hint, row.kind.anchor())?;
            }
        }
        if !self.nearest.is_empty() {
            writeln!(text, "\nnearest names that exist:")?;
            self.nearest
                .iter()
                .try_for_each(|name| writeln!(text, "  {name}"))?;
        }
        self.notes
            .iter()
            .try_for_each(|note| writeln!(text, "\nnote: {note}"))
    }
}

#[cfg(test)]
mod tests;
