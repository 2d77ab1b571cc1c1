//! Wiring of the commands: it opens sources, binds listeners, starts tasks and shuts down.

mod check;
mod demo;
mod events;
mod fleet;
mod remote;
mod serve;
mod source;
mod views;

use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;
use serve::serve;
use tokio::runtime::Runtime;

use crate::cli::{Cli, Command, extension_metadata, is_closed, print};
use crate::log::{error_chain, start_logging};
use crate::view::ViewError;

/// Reads the arguments, runs the command on a runtime with a thread for each CPU, and returns the exit code: 1 if the command
/// fails. Invalid usage exits with code 2, also if only the server sees it.
///
/// It is not `async`: the compiler would translate all commands a second time, for the binary.
pub fn main() -> ExitCode {
    let cli = crate::cli::read();
    let runtime = Runtime::new().context("cannot start the runtime");
    runtime
        .and_then(|runtime| runtime.block_on(run(cli)))
        .unwrap_or_else(|error| {
            if is_closed(&error) {
                return ExitCode::SUCCESS;
            }
            // A standard error stream that cannot be written is ignored.
            _ = writeln!(io::stderr(), "error: {}", error_chain(error.as_ref()));
            ExitCode::from(match error.downcast_ref() {
                Some(ViewError::Invalid(_)) => 2,
                _ => 1,
            })
        })
}

/// The default log of a command that ends: errors, without the problems that its output has.
const COMMAND_LOG: &str = "error,global_dns::problem=off";

async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let level = cli
        .log
        .log_level
        .map_or_else(|| COMMAND_LOG.parse(), Ok)
        .map_err(anyhow::Error::msg)?;
    let format = cli.log.log_format.unwrap_or_default();
    // Dropped at the end, which writes the queued log lines. The settings of a server have its log.
    let _log = match cli.command {
        Command::Serve(_) | Command::Demo(_) => None,
        _ => Some(start_logging(&level, format).context("cannot start the log thread")?),
    };
    let text = match cli.command {
        Command::Serve(args) if args.print_settings => args.demo.settings.loaded.to_yaml()?,
        Command::Completions(args) => args.script(),
        Command::ExtensionMetadata => extension_metadata(),
        Command::Serve(args) => {
            return serve(&args.demo.settings.loaded, &args.source, |_| {}).await;
        }
        Command::Demo(args) => return demo::demo(*args).await,
        Command::Explain(args) => return views::explain_name(*args).await,
        Command::Table(args) => return views::print_table(*args).await,
        Command::Events(args) => return events::print_events(*args).await,
        Command::Check(args) => return check::check(*args).await,
        Command::Fleet(args) => return fleet::compare_fleet(*args).await,
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}
