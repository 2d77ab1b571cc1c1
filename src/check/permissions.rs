//! Checks of the API server and of the permissions of the caller: all that are needed, and no dangerous others.

use std::collections::BTreeSet;

use super::finding::{Check, Fact, Finding, Health, NotChecked, list_some};
use super::objects::LINKS_GROUP;
use crate::model::{Mcs, Namespace};

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

const CORE: &str = "";
const DISCOVERY: &str = "discovery.k8s.io";
const MCS_GROUP: &str = "multicluster.x-k8s.io";
const LEASES_GROUP: &str = "coordination.k8s.io";

/// Verbs, groups and resources that `serve` needs.
const NEEDED: [(&str, &str, &str); 4] = [
    ("list", CORE, "services"),
    ("watch", CORE, "services"),
    ("list", DISCOVERY, "endpointslices"),
    ("watch", DISCOVERY, "endpointslices"),
];

/// Dangerous permissions that global-dns does not need: to redirect traffic, to read secrets, and to start processes.
const NOT_NEEDED: [(&str, &str, &str); 14] = [
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

/// Verbs, groups and resources that `serve` needs with `--mcs`.
const NEEDED_FOR_MCS: [(&str, &str, &str); 2] = [
    ("list", MCS_GROUP, "serviceimports"),
    ("watch", MCS_GROUP, "serviceimports"),
];

/// Verbs, groups and resources that `serve` needs for the states of links, in the namespaces of Links. Without them, it answers
/// as if every cluster were linked.
const NEEDED_FOR_LINKS: [(&str, &str, &str); 3] = [
    ("list", LINKS_GROUP, "links"),
    ("watch", LINKS_GROUP, "links"),
    ("list", LEASES_GROUP, "leases"),
];

/// Returns the needed permissions: in each of `namespaces`, or in all namespaces if there are none; and in each of `links`, the
/// namespaces of Links.
pub fn needed(namespaces: &[Namespace], mcs: Mcs, links: &[Namespace]) -> Vec<Permission> {
    let mut needed = permissions(&NEEDED, namespaces);
    if mcs == Mcs::On {
        needed.extend(permissions(&NEEDED_FOR_MCS, namespaces));
    }
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

fn permissions(
    of: &[(&'static str, &'static str, &'static str)],
    namespaces: &[Namespace],
) -> Vec<Permission> {
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
    match api {
        Err(reason) => {
            let mut findings = vec![Check::ApiServer.not_checked("the API server", reason)];
            findings.extend(permissions_not_checked(reason));
            findings
        }
        Ok(ApiServerStatus::Unreachable(why)) => {
            let mut findings = vec![Check::ApiServer.red(
                format!("cannot reach the API server: {why}"),
                "in a pod, check the ServiceAccount's token and the NetworkPolicy; elsewhere, give --kubeconfig and \
                 --context",
            )];
            findings.extend(permissions_not_checked(&NotChecked::consequence(
                "cannot reach the API server",
            )));
            findings
        }
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

/// Returns the findings if no permission was checked.
fn permissions_not_checked(reason: &NotChecked) -> [Finding; 2] {
    [
        Check::Permissions.not_checked("permissions", reason),
        Check::MorePermissions.not_checked("more permissions than needed", reason),
    ]
}

/// Checks the needed permissions. Those that are missing are one finding, because they usually have one cause.
fn check_all_needed(reviews: &[Review]) -> Vec<Finding> {
    let is_reviewed = |(_, group, _): &&(&str, &str, &str)| {
        let mut reviews = reviews.iter();
        reviews.any(|review| review.permission.group == *group)
    };
    let for_mcs = NEEDED_FOR_MCS.iter().filter(is_reviewed);
    let permissions = NEEDED.iter().chain(for_mcs);
    let (red, mut others): (Vec<Finding>, Vec<Finding>) = permissions
        .map(|permission| check_needed(*permission, reviews))
        .partition(|finding| finding.health == Health::Red);
    let sentences: Vec<&str> = red.iter().map(|finding| &*finding.sentence).collect();
    if !sentences.is_empty() {
        let missing = Check::Permissions.red(
            sentences.join("; "),
            "bind the role of the chart: list and watch on services and endpointslices, with --mcs also on serviceimports, \
             in all namespaces or in each namespace of --namespace",
        );
        others.insert(0, missing);
    }
    let for_links = NEEDED_FOR_LINKS.iter().filter(is_reviewed);
    others.extend(for_links.map(|permission| {
        let finding = check_needed(*permission, reviews);
        match finding.health {
            Health::Red => Check::Permissions.yellow(
                finding.sentence,
                "bind the role of the chart for Links: list and watch on links and list on leases, in each namespace of \
                 --links-namespace; or set --links=off",
            ),
            Health::Yellow | Health::Grey | Health::Green => finding,
        }
    }));
    others
}

/// Checks one verb for one resource, in each namespace that needs it.
fn check_needed((verb, group, resource): (&str, &str, &str), reviews: &[Review]) -> Finding {
    let is_of_permission = |review: &&Review| {
        review.permission.verb == verb
            && review.permission.group == group
            && review.permission.resource == resource
    };
    let own: Vec<&Review> = reviews.iter().filter(is_of_permission).collect();
    let missing = own.iter().copied().filter(|r| r.allowed == Ok(false));
    let missing: Vec<&Review> = missing.collect();
    if !missing.is_empty() {
        let sentence = format!("cannot {verb} {resource} {}", scope(&missing));
        return Check::Permissions.red(sentence, "");
    }
    match own.iter().find_map(|review| review.allowed.as_ref().err()) {
        Some(why) => Check::Permissions.not_checked(
            &format!("can {verb} {resource}"),
            &NotChecked::new(
                why.as_str(),
                "the API server did not review this permission: authenticate to it",
            ),
        ),
        None => Check::Permissions.green(format!("can {verb} {resource} {}", scope(&own))),
    }
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
    if !allowed.is_empty() {
        return Check::MorePermissions.yellow(
            format!("has more permissions than needed: {}", list_some(allowed)),
            "run global-dns with its own ServiceAccount that has only the role of the chart; if you are an administrator, \
             these are your own permissions",
        );
    }
    match reviews.iter().find_map(|r| r.allowed.as_ref().err()) {
        Some(why) => Check::MorePermissions.not_checked(
            "more permissions than needed",
            &NotChecked::new(
                why.as_str(),
                "the API server did not review these permissions: authenticate to it",
            ),
        ),
        None => Check::MorePermissions
            .green("cannot change Services or EndpointSlices, read Secrets or start Pods"),
    }
}
