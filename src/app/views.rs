//! `table` and `explain`: they print documents of a server.

use std::process::ExitCode;

use super::command_log::log_to_stderr;
use super::remote::Remote;
use crate::cli::{ExplainArgs, Form, Output, TableArgs, print};
use crate::model::Namespace;
use crate::view::{Filter, View};

/// The number of endpoints of an explanation as text; with `-o wide` and `-o json`, there are all.
const FEW: usize = 20;

/// Prints the table of a server, or a zone.
pub(super) async fn print_table(args: TableArgs) -> anyhow::Result<ExitCode> {
    log_to_stderr(&args.view.log)?;
    let mut remote = Remote::find(&args.view).await?;
    if args.output == Output::Zone {
        let zone = match args.view.settings.zone.as_slice() {
            [zone] => Some(zone.name.to_string()),
            _ => None,
        };
        let filter = Filter {
            zone,
            at: args.at,
            ..Filter::default()
        };
        return show(&mut remote, View::Zone, &filter, args.form()).await;
    }
    let filter = Filter {
        namespace: args.view.source.namespace.clone(),
        cluster: args.cluster.clone(),
        state: args.state.clone(),
        text: args.filter.clone(),
        at: args.at,
        ..Filter::default()
    };
    show(&mut remote, View::Table, &filter, args.form()).await
}

/// Prints the explanation of a name or an address.
pub(super) async fn explain_name(args: ExplainArgs) -> anyhow::Result<ExitCode> {
    log_to_stderr(&args.view.log)?;
    let namespaces = &args.view.source.namespace;
    let mut remote = Remote::find(&args.view).await?;
    let filter = Filter {
        name: Some(question(&args.name, namespaces)),
        namespace: namespaces.clone(),
        at: args.at,
        limit: (args.output == Output::Text).then_some(FEW),
        ..Filter::default()
    };
    show(&mut remote, View::Explain, &filter, args.form()).await
}

/// Prints the document of a view below the line that says who answered, and returns its exit code.
async fn show(
    remote: &mut Remote,
    view: View,
    filter: &Filter,
    form: Form,
) -> anyhow::Result<ExitCode> {
    let document = remote.document(view, filter, form.output).await?;
    let heading = remote.heading(&document);
    let exit = document.exit;
    match form.output {
        Output::Json => {}
        Output::Zone => print(&format!("; {heading}\n"))?,
        Output::Text | Output::Wide => print(&format!("{heading}\n\n"))?,
    }
    form.print(document)?;
    Ok(ExitCode::from(exit))
}

/// Returns what to explain: a name, or as in kubectl, the name of a service and its namespace.
fn question(name: &str, namespaces: &[Namespace]) -> String {
    match namespaces {
        [namespace] if !name.contains(['.', '/', ':']) => format!("{namespace}/{name}"),
        _ => name.to_owned(),
    }
}
