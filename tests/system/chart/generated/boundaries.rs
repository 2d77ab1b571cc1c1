//! Texts at the limits of each pattern of the schema.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::repository::repository;

use crate::chart::values::with;

/// A text in a field.
#[derive(Clone, Debug)]
pub struct Case {
    /// Path of the field: names of objects, `[]` for an item of a list, `{}` for a value of a map, `{name}` for a key of it.
    pub path: String,
    pub text: String,
    /// Whether the text is valid, if nothing else contradicts it.
    pub is_valid: bool,
}

/// Texts that are valid and texts that are not. `A` and `B` stand for the longest label and for one that is longer.
struct Texts {
    valid: &'static [&'static str],
    invalid: &'static [&'static str],
}

/// Returns the texts of a definition of the schema, or of the field at a path.
fn texts(of: &str) -> Option<Texts> {
    let (valid, invalid): (&[&str], &[&str]) = match of {
        "label" => (
            &["a", "0", "a-b", "A", "local"],
            &["", "-a", "a-", "Z", "a.b", "a_b", "a b", "*", "a\n", "B"],
        ),
        "optionalLabel" => (&["", "a", "0", "A"], &["-a", "a-", "Z", "a.b", "a_b", "B"]),
        "optionalName" => (
            &["", "a", "a.b-c.0", "A.A.A"],
            &["-a", "a..b", "Z", ".a", "a/b", "A.A.A.A"],
        ),
        "serviceKey" => (
            &["a/b", "0/1", "A/A"],
            &[
                "", "a", "/", "a/", "/b", "a/b/c", "a/b=c", "-/b", "Z/b", "B/b", "a/B",
            ],
        ),
        "alias" => (
            &["a.b", "0.1", "A.A"],
            &["", "a", ".", "a.", ".b", "a.b.c", "a.b=c", "Z.b", "B.b"],
        ),
        "zone" => (
            &[
                "a",
                "a.",
                "Zone.X",
                "a=mcs",
                "a.=mcs",
                "0.1",
                "A.a",
                "A.bcdefghijklmnopqrstuvwxyz",
            ],
            &[
                "", ".", "a..b", ".a", "_a", "a_b", "-a", "a-", "a=", "a=other", "a =mcs", "a,b",
                "B", "A.A",
            ],
        ),
        "reverseZone" => (
            &[
                "0.in-addr.arpa",
                "255.10.in-addr.arpa.",
                "4.3.2.1.in-addr.arpa",
                "f.D.ip6.arpa",
                "0.1.2.3.4.5.6.7.8.9.a.b.c.d.e.f.0.1.2.3.4.5.6.7.8.9.a.b.c.d.e.f.ip6.arpa",
            ],
            &[
                "",
                "in-addr.arpa",
                "256.in-addr.arpa",
                "01.in-addr.arpa",
                "5.4.3.2.1.in-addr.arpa",
                "a.in-addr.arpa",
                "10.ip6.arpa",
                "g.ip6.arpa",
                "10.in-addr",
                "10.in-addr.arpa=mcs",
                ".in-addr.arpa",
                "0.0.1.2.3.4.5.6.7.8.9.a.b.c.d.e.f.0.1.2.3.4.5.6.7.8.9.a.b.c.d.e.f.ip6.arpa",
            ],
        ),
        "listenAddress" => (
            &[
                ":1",
                ":65535",
                "localhost:59999",
                "0.0.0.0:10",
                "203.0.113.254:1",
                "[::1]:53",
                "[::]:65535",
                "[1:2:3:4:5:6:7:8]:9",
                "[1::8]:9",
            ],
            &[
                "",
                ":",
                ":0",
                ":053",
                ":65536",
                ":99999",
                "LOCALHOST:1",
                "1.2.3:4",
                "1.2.3.256:4",
                "01.2.3.4:5",
                "1.2.3.4",
                "::1:53",
                "[::1]",
                "[1::2::3]:4",
                "[::1%lo]:53",
                "example.com:53",
                "5353",
                "[:::]:1",
                "[1.2.3.4]:5",
                "1.2.3.4:+5",
                "[::ffff:10.0.0.1]:53",
                "[::FFFF:a00:1]:53",
                "[0:0::0:ffff:a00:1]:53",
            ],
        ),
        "ip" => (
            &[
                "0.0.0.0",
                "255.255.255.255",
                "1.20.199.249",
                "::",
                "::1",
                "1::",
                "1:2:3:4:5:6:7:8",
                "1:2:3:4:5:6:7::",
                "::2:3:4:5:6:7:8",
                "fe80::1",
                "::ffff:1.2.3.4",
                "::1.2.3.4",
                "ABCD:ef01::",
            ],
            &[
                "",
                "256.0.0.1",
                "1.2.3",
                "1.2.3.4.5",
                "01.2.3.4",
                "1.2.3.4/32",
                ":",
                ":::",
                "1::2::3",
                "1:2:3:4:5:6:7",
                "1:2:3:4:5:6:7:8:9",
                "12345::",
                "::g",
                "::1%lo",
                "[::1]",
                "localhost",
                "1:2:3:4:5:6:7:8::",
            ],
        ),
        "optionalIp" => (
            &["", "10.96.0.53", "fd00::53"],
            &["None", "10.96.0.256", "10.96.0", "fd00:53", "::1::"],
        ),
        "network" => (
            &[
                "0.0.0.0/0",
                "10.0.0.0/8",
                "10.0.0.0/9",
                "10.1.2.3/19",
                "10.0.0.0/29",
                "10.0.0.0/32",
                "10.0.0.1",
                "::/0",
                "::/9",
                "::/10",
                "::/99",
                "::/100",
                "::/119",
                "::/128",
                "fd00::1",
            ],
            &[
                "",
                "10.0.0.0/33",
                "10.0.0.0/99",
                "10.0.0.0/08",
                "10.0.0.0/",
                "10.0.0.0/-1",
                "10.0.0/8",
                "256.0.0.0/8",
                "::/129",
                "::/130",
                "::/200",
                "::/999",
                "all",
                "10.0.0.0/255.0.0.0",
            ],
        ),
        "host" => (
            &["a", "A.b_c-d.", "A.A.A", "1.2.3.4", "::1", "999.1.1.1"],
            &[
                "", ".", "a..b", "a:1", "*.a", "a b", "[::1]", "http://a", "B", "A.A.A.A", "1:2:3",
            ],
        ),
        "duration" => (
            &[
                "0s",
                "1ms",
                "1h",
                "1h1m1s1ms",
                "90m",
                "99999h",
                "9999999m",
                "999999999s",
                "999999999999ms",
                "99999h9999999m999999999s999999999999ms",
            ],
            &[
                "", "0", "5", "-5s", "1s1m", "1s1s", "1d", "1.5s", "s", "5 s", "100000h", "1ms1s",
                "1us",
            ],
        ),
        "positiveDuration" => (
            &["1ms", "1h0m", "90s", "99999h"],
            &["", "0s", "0ms", "00s", "0h1m", "-1s", "1s1m"],
        ),
        "size" => (
            &[
                "0",
                "1",
                "999999999999999",
                "999999Gi",
                "999999999Mi",
                "999999999999Ki",
            ],
            &[
                "",
                "Mi",
                "-1",
                "+1",
                "1.5Mi",
                "1MB",
                "1mi",
                "1 Mi",
                "9999999999Gi",
            ],
        ),
        "countOrPercent" => (
            &["0%", "25%", "100%"],
            &["", "%", "1", "-1%", "1.5%", "one"],
        ),
        "clusterName" => (
            &["a", "0", "A", "local"],
            &["-a", "a-", "Z", "a.b", "a_b", "B"],
        ),
        "failover.default" => (
            &[
                "",
                "a",
                "local",
                "*",
                "a:b",
                "a+b:*",
                "*:a",
                "a=0",
                "a=0+b=0",
                "a=1000+b=1:c",
                "A:b",
                "a=5:b+c:*",
            ],
            &[
                ":", "a:", ":a", "a::b", "a++b", "+a", "*+a", "a=1001", "a=01", "a=-1", "a=1+b",
                "a=", "=1", "Z", "a,b", "a b", "B", "a/b=c", "a;b", "**",
            ],
        ),
        "failover.services.{}" => (
            &["a", "local:*", "a=90+b=10", "A"],
            &[
                "", ":", "a::b", "a=1+b", "a=1001", "Z", "B", "a/b=c", "a;b", "x/y=z",
            ],
        ),
        "cookies.secretKey" => (
            &["a", "cookie-secrets", ".a", "_", "a..b"],
            &["", ".", "..", "../tls", "a/b", "a b"],
        ),
        "source.files.[]" => (&["/a", "a", "-a", "--", "/a b"], &["", "-", "/a,b", ","]),
        "journal.max" => (
            &[
                "0", "0Ki", "65536", "65540", "65600", "66000", "70000", "100000", "64Ki", "70Ki",
                "100Ki", "1Mi", "1Gi", "999999Gi",
            ],
            &[
                "",
                "1",
                "65535",
                "65529",
                "64999",
                "9999",
                "63Ki",
                "9Ki",
                "1MB",
                "-1Mi",
                "16 Mi",
                "9999999Gi",
            ],
        ),
        "history.memory" => (&["0", "1Gi"], &["", "1G"]),
        "log.level" => (
            &[
                "off",
                "error",
                "TRACE",
                "0",
                "5",
                "info,a=debug",
                "global_dns::source=warn",
                "[s]=info",
                "a[b]=1,off",
                "a-b=5",
                "::=info",
                "[]=info",
                ":=0",
            ],
            &[
                "",
                "warning",
                "6",
                "Info",
                "a b",
                "a=",
                "=info",
                "info,",
                ",info",
                "a=b",
                "a[b=info",
                "a[{x=1}]=info",
                "info;debug",
                "a[b]c=info",
            ],
        ),
        "image.digest" => (
            &[
                "",
                "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            ],
            &[
                "latest",
                "sha256:",
                "sha256:0123",
                "sha512:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                "sha256:0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef",
            ],
        ),
        "nameOverride" | "fullnameOverride" => {
            (&["", "a", "a-0", "A"], &["0", "-a", "a-", "Z", "a.b", "B"])
        }
        "podDisruptionBudget.maxUnavailable" => (
            &["1%", "99%", "100%"],
            &["", "0%", "101%", "1", "-1%", "one"],
        ),
        "podDisruptionBudget.minAvailable" => {
            (&["1%", "99%"], &["", "0%", "100%", "1", "-1%", "one"])
        }
        "extraEnv.[].name" => (&["A", "a.b", "_"], &[""]),
        "alerts.runbookURL" => (
            &["", "http://a", "https://a/b/"],
            &["a", "ftp://a", "https://", "docs/"],
        ),
        _ => return None,
    };
    Some(Texts { valid, invalid })
}

/// Returns the texts of all fields of the schema that have a pattern.
pub fn cases() -> Result<Vec<Case>> {
    let text = std::fs::read_to_string(repository("charts/global-dns/values.schema.json"))?;
    let schema: Value = serde_json::from_str(&text)?;
    let mut cases = Vec::new();
    collect(&schema, &schema, String::new(), &mut cases)?;
    ensure!(cases.len() > 500, "only {} texts", cases.len());
    Ok(cases)
}

/// Adds the cases of a part of the schema.
fn collect(root: &Value, part: &Value, path: String, cases: &mut Vec<Case>) -> Result<()> {
    if let Some(reference) = part["$ref"].as_str() {
        let name = reference.trim_start_matches("#/definitions/");
        let target = &root["definitions"][name];
        if target["pattern"].is_string() {
            return add(name, target, path, cases);
        }
        return collect(root, target, path, cases);
    }
    if part["pattern"].is_string() {
        return add(&path.clone(), part, path, cases);
    }
    for choice in part["anyOf"].as_array().into_iter().flatten() {
        collect(root, choice, path.clone(), cases)?;
    }
    let below = |name: &str| match path.as_str() {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    for (name, field) in part["properties"].as_object().into_iter().flatten() {
        collect(root, field, below(name), cases)?;
    }
    if part["items"].is_object() {
        collect(root, &part["items"], below("[]"), cases)?;
    }
    if part["propertyNames"].is_object() {
        collect(root, &part["propertyNames"], below("{name}"), cases)?;
    }
    if part["additionalProperties"].is_object() {
        collect(root, &part["additionalProperties"], below("{}"), cases)?;
    }
    Ok(())
}

/// Adds the cases of a text.
fn add(of: &str, part: &Value, path: String, cases: &mut Vec<Case>) -> Result<()> {
    let Texts { valid, invalid } =
        texts(of).with_context(|| format!("{path}: no texts for {of} in this file"))?;
    let longest = |text: &str| {
        text.replace('A', &"a".repeat(63))
            .replace('B', &"b".repeat(64))
    };
    // In other texts, these letters are letters.
    let has_labels = part["pattern"]
        .as_str()
        .is_some_and(|pattern| pattern.contains("{0,61}"))
        || of == "host";
    for (texts, is_valid) in [(valid, true), (invalid, false)] {
        for text in texts {
            // A name is required, and `maxStale` is compared with the shortest `watchTimeout`.
            let is_refused_elsewhere = match path.as_str() {
                "clusterName" => text.is_empty(),
                "maxStale" => ["", "0s", "1ms"].contains(text),
                _ => false,
            };
            if is_refused_elsewhere {
                continue;
            }
            cases.push(Case {
                path: path.clone(),
                text: if has_labels {
                    longest(text)
                } else {
                    (*text).to_owned()
                },
                is_valid,
            });
        }
    }
    Ok(())
}

// === impl Case ===

impl Case {
    /// Returns the text in otherwise valid values.
    pub fn values(&self) -> Value {
        // A field that has an effect only with others.
        let mut values = match self.path.split('.').next().unwrap_or_default() {
            "encrypted" if self.path == "encrypted.secretName" => {
                json!({"encrypted": {"clientCASecretName": ""}})
            }
            "encrypted" => json!({"encrypted": {"secretName": "tls", "tlsListen": [":5853"]}}),
            "cookies" => json!({"cookies": {"secretName": "cookies"}}),
            "reverseZones" => json!({"zones": ["global"]}),
            "maxStale" => json!({"watchTimeout": "1ms"}),
            "replicas" | "podDisruptionBudget" => json!({"replicas": 3}),
            _ => json!({}),
        };
        if self.path == "encrypted.tlsListen.[]" {
            values["encrypted"]["tlsListen"] = json!([]);
        }
        let mut values = with(values);
        set(&mut values, &self.path, &self.text);
        values
    }
}

/// Sets a field.
pub fn set(values: &mut Value, path: &str, text: &str) {
    let key = |path: &str| {
        if path.starts_with("aliases") {
            "x.y"
        } else if ["failover", "expectedClusters"]
            .iter()
            .any(|map| path.starts_with(map))
        {
            "prod/x"
        } else {
            "x"
        }
    };
    let (first, rest) = match path.split_once('.') {
        Some((first, rest)) => (first, Some(rest)),
        None => (path, None),
    };
    set_below(values, first, rest, path, &key, text);
}

fn set_below(
    values: &mut Value,
    first: &str,
    rest: Option<&str>,
    path: &str,
    key: &dyn Fn(&str) -> &'static str,
    text: &str,
) {
    let place = match first {
        "[]" => {
            if !values.is_array() {
                *values = json!([]);
            }
            let list = values.as_array_mut().unwrap();
            list.push(Value::Null);
            list.last_mut().unwrap()
        }
        "{name}" => {
            values[text] = match path {
                "failover.services.{name}" => json!("local:*"),
                "failover.modes.{name}" => json!("hold"),
                "aliases.{name}" => json!(["own.services"]),
                "expectedClusters.{name}" => json!(["east"]),
                _ => json!("west"),
            };
            return;
        }
        "{}" => &mut values[key(path)],
        name => &mut values[name],
    };
    match rest {
        None => *place = json!(text),
        Some(rest) => {
            let (first, further) = match rest.split_once('.') {
                Some((first, further)) => (first, Some(further)),
                None => (rest, None),
            };
            set_below(place, first, further, path, key, text);
        }
    }
}
