//! Child processes: commands that run to their end, and processes that run until they are dropped.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::commands::{command, global_dns, tool};
pub use crate::log::Log;
use crate::wait::{TIMEOUT, pause};

/// A process that is killed when dropped. Its output is kept. If the test fails, the last lines are printed.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: Log,
    stop_signal: StopSignal,
}

/// Signal that ends a dropped process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopSignal {
    /// SIGKILL.
    Kill,
    /// SIGTERM, so that the process can end its children, and SIGKILL 10 s later.
    Terminate,
}

/// Exit code and output of an ended process.
#[derive(Debug)]
pub struct ProcessOutput {
    /// Exit code. `None` if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Time from its start to its end.
    pub took: Duration,
}

// === Programs that end ===

/// Runs a program to its end. Fails after twice the usual timeout: some commands have timeouts of 30 s themselves.
pub fn run(command: &mut Command) -> ProcessOutput {
    end(command, Some(Instant::now() + 2 * TIMEOUT)).unwrap_or_else(|error| panic!("{error:#}"))
}

/// Runs the binary under test to its end.
pub fn run_global_dns(arguments: &[&str]) -> ProcessOutput {
    run(&mut global_dns(arguments))
}

/// Runs another program to its end. If it is not installed, fails with an explanation.
pub fn run_tool(program: &str, arguments: &[&str]) -> ProcessOutput {
    let program = tool(program).unwrap_or_else(|error| panic!("{error:#}"));
    run(command(program).args(arguments))
}

/// Runs a program to its end without a timeout. Returns its standard output. If the exit code is not 0, the error
/// contains all output.
pub fn run_checked(command: &mut Command) -> Result<String> {
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

fn end(command: &mut Command, deadline: Option<Instant>) -> Result<ProcessOutput> {
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
    Ok(ProcessOutput {
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
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            bail!("{} did not end in time", name());
        }
        pause(started);
    }
}

// === impl Ended ===

impl ProcessOutput {
    /// Returns whether the exit code is 0.
    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }

    /// Returns standard output and standard error.
    pub fn output(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

// === impl Process ===

impl Process {
    /// Starts a process whose log contains all its output.
    pub fn start(name: impl Into<String>, mut command: Command) -> Result<Self> {
        let (log, output) = Log::open()?;
        command.stdout(output.try_clone()?).stderr(output);
        Self::spawn(name.into(), command, log)
    }

    /// Starts a process whose log contains its standard error. The command determines its standard output.
    pub fn start_with_stderr_log(name: impl Into<String>, mut command: Command) -> Result<Self> {
        let (log, output) = Log::open()?;
        command.stderr(output);
        Self::spawn(name.into(), command, log)
    }

    /// Starts a process with an empty log. The command determines all output.
    pub fn start_without_log(name: impl Into<String>, command: Command) -> Result<Self> {
        let (log, _) = Log::open()?;
        Self::spawn(name.into(), command, log)
    }

    /// Starts a process with pipes for its standard input and output, see [`Self::pipes`]. Its log contains its
    /// standard error.
    pub fn start_with_pipes(name: impl Into<String>, mut command: Command) -> Result<Self> {
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
            stop_signal: StopSignal::Kill,
        })
    }

    /// Makes the drop send SIGTERM, so that the process ends its own children.
    #[must_use]
    pub fn with_children(mut self) -> Self {
        self.stop_signal = StopSignal::Terminate;
        self
    }

    /// Returns both pipes of a process from [`Self::start_with_pipes`]. Can be called once.
    pub fn pipes(&mut self) -> (ChildStdin, ChildStdout) {
        let pipes = (self.child.stdin.take(), self.child.stdout.take());
        (pipes.0.unwrap(), pipes.1.unwrap())
    }

    /// Returns the process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Returns the last lines of the log, for an error message.
    pub fn log_tail(&self) -> String {
        format!("last log lines of {}:\n{}", self.name, self.log.tail())
    }

    /// If the process has ended, fails with the last lines of its log.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!(
                "{} ended unexpectedly with {status}; {}",
                self.name,
                self.log_tail()
            ),
        }
    }

    /// Returns whether the process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Repeats an attempt until it returns a value. Fails if the process ends or after [`TIMEOUT`].
    pub fn wait_for<T>(
        &mut self,
        what: &str,
        mut attempt: impl FnMut(&Log) -> Option<T>,
    ) -> Result<T> {
        let started = Instant::now();
        loop {
            if let Some(value) = attempt(&self.log) {
                return Ok(value);
            }
            self.check()
                .with_context(|| format!("waiting for {what}"))?;
            ensure!(
                started.elapsed() < TIMEOUT,
                "{}: no {what} within {TIMEOUT:?}; {}",
                self.name,
                self.log_tail()
            );
            pause(started);
        }
    }

    /// Sends a signal: `TERM`, `INT`, `STOP`. `Child` supports only SIGKILL.
    pub fn signal(&self, name: &str) -> Result<()> {
        let kill = format!("kill -{name} {}", self.id());
        let status = Command::new("sh").args(["-c", &kill]).status()?;
        ensure!(status.success(), "{kill}: {status}");
        Ok(())
    }

    /// Waits for the end of the process, for at most twice the usual timeout.
    pub fn end(&mut self) -> Result<ExitStatus> {
        let deadline = Instant::now() + 2 * TIMEOUT;
        wait_until(&mut self.child, deadline, || self.name.clone())
    }

    /// Kills the process with SIGKILL.
    pub fn kill(&mut self) {
        // Both calls fail only if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Returns a value of `/proc/PID/status` in KiB: `VmRSS`, `VmHWM`.
    pub fn memory(&self, line: &str) -> Result<u64> {
        let status = fs::read_to_string(self.proc("status"))?;
        let value = status.lines().find_map(|text| {
            let rest = text.strip_prefix(line)?.strip_prefix(':')?;
            rest.trim().strip_suffix(" kB")?.parse().ok()
        });
        value.with_context(|| format!("{} has no {line}; {}", self.name, self.log_tail()))
    }

    /// Returns the number of open file descriptors.
    pub fn descriptors(&self) -> usize {
        fs::read_dir(self.proc("fd")).unwrap().count()
    }

    /// Returns the path of a file in `/proc/PID`.
    pub fn proc(&self, file: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{file}", self.id()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}", self.log_tail());
        }
        let deadline = Instant::now() + Duration::from_secs(10);
        if self.stop_signal == StopSignal::Terminate && self.signal("TERM").is_ok() {
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
