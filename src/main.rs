//! Arguments → run → exit code.

use std::io::Write as _;
use std::process::ExitCode;

/// Returns the memory of a long list of objects to the system; `.cargo/config.toml` has its settings.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[tokio::main]
async fn main() -> ExitCode {
    // Wrong usage ends here, with exit code 2.
    let cli = global_dns::cli::read();
    match global_dns::app::run(cli).await {
        Ok(code) => code,
        Err(error) => {
            print_error(&error);
            ExitCode::FAILURE
        }
    }
}

/// Prints an error with its causes, if that can be printed.
fn print_error(error: &anyhow::Error) {
    let sentence = global_dns::log::sentence(error.as_ref());
    let _ = writeln!(std::io::stderr(), "error: {sentence}");
}
