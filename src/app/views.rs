//! `table` and `explain`: they print documents of a server.

use std::process::ExitCode;

use super::remote::Remote;
use crate::cli::{ExplainArgs, Output, TableArgs};
use crate::model::Namespace;
use crate::view::{Filter, View};

/// The number of endpoints of an explanation as text; with `-o wide` and `-o json`, there are all.
const FEW: usize = 20;

/// Prints the table of a server, or a zone.
pub(super) async fn print_table(args: TableArgs) -> anyhow::Result<ExitCode> {
    let mut remote = Remote::find(&args.view).await?;
    let form = args.print.form();
    if form.output == Output::Zone {
        let zone = match args.view.settings.zone.as_slice() {
            [zone] => Some(zone.name.to_string()),
            _ => None,
        };
        let filter = Filter {
            zone,
            at: args.at,
            ..Filter::default()
        };
        return remote.show(View::Zone, &filter, form).await;
    }
    let filter = Filter {
        namespace: args.view.source.namespace,
        cluster: args.cluster,
        state: args.state,
        text: args.filter,
        at: args.at,
        ..Filter::default()
    };
    remote.show(View::Table, &filter, form).await
}

/// Prints the explanation of a name or an address.
pub(super) async fn explain_name(args: ExplainArgs) -> anyhow::Result<ExitCode> {
    let mut remote = Remote::find(&args.view).await?;
    let form = args.print.form();
    let namespace = args.view.source.namespace;
    let filter = Filter {
        name: Some(question(&args.name, &namespace)),
        namespace,
        at: args.at,
        limit: (form.output == Output::Text).then_some(FEW),
        ..Filter::default()
    };
    remote.show(View::Explain, &filter, form).await
}

/// Returns what to explain: a name, or as in kubectl, the name of a service and its namespace.
fn question(name: &str, namespaces: &[Namespace]) -> String {
    match namespaces {
        [namespace] if !name.contains(['.', '/', ':']) => format!("{namespace}/{name}"),
        _ => name.to_owned(),
    }
}
