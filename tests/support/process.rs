//! Child processes: run to their end, or running until their guard is dropped.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::commands::{command, global_dns, tool};
pub use crate::log::Log;
use crate::wait::PATIENCE;

/// A program that runs until it is dropped. Everything that it says is kept; the end of that is shown when something fails.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: Log,
    farewell: Farewell,
}

/// How a process is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Farewell {
    /// At once.
    Kill,
    /// By SIGTERM first, so that it can end its children.
    Terminate,
}

/// What a program that has ended left behind.
#[derive(Debug)]
pub struct Ended {
    /// Exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it said beside.
    pub stderr: String,
    /// From its start to its end.
    pub took: Duration,
}

// === Programs that end ===

/// Runs a program to its end, which must come in time: twice as patiently as for anything else, because some commands have
/// 30 seconds themselves.
pub fn run(command: &mut Command) -> Ended {
    end(command, Some(Instant::now() + 2 * PATIENCE)).unwrap_or_else(|error| panic!("{error:#}"))
}

/// Runs the binary under test to its end.
pub fn run_global_dns(arguments: &[&str]) -> Ended {
    run(&mut global_dns(arguments))
}

/// Runs another program to its end. Fails with a sentence if it is not installed.
pub fn run_tool(program: &str, arguments: &[&str]) -> Ended {
    let program = tool(program).unwrap_or_else(|error| panic!("{error:#}"));
    run(command(program).args(arguments))
}

/// Runs a program to its end, however long it takes; returns what it printed, or fails with all that it said.
pub fn finish(command: &mut Command) -> Result<String> {
    let ended = end(command, None)?;
    ensure!(
        ended.is_success(),
        "{command:?}: exit code {:?}\n{}{}",
        ended.code,
        ended.stdout,
        ended.stderr
    );
    Ok(ended.stdout)
}

fn end(command: &mut Command, deadline: Option<Instant>) -> Result<Ended> {
    let started = Instant::now();
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .with_context(|| format!("starting {command:?}"))?;
    let stdout = read_all(child.stdout.take());
    let stderr = read_all(child.stderr.take());
    let status = match deadline {
        None => child.wait()?,
        Some(deadline) => wait_until(&mut child, deadline, || format!("{command:?}"))?,
    };
    let text = |thread: JoinHandle<_>| thread.join().unwrap();
    Ok(Ended {
        code: status.code(),
        stdout: text(stdout),
        stderr: text(stderr),
        took: started.elapsed(),
    })
}

fn read_all(from: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut octets = Vec::new();
        from.unwrap().read_to_end(&mut octets).unwrap();
        String::from_utf8_lossy(&octets).into_owned()
    })
}

fn wait_until(
    child: &mut Child,
    deadline: Instant,
    name: impl FnOnce() -> String,
) -> Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            bail!("{} did not end", name());
        }
        thread::sleep(Duration::from_millis(2));
    }
}

// === impl Ended ===

impl Ended {
    /// Whether it ended as it should.
    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }

    /// All that it said.
    pub fn said(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

// === impl Process ===

impl Process {
    /// Starts it, and keeps all that it says.
    pub fn start(name: impl Into<String>, mut command: Command) -> Result<Self> {
        let (log, output) = Log::open()?;
        command.stdout(output.try_clone()?).stderr(output);
        Self::spawn(name.into(), command, log)
    }

    /// Starts it, and keeps what it writes to stderr. Its stdout is what the command says.
    pub fn start_printing(name: impl Into<String>, mut command: Command) -> Result<Self> {
        let (log, output) = Log::open()?;
        command.stderr(output);
        Self::spawn(name.into(), command, log)
    }

    /// Starts it with the output that the command has. Its log stays empty.
    pub fn start_unheard(name: impl Into<String>, command: Command) -> Result<Self> {
        let (log, _) = Log::open()?;
        Self::spawn(name.into(), command, log)
    }

    /// Starts it with pipes to its stdin and from its stdout, for [`Self::pipes`]; keeps what it writes to stderr.
    pub fn converse(name: impl Into<String>, mut command: Command) -> Result<Self> {
        let (log, output) = Log::open()?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(output);
        Self::spawn_as_it_is(name.into(), command, log)
    }

    fn spawn(name: String, mut command: Command, log: Log) -> Result<Self> {
        command.stdin(Stdio::null());
        Self::spawn_as_it_is(name, command, log)
    }

    fn spawn_as_it_is(name: String, mut command: Command, log: Log) -> Result<Self> {
        let child = command.spawn();
        Ok(Self {
            child: child.with_context(|| format!("starting {name}: {command:?}"))?,
            name,
            log,
            farewell: Farewell::Kill,
        })
    }

    /// Has it end its own children when it is dropped.
    #[must_use]
    pub fn with_children(mut self) -> Self {
        self.farewell = Farewell::Terminate;
        self
    }

    /// Both pipes of a process that converses, once.
    pub fn pipes(&mut self) -> (ChildStdin, ChildStdout) {
        let pipes = (self.child.stdin.take(), self.child.stdout.take());
        (pipes.0.unwrap(), pipes.1.unwrap())
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has said so far.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The end of its log, for a failure.
    pub fn last_words(&self) -> String {
        format!("the end of the log of {}:\n{}", self.name, self.log.end())
    }

    /// Fails with the end of the log if the process has ended on its own.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!(
                "{} ended by itself with {status}; {}",
                self.name,
                self.last_words()
            ),
        }
    }

    /// Whether it has ended by now.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for something. Fails at once if the process ends, and with the end of its log if nothing comes for a long time.
    pub fn wait_for<T>(
        &mut self,
        what: &str,
        mut attempt: impl FnMut(&Log) -> Option<T>,
    ) -> Result<T> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(value) = attempt(&self.log) {
                return Ok(value);
            }
            self.check().with_context(|| format!("awaiting {what}"))?;
            ensure!(
                Instant::now() < deadline,
                "{}: no {what} within {PATIENCE:?}; {}",
                self.name,
                self.last_words()
            );
            // Short: some callers measure.
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Sends a signal: `TERM`, `INT`, `STOP`. `Child` itself knows only SIGKILL.
    pub fn signal(&self, name: &str) -> Result<()> {
        let kill = format!("kill -{name} {}", self.id());
        let status = Command::new("sh").args(["-c", &kill]).status()?;
        ensure!(status.success(), "{kill}: {status}");
        Ok(())
    }

    /// Waits for its end, twice as patiently as for anything else.
    pub fn end(&mut self) -> Result<ExitStatus> {
        let deadline = Instant::now() + 2 * PATIENCE;
        wait_until(&mut self.child, deadline, || self.name.clone())
    }

    /// Ends the process at once, without a chance to say goodbye.
    pub fn kill(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// A line of `/proc/PID/status` in KiB: `VmRSS`, `VmHWM`.
    pub fn memory(&self, line: &str) -> Result<u64> {
        let status = fs::read_to_string(self.proc("status"))?;
        let value = status.lines().find_map(|text| {
            let rest = text.strip_prefix(line)?.strip_prefix(':')?;
            rest.trim().strip_suffix(" kB")?.parse().ok()
        });
        value.with_context(|| format!("{} has no {line}; {}", self.name, self.last_words()))
    }

    /// How many descriptors it has open.
    pub fn descriptors(&self) -> usize {
        fs::read_dir(self.proc("fd")).unwrap().count()
    }

    /// A file of `/proc/PID`.
    pub fn proc(&self, file: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{file}", self.id()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}", self.last_words());
        }
        let deadline = Instant::now() + Duration::from_secs(10);
        if self.farewell == Farewell::Terminate && self.signal("TERM").is_ok() {
            while Instant::now() < deadline {
                if let Ok(Some(_)) = self.child.try_wait() {
                    return;
                }
                thread::sleep(Duration::from_millis(10));
            }
        }
        self.kill();
    }
}
