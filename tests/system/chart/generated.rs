//! Generated values: whatever Helm renders, the server starts with.
//!
//! One run of Helm renders many installations: the chart is a dependency of another chart, once for each of them.

mod boundaries;
mod fields;
mod installation;
mod starts;

use std::collections::BTreeSet;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::commands::{binary, guarded, tool};
use support::http::get;
use support::networks::in_new_network;
use support::output::print_line;
use support::process::{Log, Process};
use support::repository::repository;

use crate::chart::values::{matrix, minimum, with};
use boundaries::{Case, cases};
use fields::{Random, combination, wild_combination};
use installation::{Outcome, render_all};
use starts::{Starts, objects};
use support::helm::{chart, helm_without_values, template};

/// Valid combinations, and combinations of boundary values.
const COMBINATIONS: (usize, usize) = (120, 120);
/// Starts the sequence of random numbers.
const SEED: u64 = 0x6c07_8965_2545_f491;

#[test]
fn every_generated_combination_that_renders_starts() -> Result<()> {
    let mut random = Random::new(SEED);
    let valid: Vec<Value> = (0..COMBINATIONS.0)
        .map(|_| combination(&mut random))
        .collect();
    let boundaries = cases()?;
    let wild: Vec<Value> = (0..COMBINATIONS.1)
        .map(|_| wild_combination(&mut random, &boundaries))
        .collect();

    let mut starts = Starts::prepare()?;
    for (values, outcome) in valid.iter().zip(render_all(&valid)?) {
        let Outcome::Rendered(rendered) = outcome else {
            anyhow::bail!("Helm refuses valid values {values}: {outcome:?}");
        };
        starts.add(values, &rendered)?;
    }
    let mut refused = 0;
    for (values, outcome) in wild.iter().zip(render_all(&wild)?) {
        match outcome {
            Outcome::Rendered(rendered) => starts.add(values, &rendered)?,
            Outcome::Refused(_) => refused += 1,
        }
    }
    ensure!(refused > 0, "no combination of boundary values is refused");
    ensure!(
        refused < wild.len() / 2,
        "{refused} of {} combinations of boundary values are refused",
        wild.len()
    );
    let started = starts.run()?;
    print_line(&format!(
        "{} combinations, of which Helm refuses {refused}; {started} servers with different flags started",
        valid.len() + wild.len(),
    ));
    Ok(())
}

/// Each text of the schema with a pattern gets texts at its limits. Helm refuses each, or the server starts with it.
#[test]
fn every_boundary_value_that_renders_starts() -> Result<()> {
    let cases = cases()?;
    let values: Vec<Value> = cases.iter().map(Case::values).collect();
    let outcomes = render_all(&values)?;
    let mut starts = Starts::prepare()?;
    let mut wrong = Vec::new();
    for ((case, values), outcome) in cases.iter().zip(&values).zip(&outcomes) {
        match outcome {
            Outcome::Rendered(rendered) if case.is_valid => starts.add(values, rendered)?,
            Outcome::Refused(_) if !case.is_valid => {}
            _ => wrong.push(format!("{case:?}: {}", outcome.text())),
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    let paths: BTreeSet<_> = cases.iter().map(|case| &case.path).collect();
    let count = cases.iter().filter(|case| !case.is_valid).count();
    let started = starts.run()?;
    print_line(&format!(
        "{} texts in {} fields, of which Helm refuses {count}; {started} servers with different flags started",
        cases.len(),
        paths.len(),
    ));
    Ok(())
}

/// The values that once rendered, and of which the server died.
#[test]
fn values_that_the_server_refuses_are_refused_by_name() -> Result<()> {
    let long = "a".repeat(63);
    let too_long = format!("{long}.{long}");
    let cases = [
        (
            json!({"failover": {"default": "east::west"}}),
            "at '/failover/default': 'east::west'",
        ),
        (
            json!({"maxStale": "1s"}),
            "maxStale is 1s; with watchTimeout 30s it must be at least twice as long",
        ),
        (
            json!({"maxStale": "2m59s999ms", "watchTimeout": "1m30s"}),
            "maxStale is 2m59s999ms; with watchTimeout 1m30s",
        ),
        (
            json!({"allow": ["10.0.0.0/99"]}),
            "at '/allow/0': '10.0.0.0/99'",
        ),
        (
            json!({"failover": {"default": "east:west+east"}}),
            "failover.default is east:west+east, in which east occurs twice",
        ),
        (
            json!({"failover": {"services": {"prod/db": "*:*"}}}),
            "failover.services.prod/db is *:*, in which * occurs twice",
        ),
        (
            json!({"failover": {"services": {"prod": "local"}}}),
            "invalid propertyName 'prod'",
        ),
        (
            json!({"zones": ["global", "Global."]}),
            "zones and reverseZones have global twice",
        ),
        (
            json!({"zones": ["global", "ns.dns.global"]}),
            "the zone ns.dns.global holds the name of the server of zone global",
        ),
        (
            json!({"zones": [too_long]}),
            "has 127 octets; at most 126 are allowed",
        ),
        (
            json!({"zones": ["clusterset.local=mcs"], "reverseZones": ["10.in-addr.arpa"]}),
            "reverseZones needs names of this server",
        ),
        (
            json!({"aliases": {"a.b": ["a.b"]}}),
            "aliases: a.b is an alias of a.b; its own members",
        ),
        (
            json!({"aliases": {"a.b": ["c.d"], "c.d": ["e.f"]}}),
            "aliases: a.b is an alias of c.d; that is an alias, too",
        ),
        (
            json!({"source": {"files": ["/a.yaml"], "context": "x"}}),
            "source.files cannot be combined with",
        ),
        (
            json!({"serverId": "ä".repeat(65)}),
            "serverId has 130 octets",
        ),
        (
            json!({"adminListen": [":5353"]}),
            "adminListen has :5353, but listen has the same port",
        ),
        (
            json!({"listen": ["127.0.0.1:9154", "[::]:53"]}),
            "apiListen has 127.0.0.1:9154, but listen has the same port",
        ),
        (
            json!({"listen": [":53", "[::1]:53"]}),
            "listen has [::1]:53, but listen has the same port",
        ),
        (json!({"watchTimeout": "0s"}), "at '/watchTimeout': '0s'"),
        (json!({"relist": "30s1m"}), "at '/relist': '30s1m'"),
        (json!({"journal": {"max": "1Ki"}}), "at '/journal/max'"),
        (
            json!({"podDisruptionBudget": {"minAvailable": 1, "maxUnavailable": 1}}),
            "podDisruptionBudget has minAvailable and maxUnavailable: set one of them",
        ),
        (
            json!({"podDisruptionBudget": {"minAvailable": 2}}),
            "podDisruptionBudget.minAvailable is 2 and replicas is 2: no node",
        ),
        (
            json!({"hostNetwork": true, "listen": ["0.0.0.0:53"], "adminListen": [":1023"]}),
            "hostNetwork with listen 0.0.0.0:53, adminListen :1023: only root",
        ),
        (
            json!({"hostNetwork": true, "listen": [":53"], "securityContext": {"runAsUser": 0}}),
            "hostNetwork with listen :53: only root",
        ),
    ];
    let values: Vec<Value> = cases
        .iter()
        .map(|(values, _)| with(values.clone()))
        .collect();
    for ((values, expected), outcome) in cases.iter().zip(render_all(&values)?) {
        match outcome {
            Outcome::Refused(error) => {
                ensure!(error.contains(expected), "{values}: {error}");
            }
            Outcome::Rendered(_) => anyhow::bail!("Helm accepts {values}"),
        }
    }
    print_line(&format!("{} refused values", cases.len()));
    Ok(())
}

#[test]
fn without_a_number_of_replicas_an_autoscaler_owns_the_field() -> Result<()> {
    let spec = |values: Value| -> Result<Value> {
        Ok(template(&with(values))?.only("Deployment")?["spec"].clone())
    };
    ensure!(spec(json!({"replicas": null}))?.get("replicas").is_none());
    ensure!(spec(json!({"replicas": 0}))?["replicas"] == 0);
    ensure!(spec(json!({}))?["replicas"] == 2);

    let budget = |values: Value| -> Result<Option<Value>> {
        let rendered = template(&with(values))?;
        let mut spec = rendered
            .all("PodDisruptionBudget")
            .map(|budget| budget["spec"].clone());
        Ok(spec.next())
    };
    for (values, field, expected) in [
        (json!({}), "maxUnavailable", json!(1)),
        (json!({"replicas": null}), "maxUnavailable", json!(1)),
        (
            json!({"podDisruptionBudget": {"maxUnavailable": "50%"}}),
            "maxUnavailable",
            json!("50%"),
        ),
        (
            json!({"podDisruptionBudget": {"minAvailable": 1}}),
            "minAvailable",
            json!(1),
        ),
        (
            json!({"replicas": null, "podDisruptionBudget": {"minAvailable": 2}}),
            "minAvailable",
            json!(2),
        ),
        (
            json!({"replicas": 9, "podDisruptionBudget": {"minAvailable": "60%"}}),
            "minAvailable",
            json!("60%"),
        ),
    ] {
        let found = budget(values.clone())?.context("no budget")?;
        ensure!(found[field] == expected, "{values}: {found}");
        let both = found.get("minAvailable").is_some() && found.get("maxUnavailable").is_some();
        ensure!(!both, "{values}: {found}");
    }
    for values in [
        json!({"replicas": 1}),
        json!({"replicas": 0}),
        json!({"kind": "DaemonSet"}),
    ] {
        ensure!(budget(values.clone())?.is_none(), "{values}");
    }
    Ok(())
}

#[test]
fn namespace_of_all_objects_can_be_another_one() -> Result<()> {
    let values = json!({"namespaceOverride": "names", "serviceMonitor": {"enabled": true}, "alerts": {"enabled": true},
        "dashboard": {"enabled": true}, "service": {"type": "NodePort"}, "links": {"namespace": "links"}});
    let rendered = template(&with(values))?;
    let (mut moved, mut subjects) = (0, 0);
    for object in &rendered.objects {
        let namespace = &object["metadata"]["namespace"];
        ensure!(
            namespace.is_null() || namespace == "names" || namespace == "links",
            "{object}"
        );
        moved += usize::from(namespace == "names");
        for subject in object["subjects"].as_array().into_iter().flatten() {
            ensure!(subject["namespace"] == "names", "{object}");
            subjects += 1;
        }
        ensure!(!object.to_string().contains("namespace=\\\"dns\\\""));
    }
    ensure!(moved >= 8 && subjects == 2, "{moved} {subjects}");
    Ok(())
}

#[test]
fn further_objects_are_templates() -> Result<()> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "{{ include \"global-dns.fullname\" . }}-a"}, "data": {"cluster": "{{ .Values.clusterName }}"}});
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n\
        {{- if .Values.rbac.create }}\ndata: {namespace: {{ .Release.Namespace }}}\n{{- end }}\n";
    let rendered = template(&with(json!({"extraObjects": [map, text]})))?;
    let data: Vec<_> = rendered
        .all("ConfigMap")
        .map(|object| {
            (
                object["metadata"]["name"].clone(),
                object["data"].to_string(),
            )
        })
        .collect();
    ensure!(
        data == [
            (json!("global-dns-a"), r#"{"cluster":"hub"}"#.to_owned()),
            (json!("b"), r#"{"namespace":"dns"}"#.to_owned())
        ],
        "{data:?}"
    );
    ensure!(template(&minimum())?.all("ConfigMap").count() == 0);
    Ok(())
}

/// Each file sets something, and nothing that the chart does not have: its schema refuses that.
#[test]
fn value_files_are_complete() -> Result<()> {
    let folder = repository("charts/global-dns/examples/values");
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path
            .file_stem()
            .context("a name")?
            .to_string_lossy()
            .into_owned();
        let file = path.display().to_string();
        let chart = chart();
        // The file is the only source of values.
        let ended = helm_without_values(&[
            "lint",
            "--strict",
            "--kube-version",
            "1.33.0",
            &chart,
            "--values",
            &file,
        ])?;
        ensure!(ended.is_success(), "{name}: {}", ended.output());
        names.insert(name);
    }
    let in_matrix: BTreeSet<String> = matrix()
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    ensure!(names.len() >= 4, "{names:?}");
    ensure!(names.is_subset(&in_matrix), "not in the matrix: {names:?}");
    Ok(())
}

/// A container runtime gives capabilities to root only. So that is what the chart requires for low ports of the node.
#[test]
fn ports_of_the_node_below_1024_need_root_and_one_capability() -> Result<()> {
    let root = json!({"hostNetwork": true, "listen": ["0.0.0.0:53"],
        "podSecurityContext": {"runAsNonRoot": false}, "securityContext": {"runAsUser": 0}});
    let context = |values: &Value| -> Result<Value> {
        let rendered = template(&with(values.clone()))?;
        let pod = &rendered.workload()?["spec"]["template"]["spec"];
        Ok(pod["containers"][0]["securityContext"].clone())
    };
    let found = context(&root)?;
    ensure!(
        found["capabilities"] == json!({"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}),
        "{found}"
    );
    ensure!(
        found["allowPrivilegeEscalation"] == false && found["runAsUser"] == 0,
        "{found}"
    );
    for without in [
        json!({"listen": ["0.0.0.0:53"]}),
        json!({"hostNetwork": true, "listen": ["0.0.0.0:1024"]}),
    ] {
        let found = context(&without)?;
        ensure!(
            found["capabilities"] == json!({"drop": ["ALL"]}),
            "{without}: {found}"
        );
    }
    // What the kernel says, with the capabilities that a runtime gives.
    in_new_network(|| {
        let folder = tempfile::tempdir()?;
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
        let program = folder.path().join("global-dns");
        std::fs::copy(binary(), &program)?;
        std::fs::write(folder.path().join("objects.yaml"), objects())?;
        let start = |user: &str, inherited: &str, port: u16| -> Result<Process> {
            let mut command = guarded(tool("setpriv")?);
            command.args([
                "--reuid",
                user,
                "--regid",
                user,
                "--clear-groups",
                "--no-new-privs",
            ]);
            command.args([
                "--inh-caps",
                inherited,
                "--bounding-set=-all,+net_bind_service",
                "--",
            ]);
            command
                .arg(&program)
                .arg("serve")
                .arg(format!("--listen=127.0.0.1:{port}"));
            command.arg(format!(
                "--file={}",
                folder.path().join("objects.yaml").display()
            ));
            Process::start("the server", command)
        };
        let ready = |_: &Log| {
            let page = get(([127, 0, 0, 1], 9153).into(), "/readyz").ok()?;
            (page.status == 200).then_some(())
        };
        start("0", "-all", 53)?.wait_for("readiness of root", ready)?;
        start("65532", "-all", 1053)?.wait_for("readiness of another user", ready)?;
        let mut refused = start("65532", "-all,+net_bind_service", 53)?;
        let status = refused.end()?;
        ensure!(status.code() == Some(1), "{status}");
        let text = refused.log().text();
        ensure!(text.contains("ermission denied"), "{text}");
        Ok(())
    })
}
