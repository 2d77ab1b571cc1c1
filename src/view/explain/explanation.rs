//! The explanation of a name.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::missing::{missing_notes, occupant_notes};
use super::names::ReadName;
use super::nearest::nearest;
use super::notes::service_notes;
use crate::model::{Namespace, Port, Problem, ProblemKind, ServiceKey};
use crate::table::{Claim, Endpoint, NoOwner, Published, Service};
use crate::view::document::{Column, Section as DocumentSection};
use crate::view::endpoint::{EndpointReport, EndpointState, NameReply};
use crate::wire::records_within;
use crate::zone::answer::answer_question;
use crate::zone::{
    Answer, AnswerContext, MissingReason, Name, Reading, Record, RecordType, Scope, Section, View,
    Zones,
};

/// The explanation of a name or an address.
pub(super) struct Explanation<'t> {
    /// The absolute name, or the address.
    pub(super) name: String,
    /// The meaning of the name, as a clause.
    pub(super) reading: String,
    /// Whether the name exists.
    pub(super) exists: bool,
    /// Whether the name is in a zone of this server.
    pub(super) is_served: bool,
    /// The answer for each record type.
    pub(super) answers: Vec<AnswerReport>,
    /// For an address: the names that return it.
    pub(super) names: Vec<String>,
    /// All endpoints of the service, those that the replies contain first.
    pub(super) endpoints: Vec<ListedEndpoint<'t>>,
    /// All problems that concern the name.
    pub(super) problems: BTreeSet<Problem>,
    /// If the name does not exist: the most similar names that exist.
    pub(super) nearest: Vec<String>,
    /// Further information.
    pub(super) notes: Vec<String>,
}

/// An endpoint of a service, and whether the replies contain it.
pub(super) struct ListedEndpoint<'t> {
    pub(super) service: &'t Service,
    pub(super) endpoint: &'t Endpoint,
    pub(super) state: EndpointState,
    pub(super) is_returned: bool,
    /// The replies.
    pub(super) reply: Rc<NameReply<'t>>,
}

/// The answer for one record type.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::view) struct AnswerReport {
    section: &'static str,
    /// `A`, `AAAA` and `SRV`; at an apex `SOA` and `NS`; at `dns-version` `TXT`.
    rtype: String,
    /// `NOERROR`, `NODATA`, `NXDOMAIN`, `REFUSED`, `SERVFAIL`.
    result: &'static str,
    /// TTL of the records, or of the negative answer, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<u32>,
    /// Why it is SERVFAIL: the text of the extended error, or what its code means.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The number of records, and how many of them fit into a reply: over UDP with 1,232 octets, and over TCP.
    count: usize,
    over_udp: usize,
    over_tcp: usize,
    /// The first records.
    records: Vec<RecordReport>,
}

/// One record of an answer. Joined with tabs and the class, its fields are a line of a zone file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct RecordReport {
    /// Owner name, with the final dot.
    name: String,
    /// Type, such as `A`.
    #[serde(rename = "type")]
    rtype: String,
    /// TTL, seconds.
    ttl: u32,
    /// Data, as in a zone file (RFC 1035 section 5.1).
    data: String,
    /// The index of the endpoint that the record comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoint: Option<usize>,
}

/// Maximum length of a reply over UDP, for clients that announce so much (`answers.udpMax`), and over TCP, in octets.
const UDP_LIMIT: usize = 1232;
const TCP_LIMIT: usize = u16::MAX as usize;

// === impl Explanation ===

impl<'t> Explanation<'t> {
    /// Explains a name. `watched` are the watched namespaces; empty: all. Answers list at most `limit` records. Returns `None`
    /// before the first complete table.
    pub(super) fn of_name(
        zones: &'t Zones,
        published: &'t Published,
        watched: &[Namespace],
        name: &'t Name,
        limit: usize,
    ) -> Option<Self> {
        let name = ReadName::new(zones, published.table.as_ref()?, name);
        let exists = name.exists();
        let problems = problems(&name);
        let mut notes = reading_notes(&name, watched, !problems.is_empty());
        notes.extend(service_notes(&name.services));
        let reply = NameReply::of_name(zones, published, name.name);
        let endpoints = endpoints_of(&name, &Rc::new(reply.clone()));
        let answers = answers_of(&name, published, &endpoints, limit);
        Some(Self {
            name: name.name.to_string(),
            reading: describe_reading(&name, &reply, &endpoints),
            exists,
            is_served: !matches!(name.reading, Reading::Outside),
            answers,
            names: Vec::new(),
            endpoints,
            problems,
            nearest: match exists {
                true => Vec::new(),
                false => nearest(zones, name.table, name.name),
            },
            notes,
        })
    }

    /// Returns the name and its meaning.
    pub(super) fn head(&self) -> DocumentSection {
        let Self {
            name,
            reading,
            exists,
            ..
        } = self;
        let mut section = DocumentSection::new("", [Column::text("")]);
        let object = json!({"section": "name", "name": name, "reading": reading, "exists": exists});
        section.push([name.clone()], &object);
        section.push_text([format!("  {reading}")]);
        section
    }

    /// Returns what a person does about the problems, once for each kind and hint.
    pub(super) fn what_to_do(&self) -> DocumentSection {
        let mut section = DocumentSection::new("what to do", [Column::text(""), Column::text("")]);
        let hints = self.problems.iter().map(|one| (one.kind, one.hint()));
        for (kind, hint) in hints.collect::<BTreeSet<_>>() {
            let page = kind.anchor();
            section.push_text([kind.to_string(), format!("{hint}; in the manual: {page}")]);
        }
        section
    }

    /// Returns the results for each record type.
    pub(super) fn answers(&self) -> DocumentSection {
        let columns = ["TYPE", "RESULT", "TTL", "RECORDS", "REASON"].map(Column::text);
        let mut section = DocumentSection::new("answers", columns);
        for answer in &self.answers {
            section.push(answer.cells(), answer);
        }
        section
    }

    /// Returns the records that are of no endpoint: those of a zone.
    pub(super) fn records(&self) -> DocumentSection {
        let columns = [Column::text(""), Column::text("")];
        let mut section = DocumentSection::new("records", columns);
        if self.endpoints.is_empty() {
            for record in self.answers.iter().flat_map(|answer| &answer.records) {
                section.push_text([record.rtype.clone(), record.data.clone()]);
            }
        }
        section
    }
}

// === impl ListedEndpoint ===

impl ListedEndpoint<'_> {
    /// Reports the endpoint, and why it is returned or not.
    pub(super) fn report(&self) -> EndpointReport {
        let Self {
            service,
            endpoint,
            state,
            is_returned,
            reply,
        } = self;
        reply.report(service, endpoint, *state, *is_returned)
    }

    fn cluster(&self) -> &str {
        self.endpoint.labels()[1]
    }
}

// === impl AnswerReport ===

impl AnswerReport {
    fn new(
        name: &ReadName<'_>,
        published: &Published,
        rtype: RecordType,
        indexes: &HashMap<*const Endpoint, usize>,
        limit: usize,
    ) -> Self {
        let answer = answer_question(name.zones, published, name.name, rtype);
        let sources = answer.endpoints();
        let records = answer.records(AnswerContext::new(name.name, published.serial));
        let in_answer = || records.iter().filter(|one| one.section == Section::Answer);
        let listed = in_answer().take(limit).enumerate().map(|(place, record)| {
            let source = sources.get(place).map(|one| std::ptr::from_ref(*one));
            let endpoint = source.and_then(|source| indexes.get(&source).copied());
            RecordReport::new(record, endpoint)
        });
        let fitting = |limit| records_within(&answer, name.name, limit);
        Self {
            section: "answers",
            rtype: rtype.to_string(),
            result: answer.result().into(),
            ttl: records.first().map(|record| record.ttl),
            reason: Answer::failure(&answer),
            records: listed.collect(),
            count: in_answer().count(),
            over_udp: fitting(UDP_LIMIT),
            over_tcp: fitting(TCP_LIMIT),
        }
    }

    fn cells(&self) -> [String; 5] {
        let Self {
            count,
            over_udp,
            over_tcp,
            ..
        } = self;
        let records = match () {
            () if *count == 0 => String::new(),
            () if over_tcp < count => {
                format!("{over_tcp} of {count} over TCP, {over_udp} over UDP (TC)")
            }
            () if over_udp < count => format!("{count}, {over_udp} over UDP (TC)"),
            () => count.to_string(),
        };
        [
            self.rtype.clone(),
            self.result.to_owned(),
            self.ttl.map_or_else(String::new, |ttl| ttl.to_string()),
            records,
            self.reason.clone().unwrap_or_default(),
        ]
    }
}

// === impl RecordReport ===

impl RecordReport {
    fn new(record: &Record<'_>, endpoint: Option<usize>) -> Self {
        let text = record.data.to_string();
        let (rtype, data) = text.split_once('\t').unwrap_or_default();
        Self {
            name: record.owner.to_string(),
            rtype: rtype.to_owned(),
            ttl: record.ttl,
            data: data.to_owned(),
            endpoint,
        }
    }
}

fn answers_of(
    name: &ReadName<'_>,
    published: &Published,
    endpoints: &[ListedEndpoint<'_>],
    limit: usize,
) -> Vec<AnswerReport> {
    let listed = endpoints.iter().enumerate();
    let indexes = listed.map(|(index, one)| (std::ptr::from_ref(one.endpoint), index));
    let indexes: HashMap<*const Endpoint, usize> = indexes.collect();
    let types: &[RecordType] = match &name.reading {
        Reading::Apex(..) => &[RecordType::SOA, RecordType::NS],
        Reading::Version(_) => &[RecordType::TXT],
        _ => &RecordType::OF_SERVICES,
    };
    let answer = |rtype: &RecordType| AnswerReport::new(name, published, *rtype, &indexes, limit);
    types.iter().map(answer).collect()
}

/// Returns the endpoints of the services. Those that the replies contain come first.
fn endpoints_of<'t>(name: &ReadName<'t>, reply: &Rc<NameReply<'t>>) -> Vec<ListedEndpoint<'t>> {
    let services = name.services.iter().copied();
    let all = services.flat_map(|service| {
        let endpoints = reply.endpoints(service);
        endpoints.map(move |(endpoint, state, is_returned)| (service, endpoint, state, is_returned))
    });
    let listed = all.map(|(service, endpoint, state, is_returned)| ListedEndpoint {
        service,
        endpoint,
        state,
        is_returned,
        reply: Rc::clone(reply),
    });
    let mut listed: Vec<_> = listed.collect();
    listed.sort_by_key(|one| !one.is_returned);
    listed
}

/// Returns the notes about the meaning of a name.
fn reading_notes(name: &ReadName<'_>, watched: &[Namespace], is_explained: bool) -> Vec<String> {
    match &name.reading {
        Reading::View(_, view) => occupant_notes(view.service, name.table),
        Reading::Failing(_, service, _) => occupant_notes(service, name.table),
        Reading::Missing(_, reason) => missing_notes(name, *reason, watched, is_explained),
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
    let is_counted = |one: &&ListedEndpoint<'_>| cluster.is_none_or(|name| name == one.cluster());
    let counted = endpoints.iter().filter(is_counted);
    let returned = counted.clone().filter(|one| one.is_returned).count();
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
    all.chain(non_members).cloned().collect()
}

#[cfg(test)]
mod tests;
