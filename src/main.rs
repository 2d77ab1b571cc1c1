//! Entry point: reads the arguments, runs the command, returns the exit code.

use std::io::Write as _;
use std::process::ExitCode;

/// The memory allocator. It returns the memory of a long list of objects to the system. `.cargo/config.toml` has its
/// settings.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // Invalid usage exits here, with exit code 2.
    let cli = global_dns::cli::read();
    match global_dns::app::run(cli) {
        Ok(code) => code,
        Err(error) => {
            print_error(&error);
            ExitCode::FAILURE
        }
    }
}

/// Prints an error with its causes. Ignores a standard error stream that cannot be written.
fn print_error(error: &anyhow::Error) {
    let sentence = global_dns::log::error_chain(error.as_ref());
    let _ = writeln!(std::io::stderr(), "error: {sentence}");
}
