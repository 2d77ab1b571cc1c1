//! `table` and `explain`: they print documents of a server.

use std::process::ExitCode;

use super::remote::{find, show};
use crate::cli::{ExplainArgs, Output, TableArgs, print};
use crate::view::{Filter, ViewKind, manual_section};

/// The number of endpoints of an explanation as text; with `-o wide` and `-o json`, there are all.
const FEW: usize = 20;

/// Prints the table of a server, or a zone.
pub(super) async fn print_table(args: TableArgs) -> anyhow::Result<ExitCode> {
    let server = find(&args.view).await.server()?;
    let all = Filter {
        at: args.at,
        ..Filter::default()
    };
    if args.print.output == Output::Zone {
        let zone = match args.view.settings.zone.as_deref() {
            Some([one]) => Some(one.name.to_string()),
            _ => None,
        };
        let filter = Filter { zone, ..all };
        return show(&server, ViewKind::Zone, &filter, &args.print).await;
    }
    let filter = Filter {
        namespace: args.view.source.namespace,
        cluster: args.cluster,
        state: args.state,
        text: args.filter,
        ..all
    };
    show(&server, ViewKind::Table, &filter, &args.print).await
}

/// Prints the explanation of a name. As in kubectl, the name of a service may be with `--namespace`.
pub(super) async fn explain_name(args: ExplainArgs) -> anyhow::Result<ExitCode> {
    if let Some(kind) = args.kind {
        print(manual_section(kind))?;
        return Ok(ExitCode::SUCCESS);
    }
    let server = find(&args.view).await.server()?;
    let filter = Filter {
        name: args.name,
        namespace: args.view.source.namespace,
        at: args.at,
        limit: (args.print.output == Output::Text).then_some(FEW),
        ..Filter::default()
    };
    show(&server, ViewKind::Explain, &filter, &args.print).await
}
