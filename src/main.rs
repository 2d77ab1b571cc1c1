//! Arguments → run → exit code.

use std::process::ExitCode;

use clap::Parser as _;
use global_dns::cli::Cli;

#[tokio::main]
async fn main() -> ExitCode {
    // Wrong usage ends here, with exit code 2.
    let cli = Cli::parse();
    match global_dns::app::run(cli).await {
        Ok(code) => code,
        Err(error) => {
            // The one place where an error is printed, with its causes on one line.
            eprintln_error(&error);
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "this is where errors end")]
fn eprintln_error(error: &anyhow::Error) {
    eprintln!("error: {error:#}");
}
