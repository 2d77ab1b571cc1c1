//! Reads what a server says, for `check` and `fleet`.

use crate::check::facts::{ServerFacts, ServerTable};
use crate::check::finding::text;
use crate::http::Api;
use crate::model::Namespace;
use crate::view::{Filter, ViewKind};

/// Reads what a server says, with the problems of the selected namespaces.
pub(super) async fn read(server: &Api, namespaces: &[Namespace]) -> anyhow::Result<ServerFacts> {
    let status = server.status().await?;
    let mut table = table(server).await?;
    let is_selected = |name: &str| {
        let mut selected = namespaces.iter().map(Namespace::as_str);
        namespaces.is_empty() || selected.any(|one| one == name)
    };
    table
        .services
        .retain(|one| is_selected(text(one, "namespace")));
    // The problems of the server matter to every namespace.
    table.problems.retain(|one| {
        text(one, "service")
            .split_once('/')
            .is_none_or(|(namespace, _)| is_selected(namespace))
    });
    Ok(ServerFacts { status, table })
}

/// Reads the table of a server.
pub(super) async fn table(server: &Api) -> anyhow::Result<ServerTable> {
    let all = Filter::default();
    let (services, endpoints, problems) = tokio::try_join!(
        server.items(ViewKind::Table, &all),
        server.items(ViewKind::Endpoints, &all),
        server.items(ViewKind::Problems, &all)
    )?;
    Ok(ServerTable {
        services,
        endpoints,
        problems,
    })
}
