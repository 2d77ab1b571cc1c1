//! The facts for `check` from the API server.

use std::collections::BTreeSet;

use futures::future::join_all;

use super::facts::{SourceFacts, named_namespaces, table_of};
use crate::app::first_table::first_table;
use crate::check::objects::{
    CheckedObjects, Deployment, EXPORTED, EndpointSlice, Endpoints, GATEWAYS, Gateway, Gateways,
    KubeType, Link, MIRRORS, PROBE_SERVICES, UNWATCHED_OBJECTS, is_exported_headless, parse_all,
    parse_links,
};
use crate::check::permissions::{ApiServerStatus, Permission, Review, needed, not_needed};
use crate::check::{Fact, NotChecked};
use crate::cli::{Cluster, SourceArgs};
use crate::log::error_chain;
use crate::model::Namespace;
use crate::settings::Settings;
use crate::table::Table;

/// Gathers the facts from the API server.
pub(super) async fn query_api_server(source: &SourceArgs, settings: &Settings) -> SourceFacts {
    match connect(source).await {
        Ok((cluster, version)) => gather(&cluster, version, source, settings).await,
        Err(why) => unreachable(why),
    }
}

/// Connects to the API server. Returns it with its version, or a sentence with the reason of the failure.
async fn connect(source: &SourceArgs) -> Result<(Cluster, String), String> {
    let cluster = Cluster::open(source.kubeconfig.access())
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
    cluster: &Cluster,
    version: String,
    source: &SourceArgs,
    settings: &Settings,
) -> SourceFacts {
    let namespaces = &settings.namespaces;
    let services = [MIRRORS, UNWATCHED_OBJECTS, PROBE_SERVICES];
    let (needed, not_needed, table, services, (endpoints, slices), links, gateways, namespaces) = tokio::join!(
        review(cluster, needed(namespaces, settings.links_namespaces())),
        review(cluster, not_needed(namespaces)),
        read_table(source, settings),
        select(cluster, &services, namespaces),
        endpoints_and_slices(cluster, namespaces),
        read_links(cluster),
        read_gateways(cluster, namespaces, settings.links_namespaces()),
        find_namespaces(cluster, named_namespaces(settings)),
    );
    SourceFacts {
        api: Ok(ApiServerStatus::Reached {
            version,
            needed,
            not_needed,
        }),
        table,
        objects: CheckedObjects {
            services,
            slices,
            endpoints,
            links,
            gateways,
        },
        namespaces,
    }
}

/// Returns the first table, or the reason why there is none.
async fn read_table(source: &SourceArgs, settings: &Settings) -> Fact<Table> {
    match first_table(source, settings).await {
        Ok(table) => table_of(&table.reader),
        Err(error) => Err(NotChecked::new(
            error_chain(error.as_ref()),
            "check needs the same permissions as serve, and an API server that answers lists",
        )),
    }
}

/// Returns the objects of a kind that one of the selectors selects.
async fn select<T: KubeType + kube::Resource<DynamicType = ()>>(
    cluster: &Cluster,
    selectors: &[&str],
    namespaces: &[Namespace],
) -> Fact<Vec<T>> {
    let mut objects = Vec::new();
    for selector in selectors {
        let selected = cluster.select::<T>(selector, namespaces).await;
        let not_listed = |why| NotChecked::new(why, "see the permissions above");
        objects.extend(parse_all(selected.map_err(not_listed)?));
    }
    Ok(objects)
}

/// Returns the Endpoints of mirrors and slices. The slices are listed later, so that Kubernetes has had the time to copy even
/// the newest Endpoints.
async fn endpoints_and_slices(
    cluster: &Cluster,
    namespaces: &[Namespace],
) -> (Fact<Vec<Endpoints>>, Fact<Vec<EndpointSlice>>) {
    let endpoints = match cluster.select::<Endpoints>(MIRRORS, namespaces).await {
        Ok(endpoints) => Ok(parse_all(endpoints)),
        Err(why) => Err(not_permitted("Endpoints", "endpoints", &why)),
    };
    let selectors = [MIRRORS, UNWATCHED_OBJECTS];
    let slices = select(cluster, &selectors, namespaces).await;
    (endpoints, slices)
}

/// Returns the reason why objects that only `check` reads cannot be listed.
fn not_permitted(objects: &str, resource: &str, why: &str) -> NotChecked {
    NotChecked::new(
        format!("cannot list {objects}: {why}"),
        format!(
            "serve does not need this permission; run check as a user that may list {resource}"
        ),
    )
}

/// Returns for each namespace whether it exists.
async fn find_namespaces(
    cluster: &Cluster,
    names: BTreeSet<Namespace>,
) -> Fact<Vec<(Namespace, bool)>> {
    let mut namespaces = Vec::new();
    for namespace in names {
        let found = cluster.namespace(&namespace).await;
        let found = found.map_err(|why| not_permitted("namespaces", "namespaces", &why))?;
        namespaces.push((namespace, found.is_some()));
    }
    Ok(namespaces)
}

/// Returns the gateways in the namespaces of Links, if one of `namespaces`, or of all, exports a headless Service.
pub(in crate::app) async fn read_gateways(
    cluster: &Cluster,
    namespaces: &[Namespace],
    of_links: &[Namespace],
) -> Gateways {
    let exported = select(cluster, &[EXPORTED], namespaces).await?;
    if !exported.iter().any(is_exported_headless) {
        return Ok(None);
    }
    let read = join_all(of_links.iter().map(|one| gateways_in(cluster, one))).await;
    let read = read.into_iter();
    let all = read.flat_map(|one| one.unwrap_or_else(|reason| vec![Err(reason)]));
    Ok(Some(all.collect()))
}

/// Returns the gateways in a namespace.
async fn gateways_in(cluster: &Cluster, name: &Namespace) -> Fact<Vec<Fact<Gateway>>> {
    let selected = cluster.select::<Deployment>(GATEWAYS, std::slice::from_ref(name));
    let (deployments, namespace) = tokio::join!(selected, cluster.namespace(name));
    let deployments =
        deployments.map_err(|why| not_permitted("Deployments", "deployments.apps", &why))?;
    let namespace = namespace
        .map(|json| parse_all(json).pop().unwrap_or_default())
        .map_err(|why| not_permitted("namespaces", "namespaces", &why));
    let read = |one: &Deployment| Gateway::read(one, &namespace);
    Ok(parse_all(deployments).iter().map(read).collect())
}

/// Returns the Links, or the reason why they are unknown.
async fn read_links(cluster: &Cluster) -> Fact<Vec<Link>> {
    match cluster.links().await {
        Ok(Some(links)) => Ok(parse_links(links)),
        Ok(None) => Err(NotChecked::new(
            "this API server does not define Links",
            "install Linkerd's multicluster extension, which defines them",
        )),
        Err(why) => Err(not_permitted(
            "Links",
            "links.multicluster.linkerd.io",
            &why,
        )),
    }
}

/// Returns the facts if the API server is unreachable: none.
fn unreachable(why: String) -> SourceFacts {
    let reason = || NotChecked::consequence("cannot reach the API server");
    SourceFacts {
        api: Ok(ApiServerStatus::Unreachable(why)),
        table: Err(reason()),
        objects: CheckedObjects {
            services: Err(reason()),
            slices: Err(reason()),
            endpoints: Err(reason()),
            links: Err(reason()),
            gateways: Err(reason()),
        },
        namespaces: Err(reason()),
    }
}

/// Returns for each permission whether the caller has it.
async fn review(cluster: &Cluster, permissions: Vec<Permission>) -> Vec<Review> {
    let review = async |permission: Permission| Review {
        allowed: cluster.is_allowed(&permission).await,
        permission,
    };
    join_all(permissions.into_iter().map(review)).await
}
