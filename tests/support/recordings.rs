//! What a real mirror controller wrote, event by event (`tests/fixtures/recordings`).

use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::repository::repository;

/// State at the start, then what happened.
#[derive(Clone, Debug)]
pub struct Recording {
    /// In the order in which the API server listed it: Services, Endpoints, EndpointSlices.
    pub state: Vec<Event>,
    /// What happened then.
    pub events: Vec<Event>,
}

/// One line of a recording.
#[derive(Clone, Debug)]
pub struct Event {
    /// What was done to the object.
    pub action: Action,
    /// The object, as it was then.
    pub object: Value,
}

/// What is done to objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Created.
    Added,
    /// Changed.
    Modified,
    /// Deleted.
    Deleted,
}

const FOLDER: &str = "tests/fixtures/recordings";

// === impl Recording ===

impl Recording {
    /// The names of all recordings, which begin with their numbers.
    pub fn names() -> Vec<String> {
        let files = fs::read_dir(repository(FOLDER)).unwrap();
        let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let names = files.filter_map(|file| Some(file.strip_suffix(".jsonl")?.to_owned()));
        let mut names: Vec<String> = names.collect();
        names.sort();
        assert_eq!(names.len(), 17, "recordings are missing");
        names
    }

    /// Reads everything, with the objects as recorded.
    pub fn read(name: &str) -> Result<Self> {
        let path = repository(FOLDER).join(format!("{name}.jsonl"));
        let text =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let mut recording = Self {
            state: Vec::new(),
            events: Vec::new(),
        };
        let mut synced = false;
        for line in text.lines() {
            let line: Value = serde_json::from_str(line)?;
            if line["synced"] == true {
                synced = true;
                continue;
            }
            let event = Event {
                action: Action::read(&line["type"])?,
                object: line["object"].clone(),
            };
            if synced {
                recording.events.push(event)
            } else {
                recording.state.push(event)
            }
        }
        Ok(recording)
    }

    /// Reads what the mirror controller itself wrote: its Services and Endpoints, ready to be written again. Slices
    /// are left to Kubernetes, and so are the objects of local services.
    pub fn read_writes(name: &str) -> Result<Self> {
        let recording = Self::read(name)?;
        let writes = |events: Vec<Event>| {
            events
                .into_iter()
                .filter(Event::is_a_mirror_write)
                .map(Event::clean)
                .collect()
        };
        Ok(Self {
            state: writes(recording.state),
            events: writes(recording.events),
        })
    }

    /// The writes that make the mirrors of one cluster out of nothing, in the order of the mirror controller: the
    /// headless mirror, then Service and Endpoints of each endpoint mirror, last the Endpoints of the headless mirror.
    pub fn link(&self, cluster: &str) -> Vec<Event> {
        let of_cluster = |event: &&Event| {
            event.object["metadata"]["labels"]["mirror.linkerd.io/cluster-name"] == cluster
        };
        let headless = |event: &&Event| event.parent().is_none();
        let mirrors: Vec<&Event> = self.state.iter().filter(of_cluster).collect();
        let (headless, endpoints): (Vec<&Event>, Vec<&Event>) =
            mirrors.into_iter().partition(headless);
        let mut ordered = Vec::new();
        ordered.extend(headless.iter().filter(|event| event.kind() == "Service"));
        for service in endpoints.iter().filter(|event| event.kind() == "Service") {
            ordered.push(service);
            ordered.extend(
                endpoints
                    .iter()
                    .filter(|e| e.kind() == "Endpoints" && e.name() == service.name()),
            );
        }
        ordered.extend(headless.iter().filter(|event| event.kind() == "Endpoints"));
        ordered.into_iter().map(|event| (*event).clone()).collect()
    }
}

// === impl Event ===

impl Event {
    /// The kind of the object.
    pub fn kind(&self) -> &str {
        self.object["kind"].as_str().unwrap_or_default()
    }

    /// The namespace of the object.
    pub fn namespace(&self) -> &str {
        self.object["metadata"]["namespace"]
            .as_str()
            .unwrap_or_default()
    }

    /// The name of the object.
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// `ADDED Service nginx-set-4-east`, as the scenarios name it.
    pub fn title(&self) -> String {
        format!("{} {} {}", self.action.word(), self.kind(), self.name())
    }

    /// The same object, deleted.
    pub fn undone(&self) -> Self {
        Self {
            action: Action::Deleted,
            object: self.object.clone(),
        }
    }

    /// Name of the headless mirror that an endpoint mirror belongs to.
    fn parent(&self) -> Option<&str> {
        self.object["metadata"]["labels"]["mirror.linkerd.io/headless-mirror-svc-name"].as_str()
    }

    fn is_a_mirror_write(&self) -> bool {
        let mirrored =
            self.object["metadata"]["labels"]["mirror.linkerd.io/mirrored-service"] == "true";
        mirrored && matches!(self.kind(), "Service" | "Endpoints")
    }

    /// Without what an API server adds on its own.
    fn clean(mut self) -> Self {
        if let Some(metadata) = self.object["metadata"].as_object_mut() {
            for field in [
                "resourceVersion",
                "uid",
                "ownerReferences",
                "creationTimestamp",
                "managedFields",
            ] {
                metadata.remove(field);
            }
        }
        if let Some(object) = self.object.as_object_mut() {
            object.remove("status");
        }
        self
    }
}

// === impl Action ===

impl Action {
    fn read(word: &Value) -> Result<Self> {
        match word.as_str() {
            Some("ADDED") => Ok(Self::Added),
            Some("MODIFIED") => Ok(Self::Modified),
            Some("DELETED") => Ok(Self::Deleted),
            _ => bail!("a recording says {word}, which is no watch event"),
        }
    }

    /// As the API server tells it: `ADDED`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}
