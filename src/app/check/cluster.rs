//! What the API server says: its version, the permissions of the server, the pods, and objects that only `check` reads.

use std::path::PathBuf;

use futures::future::join_all;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Endpoints, Namespace as KubeNamespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Resource;
use serde_json::Value;

use crate::check::finding::{Check, Fact, Finding, State, items};
use crate::check::objects::{EXPORTED, GATEWAYS, MIRRORS, Objects, UNWATCHED};
use crate::check::permissions::{
    Permission, Review, check_needed, check_not_needed, needed, not_needed,
};
use crate::check::pods;
use crate::cli::{CheckArgs, Cluster};
use crate::model::Namespace;
use crate::source::file;

/// The answers of an API server.
pub(super) struct ApiServer {
    version: Fact<String>,
    /// `None`: no server was looked for.
    pods: Option<Fact<Vec<Value>>>,
    /// The account whose permissions were reviewed, for sentences.
    account: String,
    needed: Vec<Review>,
    /// `None`: the account is a person, who may have any permission.
    not_needed: Option<Vec<Review>>,
    pub(super) objects: Objects,
}

// === impl ApiServer ===

impl ApiServer {
    /// Reads all, at the same time. `status` is that of a server, if one answers.
    pub(super) async fn read(cluster: &Cluster, args: &CheckArgs, status: Option<&Value>) -> Self {
        let is_direct = args.view.reads_objects();
        // Without a server, its settings are those of flags.
        let own = serde_json::to_value(&args.view.settings.loaded).unwrap_or_default();
        let settings = status.map_or(&own, |status| &status["settings"]);
        let named = |names: &Value, field| -> Vec<Namespace> {
            let names = items(names, field).filter_map(Value::as_str);
            names.filter_map(|name| name.parse().ok()).collect()
        };
        let namespaces = named(settings, "namespaces");
        let mut links = named(&settings["links"], "namespaces");
        links.retain(|_| settings["links"]["enabled"] != false);
        let pods = match is_direct {
            true => None,
            false => {
                let namespace = args.view.server.server_namespace.as_ref();
                let pods = cluster.pods(namespace).await;
                Some(
                    pods.map(|(_, pods)| pods)
                        .map_err(|error| error.to_string()),
                )
            }
        };
        let pods_read = pods.iter().flatten().flatten();
        let account = pods_read.into_iter().next();
        let account = account.map(pods::account);
        let is_in_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
        let (version, needed, not_needed, objects) = tokio::join!(
            cluster.version(),
            review(cluster, account.as_ref(), needed(&namespaces, &links)),
            review(cluster, account.as_ref(), not_needed(&namespaces)),
            read_objects(cluster, &namespaces, &links),
        );
        Self {
            version,
            not_needed: Some(not_needed).filter(|_| account.is_some() || is_in_pod),
            account: match &account {
                Some((namespace, name)) => format!("ServiceAccount {namespace}/{name}"),
                None => cluster.origin.clone(),
            },
            needed,
            pods,
            objects,
        }
    }

    /// Returns the findings but those about objects. The pods matter if none of them answers.
    pub(super) fn findings(&self, no_server: bool) -> Vec<Finding> {
        let mut findings = Vec::new();
        if no_server {
            match &self.pods {
                Some(Ok(all)) => findings.push(pods::check(all)),
                Some(Err(why)) => {
                    findings.push(Finding::unknown(Check::Pods, why, "see the line above"));
                }
                None => {}
            }
        }
        match &self.version {
            Ok(version) => {
                findings.push(version_of(version));
                findings.push(check_needed(&self.account, &self.needed));
                let not_needed = self.not_needed.iter();
                findings.extend(not_needed.map(|reviews| check_not_needed(&self.account, reviews)));
            }
            Err(why) => findings.push(Finding::failing(
                Check::ApiServer,
                format!("cannot reach the API server: {why}"),
                "in a pod, check the ServiceAccount's token and the NetworkPolicy; elsewhere, set --kubeconfig and --context",
            )),
        }
        findings
    }
}

/// Checks the version of Kubernetes. Before 1.22, it mirrored addresses that were not ready into slices as ready
/// (kubernetes/kubernetes#102683).
fn version_of(version: &str) -> Finding {
    let check = Check::ApiServer;
    let sentence = format!("the API server answers, Kubernetes {version}");
    let mut numbers = version.trim_start_matches('v').split(['.', '-', '+']);
    let mut number = || numbers.next()?.parse::<u32>().ok();
    match (number(), number()) {
        (Some(1), Some(minor)) if minor < 22 => Finding::new(
            State::Attention,
            check,
            sentence,
            "with this version, EndpointSlices may report ready although the gateway is down; update Kubernetes to 1.22 or later",
        ),
        _ => Finding::ok(check, sentence),
    }
}

/// Returns for each permission whether an account, or the caller, has it.
async fn review(
    cluster: &Cluster,
    account: Option<&(String, String)>,
    permissions: Vec<Permission>,
) -> Vec<Review> {
    let review = async |permission: Permission| Review {
        allowed: cluster.is_allowed(account, &permission).await,
        permission,
    };
    join_all(permissions.into_iter().map(review)).await
}

/// Reads the objects. Slices are listed after Endpoints, so that Kubernetes has had the time to copy even the newest ones.
async fn read_objects(cluster: &Cluster, namespaces: &[Namespace], links: &[Namespace]) -> Objects {
    async fn select<K: Resource<DynamicType = ()>>(
        cluster: &Cluster,
        selectors: &[&str],
        namespaces: &[Namespace],
    ) -> Fact<Vec<Value>> {
        let mut objects = Vec::new();
        for selector in selectors {
            objects.extend(cluster.select::<K>(selector, namespaces).await?);
        }
        Ok(objects)
    }
    let copies = async {
        let endpoints = select::<Endpoints>(cluster, &[MIRRORS], namespaces).await;
        (
            endpoints,
            select::<EndpointSlice>(cluster, &[MIRRORS, UNWATCHED], namespaces).await,
        )
    };
    let gateways = async {
        match links {
            [] => Ok(Vec::new()),
            _ => select::<Deployment>(cluster, &[GATEWAYS], links).await,
        }
    };
    let (services, exported, (endpoints, slices), links, gateways, all) = tokio::join!(
        select::<Service>(cluster, &[MIRRORS, UNWATCHED], namespaces),
        select::<Service>(cluster, &[EXPORTED], namespaces),
        copies,
        cluster.links(),
        gateways,
        select::<KubeNamespace>(cluster, &[""], &[]),
    );
    Objects {
        services,
        exported,
        slices,
        endpoints,
        links,
        gateways,
        namespaces: all,
    }
}

/// Reads the objects of files. What they usually do not have is not checked.
pub(super) fn objects_of_files(files: &[PathBuf]) -> Option<Objects> {
    let objects = file::read_objects(files)
        .ok()
        .filter(|_| !files.is_empty())?;
    let of_kind = |kind: &str| {
        let own = objects.iter().filter(|(own, _)| own == kind);
        own.filter_map(|(_, json)| serde_json::from_str(json).ok())
            .collect::<Vec<Value>>()
    };
    let some = |kind: &str| match of_kind(kind) {
        none if none.is_empty() => Err(format!("the files contain no {kind}")),
        some => Ok(some),
    };
    Some(Objects {
        services: Ok(of_kind("Service")),
        exported: Ok(of_kind("Service")),
        slices: Ok(of_kind("EndpointSlice")),
        endpoints: some("Endpoints"),
        links: some("Link"),
        gateways: some("Deployment"),
        namespaces: some("Namespace"),
    })
}
