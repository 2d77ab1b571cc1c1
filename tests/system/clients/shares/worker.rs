//! A program that reads numbers of requests from its input, one per line, and prints a line after each number.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, ChildStdout, Command};

use anyhow::{Result, ensure};
use support::process::Process;

use super::Running;
use super::bed::Bed;

pub(super) struct Worker {
    process: Process,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Worker {
    pub(super) fn start(name: &str, command: Command) -> Result<Self> {
        let mut process = Process::start_with_pipes(name, command)?;
        let (input, output) = process.pipes();
        Ok(Self {
            process,
            input,
            output: BufReader::new(output),
        })
    }
}

impl Running for Worker {
    fn send(&mut self, _: &Bed, requests: usize) -> Result<()> {
        writeln!(self.input, "{requests}")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        ensure!(line == "done\n", "{line:?}; {}", self.process.log_tail());
        Ok(())
    }
}
