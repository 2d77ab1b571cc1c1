//! Threads with a runtime of their own, for work that must not delay other work, or must not be delayed by it.

use anyhow::Context as _;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::server::thread;

/// Returns the runtime of a thread that is not running yet.
pub(super) fn runtime() -> anyhow::Result<Runtime> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the runtime of a thread")
}

/// Starts a thread with its runtime, which runs the future that `start` returns. `tasks` gets a task that ends with the thread,
/// also by a panic.
pub(super) fn run<F: Future<Output = ()>>(
    name: &'static str,
    runtime: Runtime,
    tasks: &mut JoinSet<()>,
    start: impl FnOnce() -> F + Send + 'static,
) -> anyhow::Result<()> {
    let ended = thread::start(name, move || runtime.block_on(start()));
    tasks.spawn(ended.with_context(|| format!("cannot start thread {name}"))?);
    Ok(())
}
