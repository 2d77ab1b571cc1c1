//! Runs Helm and parses the rendered objects and pods.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::OnceLock;

use crate::commands::{guarded, tool};
use crate::process::{ProcessOutput, run};
use crate::repository::repository;
use crate::settings::VARIABLE;
use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

/// Name of the release, which is also the name of most objects.
pub const RELEASE: &str = "global-dns";
/// Namespace of the release.
pub const NAMESPACE: &str = "dns";

/// Rendered objects of an installation.
#[derive(Debug)]
pub struct Rendered {
    /// The objects, in the order of the output.
    pub objects: Vec<Value>,
}

/// Runs `helm` with values for the chart.
pub fn helm(arguments: &[&str], values: &Value) -> Result<ProcessOutput> {
    let mut file = NamedTempFile::with_suffix(".yaml")?;
    write!(file, "{values}")?;
    static HELM: OnceLock<PathBuf> = OnceLock::new();
    let helm = match HELM.get() {
        Some(found) => found,
        None => {
            let found = tool("helm")?;
            HELM.get_or_init(|| found)
        }
    };
    // A separate home, without the user's plugins and repositories.
    let home = tempfile::tempdir()?;
    let mut command = guarded(helm);
    for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        command.env(variable, home.path());
    }
    let values = command.args(arguments).arg("--values").arg(file.path());
    Ok(run(values))
}

/// Returns the folder of the chart.
pub fn chart() -> String {
    repository("charts/global-dns").display().to_string()
}

/// Renders the chart for Kubernetes 1.33, including its tests.
pub fn template(values: &Value) -> Result<Rendered> {
    rendered(try_template(values)?)
}

fn rendered(ended: ProcessOutput) -> Result<Rendered> {
    ensure!(ended.is_success(), "helm template: {}", ended.stderr);
    let options = serde_saphyr::options! { budget: None };
    let objects: Vec<Value> = serde_saphyr::from_multiple_with_options(&ended.stdout, options)
        .map_err(|error| anyhow!("helm template printed invalid YAML: {error}"))?;
    ensure!(!objects.is_empty(), "helm template printed no objects");
    Ok(Rendered { objects })
}

/// Renders the chart with values that may be invalid.
pub fn try_template(values: &Value) -> Result<ProcessOutput> {
    try_template_of("1.33.0", values)
}

/// Renders the chart for another version of Kubernetes.
pub fn template_of(kubernetes: &str, values: &Value) -> Result<Rendered> {
    rendered(try_template_of(kubernetes, values)?)
}

fn try_template_of(kubernetes: &str, values: &Value) -> Result<ProcessOutput> {
    let chart = chart();
    let arguments = ["template", RELEASE, &chart, "--namespace", NAMESPACE];
    helm(
        &[&arguments[..], &["--kube-version", kubernetes]].concat(),
        values,
    )
}

/// Returns `kind` of an object.
pub fn kind(object: &Value) -> &str {
    object["kind"].as_str().unwrap_or_default()
}

/// Returns `metadata.name` of an object.
pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

// === impl Rendered ===

impl Rendered {
    /// Returns all objects of a kind.
    pub fn all<'r>(&'r self, of_kind: &'r str) -> impl Iterator<Item = &'r Value> {
        self.objects
            .iter()
            .filter(move |object| kind(object) == of_kind)
    }

    /// Returns the only object of a kind.
    pub fn only<'r>(&'r self, of_kind: &'r str) -> Result<&'r Value> {
        let found: Vec<&Value> = self.all(of_kind).collect();
        match found.as_slice() {
            [only] => Ok(only),
            found => Err(anyhow!("expected one {of_kind}, found {}", found.len())),
        }
    }

    /// Returns the Service for DNS queries.
    pub fn service(&self) -> Result<&Value> {
        let mut services = self.all("Service");
        let has_dns = |service: &&Value| service["spec"]["ports"][0]["name"] == "dns";
        services.find(has_dns).context("no Service for DNS")
    }

    /// Returns the Deployment or the DaemonSet.
    pub fn workload(&self) -> Result<&Value> {
        self.only("Deployment").or_else(|_| self.only("DaemonSet"))
    }

    /// Returns all pods: one for each pod template, and each object of kind Pod.
    pub fn pods(&self) -> Vec<Value> {
        let pod = |object: &Value| {
            let template = &object["spec"]["template"];
            let is_template = template["spec"]["containers"].is_array();
            is_template.then(|| {
                let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
                    "metadata": template["metadata"], "spec": template["spec"]});
                pod["metadata"]["name"] = object["metadata"]["name"].clone();
                pod["metadata"]["namespace"] = object["metadata"]["namespace"].clone();
                pod
            })
        };
        let made = self.objects.iter().filter_map(pod);
        made.chain(self.all("Pod").cloned()).collect()
    }

    /// Returns the container of the server.
    pub fn container(&self) -> Result<&Value> {
        container(&self.workload()?["spec"]["template"])
    }

    /// Returns the variables of the server, as a kubelet sets them. `address` is the cluster IP of the Service. Variables with
    /// a field of the pod are left out.
    pub fn variables(&self, address: &str) -> Result<Vec<(String, String)>> {
        let pod = &self.workload()?["spec"]["template"]["spec"];
        let mut variables = Vec::new();
        if pod["enableServiceLinks"] == true {
            let service = name(self.service()?).to_uppercase().replace('-', "_");
            variables.push((format!("{service}_SERVICE_HOST"), address.to_owned()));
        }
        let given = self.container()?["env"].as_array();
        for variable in given.context("a container without variables")? {
            if let (Some(name), Some(value)) =
                (variable["name"].as_str(), variable["value"].as_str())
            {
                variables.push((name.to_owned(), expanded(value, &variables)));
            }
        }
        Ok(variables)
    }

    /// Returns the settings of the server.
    pub fn settings(&self) -> Result<Value> {
        let variables = self.variables("")?;
        let mut settings = variables.iter().filter(|(name, _)| name == VARIABLE);
        let (_, text) = settings.next().context("no settings")?;
        Ok(serde_json::from_str(text)?)
    }
}

/// Returns the value of a variable as a kubelet sets it: `$$` is `$`, and `$(NAME)` is the value of an earlier variable, if
/// there is one.
pub fn expanded(value: &str, variables: &[(String, String)]) -> String {
    let Some((text, rest)) = value.split_once('$') else {
        return value.to_owned();
    };
    let reference = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    let earlier = reference.and_then(|(name, _)| variables.iter().find(|(own, _)| own == name));
    let (replaced, rest) = match (earlier, reference) {
        (Some((_, value)), Some((_, rest))) => (value.as_str(), rest),
        _ => ("$", rest.strip_prefix('$').unwrap_or(rest)),
    };
    format!("{text}{replaced}{}", expanded(rest, variables))
}

/// Returns the only container of a pod or of a template of pods.
pub fn container(pod: &Value) -> Result<&Value> {
    match pod["spec"]["containers"].as_array().map(Vec::as_slice) {
        Some([container]) => Ok(container),
        _ => Err(anyhow!("a pod without a container, or with several")),
    }
}

/// Returns the arguments of a container.
pub fn arguments(container: &Value) -> Result<Vec<&str>> {
    let arguments = container["args"].as_array().context("no arguments")?;
    let texts: Option<Vec<&str>> = arguments.iter().map(Value::as_str).collect();
    texts.context("an argument that is not a string")
}
