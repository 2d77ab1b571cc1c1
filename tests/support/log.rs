//! The output of a running process.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use serde_json::Value;

use crate::wait::wait_for;

/// An unnamed temporary file. The process writes it; tests read it.
#[derive(Clone, Debug)]
pub struct Log(Arc<File>);

impl Log {
    /// Returns an empty log and the descriptor that the process writes to.
    pub(crate) fn open() -> io::Result<(Self, OwnedFd)> {
        let file = tempfile::tempfile()?;
        let writer = file.try_clone()?.into();
        Ok((Self(Arc::new(file)), writer))
    }

    /// Returns the whole log.
    pub fn text(&self) -> String {
        let length = self.0.metadata().unwrap().len();
        let mut octets = vec![0; usize::try_from(length).unwrap()];
        // Reads by offset: the writer uses the file position.
        self.0.read_exact_at(&mut octets, 0).unwrap();
        String::from_utf8_lossy(&octets).into_owned()
    }

    /// Returns all complete lines.
    pub fn lines(&self) -> Vec<String> {
        let text = self.text();
        let complete = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
        complete.lines().map(str::to_owned).collect()
    }

    /// Parses all complete lines. A line that is not JSON becomes a string.
    pub fn events(&self) -> Vec<Value> {
        let lines = self.lines().into_iter();
        let event = |line: String| serde_json::from_str(&line).unwrap_or(Value::String(line));
        lines.map(event).collect()
    }

    /// Returns the last lines, for an error message.
    pub fn tail(&self) -> String {
        let text = self.text();
        let lines: Vec<&str> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(12)..];
        format!("    {}", last.join("\n    "))
    }

    /// Returns the number of lines so far, for [`Self::wait`].
    pub fn mark(&self) -> usize {
        self.lines().len()
    }

    /// Waits for an event after `mark` with this message. Returns its fields.
    pub fn wait(&self, mark: usize, message: &str) -> Value {
        wait_for(&format!("log line '{message}'"), || {
            let mut events = self.events().into_iter().skip(mark);
            let found = events.find(|event| event["fields"]["message"] == message);
            found.map(|mut event| event["fields"].take())
        })
    }

    /// Returns the problems that were logged after `mark`: the subject, the kind and the detail.
    pub fn problems(&self, mark: usize) -> Vec<[String; 3]> {
        let events = self.events().into_iter().skip(mark);
        let problems = events.filter_map(|event| {
            let text = |field: &str| event["fields"][field].as_str().map(str::to_owned);
            Some([text("subject")?, text("problem")?, text("detail")?])
        });
        problems.collect()
    }

    /// Returns the fields of the first event with matching fields.
    pub fn find(&self, matches: impl Fn(&Value) -> bool) -> Option<Value> {
        let mut events = self.events().into_iter();
        let found = events.find(|event| matches(&event["fields"]));
        found.map(|mut event| event["fields"].take())
    }

    /// Returns the number of events with this message.
    pub fn count(&self, message: &str) -> usize {
        self.count_events(|event| event["fields"]["message"] == message)
    }

    /// Returns the number of events of a level: `WARN`, `ERROR`.
    pub fn count_level(&self, level: &str) -> usize {
        self.count_events(|event| event["level"] == level)
    }

    fn count_events(&self, matches: impl Fn(&Value) -> bool) -> usize {
        self.events().iter().filter(|event| matches(event)).count()
    }
}
