//! Commands of the manual, run as they are written: by a shell of a pod, with kubectl, `dig` and `global-dns`, at a real API server
//! and through a real CoreDNS. The outputs are those of the manual.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use anyhow::{Context, Result};
use support::commands::{binary, tool};
use support::manual::{Example, Section};
use support::process::run_checked;
use support::server::Server;
use support::wait::eventually;

use support::node::Node;

/// A shell that runs the commands of the manual.
pub struct Shell<'n> {
    node: &'n Node,
    environment: Vec<(&'static str, String)>,
}

// === impl Shell ===

impl<'n> Shell<'n> {
    /// Returns a shell with kubectl for the cluster of a kubeconfig, `dig` for the CoreDNS of the node, and `global-dns`, which asks
    /// this server: without pods, the command could not find it.
    pub fn new(node: &'n Node, kubeconfig: &str, server: &Server) -> Result<Self> {
        let programs = node.directory().join("programs");
        if !programs.exists() {
            fs::create_dir(&programs)?;
            for (name, path) in [
                ("global-dns", binary()),
                ("kubectl", tool("kubectl")?),
                ("dig", tool("dig")?),
            ] {
                symlink(path, programs.join(name))?;
            }
        }
        let home: PathBuf = node.directory().join("home");
        fs::create_dir_all(&home)?;
        let path = std::env::var("PATH").unwrap_or_default();
        Ok(Self {
            node,
            environment: vec![
                ("PATH", format!("{}:{path}", programs.display())),
                ("HOME", home.display().to_string()),
                ("KUBECONFIG", kubeconfig.to_owned()),
                ("GLOBAL_DNS_SERVER", format!("http://{}", server.api)),
            ],
        })
    }

    /// Runs a line to its end, and returns what it prints.
    pub fn output(&self, line: &str) -> Result<String> {
        let mut shell = self.node.shell()?;
        shell.envs(self.environment.iter().map(|(name, value)| (*name, value)));
        run_checked(shell.args(["-c", line])).with_context(|| line.to_owned())
    }

    /// Runs an example. A command that changes something runs once; others are repeated until their output is that of the manual.
    pub fn run(&self, example: &Example) -> Result<()> {
        if example.command.starts_with("kubectl ") {
            return self.output(&example.command).map(drop);
        }
        eventually(&example.command, || {
            example.check(&self.output(&example.command)?)
        })
    }

    /// Runs all commands of a section.
    pub fn run_all(&self, section: &Section) -> Result<()> {
        let examples = section.examples()?;
        examples.iter().try_for_each(|example| self.run(example))
    }
}
