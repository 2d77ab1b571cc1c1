//! Checks whether the gateways of a cluster forget the address of a pod that is gone.

use super::finding::{Check, Finding, NotChecked};
use super::objects::Gateways;

/// Checks the gateways of a cluster that exports a headless Service.
pub(super) fn check(gateways: &Gateways) -> Finding {
    let check = Check::GatewayCache;
    let gateways = match gateways {
        Ok(Some(gateways)) => gateways,
        Ok(None) => return check.green("no headless Service is exported from here"),
        Err(reason) => return check.not_checked(reason),
    };
    let known = gateways.iter().flatten();
    let wrong = known.filter_map(|one| match one.cache_timeout.as_deref() {
        Some("0s") => None,
        other => Some(format!(
            "Deployment/{} ({})",
            one.name,
            other.unwrap_or("not set")
        )),
    });
    let wrong: Vec<String> = wrong.collect();
    match gateways.iter().find_map(|one| one.as_ref().err()) {
        Some(reason) if wrong.is_empty() => check.not_checked(reason),
        None if gateways.is_empty() => check.not_checked(&NotChecked::new(
            "there is no gateway in the namespaces of Links",
            "set links.namespaces to the namespace of the gateway, and links.enabled: true",
        )),
        _ => check.yellow_list(
            wrong,
            "no gateway keeps the address of a pod that is gone",
            "gateways that keep the address of a pod that is gone",
            "set gateway.deploymentAnnotations of the chart linkerd-multicluster to \
             {config.linkerd.io/proxy-outbound-discovery-cache-unused-timeout: \"0s\"}; 1s is not enough. Without it, clients in \
             other clusters that retry within 5 s never reach a pod that restarted, or reach the pod that has its old address now",
        ),
    }
}
