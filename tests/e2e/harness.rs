//! Processes, ports, deadlines, and the lines that are printed.
//!
//! Every process is ended when its guard is dropped, and by the kernel if this process dies without dropping anything.

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, File};
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use crate::support::environment::clean;
use crate::support::signal::signal;
use crate::support::tools::find;

/// The layer of tests/run that this is compiled into.
const SUITE: &str = env!("CARGO_CRATE_NAME");

/// A real part: runs until it is dropped. Its output goes to a file, whose end is shown when something fails.
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

// === impl Process ===

impl Process {
    /// Starts `command`; `name` is for messages and for the file of its output in `directory`.
    pub fn start(name: impl Into<String>, mut command: Command, directory: &Path) -> Result<Self> {
        let name = name.into();
        let log = directory.join(format!("{name}.log"));
        let output = File::options().create(true).append(true).open(&log)?;
        command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        let child = command
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        Ok(Self { name, child, log })
    }

    /// Fails with the end of the output if the process has ended on its own.
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

    /// Ends the process at once, without a chance to say goodbye.
    pub fn kill(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Stops the process where it is: its connections stay, and nobody answers on them.
    pub fn freeze(&self) -> Result<()> {
        Ok(signal(&self.child, "STOP")?)
    }

    /// Lets it go on.
    pub fn thaw(&self) -> Result<()> {
        Ok(signal(&self.child, "CONT")?)
    }

    /// The end of its output.
    pub fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        format!(
            "the last words of {}:\n    {}",
            self.name,
            last_lines(&lines, 8)
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A command whose process the kernel kills when the thread that started it ends, however that happens.
pub fn command(program: &Path) -> Command {
    let mut command = match find("setpriv") {
        Some(setpriv) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL", "--"]).arg(program);
            command
        }
        None => Command::new(program),
    };
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy().to_ascii_lowercase();
        if text.ends_with("_proxy") {
            command.env_remove(&name);
        }
    }
    clean(command)
}

/// Finds a real part, or says how to get it. A missing part is a failure, never a reason to skip.
pub fn tool(name: &str) -> Result<PathBuf> {
    let found = find(name).ok_or_else(|| {
        anyhow!("{name} is neither in KUBEBUILDER_ASSETS nor in GLOBAL_DNS_TEST_TOOLS nor in PATH: run tests/run {SUITE}, which installs it")
    })?;
    static SAID: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.insert(found.clone()) {
        say(&format!("using {}", found.display()));
    }
    Ok(found)
}

/// Tries until `attempt` succeeds; after `within`, fails with its last reason.
pub fn eventually<T>(
    what: &str,
    within: Duration,
    mut attempt: impl FnMut() -> Result<T>,
) -> Result<T> {
    let started = Instant::now();
    loop {
        match attempt() {
            Ok(value) => return Ok(value),
            Err(error) if started.elapsed() > within => {
                return Err(error.context(format!("waited {within:?} for {what}")));
            }
            Err(_) => thread::sleep(Duration::from_millis(2)),
        }
    }
}

pub fn last_lines(lines: &[String], count: usize) -> String {
    lines[lines.len().saturating_sub(count)..].join("\n    ")
}

/// Prints a line, past the capture of the test runner: figures are wanted of passing tests too.
pub fn say(line: &str) {
    let _ = writeln!(stdout(), "{SUITE}: {line}");
}
