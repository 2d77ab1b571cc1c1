//! What holds of any file in the place of a manifest.

use std::path::Path;

use global_dns::mirror::{Object, Watch};
use global_dns::source::file::{Lists, parse_texts};
use global_dns::table::{Inputs, Table, build};

use super::choices::Choices;
use super::memory::holds_at_most;
use super::messages::rules;

/// What became of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Objects that were found.
    pub objects: usize,
    /// Those of them that were left out.
    pub skipped: usize,
    /// Endpoints in the table.
    pub endpoints: usize,
    /// What is wrong with the file.
    pub error: String,
}

/// Reads octets as a file.
pub fn check_raw(octets: &[u8]) -> Outcome {
    match str::from_utf8(octets) {
        Ok(text) => check_text(text),
        Err(_) => Outcome::default(), // the file cannot be read
    }
}

/// Reads a file that is put together out of pieces.
pub fn check(choices: &[u8]) -> Outcome {
    check_text(&manifest(choices))
}

fn check_text(text: &str) -> Outcome {
    // What aliases may add, and a tree of maps around single letters.
    let most = (96 << 20) + 2048 * text.len() as u64;
    let path = Path::new("folder/a.yaml");
    let texts = [(path, text.to_owned())];
    match holds_at_most(most, "reading a file", || parse_texts(&texts)) {
        Ok(lists) => built(lists),
        Err(error) => {
            let error = error.to_string();
            assert!(error.contains("folder/a.yaml"), "names the file: {error}");
            Outcome {
                error,
                ..Outcome::default()
            }
        }
    }
}

fn built(lists: Lists) -> Outcome {
    let mut outcome = Outcome::default();
    let mut inputs = Inputs::default();
    assert!(lists.keys().copied().eq(Watch::ALL), "a list of each watch");
    for (watch, objects) in lists {
        outcome.objects += objects.len();
        let is_skipped = |object: &&Object| matches!(object, Object::Skipped(_));
        outcome.skipped += objects.values().filter(is_skipped).count();
        inputs.reset(watch, None, objects);
    }
    let table = build(&Table::default(), &inputs, &inputs.services(), &rules()).table;
    assert!(table.skipped().count() >= outcome.skipped);
    outcome.endpoints = table
        .services()
        .map(|service| service.endpoints.len())
        .sum();
    outcome
}

/// Puts a manifest together: objects, parts of objects, and what a hostile file would have between them.
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
    const LONGEST: usize = 8 * 1024;
    let choices = &mut Choices::new(octets);
    let mut text = String::new();
    while !choices.is_used_up() && text.len() < LONGEST {
        match choices.octet() {
            // Again and again.
            200 => {
                let piece = choices.pick(PIECES);
                text += &piece.repeat(usize::from(choices.octet()));
            }
            // As it is.
            201..=219 => {
                let length = usize::from(choices.octet() % 16);
                text += &String::from_utf8_lossy(choices.take(length));
            }
            // Cut somewhere.
            220..=229 => {
                let length = usize::from(choices.number()) % (text.len() + 1);
                if text.is_char_boundary(length) {
                    text.truncate(length);
                }
            }
            // Nested lists of aliases.
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
