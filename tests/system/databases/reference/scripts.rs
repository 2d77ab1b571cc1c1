//! The environment of the scripts: `kubectl` with the contexts of three clusters, Helm, and what happens in the clusters while
//! a script runs.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};
use support::commands::{guarded, tool};
use support::multicluster::plan::ALL;
use support::multicluster::{connect_member, connected_networks};
use support::networks::{Files, Network};
use support::output::print_line;
use support::process::Process;
use support::repository::repository;
use support::wait::TIMEOUT;
use tempfile::TempDir;

use super::FOLDER;
use super::linkerd::{Controllers, ETCD};
use super::pod::resolv_conf;
use super::site::Site;

/// Maximum time of a script on a busy machine.
const SCRIPT: Duration = Duration::from_secs(600);

/// Three clusters, and the programs of the scripts.
pub struct Scripts {
    // The pods end before their networks.
    sites: Vec<Site>,
    controllers: Controllers,
    networks: [Network; 3],
    _bridge: Network,
    folder: TempDir,
}

/// The result of a script.
#[derive(Debug)]
pub struct Output {
    pub code: Option<i32>,
    pub text: String,
}

// === impl Scripts ===

impl Scripts {
    /// Starts three clusters.
    pub fn start() -> Result<Self> {
        let (networks, bridge) = connected_networks()?;
        for cluster in ALL {
            connect_member(&networks, &ETCD.member(cluster, 0))?;
        }
        let sites = ALL.map(|cluster| Site::start(cluster, &networks[cluster]));
        let sites = sites.into_iter().collect::<Result<Vec<_>>>()?;
        let scripts = Self {
            sites,
            controllers: Controllers::default(),
            networks,
            _bridge: bridge,
            folder: tempfile::tempdir()?,
        };
        scripts.write_programs()?;
        fs::write(scripts.kubeconfig(), scripts.kubeconfig_text()?)?;
        Ok(scripts)
    }

    /// Waits until CoreDNS, the gateway and the mirror controllers of each cluster are ready.
    pub fn wait_for_fixtures(&mut self) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            self.tick()?;
            let starts = ["coredns-", "linkerd-gateway-", "controller-"];
            let mut sites = self.sites.iter();
            let checked = sites
                .try_for_each(|site| starts.iter().try_for_each(|start| site.check_ready(start)));
            if checked.is_ok() || Instant::now() > deadline {
                return self.with_logs(checked);
            }
        }
    }

    fn tick(&mut self) -> Result<()> {
        for (site, network) in self.sites.iter_mut().zip(&self.networks) {
            site.tick(network)?;
        }
        self.controllers.tick(&self.sites)
    }

    /// Runs a script to its end, with additional variables.
    pub fn run(&mut self, name: &str, variables: &[(&str, &str)]) -> Result<Output> {
        let mut command = guarded(repository(FOLDER).join(name));
        command
            .envs(self.variables())
            .envs(variables.iter().copied());
        let started = Instant::now();
        let mut process = Process::start(name, command)?;
        while !process.has_ended() {
            self.tick()?;
            thread::sleep(Duration::from_millis(20));
            ensure!(started.elapsed() < SCRIPT, "{}", process.log_tail());
        }
        let code = process.end()?.code();
        let text = process.log().text();
        for line in text.lines() {
            print_line(&format!("    {line}"));
        }
        Ok(Output { code, text })
    }

    /// Asserts that each API server accepts every object of the folder, and no object without its specification.
    pub fn check_objects(&self) -> Result<()> {
        let mut count = 0;
        for file in ["namespace", "client", "service", "statefulset"] {
            let path = repository(FOLDER).join(format!("etcd/{file}.yaml"));
            let text = fs::read_to_string(&path)?;
            let object: Value = serde_saphyr::from_str(&text)?;
            for site in &self.sites {
                site.api.put(&support::objects::namespace("prod"))?;
                if object["kind"] != "Namespace" {
                    site.api.dry_run(&object)?;
                    let mut invalid = object.clone();
                    invalid["spec"] = json!({"ports": [{}]});
                    ensure!(site.api.dry_run(&invalid).is_err(), "{file}: {invalid}");
                }
                let path = path.display().to_string();
                self.kubectl(&[
                    "--context",
                    &format!("kind-{}", site.name()),
                    "apply",
                    "--dry-run=server",
                    "--validate=strict",
                    "--filename",
                    &path,
                ])?;
                count += 1;
            }
        }
        // `04-global-dns` creates the namespace itself, with its annotations.
        for site in &self.sites {
            site.api.delete(&support::objects::namespace("prod"))?;
        }
        for site in &self.sites {
            support::wait::eventually("the end of the namespace", || {
                let namespace = site.api.get(&support::objects::namespace("prod"))?;
                ensure!(namespace.is_none(), "it exists");
                Ok(())
            })?;
        }
        print_line(&format!("{count} objects accepted"));
        Ok(())
    }

    /// Asserts that nothing of north is left in the other clusters.
    pub fn check_removed(&self) -> Result<()> {
        for site in &self.sites[..2] {
            let selector = "mirror.linkerd.io/cluster-name=north";
            for (version, kind) in [
                ("v1", "Service"),
                ("v1", "ServiceAccount"),
                ("apps/v1", "Deployment"),
                ("multicluster.linkerd.io/v1alpha3", "Link"),
            ] {
                let found = match kind {
                    "Link" => {
                        let mut links = site.api.objects(version, kind, "")?;
                        links.retain(|link| link["spec"]["targetClusterName"] == "north");
                        links
                    }
                    _ => site.api.objects(version, kind, selector)?,
                };
                ensure!(found.is_empty(), "{} in {}: {found:?}", kind, site.name());
            }
            let secrets = site.api.objects("v1", "Secret", "")?;
            let mut names = secrets.iter().map(|secret| &secret["metadata"]["name"]);
            ensure!(
                names.all(|name| name != "cluster-credentials-north"),
                "{}",
                site.name()
            );
            let others = site
                .api
                .objects("multicluster.linkerd.io/v1alpha3", "Link", "")?;
            ensure!(others.len() == 1, "{others:?}");
        }
        Ok(())
    }

    /// Asserts that `04-global-dns` writes the ConfigMap that CoreDNS of k3s imports. CoreDNS has the stanza in its Corefile
    /// already, because this is not k3s.
    pub fn check_k3s(&mut self) -> Result<()> {
        let output = self.run("04-global-dns", &[("ENGINE", "k3d")])?;
        ensure!(output.code == Some(0), "{output:?}");
        for site in &self.sites {
            let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "kube-system", "name": name}});
            let stanza = |name: &str, key: &str| -> Result<String> {
                let found = site.api.get(&map(name))?.context("no ConfigMap")?;
                Ok(found.data["data"][key]
                    .as_str()
                    .context("no such key")?
                    .trim_end()
                    .to_owned())
            };
            let custom = stanza("coredns-custom", "global.server")?;
            let whole = stanza("coredns", "Corefile")?;
            ensure!(
                whole.ends_with(&custom) && custom.starts_with("global:53 {"),
                "{custom}"
            );
        }
        Ok(())
    }

    /// Adds the last lines of all logs to an error.
    pub fn with_logs<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| {
            let logs: Vec<String> = self.sites.iter().map(Site::logs).collect();
            anyhow!("{error:#}\n{}", logs.join("\n"))
        })
    }

    // === Programs ===

    fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let mut command = guarded(tool("kubectl")?);
        command
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(arguments);
        support::process::run_checked(&mut command)
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Returns the environment of the scripts.
    fn variables(&self) -> Vec<(&'static str, String)> {
        let folder = self.folder.path();
        let path = std::env::var("PATH").unwrap_or_default();
        let inside = |name: &str| folder.join(name).display().to_string();
        vec![
            ("PATH", format!("{}:{path}", inside("programs"))),
            ("KUBECONFIG", inside("kubeconfig")),
            ("HOME", inside("home")),
            ("LIMIT", "240".to_owned()),
        ]
    }

    /// Writes the contexts that kind and k3d would write.
    fn kubeconfig_text(&self) -> Result<String> {
        let (mut clusters, mut contexts) = (Vec::new(), Vec::new());
        for site in &self.sites {
            let name = site.name();
            clusters.push(json!({"name": name, "cluster": {
                "server": format!("https://{}", site.address()?),
                "certificate-authority": site.api.certificate(),
            }}));
            for engine in ["kind", "k3d"] {
                contexts.push(json!({"name": format!("{engine}-{name}"),
                    "context": {"cluster": name, "user": "admin"}}));
            }
        }
        let users = json!([{"name": "admin", "user": {"token": "token-of-admin"}}]);
        let config = json!({"apiVersion": "v1", "kind": "Config",
            "clusters": clusters, "contexts": contexts, "users": users});
        Ok(config.to_string())
    }

    /// Writes `helm`, and `kubectl` with a subcommand `exec` that runs the command in the network of the cluster, with the
    /// `resolv.conf` of a pod. The pod must be ready.
    fn write_programs(&self) -> Result<()> {
        let folder = self.folder.path().join("programs");
        fs::create_dir_all(&folder)?;
        symlink(tool("helm")?, folder.join("helm"))?;
        let resolv = self.folder.path().join("resolv.conf");
        fs::write(&resolv, resolv_conf("prod"))?;
        let mut cases = String::new();
        for (site, network) in self.sites.iter().zip(&self.networks) {
            let bound = vec![(resolv.clone(), PathBuf::from("/etc/resolv.conf"))];
            let command = network.command(&tool("env")?, &Files { bound })?;
            writeln!(
                cases,
                "    *-{}) exec {} \"$@\" ;;",
                site.name(),
                quoted(&command)
            )?;
        }
        let kubectl = tool("kubectl")?;
        let kubectl = kubectl.display();
        let script = format!(
            "#!/bin/bash\n\
             set -e\n\
             # --context CONTEXT --namespace NAMESPACE exec POD --container CONTAINER -- COMMAND…\n\
             [[ $5 == exec ]] || exec {kubectl} \"$@\"\n\
             {kubectl} \"${{@:1:4}}\" wait pod \"$6\" --for=condition=Ready --timeout=10s >/dev/null\n\
             [[ $7 == --container && $9 == -- ]]\n\
             context=$2\n\
             shift 9\n\
             case $context in\n{cases}esac\n"
        );
        let file = folder.join("kubectl");
        fs::write(&file, script)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }
}

/// Returns a command as words of a shell.
fn quoted(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let quote = |word: &std::ffi::OsStr| {
        let word = word.to_string_lossy().replace('\'', r"'\''");
        format!("'{word}'")
    };
    Vec::from_iter(words.map(quote)).join(" ")
}
