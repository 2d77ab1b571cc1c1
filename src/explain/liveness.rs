//! Notes about endpoints that are not alive, with the possible causes.

use crate::table::{Endpoint, ServiceKind};
use crate::zone::View;

/// Returns the notes about the endpoints of a name that are not alive. Endpoints that the name does not cover are not
/// counted: those with another port, and those of kinds that do not answer the name.
pub(super) fn view_notes(view: &View<'_>) -> Vec<String> {
    let all = View {
        includes_down: true,
        ..view.clone()
    };
    let dead: Vec<&Endpoint> = all.endpoints().filter(|one| !one.alive).collect();
    let result = if view.includes_down {
        "still answered"
    } else {
        "omitted"
    };
    let by_kind = |is_kind: fn(ServiceKind) -> bool| {
        dead.iter()
            .filter(|endpoint| is_kind(endpoint.kind))
            .count()
    };
    let pods = by_kind(|kind| kind == ServiceKind::Headless);
    let local = by_kind(|kind| kind == ServiceKind::Local);
    let imports = by_kind(|kind| kind == ServiceKind::Import);
    let services = dead.len() - pods - local - imports;
    let pods = (pods > 0).then(|| match pods {
        1 => format!("the gateway of 1 endpoint is down; {result}"),
        _ => format!("the gateways of {pods} endpoints are down; {result}"),
    });
    let services = (services > 0).then(|| {
        let endpoints = match services {
            1 => "1 endpoint is".to_owned(),
            _ => format!("{services} endpoints are"),
        };
        format!(
            "{endpoints} not alive: the gateway of the cluster is down, or the exported Service has no ready endpoint there \
             (global-dns check tells which); {result}"
        )
    });
    let local =
        (local > 0).then(|| format!("the Service of this cluster has no ready endpoint; {result}"));
    let imports = (imports > 0).then(|| {
        format!("{imports} of the exported Services in other clusters have no ready endpoint there; {result}")
    });
    let all = pods.into_iter().chain(services).chain(local);
    all.chain(imports).collect()
}
