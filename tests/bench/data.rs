//! Served data, as Kubernetes objects, and questions.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use support::objects::mirror;

/// Services of one size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Services {
    /// Prefix of their names; a number follows.
    pub(crate) prefix: &'static str,
    /// Number of services.
    pub(crate) count: usize,
    /// Number of clusters that each service has, from [`CLUSTERS`].
    pub(crate) clusters: usize,
    /// Number of endpoints of each service in each cluster.
    pub(crate) endpoints: usize,
    /// Names and numbers of ports.
    pub(crate) ports: &'static [(&'static str, u16)],
}

/// Names of target clusters.
const CLUSTERS: [&str; 3] = ["east", "west", "north"];
/// Number of namespaces that share the services.
pub(crate) const NAMESPACES: usize = 50;
/// First used address of the service range, because an API server reserves the first ones.
const FIRST: usize = 256;
/// Services with three endpoints in each of three clusters: nine in total.
pub(crate) const SMALL: Services = Services {
    prefix: "db",
    count: 1_000,
    clusters: 3,
    endpoints: 3,
    ports: &[("sql", 26_257)],
};
/// Services with thirty endpoints in each of three clusters: ninety in total.
const LARGE: Services = Services {
    prefix: "big",
    count: 100,
    endpoints: 30,
    ..SMALL
};

// === impl Services ===

impl Services {
    /// Returns the name of a service.
    pub(crate) fn name(&self, index: usize) -> String {
        format!("{}{index}", self.prefix)
    }

    /// Returns names, protocols and numbers of ports.
    pub(crate) fn all_ports(&self) -> Vec<(&'static str, &'static str, u16)> {
        let ports = self.ports.iter();
        ports
            .map(|(name, number)| (*name, "TCP", *number))
            .collect()
    }
}

/// Questions of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    /// Name in the tables.
    pub(crate) name: &'static str,
    /// The questions.
    pub(crate) questions: Vec<Question>,
    /// File with the questions for dnsperf.
    pub(crate) file: PathBuf,
}

/// A name with a final dot, and a type, in dnsperf's format.
pub(crate) type Question = String;

/// Returns the services of most sections: small ones with nine endpoints, large ones with ninety.
pub(crate) fn small_and_large_services() -> [Services; 2] {
    [SMALL, LARGE]
}

/// Returns the kinds of question of these sections: `A9`, `A90`, `SRV9`, `NXDOMAIN`, `NODATA`, `mixed`.
///
/// # Errors
///
/// If a file cannot be written to `folder`.
pub(crate) fn kinds(folder: &Path) -> Result<Vec<Kind>> {
    let ask = |services: Services, prefix: &str, rtype: &str| -> Vec<Question> {
        let all = 0..services.count;
        all.map(|index| question(&services, index, prefix, rtype, "global."))
            .collect()
    };
    let plain = [
        ("A9", ask(SMALL, "", "A")),
        ("A90", ask(LARGE, "", "A")),
        ("SRV9", ask(SMALL, "_sql._tcp.", "SRV")),
        ("NXDOMAIN", ask(SMALL, "no-", "A")),
        ("NODATA", ask(SMALL, "", "AAAA")),
    ];
    // Of ten questions: five A9, two SRV9, one of each other kind.
    let mixed = (0..SMALL.count).map(|index| {
        let kind = [0, 2, 0, 3, 0, 1, 0, 2, 0, 4][index % 10];
        let (_, questions) = &plain[kind];
        questions[index % questions.len()].clone()
    });
    let mixed = ("mixed", mixed.collect());
    let kinds = plain.iter().cloned().chain([mixed]);
    kinds
        .map(|(name, questions)| {
            let file = folder.join(format!("{name}.questions"));
            write_questions(&file, &questions)?;
            Ok(Kind {
                name,
                questions,
                file,
            })
        })
        .collect()
}

/// Returns the question for one service: `prefix` precedes its name, `zone` follows its namespace.
pub(crate) fn question(
    services: &Services,
    index: usize,
    prefix: &str,
    rtype: &str,
    zone: &str,
) -> Question {
    let (service, namespace) = (services.name(index), namespace(index));
    format!("{prefix}{service}.{namespace}.{zone} {rtype}")
}

/// Writes questions in dnsperf's format.
///
/// # Errors
///
/// If the file cannot be written.
pub(crate) fn write_questions(file: &Path, questions: &[Question]) -> Result<()> {
    let text: String = questions.iter().flat_map(|line| [line, "\n"]).collect();
    fs::write(file, text).with_context(|| format!("writing {}", file.display()))
}

/// Reads a file written by [`write_questions`].
///
/// # Errors
///
/// If the file cannot be read.
pub(crate) fn read_questions(file: &Path) -> Result<Vec<Question>> {
    let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Writes the objects of all these services, one per line, as the API server prints them: mirrors, endpoint mirrors and
/// their slices. Returns the number of endpoint mirrors.
///
/// # Errors
///
/// If the file cannot be written.
pub(crate) fn write_manifest(file: &Path, all: &[Services]) -> Result<usize> {
    let mut objects = Objects::default();
    write_file(file, |output| {
        for services in all {
            for index in 0..services.count {
                objects.write_service(services, index, output)?;
            }
        }
        Ok(())
    })?;
    Ok(objects.endpoints)
}

/// Writes objects in the same form.
///
/// # Errors
///
/// If the file cannot be written.
pub(crate) fn write_list(file: &Path, all: Vec<Value>) -> Result<()> {
    let mut objects = Objects::default();
    write_file(file, |output| {
        all.into_iter()
            .try_for_each(|object| objects.write(object, output))
    })
}

/// Writes a List whose items come from `write_items`.
fn write_file(
    file: &Path,
    write_items: impl FnOnce(&mut BufWriter<File>) -> Result<()>,
) -> Result<()> {
    let context = || format!("writing {}", file.display());
    let mut output = BufWriter::new(File::create(file).with_context(context)?);
    output.write_all(b"{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":[\n")?;
    write_items(&mut output)?;
    output.write_all(b"\n]}\n")?;
    output.flush().with_context(context)
}

/// Reads the objects of a file written by [`write_manifest`].
///
/// # Errors
///
/// If the file cannot be read.
pub(crate) fn read_objects(file: &Path) -> Result<Vec<Value>> {
    let mut list: Value = serde_json::from_str(&fs::read_to_string(file)?)?;
    let items = list["items"].as_array_mut().map(std::mem::take);
    items.with_context(|| format!("{} is not a List", file.display()))
}

/// Returns the namespace of a service.
pub(crate) fn namespace(index: usize) -> String {
    format!("ns{}", index % NAMESPACES)
}

/// Returns an address of the service range.
///
/// # Errors
///
/// If the number is too large.
pub(crate) fn address(number: usize) -> Result<String> {
    let [_, high, middle, low] = u32::try_from(FIRST + number)?.to_be_bytes();
    Ok(format!("10.{}.{middle}.{low}", 96 + high))
}

/// Counters of the written objects.
#[derive(Default)]
struct Objects {
    count: usize,
    endpoints: usize,
}

// === impl Objects ===

impl Objects {
    fn write_service(
        &mut self,
        services: &Services,
        index: usize,
        output: &mut impl Write,
    ) -> Result<()> {
        let (service, namespace) = (services.name(index), namespace(index));
        for cluster in &CLUSTERS[..services.clusters] {
            let mirror = mirror(&namespace, &service, cluster).ports(&services.all_ports());
            self.write(mirror.service(), output)?;
            for endpoint in 0..services.endpoints {
                self.endpoints += 1;
                let address = address(self.endpoints)?;
                let host = format!("{service}-{endpoint}");
                self.write(mirror.endpoint_mirror(&host, &[&address]), output)?;
                self.write(mirror.slice(&host, true), output)?;
            }
        }
        Ok(())
    }

    /// Writes an object with the metadata that the API server adds.
    fn write(&mut self, mut object: Value, output: &mut impl Write) -> Result<()> {
        let metadata = &mut object["metadata"];
        metadata["creationTimestamp"] = json!("2025-01-01T00:00:00Z");
        metadata["uid"] = json!(format!("c0ffee00-0000-4000-8000-{:012}", self.count));
        metadata["resourceVersion"] = json!((1_000 + self.count).to_string());
        if self.count > 0 {
            output.write_all(b",\n")?;
        }
        self.count += 1;
        Ok(serde_json::to_writer(output, &object)?)
    }
}
