//! Checks the permissions that the server needs.

use serde_json::{Value, json};

use super::finding::{Check, Fact, Finding, FindingState, items, text};
use super::objects::LINKS_GROUP;
use crate::model::join_texts;

/// A namespace, or all of them.
pub type Scope<'s> = Option<&'s str>;

/// Whether an account has a permission: a verb, an API group, a resource in the plural, and a namespace.
pub struct Review {
    /// The attributes of the resource, as the API server takes them.
    pub permission: Value,
    /// Whether it is allowed, or why the API server did not review it.
    pub allowed: Fact<bool>,
}

/// Verbs, groups and resources that `serve` needs, as in a role.
const NEEDED: [[&str; 3]; 7] = [
    ["list", "", "services"],
    ["watch", "", "services"],
    ["list", "discovery.k8s.io", "endpointslices"],
    ["watch", "discovery.k8s.io", "endpointslices"],
    ["list", LINKS_GROUP, "links"],
    ["watch", LINKS_GROUP, "links"],
    ["list", "coordination.k8s.io", "leases"],
];

/// Returns whether a resource has the states of links. Without it, the server answers as if every cluster were linked.
fn is_for_links(resource: &str) -> bool {
    ["links", "leases"].contains(&resource)
}

/// Returns the scopes of objects that settings select.
pub fn scopes(settings: &Value) -> Vec<Scope<'_>> {
    let mut scopes: Vec<_> = items(settings, "namespaces").map(Value::as_str).collect();
    if scopes.is_empty() {
        scopes.push(None);
    }
    scopes
}

/// Returns the namespaces of Links that settings select.
pub fn scopes_of_links(settings: &Value) -> Vec<Scope<'_>> {
    let links = &settings["links"];
    let namespaces = items(links, "namespaces").filter(|_| links["enabled"] != false);
    namespaces.map(Value::as_str).collect()
}

/// Returns the permissions that a server with these settings needs.
pub fn needed(settings: &Value) -> Vec<Value> {
    let mut needed = Vec::new();
    for [verb, group, resource] in NEEDED {
        let scopes = if is_for_links(resource) {
            scopes_of_links(settings)
        } else {
            scopes(settings)
        };
        for namespace in scopes {
            needed.push(
                json!({"verb": verb, "group": group, "resource": resource, "namespace": namespace}),
            );
        }
    }
    needed
}

/// Checks the permissions of an account. Those that are missing are one finding, because they usually have one cause.
pub fn check(account: &str, reviews: &[Review]) -> Finding {
    const CHECK: Check = Check::Permissions;
    const ROLE: &str = "bind the role of the chart: list and watch on services and endpointslices, in all namespaces or in each \
                        of namespaces; for Links, list and watch on links and list on leases in each of links.namespaces, or set \
                        links.enabled: false";
    let denied = reviews.iter().filter(|one| one.allowed == Ok(false));
    let denied: Vec<&Value> = denied.map(|one| &one.permission).collect();
    if denied.is_empty() {
        let mut failures = reviews.iter().filter_map(|one| one.allowed.as_ref().err());
        return match failures.next() {
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
    let state = if denied.iter().all(|one| is_for_links(text(one, "resource"))) {
        FindingState::Attention
    } else {
        FindingState::Failing
    };
    let missing = denied.iter().map(|one| {
        let [verb, resource, namespace] =
            ["verb", "resource", "namespace"].map(|field| text(one, field));
        match namespace {
            "" => format!("{verb} {resource} in all namespaces"),
            _ => format!("{verb} {resource} in namespace {namespace}"),
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
        let settings = |namespaces: Value| json!({"namespaces": namespaces, "links": {"namespaces": ["linkerd-multicluster"]}});
        for (namespaces, denied, state, sentence) in [
            (
                json!([]),
                "",
                FindingState::Ok,
                "dns has every permission that serve needs",
            ),
            (
                json!(["prod"]),
                "services",
                FindingState::Failing,
                "dns cannot list services in namespace prod, watch services in namespace prod",
            ),
            (
                json!([]),
                "leases",
                FindingState::Attention,
                "dns cannot list leases in namespace linkerd-multicluster",
            ),
        ] {
            let reviews = needed(&settings(namespaces))
                .into_iter()
                .map(|permission| Review {
                    allowed: Ok(permission["resource"] != denied),
                    permission,
                });
            let finding = check("dns", &reviews.collect::<Vec<_>>());
            assert_eq!(
                (finding.state, finding.sentence.as_str()),
                (state, sentence)
            );
        }
        let unknown = [Review {
            permission: json!({}),
            allowed: Err("403".to_owned()),
        }];
        assert_eq!(check("dns", &unknown).state, FindingState::Unknown);
    }
}
