//! Checks the permissions that the server needs.

use serde::Serialize;

use super::finding::{Check, Fact, Finding, FindingState};
use super::objects::LINKS_GROUP;
use crate::model::{Namespace, join_texts};

/// A namespace, or all of them.
pub type NamespaceScope = Option<Namespace>;

/// A permission: a verb for a resource.
#[derive(Clone, Serialize)]
pub struct Permission {
    /// Verb: `list`.
    verb: &'static str,
    /// API group; empty for the core group.
    group: &'static str,
    /// Resource, in the plural: `services`.
    resource: &'static str,
    /// Its scope.
    namespace: NamespaceScope,
    /// Whether it is for the states of links. Without it, the server answers as if every cluster were linked.
    #[serde(skip)]
    is_for_links: bool,
}

/// A permission, and whether an account has it, or why the API server did not review it.
pub type Review = (Permission, Fact<bool>);

/// Verbs, groups and resources that `serve` needs, as in a role, and whether they are for links.
const NEEDED: [(&str, &str, &str, bool); 7] = [
    ("list", "", "services", false),
    ("watch", "", "services", false),
    ("list", "discovery.k8s.io", "endpointslices", false),
    ("watch", "discovery.k8s.io", "endpointslices", false),
    ("list", LINKS_GROUP, "links", true),
    ("watch", LINKS_GROUP, "links", true),
    ("list", "coordination.k8s.io", "leases", true),
];

/// Returns the needed permissions: in each scope of objects, and in each of `links`, the namespaces of Links.
pub fn needed(objects: &[NamespaceScope], links: &[NamespaceScope]) -> Vec<Permission> {
    let mut needed = Vec::new();
    for (verb, group, resource, is_for_links) in NEEDED {
        let scopes = if is_for_links { links } else { objects };
        needed.extend(scopes.iter().map(|namespace| Permission {
            verb,
            group,
            resource,
            namespace: namespace.clone(),
            is_for_links,
        }));
    }
    needed
}

/// Checks the permissions of an account. Those that are missing are one finding, because they usually have one cause.
pub fn check(account: &str, reviews: &[Review]) -> Finding {
    const CHECK: Check = Check::Permissions;
    const ROLE: &str = "bind the role of the chart: list and watch on services and endpointslices, in all namespaces or in each \
                        of namespaces; for Links, list and watch on links and list on leases in each of links.namespaces, or set \
                        links.enabled: false";
    let denied = reviews.iter().filter(|(_, allowed)| *allowed == Ok(false));
    let denied: Vec<&Permission> = denied.map(|(permission, _)| permission).collect();
    if denied.is_empty() {
        return match reviews
            .iter()
            .find_map(|(_, allowed)| allowed.as_ref().err())
        {
            Some(why) => {
                let hint = format!("run it as a user that may review the permissions of {account}");
                Finding::unknown(CHECK, why, hint)
            }
            None => Finding::ok(
                CHECK,
                format!("{account} has every permission that serve needs"),
            ),
        };
    }
    let state = if denied.iter().all(|one| one.is_for_links) {
        FindingState::Attention
    } else {
        FindingState::Failing
    };
    let missing = denied.iter().map(|one| {
        let (verb, resource) = (one.verb, one.resource);
        match &one.namespace {
            None => format!("{verb} {resource} in all namespaces"),
            Some(namespace) => format!("{verb} {resource} in namespace {namespace}"),
        }
    });
    let sentence = format!("{account} cannot {}", join_texts(missing, ", "));
    Finding::new(state, CHECK, sentence, ROLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_permissions_are_one_finding() {
        let [prod, links] =
            ["prod", "linkerd-multicluster"].map(|name| vec![Some(name.parse().unwrap())]);
        let all = vec![None];
        for (namespaces, denied, state, sentence) in [
            (
                &all,
                "",
                FindingState::Ok,
                "dns has every permission that serve needs",
            ),
            (
                &prod,
                "services",
                FindingState::Failing,
                "dns cannot list services in namespace prod, watch services in namespace prod",
            ),
            (
                &all,
                "leases",
                FindingState::Attention,
                "dns cannot list leases in namespace linkerd-multicluster",
            ),
        ] {
            let reviews = needed(namespaces, &links)
                .into_iter()
                .map(|one| (one.clone(), Ok(one.resource != denied)));
            let finding = check("dns", &reviews.collect::<Vec<_>>());
            assert_eq!(
                (finding.state, finding.sentence.as_str()),
                (state, sentence)
            );
        }
        let unknown = [(needed(&all, &[]).remove(0), Err("403".to_owned()))];
        assert_eq!(check("dns", &unknown).state, FindingState::Unknown);
    }
}
