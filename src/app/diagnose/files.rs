//! The facts for `check` from files.

use std::collections::BTreeSet;

use super::facts::{SourceFacts, named_namespaces, table_of};
use crate::app::first_table::first_table;
use crate::check::objects::{CheckedObjects, parse_all, parse_links};
use crate::check::{Fact, NotChecked};
use crate::cli::SourceArgs;
use crate::model::{KubeObject, Namespace};
use crate::settings::Settings;
use crate::source::file;

/// The objects of the files: the kind and the JSON of each.
struct FileObjects(Vec<(String, String)>);

/// Gathers the facts from the files of `--file`.
pub(super) async fn read_files(
    source: &SourceArgs,
    settings: &Settings,
) -> anyhow::Result<SourceFacts> {
    let table = first_table(source, settings).await?;
    let objects = FileObjects(file::read_objects(&source.file)?);
    let no_api = || {
        let reason = "the API server is not used with --file";
        NotChecked::new(reason, "omit --file to check the cluster")
    };
    Ok(SourceFacts {
        api: Err(no_api()),
        table: table_of(&table.reader),
        objects: CheckedObjects {
            services: Ok(parse_all(objects.of_kind("Service"))),
            slices: Ok(parse_all(objects.of_kind("EndpointSlice"))),
            endpoints: objects
                .some_of_kind("Endpoints", "services,endpoints,endpointslices")
                .map(parse_all),
            links: objects
                .some_of_kind(
                    "Link",
                    "services,endpointslices,links.multicluster.linkerd.io",
                )
                .map(parse_links),
            gateways: Err(no_api()),
        },
        namespaces: Ok(objects.find_namespaces(named_namespaces(settings))),
    })
}

// === impl FileObjects ===

impl FileObjects {
    /// Returns the JSON of the objects of a kind.
    fn of_kind(&self, kind: &str) -> Vec<&String> {
        let own = self.0.iter().filter(|(own, _)| own == kind);
        own.map(|(_, json)| json).collect()
    }

    /// Returns the JSON of the objects of a kind. Fails if there are none, because most files do not have that kind. `resources`
    /// would have them.
    fn some_of_kind(&self, kind: &str, resources: &str) -> Fact<Vec<&String>> {
        let objects = self.of_kind(kind);
        if objects.is_empty() {
            let plural = kind.trim_end_matches('s');
            return Err(NotChecked::new(
                format!("the files contain no {plural}s"),
                format!("add them to the files: kubectl get {resources} -A -o yaml"),
            ));
        }
        Ok(objects)
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
}
