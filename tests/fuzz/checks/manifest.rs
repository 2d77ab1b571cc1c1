//! Checks of any file as a manifest.

use std::path::Path;

use global_dns::model::{Kind, Object};
use global_dns::source::file::{Lists, parse_texts};
use global_dns::table::{Store, Table, Timers, build};

use super::choices::Choices;
use super::memory::holds_at_most;
use super::messages::rules;
use super::tables::services_of;

/// The result of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Number of objects in the file.
    pub objects: usize,
    /// Number of skipped objects.
    pub skipped: usize,
    /// Number of endpoints in the table.
    pub endpoints: usize,
    /// The error for the file, or an empty text.
    pub error: String,
}

/// Parses octets as a file.
pub fn check_raw(octets: &[u8]) -> Outcome {
    match str::from_utf8(octets) {
        Ok(text) => check_text(text),
        Err(_) => Outcome::default(), // the server rejects a file that is not UTF-8
    }
}

/// Builds a file from choices, and parses it.
pub fn check(choices: &[u8]) -> Outcome {
    check_text(&manifest(choices))
}

fn check_text(text: &str) -> Outcome {
    // YAML aliases add memory, and so does a tree of maps around single letters.
    let limit = (96 << 20) + 2048 * text.len() as u64;
    let path = Path::new("folder/a.yaml");
    let texts = [(path, text.to_owned())];
    match holds_at_most(limit, "reading a file", || parse_texts(&texts)) {
        Ok(lists) => build_table(lists),
        Err(error) => {
            let error = error.to_string();
            assert!(
                error.contains("folder/a.yaml"),
                "the error does not name the file: {error}"
            );
            Outcome {
                error,
                ..Outcome::default()
            }
        }
    }
}

fn build_table(lists: Lists) -> Outcome {
    let mut outcome = Outcome::default();
    let mut store = Store::default();
    assert!(lists.keys().copied().eq(Kind::ALL), "a kind has no list");
    for (kind, objects) in lists {
        outcome.objects += objects.len();
        let is_skipped = |object: &&Object| matches!(object, Object::Skipped(_));
        outcome.skipped += objects.values().filter(is_skipped).count();
        store.reset(kind, None, objects);
    }
    let timers = Timers::default();
    let table = build(
        &Table::default(),
        &store,
        &services_of(&store),
        &rules(),
        &timers,
    )
    .table;
    assert!(table.skipped().count() >= outcome.skipped);
    outcome.endpoints = table
        .services()
        .map(|service| service.endpoints.len())
        .sum();
    outcome
}

/// Composes a manifest from objects, parts of objects, and fragments of a malicious file.
fn manifest(octets: &[u8]) -> String {
    const PIECES: &[&str] = &[
        "\n---\n",
        "\n",
        MIRROR,
        ENDPOINT,
        LOCAL,
        SLICE,
        JSON,
        "apiVersion: v1\nkind: List\nitems:\n- ",
        "kind: ServiceList\nitems:\n- ",
        "{\"kind\":\"List\",\"items\":[",
        "]}",
        ",",
        "{\"kind\":\"List\",\"items\":null}",
        "kind: Service\n",
        "kind: EndpointSlice\n",
        "apiVersion: v2\n",
        "metadata: {name: db, namespace: prod}\n",
        "metadata:\n  name: db-1-east\n  namespace: prod\n",
        "  labels: {mirror.linkerd.io/mirrored-service: 'true', mirror.linkerd.io/cluster-name: east}\n",
        "  labels: {mirror.linkerd.io/mirrored-service: true}\n",
        "spec: {clusterIP: None}\n",
        "spec: {clusterIP: 10.96.0.9, clusterIPs: [10.96.0.9], ports: [{port: 1}]}\n",
        "spec: 5\n",
        "&a ",
        "*a ",
        "<<: *a\n",
        "a: &a [x, x, x, x, x, x, x, x, x, x]\n",
        "a: &a [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n",
        "!!binary ",
        "!include ",
        "? ",
        "- ",
        "  ",
        "|\n  ",
        "\"",
        "'",
        "[",
        "{",
        "}",
        "# comment\n",
        "%YAML 1.2\n",
        "...\n",
        "\t",
        "\u{feff}",
        "\u{85}",
        "0x7fffffffffffffffffff",
        ".nan",
        "1e999",
        "~",
        "null: null\n",
        "items: {a: b}\n",
        "kind: {}\n",
    ];
    const MAX_LENGTH: usize = 8 * 1024;
    let choices = &mut Choices::new(octets);
    let mut text = String::new();
    while !choices.is_exhausted() && text.len() < MAX_LENGTH {
        match choices.octet() {
            // Repeats a piece.
            200 => {
                let piece = choices.pick(PIECES);
                text += &piece.repeat(usize::from(choices.octet()));
            }
            // Copies octets.
            201..=219 => {
                let length = usize::from(choices.octet() % 16);
                text += &String::from_utf8_lossy(choices.take(length));
            }
            // Truncates the text.
            220..=229 => {
                let length = usize::from(choices.number()) % (text.len() + 1);
                if text.is_char_boundary(length) {
                    text.truncate(length);
                }
            }
            // Adds nested lists of aliases.
            230 => {
                let depth = choices.octet() % 16;
                text += "l0: &l0 x\n";
                for level in 1..=depth {
                    let aliases = vec![format!("*l{}", level - 1); 9].join(",");
                    text += &format!("l{level}: &l{level} [{aliases}]\n");
                }
            }
            piece => text += PIECES[usize::from(piece) % PIECES.len()],
        }
    }
    text
}

const MIRROR: &str = "apiVersion: v1
kind: Service
metadata:
  name: db-east
  namespace: prod
  labels: {mirror.linkerd.io/mirrored-service: 'true', mirror.linkerd.io/cluster-name: east}
  annotations: {mirror.linkerd.io/remote-svc-fq-name: db.prod.svc.cluster.local}
spec: {clusterIP: None}
";
const ENDPOINT: &str = "apiVersion: v1
kind: Service
metadata:
  name: db-0-east
  namespace: prod
  labels:
    mirror.linkerd.io/mirrored-service: 'true'
    mirror.linkerd.io/cluster-name: east
    mirror.linkerd.io/headless-mirror-svc-name: db-east
  annotations: {mirror.linkerd.io/remote-svc-fq-name: db-0.db.prod.svc.cluster.local}
spec: {clusterIP: 10.96.0.7, clusterIPs: [10.96.0.7], ports: [{name: sql, port: 26257}]}
";
const LOCAL: &str = "apiVersion: v1
kind: Service
metadata: {name: db, namespace: prod, labels: {mirror.linkerd.io/exported: 'true'}}
spec: {clusterIP: None}
";
const SLICE: &str = "apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: db-x
  namespace: prod
  labels: {kubernetes.io/service-name: db, service.kubernetes.io/headless: ''}
addressType: IPv4
ports: [{name: sql, port: 26257}]
endpoints: [{addresses: [10.0.0.1], hostname: db-0, conditions: {ready: true}}]
";
const JSON: &str = r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"kv","namespace":"prod"},
"spec":{"clusterIP":"None"}}"#;
