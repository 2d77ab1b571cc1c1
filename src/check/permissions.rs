//! Checks of permissions: the server has all that it needs, and no dangerous others.

use std::collections::BTreeSet;

use super::finding::{Check, Fact, Finding, State, list};
use super::objects::LINKS_GROUP;
use crate::model::Namespace;

/// A permission: a verb for a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    /// Verb: `list`.
    pub verb: &'static str,
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Resource, in the plural: `services`.
    pub resource: &'static str,
    /// Namespace; `None` means all namespaces.
    pub namespace: Option<Namespace>,
}

/// The review of a permission by the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    /// The permission.
    pub permission: Permission,
    /// Whether the account has it, or why the API server did not review it.
    pub allowed: Fact<bool>,
}

/// A verb, the API group and the resource, as in a role.
type Rule = (&'static str, &'static str, &'static str);

const CORE: &str = "";
const DISCOVERY: &str = "discovery.k8s.io";
const LEASES_GROUP: &str = "coordination.k8s.io";

/// Verbs, groups and resources that `serve` needs.
const NEEDED: [Rule; 4] = [
    ("list", CORE, "services"),
    ("watch", CORE, "services"),
    ("list", DISCOVERY, "endpointslices"),
    ("watch", DISCOVERY, "endpointslices"),
];

/// Dangerous permissions that global-dns does not need: to redirect traffic, to read secrets, and to start processes.
const NOT_NEEDED: [Rule; 14] = [
    ("create", CORE, "services"),
    ("update", CORE, "services"),
    ("patch", CORE, "services"),
    ("delete", CORE, "services"),
    ("create", DISCOVERY, "endpointslices"),
    ("update", DISCOVERY, "endpointslices"),
    ("patch", DISCOVERY, "endpointslices"),
    ("delete", DISCOVERY, "endpointslices"),
    ("get", CORE, "secrets"),
    ("list", CORE, "secrets"),
    ("watch", CORE, "secrets"),
    ("create", CORE, "pods"),
    ("create", CORE, "pods/exec"),
    ("create", "apps", "deployments"),
];

/// Verbs, groups and resources that `serve` needs for the states of links, in the namespaces of Links. Without them, it answers
/// as if every cluster were linked.
const NEEDED_FOR_LINKS: [Rule; 3] = [
    ("list", LINKS_GROUP, "links"),
    ("watch", LINKS_GROUP, "links"),
    ("list", LEASES_GROUP, "leases"),
];

/// Returns the needed permissions: in each of `namespaces`, or in all namespaces if there are none; and in each of `links`, the
/// namespaces of Links.
pub fn needed(namespaces: &[Namespace], links: &[Namespace]) -> Vec<Permission> {
    let mut needed = permissions(&NEEDED, namespaces);
    if !links.is_empty() {
        needed.extend(permissions(&NEEDED_FOR_LINKS, links));
    }
    needed
}

/// Returns the permissions that the caller should not have.
pub fn not_needed(namespaces: &[Namespace]) -> Vec<Permission> {
    let mut permissions = permissions(&NOT_NEEDED, namespaces);
    if !namespaces.is_empty() {
        permissions.extend(self::permissions(&NEEDED, &[]));
    }
    permissions
}

fn permissions(of: &[Rule], namespaces: &[Namespace]) -> Vec<Permission> {
    let scopes: Vec<Option<Namespace>> = match namespaces {
        [] => vec![None],
        some => some.iter().cloned().map(Some).collect(),
    };
    let permission = |&(verb, group, resource)| {
        scopes.iter().cloned().map(move |namespace| Permission {
            verb,
            group,
            resource,
            namespace,
        })
    };
    of.iter().flat_map(permission).collect()
}

/// Checks the permissions that an account needs. Those that are missing are one finding, because they usually have one cause.
pub fn check_needed(account: &str, reviews: &[Review]) -> Finding {
    const ROLE: &str = "bind the role of the chart: list and watch on services and endpointslices, in all namespaces or in each \
                        of namespaces; for Links, list and watch on links and list on leases in each of links.namespaces, or set \
                        links.enabled: false";
    let denied: Vec<&Review> = reviews
        .iter()
        .filter(|review| review.allowed == Ok(false))
        .collect();
    let is_for_links = |review: &&Review| {
        let one = &review.permission;
        NEEDED_FOR_LINKS.contains(&(one.verb, one.group, one.resource))
    };
    if denied.is_empty() {
        return match reviews.iter().find_map(|one| one.allowed.as_ref().err()) {
            Some(why) => not_reviewed(Check::Permissions, account, why),
            None => Finding::ok(
                Check::Permissions,
                format!("{account} has every permission that serve needs"),
            ),
        };
    }
    // Without those for Links, every cluster counts as linked, and the server answers.
    let state = if denied.iter().all(is_for_links) {
        State::Attention
    } else {
        State::Failing
    };
    let missing = denied.iter().map(|review| {
        let Permission {
            verb,
            resource,
            namespace,
            ..
        } = &review.permission;
        match namespace {
            None => format!("{verb} {resource} in all namespaces"),
            Some(namespace) => format!("{verb} {resource} in namespace {namespace}"),
        }
    });
    let missing: Vec<String> = missing.collect();
    let sentence = format!("{account} cannot {}", missing.join(", "));
    Finding::new(state, Check::Permissions, sentence, ROLE)
}

/// Makes the finding that the API server did not review permissions.
fn not_reviewed(check: Check, account: &str, why: &str) -> Finding {
    let hint = format!("run it as a user that may review the permissions of {account}");
    Finding::unknown(check, why, hint)
}

/// Checks the permissions that an account should not have.
pub fn check_not_needed(account: &str, reviews: &[Review]) -> Finding {
    let check = Check::MorePermissions;
    let allowed = reviews.iter().filter(|review| review.allowed == Ok(true));
    let describe = |review: &Review| {
        let one = &review.permission;
        let is_needed = NEEDED.contains(&(one.verb, one.group, one.resource));
        let scope = if is_needed { " in all namespaces" } else { "" };
        format!("{} {}{scope}", one.verb, one.resource)
    };
    let allowed: BTreeSet<String> = allowed.map(describe).collect();
    let unknown = reviews.iter().find_map(|one| one.allowed.as_ref().err());
    match (allowed.is_empty(), unknown) {
        (true, Some(why)) => not_reviewed(check, account, why),
        (true, None) => Finding::ok(
            check,
            format!(
                "{account} cannot change Services or EndpointSlices, read Secrets or start Pods"
            ),
        ),
        (false, _) => Finding::new(
            State::Attention,
            check,
            format!("{account} can also {}", list(allowed)),
            "give the server a ServiceAccount of its own that has only the role of the chart",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reviews(of: Vec<Permission>, denied: &[&str]) -> Vec<Review> {
        let review = |permission: Permission| Review {
            allowed: Ok(!denied.contains(&permission.resource)),
            permission,
        };
        of.into_iter().map(review).collect()
    }

    #[test]
    fn missing_permissions_are_one_finding() {
        let [prod, links] =
            ["prod", "linkerd-multicluster"].map(|name| vec![name.parse().unwrap()]);
        for (namespaces, denied, state, sentence) in [
            (
                &vec![],
                &[][..],
                State::Ok,
                "dns has every permission that serve needs",
            ),
            (
                &prod,
                &["services"],
                State::Failing,
                "dns cannot list services in namespace prod, watch services in namespace prod",
            ),
            (
                &vec![],
                &["leases"],
                State::Attention,
                "dns cannot list leases in namespace linkerd-multicluster",
            ),
        ] {
            let finding = check_needed("dns", &reviews(needed(namespaces, &links), denied));
            assert_eq!(
                (finding.state, finding.sentence.as_str()),
                (state, sentence)
            );
        }
    }

    #[test]
    fn dangerous_permissions_deserve_attention() {
        let mut all = reviews(
            not_needed(&[]),
            &["secrets", "pods", "pods/exec", "deployments"],
        );
        let finding = check_not_needed("dns", &all);
        assert_eq!(finding.state, State::Attention);
        assert!(
            finding
                .sentence
                .starts_with("dns can also create endpointslices, create services, ")
        );
        for review in &mut all {
            review.allowed = Ok(false);
        }
        assert_eq!(check_not_needed("dns", &all).state, State::Ok);
        all[0].allowed = Err("403".to_owned());
        assert_eq!(check_not_needed("dns", &all).state, State::Unknown);
    }
}
