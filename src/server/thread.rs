//! Threads whose end is noticed. Some have a runtime of their own, for work that must not delay other work, or must not be delayed by
//! it.

use std::io;
use std::panic::resume_unwind;
use std::thread;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// Starts a thread. Returns a future that completes when the thread ends, and panics if the thread panicked.
///
/// # Errors
///
/// If the system has no thread.
pub fn start(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<impl Future<Output = ()> + Send> {
    let (running, end) = oneshot::channel::<()>();
    let work = move || {
        let _running = running;
        work();
    };
    let thread = thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(|error| {
            io::Error::new(error.kind(), format!("cannot start thread {name}: {error}"))
        })?;
    Ok(async move {
        let _ = end.await; // an error means that the sender was dropped, so the thread has ended
        if let Err(panic) = thread.join() {
            resume_unwind(panic);
        }
    })
}

/// Returns the runtime of a thread that is not running yet.
///
/// # Errors
///
/// If the system refuses it.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| io::Error::new(error.kind(), format!("cannot start a runtime: {error}")))
}

/// Starts a thread with its runtime, which runs the future that `work` returns. `tasks` gets a task that ends with the thread, also by
/// a panic.
///
/// # Errors
///
/// If the system has no thread.
pub fn run<F: Future<Output = ()>>(
    name: &'static str,
    runtime: Runtime,
    tasks: &mut JoinSet<()>,
    work: impl FnOnce() -> F + Send + 'static,
) -> io::Result<()> {
    tasks.spawn(start(name, move || runtime.block_on(work()))?);
    Ok(())
}
