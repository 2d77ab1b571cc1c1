//! Detects loops that make no progress: the UDP workers, the update loop of the table and its source, and the runtimes of connections.
//!
//! Each loop gives a sign in each round, and at least once a second while it waits. The signs are checked twice a
//! second. Time is counted in checks, not by a clock: if the whole process was stopped, or its machine was suspended, that
//! counts as one check, and no loop looks stuck afterwards.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep;

use crate::heartbeat::Heartbeat;

/// Interval between checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Number of checks without a sign of progress after which a loop counts as stuck: ten seconds. A new table for 100,000
/// objects takes less than two.
pub(crate) const MAX_MISSED: u32 = 20;

/// The loops that must make progress. Clones share them.
#[derive(Clone, Default)]
pub struct Liveness(Arc<Mutex<Vec<Loop>>>);

struct Loop {
    /// The loop, for people: `the update loop`.
    name: String,
    heartbeat: Heartbeat,
    /// Number of consecutive checks without progress.
    missed: u32,
}

// === impl Liveness ===

impl Liveness {
    /// Watches more loops, with these names.
    pub(crate) fn watch(&self, loops: impl IntoIterator<Item = (String, Heartbeat)>) {
        let new = |(name, heartbeat)| Loop {
            name,
            heartbeat,
            missed: 0,
        };
        self.0.lock().extend(loops.into_iter().map(new));
    }

    /// Checks every loop from time to time. Does not return.
    pub(crate) async fn follow(self) {
        loop {
            sleep(CHECK_INTERVAL).await;
            self.check();
        }
    }

    /// Checks every loop once.
    pub(crate) fn check(&self) {
        for one in &mut *self.0.lock() {
            one.missed = if one.heartbeat.take() || one.heartbeat.has_ended() {
                0
            } else {
                one.missed.saturating_add(1)
            };
        }
    }

    /// Returns a sentence if a loop is stuck.
    pub(crate) fn problem(&self) -> Option<String> {
        let loops = self.0.lock();
        let stuck = loops.iter().filter(|one| one.missed >= MAX_MISSED);
        let stuck: Vec<&str> = stuck.map(|one| one.name.as_str()).collect();
        let seconds = (CHECK_INTERVAL * MAX_MISSED).as_secs();
        (!stuck.is_empty()).then(|| format!("no progress for {seconds} s: {}", stuck.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Liveness {
        /// Returns the names of the loops.
        pub(crate) fn names(&self) -> Vec<String> {
            let loops = self.0.lock();
            loops.iter().map(|one| one.name.clone()).collect()
        }
    }

    /// Returns an observer of a loop, with the sign of the loop.
    fn watched() -> (Liveness, Heartbeat) {
        let (liveness, heartbeat) = (Liveness::default(), Heartbeat::default());
        liveness.watch([("the update loop".to_owned(), heartbeat.clone())]);
        (liveness, heartbeat)
    }

    #[test]
    fn loop_without_progress_is_named_until_it_continues_or_ends() {
        let (liveness, stuck) = watched();
        let busy = Heartbeat::default();
        liveness.watch([("UDP worker 1".to_owned(), busy.clone())]);
        for missed in 0..MAX_MISSED {
            assert_eq!(liveness.problem(), None, "{missed}");
            busy.beat();
            liveness.check();
        }
        let problem = "no progress for 10 s: the update loop";
        assert_eq!(liveness.problem().as_deref(), Some(problem));
        stuck.beat();
        liveness.check();
        assert_eq!(liveness.problem(), None);
        drop((busy, stuck));
        (0..MAX_MISSED).for_each(|_| liveness.check());
        assert_eq!(liveness.problem(), None);
    }

    /// After SIGCONT, or when a virtual machine resumes, one check is late by all that time.
    #[tokio::test(start_paused = true)]
    async fn time_for_which_the_process_was_stopped_is_not_missed() {
        let (liveness, _heartbeat) = watched();
        let following = tokio::spawn(liveness.clone().follow());
        tokio::task::yield_now().await;
        tokio::time::advance(Duration::from_secs(3600)).await;
        tokio::task::yield_now().await;
        assert_eq!(liveness.0.lock()[0].missed, 1);
        // The loop gets no time either: it is stuck after ten seconds of checks.
        sleep(CHECK_INTERVAL * MAX_MISSED).await;
        assert!(liveness.problem().is_some());
        following.abort();
    }
}
