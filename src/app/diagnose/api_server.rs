//! The facts for `check` from the API server.

use std::collections::BTreeSet;

use futures::future::join_all;

use super::facts::{SourceFacts, named_namespaces, retain_watched, table_of};
use crate::app::first_table::{ONE_SHOT_TIMING, first_table};
use crate::check::objects::{
    Link, MIRRORS, MirrorEndpoints, PROBE_SERVICES, SERVICE_MIRRORS, UNWATCHED_OBJECTS, link,
    linkerd_version, mirror_endpoints, mirror_ports, mirror_slice, unwatched_object,
};
use crate::check::permissions::{ApiServerStatus, Permission, Review, needed, not_needed};
use crate::check::{Fact, NotChecked};
use crate::cli::{ModelArgs, SourceArgs};
use crate::log::error_chain;
use crate::model::{Kind, Namespace};
use crate::source::kube;
use crate::table::Table;

/// Gathers the facts from the API server.
pub(super) async fn query_api_server(source: &SourceArgs, model: &ModelArgs) -> SourceFacts {
    match connect(source).await {
        Ok((cluster, version)) => gather(&cluster, version, source, model).await,
        Err(why) => unreachable(why),
    }
}

/// Connects to the API server. Returns it with its version, or a sentence with the reason of the failure.
async fn connect(source: &SourceArgs) -> Result<(kube::Cluster, String), String> {
    let cluster = kube::Cluster::open(source.kubeconfig.access(), ONE_SHOT_TIMING)
        .await
        .map_err(|error| error_chain(&error))?;
    let version = cluster
        .version()
        .await
        .map_err(|why| format!("{}: {why}", cluster.credentials()))?;
    Ok((cluster, version))
}

/// Gathers all facts from an API server, with concurrent requests.
async fn gather(
    cluster: &kube::Cluster,
    version: String,
    source: &SourceArgs,
    model: &ModelArgs,
) -> SourceFacts {
    let namespaces = &source.namespace;
    let select = async |kind, selector| cluster.select(kind, selector, namespaces).await;
    let (needed, not_needed, table, slices, endpoints, links, probes, mirrors, unwatched, named) = tokio::join!(
        review(
            cluster,
            needed(namespaces, model.mcs(), model.links.namespaces())
        ),
        review(cluster, not_needed(namespaces)),
        read_table(source, model),
        select(Kind::EndpointSlice, SERVICE_MIRRORS),
        read_mirror_endpoints(cluster, namespaces),
        cluster.links(),
        select(Kind::Service, PROBE_SERVICES),
        select(Kind::Service, SERVICE_MIRRORS),
        unwatched_objects(cluster, namespaces),
        find_namespaces(cluster, named_namespaces(source, model)),
    );
    let api = ApiServerStatus::Reached {
        version,
        needed,
        not_needed,
    };
    SourceFacts {
        api: Ok(api),
        table,
        mirror_slices: parse_list(slices, mirror_slice),
        mirror_endpoints: endpoints,
        links: parse_links(links).map(|links| retain_watched(links, source)),
        namespaces: named,
        mirror_ports: parse_list(mirrors, mirror_ports),
        unwatched_objects: unwatched.map_err(not_listed),
        linkerd_versions: parse_list(probes, linkerd_version),
    }
}

/// Returns the first table, or the reason why there is none.
async fn read_table(source: &SourceArgs, model: &ModelArgs) -> Fact<Table> {
    match first_table(source, model).await {
        Ok(reader) => table_of(&reader),
        Err(error) => Err(NotChecked::new(
            error_chain(error.as_ref()),
            "check needs the same permissions as serve, and an API server that answers lists",
        )),
    }
}

/// Parses listed objects. Ignores those that `parse` returns nothing for.
fn parse_list<T>(
    objects: Result<Vec<String>, String>,
    parse: impl Fn(&str) -> Option<T>,
) -> Fact<Vec<T>> {
    let objects = objects.map_err(not_listed)?;
    Ok(objects.iter().filter_map(|json| parse(json)).collect())
}

/// Returns the fact that objects could not be listed.
fn not_listed(why: String) -> NotChecked {
    NotChecked::new(why, "see the permissions above")
}

/// Returns the Endpoints of mirrors. Their slices are listed later, so that Kubernetes has had the time to copy even the
/// newest Endpoints.
async fn read_mirror_endpoints(
    cluster: &kube::Cluster,
    namespaces: &[Namespace],
) -> Fact<Vec<MirrorEndpoints>> {
    let endpoints = cluster
        .endpoints(MIRRORS, namespaces)
        .await
        .map_err(|why| {
            NotChecked::new(
                format!("cannot list Endpoints: {why}"),
                "serve does not need this permission; run check as a user that may list endpoints",
            )
        })?;
    let slices = cluster
        .select(Kind::EndpointSlice, MIRRORS, namespaces)
        .await
        .map_err(not_listed)?;
    Ok(mirror_endpoints(
        endpoints.iter().map(String::as_str),
        slices.iter().map(String::as_str),
    ))
}

/// Returns the objects that no watch selects because of their labels.
async fn unwatched_objects(
    cluster: &kube::Cluster,
    namespaces: &[Namespace],
) -> Result<Vec<String>, String> {
    let mut unwatched = Vec::new();
    for kind in [Kind::Service, Kind::EndpointSlice] {
        let objects = cluster.select(kind, UNWATCHED_OBJECTS, namespaces).await?;
        unwatched.extend(
            objects
                .iter()
                .filter_map(|json| unwatched_object(kind, json)),
        );
    }
    Ok(unwatched)
}

/// Returns for each namespace whether it exists.
async fn find_namespaces(
    cluster: &kube::Cluster,
    names: BTreeSet<Namespace>,
) -> Fact<Vec<(Namespace, bool)>> {
    let mut namespaces = Vec::new();
    for namespace in names {
        match cluster.has_namespace(&namespace).await {
            Ok(exists) => namespaces.push((namespace, exists)),
            Err(why) => {
                return Err(NotChecked::new(
                    format!("cannot list namespaces: {why}"),
                    "serve does not need this permission; run check as a user that may list namespaces",
                ));
            }
        }
    }
    Ok(namespaces)
}

/// Parses the Links, or returns the reason why they are unknown.
fn parse_links(links: Result<Option<Vec<String>>, String>) -> Fact<Vec<Link>> {
    match links {
        Ok(Some(links)) => Ok(links.iter().filter_map(|json| link(json)).collect()),
        Ok(None) => Err(NotChecked::new(
            "this API server does not define Links",
            "install Linkerd's multicluster extension, which defines them",
        )),
        Err(why) => Err(NotChecked::new(
            format!("cannot list Links: {why}"),
            "serve does not need this permission; run check as a user that may list links.multicluster.linkerd.io",
        )),
    }
}

/// Returns the facts if the API server is unreachable: none.
fn unreachable(why: String) -> SourceFacts {
    let reason = || NotChecked::consequence("cannot reach the API server");
    SourceFacts {
        api: Ok(ApiServerStatus::Unreachable(why)),
        table: Err(reason()),
        mirror_slices: Err(reason()),
        mirror_endpoints: Err(reason()),
        links: Err(reason()),
        namespaces: Err(reason()),
        mirror_ports: Err(reason()),
        unwatched_objects: Err(reason()),
        linkerd_versions: Err(reason()),
    }
}

/// Returns for each permission whether the caller has it.
async fn review(cluster: &kube::Cluster, permissions: Vec<Permission>) -> Vec<Review> {
    let review = async |permission: Permission| Review {
        allowed: cluster.is_allowed(&permission).await,
        permission,
    };
    join_all(permissions.into_iter().map(review)).await
}
