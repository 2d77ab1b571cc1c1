//! The API server and what the caller may do there: what is needed, and nothing else.

use std::collections::BTreeSet;

use super::{Check, Finding, Known, NotChecked, some_of};
use crate::mirror::Namespace;

/// The API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiServer {
    /// It does not answer, for this reason.
    Unreachable(String),
    /// It does.
    Reached {
        /// Its version: `v1.33.4`.
        version: String,
        /// What it says about [`needed`].
        needed: Vec<Review>,
        /// What it says about [`not_needed`].
        not_needed: Vec<Review>,
    },
}

/// Something that one may do, or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    /// `list`.
    pub verb: &'static str,
    /// API group; empty for the core.
    pub group: &'static str,
    /// Plural: `services`.
    pub resource: &'static str,
    /// Where; `None` means everywhere.
    pub namespace: Option<Namespace>,
}

/// A right, and what the API server says about it: whether the caller has it, or why it does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    /// The right.
    pub right: Right,
    /// Whether the caller has it.
    pub allowed: Result<bool, String>,
}

const CORE: &str = "";
const DISCOVERY: &str = "discovery.k8s.io";

/// Verbs, groups and resources that `serve` needs.
const NEEDED: [(&str, &str, &str); 4] = [
    ("list", CORE, "services"),
    ("watch", CORE, "services"),
    ("list", DISCOVERY, "endpointslices"),
    ("watch", DISCOVERY, "endpointslices"),
];

/// Rights that would do harm in the wrong hands, and that nobody here needs: to change where traffic goes, to read
/// secrets, and to start something.
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

/// Lists what is needed: everywhere, or in each of `namespaces`.
pub fn needed(namespaces: &[Namespace]) -> Vec<Right> {
    rights(&NEEDED, namespaces)
}

/// Lists what is not needed, and asked about all the same.
pub fn not_needed(namespaces: &[Namespace]) -> Vec<Right> {
    let mut rights = rights(&NOT_NEEDED, namespaces);
    if !namespaces.is_empty() {
        rights.extend(self::rights(&NEEDED, &[]));
    }
    rights
}

fn rights(
    of: &[(&'static str, &'static str, &'static str)],
    namespaces: &[Namespace],
) -> Vec<Right> {
    let scopes: Vec<Option<Namespace>> = match namespaces {
        [] => vec![None],
        some => some.iter().cloned().map(Some).collect(),
    };
    let right = |&(verb, group, resource)| {
        scopes.iter().cloned().map(move |namespace| Right {
            verb,
            group,
            resource,
            namespace,
        })
    };
    of.iter().flat_map(right).collect()
}

/// Judges what the API server says.
pub(super) fn check(api: &Known<ApiServer>) -> Vec<Finding> {
    match api {
        Err(reason) => {
            let mut findings = vec![Check::ApiServer.not_checked("the API server", reason)];
            findings.extend(rights_not_checked(reason));
            findings
        }
        Ok(ApiServer::Unreachable(why)) => {
            let mut findings = vec![Check::ApiServer.red(
                format!("the API server cannot be asked: {why}"),
                "in a pod it takes the ServiceAccount's token and a way to the API server; elsewhere give --kubeconfig \
                 and --context",
            )];
            findings.extend(rights_not_checked(&NotChecked::new(
                "the API server cannot be asked",
                "look at the line above first",
            )));
            findings
        }
        Ok(ApiServer::Reached {
            needed, not_needed, ..
        }) => {
            let mut findings = vec![Check::ApiServer.green("the API server answers")];
            findings.extend(NEEDED.map(|right| one_needed(right, needed)));
            findings.push(none_else(not_needed));
            findings
        }
    }
}

/// Says that no right was checked.
fn rights_not_checked(reason: &NotChecked) -> [Finding; 2] {
    [
        Check::Permissions.not_checked("permissions", reason),
        Check::MorePermissions.not_checked("more permissions than needed", reason),
    ]
}

/// Judges one verb of one resource, in every namespace that it is needed in.
fn one_needed((verb, group, resource): (&str, &str, &str), reviews: &[Review]) -> Finding {
    let of_right = |review: &&Review| {
        review.right.verb == verb
            && review.right.group == group
            && review.right.resource == resource
    };
    let own: Vec<&Review> = reviews.iter().filter(of_right).collect();
    let lacking = own.iter().copied().filter(|r| r.allowed == Ok(false));
    let lacking: Vec<&Review> = lacking.collect();
    if !lacking.is_empty() {
        return Check::Permissions.red(
            format!("may not {verb} {resource} {}", place(&lacking)),
            "bind the role of the chart: list and watch on services and endpointslices, for all namespaces or for each \
             of --namespace",
        );
    }
    match own.iter().find_map(|review| review.allowed.as_ref().err()) {
        Some(why) => Check::Permissions.yellow(
            format!("may {verb} {resource}: not checked, {why}"),
            "the API server did not review this right: it wants an authenticated caller",
        ),
        None => Check::Permissions.green(format!("may {verb} {resource} {}", place(&own))),
    }
}

/// Names the namespaces of reviews.
fn place(reviews: &[&Review]) -> String {
    let namespaces = reviews.iter().filter_map(|r| r.right.namespace.as_ref());
    let namespaces: Vec<&Namespace> = namespaces.collect();
    match namespaces.as_slice() {
        [] => "in all namespaces".to_owned(),
        [one] => format!("in namespace {one}"),
        several => format!("in namespaces {}", some_of(several)),
    }
}

fn none_else(reviews: &[Review]) -> Finding {
    let allowed = reviews.iter().filter(|review| review.allowed == Ok(true));
    let words = |review: &Review| {
        let right = &review.right;
        let is_needed = NEEDED.contains(&(right.verb, right.group, right.resource));
        let place = if is_needed { " in all namespaces" } else { "" };
        format!("{} {}{place}", right.verb, right.resource)
    };
    let allowed: BTreeSet<String> = allowed.map(words).collect();
    if !allowed.is_empty() {
        return Check::MorePermissions.yellow(
            format!("may do more than is needed: {}", some_of(allowed)),
            "run global-dns with a ServiceAccount of its own that has nothing but the chart's role; as an administrator \
             you see your own rights here",
        );
    }
    match reviews.iter().find_map(|r| r.allowed.as_ref().err()) {
        Some(why) => Check::MorePermissions.yellow(
            format!("more permissions than needed: not checked, {why}"),
            "the API server did not review these rights: it wants an authenticated caller",
        ),
        None => Check::MorePermissions
            .green("may change no Services or EndpointSlices, read no Secrets and start no Pods"),
    }
}
