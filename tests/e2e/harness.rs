//! Processes, ports, deadlines, and the lines that are printed.
//!
//! Every process is ended when its guard is dropped, and by the kernel if this process dies without dropping anything.

use std::env;
use std::fs::{self, File};
use std::io::{Write, stdout};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio, id};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};

/// A real part: runs until it is dropped. Its output goes to a file, whose end is shown when something fails.
pub struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

// === impl Process ===

impl Process {
    /// Starts `command`; `name` is for messages and for the file of its output in `directory`.
    pub fn start(name: &'static str, mut command: Command, directory: &Path) -> Result<Self> {
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
                "{} ended by itself with {status}; its last words: {}",
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
        signal(&self.child, "STOP")
    }

    /// Lets it go on.
    pub fn thaw(&self) -> Result<()> {
        signal(&self.child, "CONT")
    }

    pub fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        last_lines(&text.lines().map(str::to_owned).collect::<Vec<_>>(), 8)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A command whose process the kernel kills when the thread that started it ends, however that happens.
pub fn command(program: &Path) -> Command {
    let mut command = match find("setpriv", &path_directories()) {
        Some(setpriv) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL", "--"]).arg(program);
            command
        }
        None => Command::new(program),
    };
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("GLOBAL_DNS_") || text.to_ascii_lowercase().ends_with("_proxy") {
            command.env_remove(&name);
        }
    }
    command
}

/// Sends SIGTERM.
pub fn ask_to_end(child: &Child) -> Result<()> {
    signal(child, "TERM")
}

/// `Child` itself knows only SIGKILL.
fn signal(child: &Child, name: &str) -> Result<()> {
    let sent = Command::new("sh")
        .arg("-c")
        .arg(format!("kill -{name} {}", child.id()))
        .status()?;
    ensure!(
        sent.success(),
        "sending SIG{name} to process {}",
        child.id()
    );
    Ok(())
}

/// Finds a real part, or says how to get it. A missing part is a failure, never a reason to skip.
pub fn tool(name: &str) -> Result<PathBuf> {
    let named = ["KUBEBUILDER_ASSETS", "GLOBAL_DNS_TEST_TOOLS"]
        .into_iter()
        .filter_map(env::var_os)
        .map(PathBuf::from);
    let directories: Vec<PathBuf> = named.chain(path_directories()).collect();
    let found = find(name, &directories).ok_or_else(|| {
        anyhow!("{name} is neither in KUBEBUILDER_ASSETS nor in GLOBAL_DNS_TEST_TOOLS nor in PATH: run tests/run e2e, which installs it")
    })?;
    say(&format!("using {}", found.display()));
    Ok(found)
}

fn find(name: &str, directories: &[PathBuf]) -> Option<PathBuf> {
    directories
        .iter()
        .map(|directory| directory.join(name))
        .find(|path| path.is_file())
}

fn path_directories() -> Vec<PathBuf> {
    env::var_os("PATH")
        .map(|path| env::split_paths(&path).collect())
        .unwrap_or_default()
}

/// A port on loopback that nobody listens on, outside the range of the kernel's own choice: a client that retries
/// against a closed port of that range can end up connected to itself.
pub fn free_port() -> Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(id() % 8_000)?;
    for _ in 0..8_000 {
        let port = 20_000 + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 8_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port between 20000 and 28000");
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
    let _ = writeln!(stdout(), "e2e: {line}");
}
