//! Threads whose end is noticed.

use std::io;
use std::panic::resume_unwind;
use std::thread;

use tokio::sync::oneshot;

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
    let thread = thread::Builder::new().name(name.to_owned()).spawn(work)?;
    Ok(async move {
        let _ = end.await; // an error means that the sender was dropped, so the thread has ended
        if let Err(panic) = thread.join() {
            resume_unwind(panic);
        }
    })
}
