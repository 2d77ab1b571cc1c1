//! What `check` learns from the API server.

use std::collections::BTreeSet;

use futures::future::join_all;

use super::{SourceFacts, first, named_namespaces, watched};
use crate::app::access;
use crate::app::inspect::{ONCE, first_table};
use crate::check::objects::{
    Link, ODD_LABELS, PROBES, WHOLE_MIRRORS, headless_slice, link, maker, mirror_ports, odd_label,
};
use crate::check::permissions::{ApiServer, Review, Right, needed, not_needed};
use crate::check::{Known, NotChecked};
use crate::cli::{ModelArgs, SourceArgs};
use crate::log::sentence;
use crate::mirror::{Kind, Namespace};
use crate::source::kube;
use crate::table::Table;

/// Gathers what the API server says.
pub(super) async fn ask_the_api_server(source: &SourceArgs, model: &ModelArgs) -> SourceFacts {
    match reach(source).await {
        Ok((cluster, version)) => ask(&cluster, version, source, model).await,
        Err(why) => unreachable(why),
    }
}

/// Reaches the API server; returns its version, too, or why it does not answer.
async fn reach(source: &SourceArgs) -> Result<(kube::Cluster, String), String> {
    let (file, context) = (source.kubeconfig.as_ref(), source.context.as_ref());
    let access = access(file, context, kube::Access::Usual);
    let cluster = kube::Cluster::open(access, ONCE).await;
    let cluster = cluster.map_err(|error| sentence(&error))?;
    let version = cluster.version().await?;
    Ok((cluster, version))
}

/// Asks an API server that answers everything else, at once.
async fn ask(
    cluster: &kube::Cluster,
    version: String,
    source: &SourceArgs,
    model: &ModelArgs,
) -> SourceFacts {
    let namespaces = &source.namespace;
    let select = async |kind, selector| cluster.select(kind, selector, namespaces).await;
    let (needed, not_needed, table, slices, links, probes, mirrors, odd, named) = tokio::join!(
        review(cluster, needed(namespaces)),
        review(cluster, not_needed(namespaces)),
        read_table(source, model),
        select(Kind::EndpointSlice, WHOLE_MIRRORS),
        cluster.links(),
        select(Kind::Service, PROBES),
        select(Kind::Service, WHOLE_MIRRORS),
        odd_labels(cluster, namespaces),
        existing(cluster, named_namespaces(source, model)),
    );
    let api = ApiServer::Reached {
        version,
        needed,
        not_needed,
    };
    SourceFacts {
        api: Ok(api),
        table,
        headless_slices: read(slices, headless_slice),
        links: known_links(links).map(|links| watched(links, source)),
        namespaces: named,
        mirror_ports: read(mirrors, mirror_ports),
        odd_labels: odd.map_err(refused),
        makers: read(probes, maker),
    }
}

/// Returns the first complete table, or why there is none.
async fn read_table(source: &SourceArgs, model: &ModelArgs) -> Known<Table> {
    match first_table(source, model).await {
        Ok(reader) => first(&reader),
        Err(error) => Err(NotChecked::new(
            "there is no table",
            format!("mend this first: {}", sentence(error.as_ref())),
        )),
    }
}

/// Reads listed objects, as far as `read` makes something of them.
fn read<T>(listed: Result<Vec<String>, String>, read: impl Fn(&str) -> Option<T>) -> Known<Vec<T>> {
    let listed = listed.map_err(refused)?;
    Ok(listed.iter().filter_map(|json| read(json)).collect())
}

/// Says that objects may not be read.
fn refused(why: String) -> NotChecked {
    NotChecked::new(why, "look at the permissions above")
}

/// Names the objects whose label keeps them out of every watch.
async fn odd_labels(
    cluster: &kube::Cluster,
    namespaces: &[Namespace],
) -> Result<Vec<String>, String> {
    let mut odd = Vec::new();
    for kind in [Kind::Service, Kind::EndpointSlice] {
        let objects = cluster.select(kind, ODD_LABELS, namespaces).await?;
        odd.extend(objects.iter().filter_map(|json| odd_label(kind, json)));
    }
    Ok(odd)
}

/// Asks which of some namespaces exist.
async fn existing(
    cluster: &kube::Cluster,
    named: BTreeSet<Namespace>,
) -> Known<Vec<(Namespace, bool)>> {
    let mut known = Vec::new();
    for namespace in named {
        match cluster.has_namespace(&namespace).await {
            Ok(exists) => known.push((namespace, exists)),
            Err(why) => {
                return Err(NotChecked::new(
                    format!("namespaces cannot be listed: {why}"),
                    "serve does not need that; run check as somebody who may list namespaces",
                ));
            }
        }
    }
    Ok(known)
}

/// Reads the Links, or says why they are not known.
fn known_links(links: Result<Option<Vec<String>>, String>) -> Known<Vec<Link>> {
    match links {
        Ok(Some(links)) => Ok(links.iter().filter_map(|json| link(json)).collect()),
        Ok(None) => Err(NotChecked::new(
            "this API server knows no Links",
            "install Linkerd's multicluster extension, which defines them",
        )),
        Err(why) => Err(NotChecked::new(
            format!("Links cannot be read: {why}"),
            "serve does not need Links; run check as somebody who may list links.multicluster.linkerd.io",
        )),
    }
}

/// Says that nothing is known, because the API server does not answer.
fn unreachable(why: String) -> SourceFacts {
    let reason = || {
        NotChecked::new(
            "the API server cannot be asked",
            "look at the first line above",
        )
    };
    SourceFacts {
        api: Ok(ApiServer::Unreachable(why)),
        table: Err(reason()),
        headless_slices: Err(reason()),
        links: Err(reason()),
        namespaces: Err(reason()),
        mirror_ports: Err(reason()),
        odd_labels: Err(reason()),
        makers: Err(reason()),
    }
}

/// Asks which of some rights the caller has.
async fn review(cluster: &kube::Cluster, rights: Vec<Right>) -> Vec<Review> {
    let review = async |right: Right| Review {
        allowed: cluster.may(&right).await,
        right,
    };
    join_all(rights.into_iter().map(review)).await
}
