//! What a process has said, as it comes in.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use serde_json::Value;

use crate::wait::wait_for;

/// A file that has no name: a process writes it, and everybody else reads it.
#[derive(Clone, Debug)]
pub struct Log(Arc<File>);

impl Log {
    /// Returns an empty one, and where a process writes to.
    pub(crate) fn open() -> io::Result<(Self, OwnedFd)> {
        let file = tempfile::tempfile()?;
        let writer = file.try_clone()?.into();
        Ok((Self(Arc::new(file)), writer))
    }

    /// Everything so far.
    pub fn text(&self) -> String {
        let length = self.0.metadata().unwrap().len();
        let mut octets = vec![0; usize::try_from(length).unwrap()];
        // By their place: the position in the file is the writer's.
        self.0.read_exact_at(&mut octets, 0).unwrap();
        String::from_utf8_lossy(&octets).into_owned()
    }

    /// Every line that is complete.
    pub fn lines(&self) -> Vec<String> {
        let text = self.text();
        let complete = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
        complete.lines().map(str::to_owned).collect()
    }

    /// Every line that is complete, read; one that is no JSON is a text.
    pub fn events(&self) -> Vec<Value> {
        let lines = self.lines().into_iter();
        let event = |line: String| serde_json::from_str(&line).unwrap_or(Value::String(line));
        lines.map(event).collect()
    }

    /// The last lines, for a failure.
    pub fn end(&self) -> String {
        let text = self.text();
        let lines: Vec<&str> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(12)..];
        format!("    {}", last.join("\n    "))
    }

    /// The number of lines so far: where to go on.
    pub fn mark(&self) -> usize {
        self.lines().len()
    }

    /// Waits for an event after `mark` with this message; returns its fields.
    pub fn wait(&self, mark: usize, message: &str) -> Value {
        wait_for(&format!("log line '{message}'"), || {
            let mut events = self.events().into_iter().skip(mark);
            let found = events.find(|event| event["fields"]["message"] == message);
            found.map(|mut event| event["fields"].take())
        })
    }

    /// The fields of the first event whose fields fit.
    pub fn find(&self, fits: impl Fn(&Value) -> bool) -> Option<Value> {
        let mut events = self.events().into_iter();
        let found = events.find(|event| fits(&event["fields"]));
        found.map(|mut event| event["fields"].take())
    }

    /// How many events have this message.
    pub fn count(&self, message: &str) -> usize {
        self.count_events(|event| event["fields"]["message"] == message)
    }

    /// How many events of a level there are: `WARN`, `ERROR`.
    pub fn count_level(&self, level: &str) -> usize {
        self.count_events(|event| event["level"] == level)
    }

    fn count_events(&self, fits: impl Fn(&Value) -> bool) -> usize {
        self.events().iter().filter(|event| fits(event)).count()
    }
}
