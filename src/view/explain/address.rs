//! The explanation of an address: the endpoints that have it, and the names that return it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::rc::Rc;

use super::explanation::{Explanation, ListedEndpoint};
use crate::table::{Endpoint, Grammar, Published, Service};
use crate::view::endpoint::{EndpointState, NameReply};
use crate::zone::{Name, Zone, Zones};

/// Explains an address. An endpoint is returned if one of the names of its service returns it; the widest of them says why. Returns
/// `None` before the first complete table.
pub(super) fn explain<'t>(
    zones: &'t Zones,
    published: &'t Published,
    address: IpAddr,
) -> Option<Explanation<'t>> {
    let table = published.table.as_ref()?;
    let (mut listed, mut names) = (BTreeMap::new(), BTreeSet::new());
    let has = |endpoint: &Endpoint| endpoint.addresses.iter().any(|one| one.ip == address);
    for service in table.sorted_services() {
        let mut all = service.endpoints.iter().chain(&service.not_ready);
        if !all.any(has) {
            continue;
        }
        for one in endpoints_of(zones, published, service, has, &mut names) {
            let [host, cluster] = one.endpoint.labels();
            let is_ready = one.state != EndpointState::NotReady;
            // Two services of an alias may have it.
            let key = (&service.key, cluster, host, is_ready);
            listed.entry(key).or_insert(one);
        }
    }
    let mut endpoints: Vec<ListedEndpoint<'_>> = listed.into_values().collect();
    endpoints.sort_by_key(|one| !one.is_returned);
    Some(Explanation {
        name: address.to_string(),
        reading: describe(names.len(), endpoints.len()),
        exists: !names.is_empty(),
        is_served: true,
        answers: Vec::new(),
        names: names.into_iter().collect(),
        endpoints,
        problems: BTreeSet::new(),
        nearest: Vec::new(),
        notes: Vec::new(),
    })
}

/// Returns the endpoints of a service that have the address. Notes the names that return them.
fn endpoints_of<'t>(
    zones: &'t Zones,
    published: &'t Published,
    service: &'t Service,
    has: impl Fn(&Endpoint) -> bool,
    names: &mut BTreeSet<String>,
) -> Vec<ListedEndpoint<'t>> {
    let own = Rc::new(NameReply::of_own_name(service));
    // Most names are those of several endpoints.
    let mut replies: HashMap<String, Rc<NameReply<'t>>> = HashMap::new();
    let with_address = own.endpoints(service).filter(|(one, ..)| has(one));
    let listed = with_address.map(|(endpoint, state, _)| {
        let mut widest: Option<Rc<NameReply<'t>>> = None;
        for name in zones
            .iter()
            .flat_map(|zone| names_above(zone, service, endpoint))
        {
            let reply = replies.entry(name.to_string());
            let reply =
                reply.or_insert_with(|| Rc::new(NameReply::of_name(zones, published, &name)));
            if reply.has(endpoint) {
                names.insert(name.to_string());
                let is_wider = widest
                    .as_ref()
                    .is_none_or(|known| reply.scope() < known.scope());
                if is_wider {
                    widest = Some(Rc::clone(reply));
                }
            }
        }
        ListedEndpoint {
            service,
            endpoint,
            state,
            is_returned: widest.is_some(),
            reply: widest.unwrap_or_else(|| Rc::clone(&own)),
        }
    });
    listed.collect()
}

/// Describes an address by the number of names that return it and of endpoints that have it.
fn describe(names: usize, endpoints: usize) -> String {
    match (names, endpoints) {
        (0, 0) => "not the address of an endpoint".to_owned(),
        (0, _) => "the address of an endpoint that no name returns".to_owned(),
        (1, _) => "an address that 1 name returns".to_owned(),
        (count, _) => format!("an address that {count} names return"),
    }
}

/// Returns the names of an endpoint, of its cluster and of its service in a zone: the canonical and short ones, or those of
/// the grammar `mcs`. Some of them may not exist.
fn names_above(zone: &Zone, service: &Service, endpoint: &Endpoint) -> Vec<Name> {
    let [host, cluster] = endpoint.labels();
    let (namespace, name, suffix) = (&service.key.namespace, &service.key.service, &zone.name);
    let families = match zone.grammar {
        Grammar::Mcs => vec![format!("{name}.{namespace}.svc.{suffix}")],
        Grammar::Global => {
            vec![
                format!("{name}.{namespace}.{suffix}"),
                format!("{name}.{suffix}"),
            ]
        }
    };
    let names = families.into_iter().flat_map(|family| {
        let of_cluster = (!cluster.is_empty()).then(|| format!("{cluster}.{family}"));
        let of_host = of_cluster
            .as_ref()
            .filter(|_| !host.is_empty())
            .map(|above| format!("{host}.{above}"));
        [of_host, of_cluster, Some(family)].into_iter().flatten()
    });
    names.filter_map(|name| Name::from_text(&name)).collect()
}
