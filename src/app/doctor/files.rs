//! What `check` learns from files.

use std::collections::BTreeSet;

use super::{SourceFacts, first, named_namespaces, watched};
use crate::app::inspect::first_table;
use crate::check::objects::{Link, headless_slice, link, maker, mirror_ports, odd_label};
use crate::check::{Known, NotChecked};
use crate::cli::{ModelArgs, SourceArgs};
use crate::mirror::{Kind, KubeObject, Namespace};
use crate::source::file;

/// Every object of the files: its kind, and the object as JSON.
struct FileObjects(Vec<(String, String)>);

/// Gathers what the files of `--file` say.
pub(super) async fn read_files(
    source: &SourceArgs,
    model: &ModelArgs,
) -> anyhow::Result<SourceFacts> {
    let reader = first_table(source, model).await?;
    let objects = FileObjects(file::every_object(&source.file)?);
    Ok(SourceFacts {
        api: Err(NotChecked::new(
            "--file is read instead",
            "leave --file out to look at the cluster itself",
        )),
        table: first(&reader),
        headless_slices: Ok(objects.read("EndpointSlice", headless_slice)),
        links: objects.links().map(|links| watched(links, source)),
        namespaces: Ok(objects.find(named_namespaces(source, model))),
        mirror_ports: Ok(objects.read("Service", mirror_ports)),
        odd_labels: Ok(objects.odd_labels()),
        makers: Ok(objects.read("Service", maker)),
    })
}

// === impl FileObjects ===

impl FileObjects {
    /// Reads the objects of a kind, as far as `read` makes something of them.
    fn read<T>(&self, kind: &str, read: impl Fn(&str) -> Option<T>) -> Vec<T> {
        let own = self.0.iter().filter(|(own, _)| own == kind);
        own.filter_map(|(_, json)| read(json)).collect()
    }

    /// Reads the Links, if there are any.
    fn links(&self) -> Known<Vec<Link>> {
        let links = self.read("Link", link);
        match links.is_empty() {
            true => Err(NotChecked::new(
                "the files hold no Links",
                "print those too: kubectl get services,endpointslices,links.multicluster.linkerd.io -A -o yaml",
            )),
            false => Ok(links),
        }
    }

    /// Tells which of some namespaces exist.
    fn find(&self, namespaces: BTreeSet<Namespace>) -> Vec<(Namespace, bool)> {
        let found = namespaces.into_iter().map(|namespace| {
            let exists = self.has(&namespace);
            (namespace, exists)
        });
        found.collect()
    }

    /// Tells whether a namespace, or an object in it, is in the files.
    fn has(&self, namespace: &Namespace) -> bool {
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

    /// Names the objects whose label keeps them out of every watch.
    fn odd_labels(&self) -> Vec<String> {
        let mut odd = self.read("Service", |json| odd_label(Kind::Service, json));
        odd.extend(self.read("EndpointSlice", |json| odd_label(Kind::EndpointSlice, json)));
        odd
    }
}
