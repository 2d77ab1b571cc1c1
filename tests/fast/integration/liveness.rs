//! `/livez` and `/readyz` of servers of which a single thread is stopped by ptrace(2), as a thread that waits for a lock or
//! runs in circles. If the machine refuses ptrace, the tests fail.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use support::certificates::issue_valid;
use support::encrypted::serve;
use support::http::Page;
use support::objects::mirror;
use support::server::Server;
use support::wait::wait_for;

/// A stopped thread. It continues on drop. Only the thread that has stopped it can do that.
struct StoppedThread(Pid);

// === impl StoppedThread ===

impl StoppedThread {
    /// Stops the only thread of a server with this name.
    fn stop(server: &Server, name: &str) -> Self {
        // A thread names itself, so that it has its name a moment after it was started.
        let thread = wait_for(&format!("the thread {name}"), || {
            let tasks = fs::read_dir(server.process().proc("task")).unwrap();
            let named = tasks.filter_map(|task| {
                let task = task.unwrap().path();
                let has_name = fs::read_to_string(task.join("comm")).ok()?.trim() == name;
                has_name.then(|| task.file_name().unwrap().to_str().unwrap().parse().unwrap())
            });
            match named.collect::<Vec<i32>>()[..] {
                [thread] => Some(thread),
                _ => None,
            }
        });
        let thread = Pid::from_raw(thread);
        ptrace::seize(thread, ptrace::Options::empty()).unwrap();
        ptrace::interrupt(thread).unwrap();
        // Threads are children only with this flag.
        waitpid(thread, Some(WaitPidFlag::__WALL)).unwrap();
        Self(thread)
    }
}

impl Drop for StoppedThread {
    fn drop(&mut self) {
        // It fails if the server has ended.
        let _ = ptrace::detach(self.0, None);
    }
}

fn start() -> Server {
    let db = mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"]);
    Server::with_objects(db, &["limits.udpWorkers=1"])
}

fn wait_for_livez(server: &Server, expected: &str) {
    wait_for(expected, || {
        (server.admin("/livez").body == expected).then_some(())
    });
}

/// Stops a thread until `/livez` fails. Returns its sentence.
fn livez_without(server: &Server, name: &str) -> Page {
    wait_for_livez(server, "ok\n");
    let started = Instant::now();
    let stopped = StoppedThread::stop(server, name);
    let failed = wait_for("failing /livez", || {
        Some(server.admin("/livez")).filter(|page| page.status != 200)
    });
    let took = started.elapsed();
    // Less than ten seconds: on a busy machine, the thread may have been silent before.
    assert!(took > Duration::from_secs(5), "{took:?}");
    drop(stopped);
    wait_for_livez(server, "ok\n");
    failed
}

#[test]
fn livez_fails_while_the_thread_of_a_udp_worker_is_stopped() {
    let server = start();
    let failed = livez_without(&server, "udp");
    let problem = format!("no progress for 10 s: UDP worker 1 of {}\n", server.dns);
    assert_eq!((failed.status, failed.body), (503, problem));
    server.assert_answers();
}

#[test]
fn livez_fails_while_the_thread_of_the_update_loop_is_stopped() {
    let server = start();
    let failed = livez_without(&server, "table");
    let problem = "no progress for 10 s: the update loop\n".to_owned();
    assert_eq!((failed.status, failed.body), (503, problem));
    server.assert_answers();
}

#[test]
fn livez_fails_while_the_thread_of_the_source_is_stopped() {
    let server = start();
    let failed = livez_without(&server, "source");
    let problem = "no progress for 10 s: the source\n".to_owned();
    assert_eq!((failed.status, failed.body), (503, problem));
    server.assert_answers();
}

#[test]
fn livez_fails_while_the_thread_of_encrypted_connections_is_stopped() {
    let db = mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"]);
    let server = serve(db, &issue_valid(), &[]);
    let failed = livez_without(&server, "encrypted");
    let problem = "no progress for 10 s: the runtime of encrypted connections\n".to_owned();
    assert_eq!((failed.status, failed.body), (503, problem));
    server.assert_answers();
}

#[test]
fn probes_and_metrics_are_answered_while_the_thread_of_the_api_is_stopped() {
    let server = start();
    let stopped = StoppedThread::stop(&server, "api");
    for path in ["/livez", "/readyz"] {
        let page = server.admin(path);
        assert_eq!((page.status, page.body.as_str()), (200, "ok\n"), "{path}");
    }
    assert_eq!(server.metric("global_dns_table_ready"), 1.0);
    server.assert_answers();
    drop(stopped);
    assert_eq!(server.status()["state"], "ready");
}
