//! The facts for `check` from files.

use std::collections::BTreeSet;

use super::facts::{SourceFacts, named_namespaces, retain_watched, table_of};
use crate::app::first_table::first_table;
use crate::check::objects::{
    Link, MirrorEndpoints, link, linkerd_version, mirror_endpoints, mirror_ports, mirror_slice,
    unwatched_object,
};
use crate::check::{Fact, NotChecked};
use crate::cli::{ModelArgs, SourceArgs};
use crate::model::{Kind, KubeObject, Namespace};
use crate::source::file;

/// The objects of the files: the kind and the JSON of each.
struct FileObjects(Vec<(String, String)>);

/// Gathers the facts from the files of `--file`.
pub(super) async fn read_files(
    source: &SourceArgs,
    model: &ModelArgs,
) -> anyhow::Result<SourceFacts> {
    let reader = first_table(source, model).await?;
    let objects = FileObjects(file::read_objects(&source.file)?);
    Ok(SourceFacts {
        api: Err(NotChecked::new(
            "the API server is not used with --file",
            "omit --file to check the cluster",
        )),
        table: table_of(&reader),
        mirror_slices: Ok(objects.read("EndpointSlice", mirror_slice)),
        mirror_endpoints: objects.mirror_endpoints(),
        links: objects.links().map(|links| retain_watched(links, source)),
        namespaces: Ok(objects.find_namespaces(named_namespaces(source, model))),
        mirror_ports: Ok(objects.read("Service", mirror_ports)),
        unwatched_objects: Ok(objects.unwatched_objects()),
        linkerd_versions: Ok(objects.read("Service", linkerd_version)),
    })
}

// === impl FileObjects ===

impl FileObjects {
    /// Returns the JSON of the objects of a kind.
    fn of_kind(&self, kind: &str) -> impl Iterator<Item = &str> {
        let own = self.0.iter().filter(move |(own, _)| own == kind);
        own.map(|(_, json)| json.as_str())
    }

    /// Parses the objects of a kind. Ignores those that `parse` returns nothing for.
    fn read<T>(&self, kind: &str, parse: impl Fn(&str) -> Option<T>) -> Vec<T> {
        self.of_kind(kind).filter_map(parse).collect()
    }

    /// Returns the Endpoints of mirrors. Fails if there are no Endpoints at all, because most files have none.
    fn mirror_endpoints(&self) -> Fact<Vec<MirrorEndpoints>> {
        if self.of_kind("Endpoints").next().is_none() {
            return Err(NotChecked::new(
                "the files contain no Endpoints",
                "add them to the files: kubectl get services,endpoints,endpointslices -A -o yaml",
            ));
        }
        let slices = self.of_kind("EndpointSlice");
        Ok(mirror_endpoints(self.of_kind("Endpoints"), slices))
    }

    /// Parses the Links. Fails if there are none.
    fn links(&self) -> Fact<Vec<Link>> {
        let links = self.read("Link", link);
        if links.is_empty() {
            Err(NotChecked::new(
                "the files contain no Links",
                "add them to the files: kubectl get services,endpointslices,links.multicluster.linkerd.io -A -o yaml",
            ))
        } else {
            Ok(links)
        }
    }

    /// Returns for each namespace whether it exists.
    fn find_namespaces(&self, names: BTreeSet<Namespace>) -> Vec<(Namespace, bool)> {
        let namespaces = names.into_iter().map(|namespace| {
            let exists = self.has_namespace(&namespace);
            (namespace, exists)
        });
        namespaces.collect()
    }

    /// Returns whether a namespace, or an object in it, is in the files.
    fn has_namespace(&self, namespace: &Namespace) -> bool {
        self.0.iter().any(|(kind, json)| {
            let object = KubeObject::read(json);
            let own = if kind == "Namespace" {
                object.name()
            } else {
                object.namespace()
            };
            own == namespace.as_str()
        })
    }

    /// Returns the objects that no watch selects because of their labels.
    fn unwatched_objects(&self) -> Vec<String> {
        let mut unwatched = self.read("Service", |json| unwatched_object(Kind::Service, json));
        unwatched.extend(self.read("EndpointSlice", |json| {
            unwatched_object(Kind::EndpointSlice, json)
        }));
        unwatched
    }
}
