//! The facts for `check` from files.

use std::collections::BTreeSet;

use super::facts::{SourceFacts, named_namespaces, retain_watched, table_of};
use crate::app::first_table::first_table;
use crate::check::objects::{
    Link, link, linkerd_version, mirror_ports, mirror_slice, unwatched_object,
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
        links: objects.links().map(|links| retain_watched(links, source)),
        namespaces: Ok(objects.find_namespaces(named_namespaces(source, model))),
        mirror_ports: Ok(objects.read("Service", mirror_ports)),
        unwatched_objects: Ok(objects.unwatched_objects()),
        linkerd_versions: Ok(objects.read("Service", linkerd_version)),
    })
}

// === impl FileObjects ===

impl FileObjects {
    /// Parses the objects of a kind. Ignores those that `parse` returns nothing for.
    fn read<T>(&self, kind: &str, parse: impl Fn(&str) -> Option<T>) -> Vec<T> {
        let own = self.0.iter().filter(|(own, _)| own == kind);
        own.filter_map(|(_, json)| parse(json)).collect()
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
