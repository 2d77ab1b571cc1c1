//! Threads with a runtime of their own, for work that must not delay other work, or must not be delayed by it.

use std::io;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinSet;
use tracing::debug;

use crate::server::platform::lower_priority;
use crate::server::thread;

/// A thread that is not running yet, with its runtime.
pub(super) struct Thread {
    name: &'static str,
    runtime: Runtime,
}

/// The share of the CPU time that a thread gets if there is not enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Priority {
    Normal,
    Low,
}

// === impl Thread ===

impl Thread {
    /// Creates the runtime.
    pub(super) fn new(name: &'static str) -> anyhow::Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .with_context(|| format!("cannot start the runtime of thread {name}"));
        Ok(Self {
            name,
            runtime: runtime?,
        })
    }

    /// Returns the handle that starts tasks on this thread.
    pub(super) fn handle(&self) -> Handle {
        self.runtime.handle().clone()
    }

    /// Moves a listener of another runtime to this one.
    pub(super) fn adopt(&self, listener: TcpListener) -> io::Result<TcpListener> {
        let listener = listener.into_std()?;
        let _entered = self.runtime.enter();
        TcpListener::from_std(listener)
    }

    /// Starts the thread, which runs the future that `start` returns. `tasks` gets a task that ends with the thread, also
    /// by a panic.
    pub(super) fn run<F: Future<Output = ()>>(
        self,
        priority: Priority,
        tasks: &mut JoinSet<()>,
        start: impl FnOnce() -> F + Send + 'static,
    ) -> anyhow::Result<()> {
        let (name, runtime) = (self.name, self.runtime);
        let work = move || {
            if priority == Priority::Low
                && let Err(error) = lower_priority()
            {
                debug!(%error, thread = name, "Cannot lower the priority");
            }
            runtime.block_on(start());
        };
        let ended = thread::start(name, work);
        tasks.spawn(ended.with_context(|| format!("cannot start thread {name}"))?);
        Ok(())
    }
}
