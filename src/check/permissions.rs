//! Checks of the API server and of the permissions of the caller: all that are needed, and no dangerous others.

use std::collections::BTreeSet;

use super::finding::{Check, Fact, Finding, NotChecked, list_some};
use super::objects::LINKS_GROUP;
use crate::model::Namespace;

/// The API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiServerStatus {
    /// It does not answer; the reason.
    Unreachable(String),
    /// It answers.
    Reached {
        /// Its version: `v1.33.4`.
        version: String,
        /// The review of the permissions of [`needed`].
        needed: Vec<Review>,
        /// The review of the permissions of [`not_needed`].
        not_needed: Vec<Review>,
    },
}

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
    /// Whether the caller has it, or why the API server did not review it.
    pub allowed: Result<bool, String>,
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

/// Checks the reviews of the API server.
pub(super) fn check(api: &Fact<ApiServerStatus>) -> Vec<Finding> {
    let not_checked = |first: Finding, reason: &NotChecked| {
        let others = [Check::Permissions, Check::MorePermissions];
        let others = others.map(|check| check.not_checked(reason));
        std::iter::once(first).chain(others).collect()
    };
    match api {
        Err(reason) => not_checked(Check::ApiServer.not_checked(reason), reason),
        Ok(ApiServerStatus::Unreachable(why)) => not_checked(
            Check::ApiServer.red(
                format!("cannot reach the API server: {why}"),
                "in a pod, check the ServiceAccount's token and the NetworkPolicy; elsewhere, give --kubeconfig and \
                 --context",
            ),
            &NotChecked::consequence("cannot reach the API server"),
        ),
        Ok(ApiServerStatus::Reached {
            needed, not_needed, ..
        }) => {
            let mut findings = vec![Check::ApiServer.green("the API server answers")];
            findings.extend(check_all_needed(needed));
            findings.push(check_not_needed(not_needed));
            findings
        }
    }
}

/// Checks the needed permissions.
fn check_all_needed(reviews: &[Review]) -> Vec<Finding> {
    let mut findings = check_role(NEEDED.iter(), reviews, |missing| {
        Check::Permissions.red(
            missing,
            "bind the role of the chart: list and watch on services and endpointslices, \
             in all namespaces or in each namespace of --namespace",
        )
    });
    findings.extend(check_role(NEEDED_FOR_LINKS.iter(), reviews, |missing| {
        Check::Permissions.yellow(
            missing,
            "bind the role of the chart for Links: list and watch on links and list on leases, in each namespace of \
             links.namespaces; or set links.enabled: false",
        )
    }));
    findings
}

/// Checks the reviewed permissions of a role. Those that are missing are one finding, because they usually have one cause.
fn check_role<'r>(
    role: impl Iterator<Item = &'r Rule>,
    reviews: &[Review],
    report_missing: impl FnOnce(String) -> Finding,
) -> Vec<Finding> {
    let (mut missing, mut others) = (Vec::new(), Vec::new());
    for &(verb, group, resource) in role {
        let is_own = |review: &&Review| {
            let one = &review.permission;
            (one.verb, one.group, one.resource) == (verb, group, resource)
        };
        let own: Vec<&Review> = reviews.iter().filter(is_own).collect();
        let is_denied = |review: &&Review| review.allowed == Ok(false);
        let denied: Vec<&Review> = own.iter().copied().filter(is_denied).collect();
        let unknown = own.iter().find_map(|review| review.allowed.as_ref().err());
        match (denied.as_slice(), unknown) {
            _ if own.is_empty() => {} // a flag turns off what needs it
            ([_, ..], _) => missing.push(format!("cannot {verb} {resource} {}", scope(&denied))),
            ([], Some(why)) => others.push(not_reviewed(
                Check::Permissions,
                &format!("can {verb} {resource}"),
                why,
            )),
            ([], None) => {
                let sentence = format!("can {verb} {resource} {}", scope(&own));
                others.push(Check::Permissions.green(sentence));
            }
        }
    }
    let missing = (!missing.is_empty()).then(|| report_missing(missing.join("; ")));
    missing.into_iter().chain(others).collect()
}

/// Makes the finding that the API server did not review a permission.
fn not_reviewed(check: Check, subject: &str, why: &str) -> Finding {
    let hint = "the API server did not review this permission: authenticate to it";
    check.part_not_checked(subject, &NotChecked::new(why, hint))
}

/// Describes the namespaces of reviews.
fn scope(reviews: &[&Review]) -> String {
    let namespaces = reviews
        .iter()
        .filter_map(|r| r.permission.namespace.as_ref());
    let namespaces: Vec<&Namespace> = namespaces.collect();
    match namespaces.as_slice() {
        [] => "in all namespaces".to_owned(),
        [one] => format!("in namespace {one}"),
        several => format!("in namespaces {}", list_some(several)),
    }
}

/// Checks the permissions that the caller should not have.
fn check_not_needed(reviews: &[Review]) -> Finding {
    let allowed = reviews.iter().filter(|review| review.allowed == Ok(true));
    let describe = |review: &Review| {
        let permission = &review.permission;
        let is_needed = NEEDED.contains(&(permission.verb, permission.group, permission.resource));
        let scope = if is_needed { " in all namespaces" } else { "" };
        format!("{} {}{scope}", permission.verb, permission.resource)
    };
    let allowed: BTreeSet<String> = allowed.map(describe).collect();
    let unknown = reviews.iter().find_map(|one| one.allowed.as_ref().err());
    if let (true, Some(why)) = (allowed.is_empty(), unknown) {
        let check = Check::MorePermissions;
        return not_reviewed(check, check.row().heading, why);
    }
    Check::MorePermissions.yellow_list(
        allowed,
        "cannot change Services or EndpointSlices, read Secrets or start Pods",
        "has more permissions than needed",
        "run global-dns with its own ServiceAccount that has only the role of the chart; if you are an administrator, \
         these are your own permissions",
    )
}
