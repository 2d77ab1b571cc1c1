//! Each Helm installs, upgrades, rolls back and removes the chart.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::commands::{guarded, tool};
use support::objects::namespace;
use support::process::run_checked;
use support::repository::repository;

/// A version of Helm.
pub struct Helm {
    pub program: &'static str,
    /// The begin of its version.
    begin: &'static str,
}

pub const VERSIONS: [Helm; 3] = [
    Helm {
        program: "helm",
        begin: "3.19.",
    },
    Helm {
        program: "helm_3_newest",
        begin: "3.22.",
    },
    Helm {
        program: "helm_4",
        begin: "4.3.",
    },
];

const NAMESPACE: &str = "dns";
const RELEASE: &str = "global-dns";

/// Runs all commands. Returns the version of Helm.
pub fn check(cluster: &Cluster, helm: &Helm) -> Result<String> {
    for name in [NAMESPACE, "linkerd-multicluster"] {
        cluster.put(&namespace(name))?;
    }
    let module = match helm.program {
        "helm" => "tests/tools/helm/go.mod",
        "helm_3_newest" => "tests/tools/helm_3_newest/go.mod",
        _ => "tests/tools/helm_4/go.mod",
    };
    let version = pinned(&repository(module))?;
    ensure!(version.starts_with(helm.begin), "Helm is {version}");
    let reported = run(helm, None, &["version", "--short"])?;
    ensure!(
        reported.starts_with(&format!("v{}", &helm.begin[..1])),
        "{reported}"
    );

    let chart = repository("charts/global-dns").display().to_string();
    let image = "image.repository=localhost/global-dns";
    let given = [
        "--set",
        "clusterName=hub",
        "--set",
        image,
        "--set",
        "service.clusterIP=10.96.0.77",
    ];
    let install = [&["install", RELEASE, &chart][..], &given].concat();
    run(helm, Some(cluster), &install)?;
    ensure!(deployment(cluster)?["spec"]["replicas"] == 2);
    let upgrade = [
        &["upgrade", RELEASE, &chart][..],
        &given,
        &["--set", "replicas=3"],
    ]
    .concat();
    run(helm, Some(cluster), &upgrade)?;
    ensure!(deployment(cluster)?["spec"]["replicas"] == 3);
    // An autoscaler owns the field: the upgrade does not touch its number.
    let scaled = json!({"spec": {"replicas": 5}});
    cluster.patch(&object("Deployment"), &scaled)?;
    let owned = [
        &["upgrade", RELEASE, &chart][..],
        &given,
        &["--set", "replicas=null"],
    ]
    .concat();
    run(helm, Some(cluster), &owned)?;
    let replicas = deployment(cluster)?["spec"]["replicas"].clone();
    ensure!(replicas != 0, "an autoscaler cannot raise 0 replicas");
    // Helm 4 applies objects on the server, where the number belongs to the autoscaler.
    let further = match helm.program {
        "helm_4" => &["--force-conflicts"][..],
        _ => &[],
    };
    run(
        helm,
        Some(cluster),
        &[&["rollback", RELEASE, "1"], further].concat(),
    )?;
    ensure!(deployment(cluster)?["spec"]["replicas"] == 2);
    // A value that the schema refuses, and one that a template refuses.
    for (value, expected) in [
        ("allow={10.0.0.0/99}", "/allow/0"),
        ("maxStale=1s", "maxStale is 1s"),
    ] {
        let wrong = [&["upgrade", RELEASE, &chart][..], &given, &["--set", value]].concat();
        let error = run(helm, Some(cluster), &wrong).err().context(value)?;
        ensure!(
            format!("{error:#}").contains(expected),
            "{value}: {error:#}"
        );
    }
    for file in value_files()? {
        check_file(cluster, helm, &chart, &file)?;
    }
    run(helm, Some(cluster), &["uninstall", RELEASE])?;
    ensure!(cluster.get(&object("Deployment"))?.is_none());
    Ok(version)
}

/// Returns the ready value files.
fn value_files() -> Result<Vec<String>> {
    let folder = repository("charts/global-dns/examples/values");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        files.push(entry?.path().display().to_string());
    }
    ensure!(files.len() >= 4, "{files:?}");
    Ok(files)
}

/// The API server validates the objects of a value file, without storing them.
fn check_file(cluster: &Cluster, helm: &Helm, chart: &str, file: &str) -> Result<()> {
    let name = Path::new(file)
        .file_name()
        .context("a name")?
        .to_string_lossy()
        .into_owned();
    // Objects of the Prometheus operator need its definitions, which the suite `chart` has.
    let without = ["serviceMonitor.enabled=false", "alerts.enabled=false"];
    let arguments = [
        "template",
        RELEASE,
        chart,
        "--values",
        file,
        "--set",
        without[0],
        "--set",
        without[1],
        "--validate",
    ];
    let arguments = match helm.program {
        // Helm 4 has another name for it.
        "helm_4" => [&arguments[..arguments.len() - 1], &["--dry-run=server"]].concat(),
        _ => arguments.to_vec(),
    };
    let text = run(helm, Some(cluster), &arguments).with_context(|| name.clone())?;
    ensure!(text.contains("image:"), "{name}: {text}");
    Ok(())
}

fn object(kind: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"namespace": NAMESPACE, "name": RELEASE}})
}

fn deployment(cluster: &Cluster) -> Result<Value> {
    let found = cluster.get(&object("Deployment"))?;
    Ok(found.context("no Deployment")?.data)
}

fn run(helm: &Helm, cluster: Option<&Cluster>, arguments: &[&str]) -> Result<String> {
    let home = tempfile::tempdir()?;
    let mut command = guarded(tool(helm.program)?);
    for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        command.env(variable, home.path());
    }
    command.args(arguments);
    if let Some(cluster) = cluster {
        command
            .args(["--namespace", NAMESPACE, "--kubeconfig"])
            .arg(&cluster.kubeconfig);
    }
    run_checked(&mut command)
}

/// Returns the version of Helm that a `go.mod` pins.
fn pinned(file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(file)?;
    let mut words = text.lines().filter_map(|line| {
        let line = line.trim().trim_start_matches("require ");
        line.strip_prefix("helm.sh/helm/")
    });
    let version = words.next().and_then(|rest| rest.split_whitespace().nth(1));
    Ok(version
        .context("no version")?
        .trim_start_matches('v')
        .to_owned())
}
