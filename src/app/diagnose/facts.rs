//! The facts for `check` that files and the API server both have.

use std::collections::BTreeSet;

use crate::check::objects::{CheckedObjects, Link};
use crate::check::permissions::ApiServerStatus;
use crate::check::{Fact, NotChecked};
use crate::model::Namespace;
use crate::settings::Settings;
use crate::table::Table;
use crate::table::publish::Reader;

/// The facts from the API server or the files.
pub(super) struct SourceFacts {
    pub(super) api: Fact<ApiServerStatus>,
    pub(super) table: Fact<Table>,
    pub(super) objects: CheckedObjects,
    pub(super) namespaces: Fact<Vec<(Namespace, bool)>>,
}

/// Returns the namespaces that the settings name.
pub(super) fn named_namespaces(settings: &Settings) -> BTreeSet<Namespace> {
    let short = &settings.short_names;
    let pinned = short.pinned.values();
    let named = settings.namespaces.iter().chain(&short.default_namespace);
    named.chain(pinned).cloned().collect()
}

/// Removes the services of Links in namespaces that are not watched.
pub(super) fn retain_watched(links: &mut [Link], settings: &Settings) {
    let is_watched = |name: &str| settings.namespaces.iter().any(|one| one.as_str() == name);
    for link in links.iter_mut().filter(|_| !settings.namespaces.is_empty()) {
        let services = &mut link.status.mirror_services;
        services.retain(|one| is_watched(&one.remote_ref.namespace));
    }
}

/// Returns the table of a source.
pub(super) fn table_of(reader: &Reader) -> Fact<Table> {
    let none = || NotChecked::new("there is no table", "try again");
    reader.load().table.clone().ok_or_else(none)
}
