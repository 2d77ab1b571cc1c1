//! Queries under load: `dnsperf` sends them to CoreDNS on the simulated node.

use std::fs::{self, File};
use std::path::PathBuf;

use crate::process::Process;
use anyhow::{Context, Result, ensure};

use crate::node::{CLUSTER_DNS, Node};

/// A dnsperf process that sends queries to CoreDNS.
pub struct Load {
    /// `udp` or `tcp`.
    pub transport: &'static str,
    dnsperf: Process,
    report: PathBuf,
}

// === impl Load ===

impl Load {
    /// Starts queries for these names and types, each of which has an answer with records: so many in a second.
    pub fn start(
        node: &Node,
        transport: &'static str,
        rate: u32,
        questions: &[(&str, &str)],
    ) -> Result<Self> {
        let lines = questions
            .iter()
            .map(|(name, kind)| format!("{name} {kind}\n"));
        let questions = node.directory().join("questions");
        fs::write(&questions, lines.collect::<String>())?;
        let mut dnsperf = node.command("dnsperf")?;
        // dnsperf ends after an hour at the latest. The rate leaves CPU time for the other processes.
        let server =
            format!("-s {CLUSTER_DNS} -c 8 -T 1 -Q {rate} -l 3600 -t 30 -m {transport} -d");
        dnsperf.args(server.split(' ')).arg(&questions);
        let report = node.directory().join(format!("dnsperf-{transport}"));
        dnsperf.stdout(File::create(&report)?);
        Ok(Self {
            transport,
            dnsperf: Process::start_with_stderr_log("dnsperf", dnsperf)?,
            report,
        })
    }

    /// Ends dnsperf, and returns the number of answers. Fails unless every query was answered with NOERROR.
    pub fn finish(mut self) -> Result<u64> {
        self.dnsperf.signal("INT")?;
        self.dnsperf.end()?;
        let (report, errors) = (fs::read_to_string(&self.report)?, self.dnsperf.log().text());
        let line = |key: &str| {
            let value = report
                .lines()
                .find_map(|line| line.trim().strip_prefix(key));
            value
                .map(str::trim)
                .with_context(|| format!("dnsperf printed no {key} {report}{errors}"))
        };
        let lost = line("Queries lost:")?;
        let codes = line("Response codes:")?;
        let is_complete =
            lost.starts_with("0 ") && codes.starts_with("NOERROR ") && !codes.contains(',');
        ensure!(is_complete && errors.trim().is_empty(), "{report}{errors}");
        let answered = line("Queries completed:")?;
        let answered = answered.split(' ').next().unwrap_or_default();
        Ok(answered.parse()?)
    }
}
