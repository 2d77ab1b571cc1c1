//! Threads with a runtime of their own, for work that must not delay other work, or must not be delayed by it.

use anyhow::Context as _;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinSet;

use crate::server::thread;

/// A thread that is not running yet, with its runtime.
pub(super) struct Thread {
    name: &'static str,
    runtime: Runtime,
}

// === impl Thread ===

impl Thread {
    /// Creates the runtime.
    pub(super) fn new(name: &'static str) -> anyhow::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.with_context(|| format!("cannot start the runtime of thread {name}"));
        Ok(Self {
            name,
            runtime: runtime?,
        })
    }

    /// Returns the handle that starts tasks on this thread.
    pub(super) fn handle(&self) -> Handle {
        self.runtime.handle().clone()
    }

    /// Starts the thread, which runs the future that `start` returns. `tasks` gets a task that ends with the thread, also
    /// by a panic.
    pub(super) fn run<F: Future<Output = ()>>(
        self,
        tasks: &mut JoinSet<()>,
        start: impl FnOnce() -> F + Send + 'static,
    ) -> anyhow::Result<()> {
        let (name, runtime) = (self.name, self.runtime);
        let ended = thread::start(name, move || runtime.block_on(start()));
        tasks.spawn(ended.with_context(|| format!("cannot start thread {name}"))?);
        Ok(())
    }
}
