//! A pod as processes in the network of its cluster, with the command, the environment, the volumes and the probes of its
//! containers.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use support::commands::{binary, tool};
use support::helm::expanded;
use support::http;
use support::multicluster::plan::{CLUSTER_DNS, CLUSTERS};
use support::networks::{Files, Network};
use support::objects::pod_status;
use support::process::Process;

use super::site::Site;

/// Time between the end of a container and its next start.
const BACKOFF: Duration = Duration::from_secs(1);
/// The mount point of the token, as the API server adds it to pods.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// A pod on the node.
pub struct Pod {
    object: Value,
    /// Number of init containers that have ended successfully.
    initialized: usize,
    process: Option<Process>,
    /// The last lines of the container that ended last, if it failed.
    failure: String,
    /// Time of the next start, after a container has ended.
    next_start: Instant,
    is_ready: bool,
    has_address: bool,
}

// === impl Pod ===

impl Pod {
    pub fn new(object: &Value) -> Result<Self> {
        let containers = object["spec"]["containers"].as_array();
        let containers = containers.context("a pod without containers")?;
        if containers.len() != 1 {
            bail!("a pod with several containers: {object}");
        }
        Ok(Self {
            object: object.clone(),
            initialized: 0,
            process: None,
            failure: String::new(),
            next_start: Instant::now(),
            is_ready: false,
            has_address: false,
        })
    }

    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    fn namespace(&self) -> &str {
        self.object["metadata"]["namespace"]
            .as_str()
            .unwrap_or_default()
    }

    pub fn is_ready(&self) -> bool {
        self.is_ready
    }

    pub fn log_tail(&self) -> String {
        let failure = &self.failure;
        match &self.process {
            Some(process) => process.log_tail() + failure,
            None => format!("{} is not running{failure}", self.name()),
        }
    }

    /// Starts what is due, probes it, and reports the status.
    pub fn tick(&mut self, site: &Site, network: &Network) -> Result<()> {
        if !self.has_address {
            self.has_address = true;
            return self.report(site);
        }
        let inits = self.object["spec"]["initContainers"].as_array();
        let init = inits.and_then(|all| all.get(self.initialized)).cloned();
        let container = init
            .as_ref()
            .unwrap_or(&self.object["spec"]["containers"][0]);
        let Some(process) = &mut self.process else {
            if Instant::now() >= self.next_start {
                let command = self.command(container, site, network)?;
                let name = format!("{} in {}", self.name(), site.name());
                self.process = Some(Process::start(name, command)?);
            }
            return Ok(());
        };
        if !process.has_ended() {
            let is_ready = init.is_none() && is_probed(container, network)?;
            return self.set_ready(is_ready, site);
        }
        if init.is_some() && process.end()?.success() {
            self.initialized += 1;
        } else {
            self.failure = format!("; failed before: {}", process.log_tail());
            self.next_start = Instant::now() + BACKOFF;
        }
        self.process = None;
        self.set_ready(false, site)
    }

    fn set_ready(&mut self, is_ready: bool, site: &Site) -> Result<()> {
        if is_ready != self.is_ready {
            self.is_ready = is_ready;
            self.report(site)?;
        }
        Ok(())
    }

    fn report(&self, site: &Site) -> Result<()> {
        let status = pod_status(self.address(), self.is_ready);
        site.api.put_status(&self.object, &status).map(drop)
    }

    fn address(&self) -> &'static str {
        match image(&self.object["spec"]["containers"][0]) {
            "gcr.io/etcd-development/etcd" => "10.244.0.10",
            "localhost/global-dns" => "10.244.0.53",
            "registry.k8s.io/coredns/coredns" => "10.244.0.54",
            _ => "10.244.0.60",
        }
    }

    // === Commands ===

    fn command(&self, container: &Value, site: &Site, network: &Network) -> Result<Command> {
        let variables = self.variables(container, site)?;
        let text = |text: &Value| expanded(text.as_str().unwrap_or_default(), &variables);
        let list = |field: &str| -> Vec<String> {
            let list = container[field].as_array().into_iter().flatten();
            list.map(text).collect()
        };
        let mut words = list("command");
        words.extend(list("args"));
        let program = match (image(container), words.first().map(String::as_str)) {
            ("gcr.io/etcd-development/etcd", Some("etcd")) => tool("etcd")?,
            ("registry.k8s.io/e2e-test-images/agnhost", Some("sh")) => tool("sh")?,
            ("registry.k8s.io/e2e-test-images/agnhost", Some("pause"))
            | ("cr.l5d.io/linkerd/controller" | "registry.k8s.io/pause", _) => {
                words = vec!["sleep".to_owned(), "infinity".to_owned()];
                tool("sleep")?
            }
            // The entry point of these images is the program.
            ("localhost/global-dns", Some("serve")) => {
                words.insert(0, String::new());
                binary()
            }
            ("registry.k8s.io/coredns/coredns", _) => {
                words.insert(0, String::new());
                tool("coredns")?
            }
            (image, first) => bail!("no program for {first:?} of image {image}"),
        };
        let files = self.files(container, site)?;
        let mut command = network.command(&program, &files)?;
        command.args(&words[1..]).envs(variables);
        Ok(command)
    }

    /// Returns the environment of a container.
    fn variables(&self, container: &Value, site: &Site) -> Result<Vec<(String, String)>> {
        let api = site.address()?;
        let mut variables = vec![
            ("KUBERNETES_SERVICE_HOST".to_owned(), api.ip().to_string()),
            ("KUBERNETES_SERVICE_PORT".to_owned(), api.port().to_string()),
        ];
        if self.object["spec"]["enableServiceLinks"] != false {
            for service in site.api.objects("v1", "Service", "")? {
                let name = service["metadata"]["name"].as_str().unwrap_or_default();
                let address = service["spec"]["clusterIP"].as_str().unwrap_or("None");
                if service["metadata"]["namespace"] == self.namespace() && address != "None" {
                    let name = name.to_uppercase().replace('-', "_");
                    variables.push((format!("{name}_SERVICE_HOST"), address.to_owned()));
                }
            }
        }
        for source in container["envFrom"].as_array().into_iter().flatten() {
            let data = self.config_map(&source["configMapRef"]["name"], site)?;
            let data = data.as_object().context("the ConfigMap has no data")?;
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            variables.extend(data.iter().map(|(key, value)| (key.clone(), text(value))));
        }
        for variable in container["env"].as_array().into_iter().flatten() {
            let value = match &variable["valueFrom"]["fieldRef"]["fieldPath"] {
                Value::Null => expanded(variable["value"].as_str().unwrap_or_default(), &variables),
                path => match path.as_str().unwrap_or_default() {
                    "metadata.name" => self.name().to_owned(),
                    "status.podIPs" => self.address().to_owned(),
                    // The cluster's DNS sends from the address of its node.
                    "status.hostIPs" => CLUSTERS[site.index].gateway.to_owned(),
                    other => bail!("field {other}"),
                },
            };
            let name = variable["name"].as_str().unwrap_or_default();
            variables.push((name.to_owned(), value));
        }
        Ok(variables)
    }

    fn config_map(&self, name: &Value, site: &Site) -> Result<Value> {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": self.namespace(), "name": name}});
        let object = site.api.get(&object)?;
        let object = object.with_context(|| format!("no ConfigMap {name}"))?;
        Ok(object.data["data"].clone())
    }

    /// Returns the `resolv.conf`, the volumes and the token of a container. Only its own processes see them.
    fn files(&self, container: &Value, site: &Site) -> Result<Files> {
        let uid = self.object["metadata"]["uid"].as_str().unwrap_or_default();
        let root = site.folder().path().join(uid);
        let resolv = if self.object["spec"]["dnsPolicy"] == "Default" {
            // The DNS of the node, which does not answer.
            "nameserver 192.0.2.53\n".to_owned()
        } else {
            let namespace = self.namespace();
            resolv_conf(namespace)
        };
        fs::create_dir_all(&root)?;
        fs::write(root.join("resolv.conf"), resolv)?;
        let mut bound = vec![(root.join("resolv.conf"), PathBuf::from("/etc/resolv.conf"))];
        // Folders that replace those of the machine, because the mount points do not exist there.
        for (own, place) in [("run", "/run"), ("var-lib", "/var/lib")] {
            fs::create_dir_all(root.join(own))?;
            bound.push((root.join(own), PathBuf::from(place)));
        }
        let own = |place: &str| -> Result<PathBuf> {
            let place = place.replace("/var/run/", "/run/");
            let inside = place
                .strip_prefix("/run/")
                .map(|rest| root.join("run").join(rest));
            let inside = inside.or_else(|| {
                let rest = place.strip_prefix("/var/lib/")?;
                Some(root.join("var-lib").join(rest))
            });
            inside.with_context(|| format!("no support for the mount point {place}"))
        };
        for mount in container["volumeMounts"].as_array().into_iter().flatten() {
            let place = mount["mountPath"].as_str().context("no mount point")?;
            let folder = own(place)?;
            fs::create_dir_all(&folder)?;
            let volumes = self.object["spec"]["volumes"].as_array();
            let mut volumes = volumes.into_iter().flatten();
            let volume = volumes.find(|volume| volume["name"] == mount["name"]);
            let volume = volume.context("no such volume")?;
            if let Some(claim) = volume["persistentVolumeClaim"]["claimName"].as_str() {
                let stored = site.folder().path().join("claims").join(claim);
                fs::create_dir_all(&stored)?;
                bound.push((stored, PathBuf::from(place)));
            } else if !volume["configMap"].is_null() {
                let data = self.config_map(&volume["configMap"]["name"], site)?;
                for (key, text) in data.as_object().into_iter().flatten() {
                    fs::write(folder.join(key), text.as_str().unwrap_or_default())?;
                }
            }
        }
        self.write_token(&own(ACCOUNT)?, site)?;
        Ok(Files { bound })
    }

    /// Writes the token of the service account, and the certificate of the API server.
    fn write_token(&self, folder: &Path, site: &Site) -> Result<()> {
        let spec = &self.object["spec"];
        let account = spec["serviceAccountName"].as_str().unwrap_or("default");
        if spec["automountServiceAccountToken"] == false || account == "default" {
            return Ok(());
        }
        fs::create_dir_all(folder)?;
        fs::write(
            folder.join("token"),
            site.api.token(self.namespace(), account)?,
        )?;
        fs::write(folder.join("namespace"), self.namespace())?;
        fs::copy(site.api.certificate(), folder.join("ca.crt"))?;
        Ok(())
    }
}

/// Returns the name of a container's image, without the tag.
fn image(container: &Value) -> &str {
    let image = container["image"].as_str().unwrap_or_default();
    image.rsplit_once(':').map_or(image, |(name, _)| name)
}

/// Returns the `resolv.conf` of a pod that uses the cluster's DNS.
pub fn resolv_conf(namespace: &str) -> String {
    format!(
        "search {namespace}.svc.cluster.local svc.cluster.local cluster.local\n\
         nameserver {CLUSTER_DNS}\noptions ndots:5\n"
    )
}

/// Returns whether the readiness probe of a container succeeds. Without a probe, a running container is ready.
fn is_probed(container: &Value, network: &Network) -> Result<bool> {
    let probe = &container["readinessProbe"]["httpGet"];
    let Some(path) = probe["path"].as_str() else {
        return Ok(true);
    };
    let mut ports = container["ports"].as_array().into_iter().flatten();
    let port = ports.find(|port| port["name"] == probe["port"]);
    let port = port.and_then(|port| port["containerPort"].as_u64());
    let port = u16::try_from(port.context("the probe names no port of the container")?)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let answer = network.run_inside(|| http::get(address, path))?;
    Ok(answer.is_ok_and(|page| page.status == 200))
}
