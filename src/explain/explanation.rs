//! The explanation of a name.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::context::Context;
use super::kinds::service_notes;
use super::missing::{missing_notes, occupant_notes};
use super::names::{ReadName, labels_below};
use super::nearest::nearest;
use crate::model::{Namespace, Port, Problem, ProblemKind, ServiceKey};
use crate::report::events::HistoryEvent;
use crate::report::{
    ConflictReport, EndpointReport, NameReply, ProblemReport, RecordReport, SchemaVersion, Shade,
    SkipReport, Style, text, write_rows,
};
use crate::table::{Claim, Endpoint, NoOwner, Published};
use crate::zone::answer::answer_question;
use crate::zone::{
    AnswerContext, MissingReason, Name, Reading, RecordType, Scope, Section, View, Zones,
};

/// The explanation of a name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// Version of the document's format.
    #[serde(rename = "schemaVersion")]
    pub schema_version: SchemaVersion,
    /// The time of the answer, if it is one of the past (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The absolute name.
    pub name: String,
    /// The meaning of the name, as a clause.
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
    /// The last changes of the services, the newest first, as the server that answers saw them.
    #[serde(default)]
    pub history: Vec<HistoryEvent>,
}

/// Maximum number of changes in the text of an explanation.
const MAX_CHANGES: usize = 10;

/// The answer for one record type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnswerReport {
    /// `A`, `AAAA` and `SRV`; at an apex `SOA` and `NS`; at `dns-version` `TXT`.
    pub rtype: String,
    /// `NOERROR`, `NODATA`, `NXDOMAIN`, `REFUSED`, `SERVFAIL`.
    pub result: String,
    /// TTL of the records, or of the negative answer, in seconds.
    pub ttl: Option<u32>,
    /// Why it is SERVFAIL: the text of the extended error, or what its code means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
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

/// An endpoint of the table, and its report.
type ListedEndpoint<'t> = (&'t Endpoint, EndpointReport);

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
    let name = ReadName::new(zones, published.table.as_ref()?, name);
    let exists = exists(&name.reading);
    let mut problems = problems(&name);
    let mut notes = reading_notes(&name, context, !problems.is_empty());
    if !matches!(name.reading, Reading::Outside) {
        problems.extend(published.problem());
    }
    notes.extend(service_notes(&name.services, context));
    let reply = NameReply::of_name(zones, published, name.name);
    let endpoints = endpoints_of(&name, &reply);
    let answer = |rtype: &RecordType| answer_report(&name, published, *rtype, &endpoints);
    Some(Explanation {
        name: name.name.to_string(),
        reading: describe_reading(&name, &reply, &endpoints),
        exists,
        answers: types_of(&name).iter().map(answer).collect(),
        endpoints: endpoints.into_iter().map(|(_, report)| report).collect(),
        skipped: reports(&problems, Problem::is_skip),
        conflicts: reports(&problems, Problem::is_conflict),
        problems: reports(&problems, |_| true),
        nearest: if exists {
            Vec::new()
        } else {
            nearest(zones, name.table, name.name)
        },
        notes,
        ..Explanation::default()
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
        | Reading::Failing(..)
        | Reading::View(..) => true,
    }
}

/// Returns the notes about the meaning of a name.
fn reading_notes(name: &ReadName<'_>, context: &Context<'_>, is_explained: bool) -> Vec<String> {
    match &name.reading {
        Reading::View(_, view) => occupant_notes(view.service, name.table),
        Reading::Failing(_, service, _) => occupant_notes(service, name.table),
        Reading::Missing(_, reason) => missing_notes(name, *reason, context, is_explained),
        Reading::Outside => {
            let served: Vec<&str> = name.zones.iter().map(|zone| zone.name.as_str()).collect();
            vec![format!("zones served here: {}", served.join(" "))]
        }
        Reading::NsHost(zone) if zone.ns_addresses.is_empty() => {
            vec!["no address with port 53 is known; set answers.nsAddresses of serve".to_owned()]
        }
        Reading::Apex(..) | Reading::NsHost(_) | Reading::Version(_) | Reading::Empty(_) => {
            Vec::new()
        }
    }
}

/// Returns the record types of names with this meaning.
fn types_of(name: &ReadName<'_>) -> &'static [RecordType] {
    match &name.reading {
        Reading::Apex(..) => &[RecordType::SOA, RecordType::NS],
        Reading::Version(_) => &[RecordType::TXT],
        Reading::NsHost(_) => &RecordType::OF_SERVICES,
        _ => &RecordType::OF_SERVICES,
    }
}

/// Returns the endpoints of the services with their reports. Those that the replies contain come first.
fn endpoints_of<'t>(name: &ReadName<'t>, reply: &NameReply<'t>) -> Vec<ListedEndpoint<'t>> {
    let mut listed: Vec<_> = name
        .services
        .iter()
        .flat_map(|service| {
            let endpoints = reply.endpoints(service);
            endpoints.map(|(endpoint, state, is_returned)| {
                let report = reply.report(service, endpoint, state, is_returned);
                (endpoint, report)
            })
        })
        .collect();
    listed.sort_by_key(|(_, report)| !report.returned);
    listed
}

fn answer_report(
    name: &ReadName<'_>,
    published: &Published,
    rtype: RecordType,
    endpoints: &[ListedEndpoint<'_>],
) -> AnswerReport {
    let answer = answer_question(name.zones, published, name.name, rtype);
    let indexes: HashMap<*const Endpoint, usize> = endpoints
        .iter()
        .enumerate()
        .map(|(index, (endpoint, _))| (std::ptr::from_ref(*endpoint), index))
        .collect();
    let mut sources = answer.endpoints().into_iter();
    let records = answer.records(AnswerContext::new(name.name, published.serial));
    let in_answer = records.iter().filter(|r| r.section == Section::Answer);
    AnswerReport {
        rtype: rtype.to_string(),
        result: <&str>::from(answer.result()).to_owned(),
        ttl: records.first().map(|record| record.ttl),
        reason: answer.failure(),
        records: in_answer
            .map(|record| RecordReport {
                endpoint: sources
                    .next()
                    .and_then(|source| indexes.get(&std::ptr::from_ref(source)).copied()),
                ..RecordReport::from(record)
            })
            .collect(),
    }
}

// === The meaning of the name ===

/// Describes the meaning of a name.
fn describe_reading(
    name: &ReadName<'_>,
    reply: &NameReply<'_>,
    endpoints: &[ListedEndpoint<'_>],
) -> String {
    let text = match &name.reading {
        Reading::Outside => "outside the zones of this server".to_owned(),
        Reading::Apex(zone, _) => format!("the apex of zone {}", zone.name),
        Reading::NsHost(_) => "this server's own name".to_owned(),
        Reading::Version(_) => "the version of the Kubernetes DNS specification".to_owned(),
        Reading::Empty(_) => {
            "an empty non-terminal: names exist below it, and it has no records".to_owned()
        }
        Reading::Failing(_, service, _) => {
            let count = count_returned(endpoints, None);
            format!("{}: {count}", describe_service(&service.key))
        }
        Reading::View(_, view) => describe_view(view, endpoints),
        Reading::Missing(_, MissingReason::NoService | MissingReason::NoOwner) => {
            describe_unknown(name)
        }
        Reading::Missing(_, reason) => match reason {
            MissingReason::NoForm => "not a valid form of name",
            MissingReason::NoService | MissingReason::NoOwner => "an unknown name",
            MissingReason::NoEndpoint => "a service without endpoints",
            MissingReason::NoCluster => "a service without endpoints in that cluster",
            MissingReason::NoHost => "a cluster without an endpoint of that hostname",
            MissingReason::NoPort => "a name without an endpoint with that port",
        }
        .to_owned(),
    };
    match reply {
        NameReply::Failing(reason) => format!("{text}; the name fails: {reason}"),
        NameReply::Endpoints(_) | NameReply::Nothing(_) => text,
    }
}

fn describe_service(key: &ServiceKey) -> String {
    format!("service '{}' in namespace '{}'", key.service, key.namespace)
}

/// Returns how many of the endpoints, of one cluster or of all, the replies contain.
fn count_returned(endpoints: &[ListedEndpoint<'_>], cluster: Option<&str>) -> String {
    let reports = endpoints.iter().map(|(_, report)| report);
    let is_counted = |report: &&EndpointReport| cluster.is_none_or(|one| one == report.cluster);
    let counted = reports.filter(is_counted);
    let returned = counted.clone().filter(|report| report.returned).count();
    match counted.count() {
        0 => "no endpoints".to_owned(),
        1 => format!("{returned} of 1 endpoint"),
        count => format!("{returned} of {count} endpoints"),
    }
}

/// Describes a name without a service: no namespace has it, or several have it.
fn describe_unknown(name: &ReadName<'_>) -> String {
    let own = name.labels_without_port();
    let short = own.last().and_then(|label| name.table.short_name(label));
    match (own.as_slice(), short) {
        ([.., name], Some(short)) if short.owner == Err(NoOwner::Ambiguous) => {
            let namespaces = short.namespaces(Claim::Headless).map(Namespace::as_str);
            let namespaces = namespaces.collect::<Vec<_>>().join(", ");
            format!("ambiguous: '{name}' exists in the namespaces {namespaces}")
        }
        (_, Some(_)) => "a short name that belongs to no namespace".to_owned(),
        ([.., service, namespace], None) => {
            format!("no service '{service}' in namespace '{namespace}'")
        }
        _ => "a short name that no service has".to_owned(),
    }
}

fn describe_view(view: &View<'_>, endpoints: &[ListedEndpoint<'_>]) -> String {
    let first = view.covered().first().map(|e| e.labels());
    let [host, cluster] = first.unwrap_or_default();
    let mut text = describe_service(&view.service.key);
    if view.scope != Scope::Service {
        text += &format!(", cluster '{cluster}'");
    }
    let describe_port = |port: &Port| {
        let (name, protocol) = (port.name.as_ref()?, port.protocol.label());
        Some(format!(", port '{name}' over {protocol}"))
    };
    text += &view.port.and_then(describe_port).unwrap_or_default();
    let part = match view.scope {
        Scope::Service => count_returned(endpoints, None),
        Scope::Cluster => count_returned(endpoints, Some(cluster)),
        Scope::Host => format!("endpoint '{host}'"),
    };
    format!("{text}: {part}")
}

/// Returns the problems of the services, of their short names, of the name itself, and of its zone. If there is no service:
/// those of the objects that would make one.
fn problems(name: &ReadName<'_>) -> BTreeSet<Problem> {
    let ReadName {
        table,
        reading,
        labels,
        services,
        ..
    } = name;
    let (relative_name, absolute_name) = (labels.join("."), name.name.to_string());
    let own_names = [relative_name.as_str(), &absolute_name]; // a problem of a zone has the name of that zone
    // A name that is hidden hides the names below it. Below an ambiguous short name, no name exists.
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
    let keys: Vec<[&str; 2]> = match services.as_slice() {
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
    let own = services.iter().flat_map(|service| &service.problems);
    let of_names = table.name_problems().filter(concerns);
    let of_links = services
        .iter()
        .flat_map(|service| table.link_problems(service));
    let skipped = table.skipped().filter(is_about);
    let all = own.chain(of_names).chain(skipped).chain(of_links);
    all.cloned().chain(non_members).collect()
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
    pub fn to_text(&self, style: Style) -> String {
        text(|text| self.write(text, style))
    }

    fn write(&self, text: &mut String, style: Style) -> std::fmt::Result {
        if let Some(at) = &self.at {
            writeln!(text, "at {}\n", style.time(at))?;
        }
        writeln!(text, "{}\n  {}", self.name, self.reading)?;
        self.write_names(text)?;
        if !self.answers.is_empty() {
            writeln!(text, "\nanswers:")?;
        }
        for answer in &self.answers {
            let ttl = answer
                .ttl
                .map(|ttl| format!(", TTL {ttl}"))
                .unwrap_or_default();
            let AnswerReport { rtype, result, .. } = answer;
            let reason: String = answer
                .reason
                .iter()
                .map(|reason| format!(": {reason}"))
                .collect();
            let result = match result.as_str() {
                "NOERROR" => style.colors.paint(Shade::Good, result),
                "NODATA" => result.clone(),
                _ => style.colors.paint(Shade::Bad, result),
            };
            writeln!(text, "  {rtype:4}  {result}{ttl}{reason}")?;
            for record in &answer.records {
                writeln!(text, "        {}", record.data)?;
            }
        }
        self.write_endpoints(text, style)?;
        if !self.problems.is_empty() {
            writeln!(text, "\nproblems:")?;
            let rows = self.problems.iter().map(|problem| problem.row(style));
            write_rows(text, &rows.collect::<Vec<_>>())?;
            let hints = self.problems.iter().map(|one| (one.kind, &*one.hint));
            for (kind, hint) in hints.collect::<BTreeSet<_>>() {
                writeln!(text, "  {kind}: {hint}; in the manual: {}", kind.anchor())?;
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
            .try_for_each(|note| writeln!(text, "\nnote: {note}"))?;
        self.write_history(text, style)
    }

    /// Writes the last changes.
    fn write_history(&self, text: &mut String, style: Style) -> std::fmt::Result {
        if self.history.is_empty() {
            return Ok(());
        }
        writeln!(text, "\nlast changes:")?;
        let shown = self.history.iter().take(MAX_CHANGES);
        let rows = shown.map(|event| [style.time(&event.time), event.text.to_string()]);
        write_rows(text, &rows.collect::<Vec<_>>())?;
        match self.history.len().saturating_sub(MAX_CHANGES) {
            0 => Ok(()),
            more => writeln!(text, "  and {more} more: global-dns events"),
        }
    }
}

#[cfg(test)]
mod tests;
