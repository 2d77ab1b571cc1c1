//! Recorded watch events of a real mirror controller (`tests/fixtures/recordings`).

use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::repository::repository;

/// The initial objects and the events after them.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The initial objects in the order of the API server's lists: Services, Endpoints, EndpointSlices.
    pub state: Vec<Event>,
    /// The events after the initial lists.
    pub events: Vec<Event>,
}

/// One line of a recording.
#[derive(Clone, Debug)]
pub struct Event {
    /// The type of the event.
    pub action: Action,
    /// The object at the time of the event.
    pub object: Value,
    /// The time of the event, in milliseconds since the start of the recording.
    pub time: u64,
}

/// The type of an event.
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
    /// Returns the names of all recordings. Each name starts with a number.
    pub fn names() -> Vec<String> {
        let files = fs::read_dir(repository(FOLDER)).unwrap();
        let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let names = files.filter_map(|file| Some(file.strip_suffix(".jsonl")?.to_owned()));
        let mut names: Vec<String> = names.collect();
        names.sort();
        assert_eq!(names.len(), 25, "number of recordings");
        names
    }

    /// Reads all events without changing the objects.
    pub fn read(name: &str) -> Result<Self> {
        let path = repository(FOLDER).join(format!("{name}.jsonl"));
        let text =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let mut recording = Self {
            state: Vec::new(),
            events: Vec::new(),
        };
        let mut is_synced = false;
        for line in text.lines() {
            let line: Value = serde_json::from_str(line)?;
            if line["synced"] == true {
                is_synced = true;
                continue;
            }
            let event = Event {
                action: Action::read(&line["type"])?,
                object: line["object"].clone(),
                time: (line["t"].as_f64().unwrap_or_default() * 1000.0) as u64,
            };
            if is_synced {
                recording.events.push(event)
            } else {
                recording.state.push(event)
            }
        }
        Ok(recording)
    }

    /// Reads only the Services and Endpoints of the mirror controller, in a form that can be written to an API server.
    /// Omits slices, which Kubernetes creates, and the objects of local services.
    pub fn read_mirror_writes(name: &str) -> Result<Self> {
        let recording = Self::read(name)?;
        let writes = |events: Vec<Event>| {
            events
                .into_iter()
                .filter(Event::is_mirror_write)
                .map(Event::without_server_fields)
                .collect()
        };
        Ok(Self {
            state: writes(recording.state),
            events: writes(recording.events),
        })
    }

    /// Reads the Services and slices of all members, also those of this cluster, in a form that can be written to an API
    /// server. The controllers of Kubernetes change none of these slices.
    pub fn read_member_writes(name: &str) -> Result<Self> {
        let recording = Self::read(name)?;
        let writes = |events: Vec<Event>| {
            events
                .into_iter()
                .filter(|event| matches!(event.kind(), "Service" | "EndpointSlice"))
                .map(|event| event.without_server_fields().without_controllers())
                .collect()
        };
        Ok(Self {
            state: writes(recording.state),
            events: writes(recording.events),
        })
    }

    /// Returns the writes that create the mirrors of one cluster, in the order of the mirror controller: the headless
    /// mirror, then Service and Endpoints of each endpoint mirror, last the Endpoints of the headless mirror.
    pub fn writes_of_link(&self, cluster: &str) -> Vec<Event> {
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
    /// Returns the kind of the object.
    pub fn kind(&self) -> &str {
        self.object["kind"].as_str().unwrap_or_default()
    }

    /// Returns the namespace of the object.
    pub fn namespace(&self) -> &str {
        self.object["metadata"]["namespace"]
            .as_str()
            .unwrap_or_default()
    }

    /// Returns the name of the object.
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Returns the title of the event in the table of expectations: `ADDED Service nginx-set-4-east`. A slice has the
    /// title of the Endpoints of its Service.
    pub fn title(&self) -> String {
        let service = &self.object["metadata"]["labels"]["kubernetes.io/service-name"];
        if let ("EndpointSlice", Some(service)) = (self.kind(), service.as_str()) {
            return format!("{} Endpoints {service}", self.action.word());
        }
        format!("{} {} {}", self.action.word(), self.kind(), self.name())
    }

    /// Returns the deletion of the same object.
    pub fn as_deletion(&self) -> Self {
        Self {
            action: Action::Deleted,
            object: self.object.clone(),
            time: self.time,
        }
    }

    /// Returns the name of the headless mirror of an endpoint mirror.
    fn parent(&self) -> Option<&str> {
        self.object["metadata"]["labels"]["mirror.linkerd.io/headless-mirror-svc-name"].as_str()
    }

    fn is_mirror_write(&self) -> bool {
        let mirrored =
            self.object["metadata"]["labels"]["mirror.linkerd.io/mirrored-service"] == "true";
        mirrored && matches!(self.kind(), "Service" | "Endpoints")
    }

    /// Removes what makes a controller write slices: the selector of a Service, and the name of the controller that
    /// derives slices from Endpoints.
    fn without_controllers(mut self) -> Self {
        if let Some(spec) = self.object["spec"].as_object_mut() {
            spec.remove("selector");
        }
        let manager = "/metadata/labels/endpointslice.kubernetes.io~1managed-by";
        if let Some(manager) = self.object.pointer_mut(manager)
            && *manager == "endpointslicemirroring-controller.k8s.io"
        {
            *manager = "recording".into();
        }
        self
    }

    /// Removes the fields that an API server sets.
    fn without_server_fields(mut self) -> Self {
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
            _ => bail!("unknown type of watch event in a recording: {word}"),
        }
    }

    /// Returns the type in the syntax of the API server: `ADDED`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}
