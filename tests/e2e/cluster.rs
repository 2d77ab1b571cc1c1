//! The source cluster: etcd, a kube-apiserver, a kube-controller-manager, and writing objects into it.
//!
//! One for the whole suite. Every port is on loopback, every file in a directory that goes with the fixture. RBAC is
//! on; the users are those of [`Cluster::kubeconfig`]'s contexts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use http::Request;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::{Client, Config, Error};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::figures::Written;
use crate::harness::{Process, command, eventually, say, tool};
use crate::recordings::{Action, Event};
use crate::support::ports::free_port;

/// How long a start may take on a busy machine.
const START: Duration = Duration::from_secs(60);
/// How long the controllers may take to follow.
const CONTROLLERS: Duration = Duration::from_secs(20);

pub struct Cluster {
    /// One context per user: `admin`, `watcher`, `tenant`, `stranger`, `coredns`, `doctor`.
    pub kubeconfig: PathBuf,
    client: Client,
    runtime: Runtime,
    api_server_command: ApiServerCommand,
    // In this order they are ended.
    controllers: Process,
    api_server: Process,
    etcd: Process,
    /// Where etcd listens, for clients and for peers.
    etcd_ports: [u16; 2],
    directory: TempDir,
}

struct ApiServerCommand {
    program: PathBuf,
    arguments: Vec<String>,
}

// === impl Cluster ===

impl Cluster {
    /// Starts the three, and returns when the API server is ready and the controllers follow.
    pub fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    /// The same, with further arguments for the API server.
    pub fn start_with(further: &[String]) -> Result<Self> {
        let (etcd, api_server, controllers) = (
            tool("etcd")?,
            tool("kube-apiserver")?,
            tool("kube-controller-manager")?,
        );
        let started = Instant::now();
        let directory = tempfile::Builder::new()
            .prefix("global-dns-e2e-")
            .tempdir()?;
        let path = directory.path();
        let (clients, peers, port) = (free_port(), free_port(), free_port());

        let etcd = start_etcd(&etcd, path, clients, peers)?;
        // Made by etcd for its peers, of which there are none: an elliptic curve key nobody else knows.
        let key = path.join("etcd/fixtures/peer/key.pem");
        eventually("etcd's key", START, || {
            ensure!(
                fs::read_to_string(&key)?.contains("END EC PRIVATE KEY"),
                "{} is incomplete",
                key.display()
            );
            Ok(())
        })?;

        fs::write(path.join("tokens.csv"), tokens())?;
        let kubeconfig = path.join("kubeconfig");
        fs::write(
            &kubeconfig,
            kubeconfig_text(port, &path.join("certificates/apiserver.crt")),
        )?;
        let mut api_server_command = api_server_command(api_server, path, clients, port, &key);
        api_server_command.arguments.extend_from_slice(further);
        let mut api_server = api_server_command.start(path)?;
        let certificate = path.join("certificates/apiserver.crt");
        eventually("the API server's certificate", START, || {
            api_server.check()?;
            // The file is there a moment before its content, and the client reads it only once.
            let text = fs::read_to_string(&certificate)?;
            ensure!(
                text.trim_end().ends_with("-----END CERTIFICATE-----"),
                "{} is incomplete",
                certificate.display()
            );
            Ok(())
        })?;

        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let client = runtime.block_on(connect(&kubeconfig))?;
        wait_until_ready(&runtime, &client, &mut api_server)?;

        let mut controllers_command = command(&controllers);
        controllers_command.arg(format!("--kubeconfig={}", kubeconfig.display())).args([
            "--leader-elect=false",
            "--secure-port=0",
            "--kube-api-qps=1000",
            "--kube-api-burst=1000",
            "--controllers=endpoints-controller,endpointslice-controller,endpointslice-mirroring-controller,\
             garbage-collector-controller,namespace-controller",
        ]);
        let controllers = Process::start("kube-controller-manager", controllers_command, path)?;

        let mut cluster = Self {
            kubeconfig,
            client,
            runtime,
            api_server_command,
            controllers,
            api_server,
            etcd,
            etcd_ports: [clients, peers],
            directory,
        };
        cluster.wait_for_the_controllers()?;
        say(&format!(
            "real parts: started in {:.1} s",
            started.elapsed().as_secs_f64()
        ));
        Ok(cluster)
    }

    /// A directory for further files and logs.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Where the API server listens, on loopback.
    pub fn address(&self) -> Result<String> {
        let kubeconfig = fs::read_to_string(&self.kubeconfig)?;
        let (_, rest) = kubeconfig.split_once("https://").context("no server")?;
        let (address, _) = rest.split_once('"').context("an unfinished text")?;
        Ok(address.to_owned())
    }

    /// Its own certificate, which nobody else has signed.
    pub fn certificate(&self) -> PathBuf {
        self.directory.path().join("certificates/apiserver.crt")
    }

    /// Ends the API server as a crash would.
    pub fn kill_the_api_server(&mut self) {
        self.api_server.kill();
    }

    /// Starts it again on the same port and data; returns when it is ready.
    pub fn restart_the_api_server(&mut self) -> Result<()> {
        self.api_server = self.api_server_command.start(self.directory.path())?;
        self.client = self.runtime.block_on(connect(&self.kubeconfig))?;
        wait_until_ready(&self.runtime, &self.client, &mut self.api_server)
    }

    /// Keeps what etcd has; the API server is away meanwhile.
    pub fn back_up_etcd(&mut self) -> Result<()> {
        self.stop_etcd();
        let (data, backup) = self.etcd_and_its_backup();
        let copied = Command::new("cp")
            .arg("-a")
            .arg(data)
            .arg(backup)
            .status()?;
        ensure!(copied.success(), "cp failed");
        self.start_etcd()
    }

    /// Makes etcd what it was then, versions too. Controllers, which do not know that, are of no use afterwards.
    pub fn restore_etcd(&mut self) -> Result<()> {
        self.stop_etcd();
        let (data, backup) = self.etcd_and_its_backup();
        fs::remove_dir_all(&data)?;
        fs::rename(backup, data)?;
        self.start_etcd()
    }

    fn etcd_and_its_backup(&self) -> (PathBuf, PathBuf) {
        let path = self.directory.path();
        (path.join("etcd"), path.join("etcd-backup"))
    }

    fn stop_etcd(&mut self) {
        self.api_server.kill();
        self.etcd.kill();
    }

    fn start_etcd(&mut self) -> Result<()> {
        let [clients, peers] = self.etcd_ports;
        self.etcd = start_etcd(&tool("etcd")?, self.directory.path(), clients, peers)?;
        self.restart_the_api_server()
    }

    /// Makes the API server silent as a host that hangs does: the kernel keeps its connections.
    pub fn freeze_the_api_server(&self) -> Result<()> {
        self.api_server.freeze()
    }

    /// Lets it go on; returns when it is ready.
    pub fn thaw_the_api_server(&mut self) -> Result<()> {
        self.api_server.thaw()?;
        wait_until_ready(&self.runtime, &self.client, &mut self.api_server)
    }

    /// Writes one event of a recording; returns when the API server has acknowledged it. A deletion that Kubernetes
    /// itself did (Endpoints follow their Service) is waited for, not written.
    pub fn write(&self, event: &Event) -> Result<Written> {
        match (event.action, event.kind()) {
            (Action::Added, _) => self.put(&event.object),
            (Action::Modified, _) => self.replace(&event.object),
            (Action::Deleted, "Endpoints") => eventually(&event.title(), CONTROLLERS, || {
                ensure!(self.get(&event.object)?.is_none(), "it is still there");
                let now = Instant::now();
                Ok(Written {
                    sent: now,
                    acknowledged: now,
                })
            }),
            (Action::Deleted, _) => self.delete(&event.object),
        }
    }

    /// Brings the mirrors of the recorded namespaces to exactly this state.
    pub fn become_state(&self, state: &[Event]) -> Result<()> {
        let mut namespaces: Vec<&str> = state.iter().map(Event::namespace).collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        for namespace in namespaces {
            self.put(&serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))?;
            for service in self.mirror_services(namespace)? {
                let wanted = state.iter().find(|event| {
                    event.kind() == "Service"
                        && event.namespace() == namespace
                        && Some(event.name()) == service.metadata.name.as_deref()
                });
                if wanted.is_none_or(|wanted| {
                    wanted.object["spec"]["clusterIP"] != service.data["spec"]["clusterIP"]
                }) {
                    self.delete_with_its_endpoints(namespace, &service)?;
                }
            }
        }
        for event in state {
            self.write(event)?;
        }
        Ok(())
    }

    /// Returns where etcd listens for clients.
    #[allow(dead_code, reason = "for the benchmarks, which share this file")]
    pub fn etcd(&self) -> std::net::SocketAddr {
        (std::net::Ipv4Addr::LOCALHOST, self.etcd_ports[0]).into()
    }

    /// Creates, or replaces what is there.
    pub fn put(&self, object: &Value) -> Result<Written> {
        let (api, object) = self.api_of(object)?;
        let name = name_of(&object);
        let written = self.timed(async || {
            match api.create(&PostParams::default(), &object).await {
                // 422: the cluster IP is taken, by the Service itself.
                Err(Error::Api(status)) if matches!(status.code, 409 | 422) => {
                    match api.get_opt(&name).await? {
                        Some(_) => api
                            .replace(&name, &PostParams::default(), &object)
                            .await
                            .map(drop),
                        None => Err(Error::Api(status)),
                    }
                }
                other => other.map(drop),
            }
        });
        written.with_context(|| format!("writing {name}"))
    }

    /// Changes fields of an object that is there.
    #[allow(dead_code, reason = "for the benchmarks, which share this file")]
    pub fn patch(&self, object: &Value, patch: &Value) -> Result<Written> {
        let (api, object) = self.api_of(object)?;
        let name = name_of(&object);
        let patch = Patch::Merge(patch);
        let written = self.timed(async || {
            api.patch(&name, &PatchParams::default(), &patch)
                .await
                .map(drop)
        });
        written.with_context(|| format!("patching {name}"))
    }

    /// Patches the status, as a kubelet would.
    pub fn put_status(&self, object: &Value, status: &Value) -> Result<Written> {
        let (api, object) = self.api_of(object)?;
        let name = name_of(&object);
        let patch = Patch::Merge(serde_json::json!({ "status": status }));
        let written = self.timed(async || {
            api.patch_status(&name, &PatchParams::default(), &patch)
                .await
                .map(drop)
        });
        written.with_context(|| format!("patching the status of {name}"))
    }

    /// Deletes, at once and whether or not it exists.
    pub fn delete(&self, object: &Value) -> Result<Written> {
        let (api, object) = self.api_of(object)?;
        let name = name_of(&object);
        let written = self.timed(async || {
            match api
                .delete(&name, &DeleteParams::default().grace_period(0))
                .await
            {
                Err(Error::Api(status)) if status.code == 404 => Ok(()),
                other => other.map(drop),
            }
        });
        written.with_context(|| format!("deleting {name}"))
    }

    /// Deletes the Services, Pods and slices of a namespace, at once; returns when none is left.
    pub fn empty(&self, namespace: &str) -> Result<()> {
        for (version, kind) in [
            ("v1", "Service"),
            ("v1", "Pod"),
            ("discovery.k8s.io/v1", "EndpointSlice"),
        ] {
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.client.clone(), namespace, &resource(version, kind));
            eventually("the end of the objects", CONTROLLERS, || {
                self.runtime.block_on(api.delete_collection(
                    &DeleteParams::default().grace_period(0),
                    &ListParams::default(),
                ))?;
                let left = self.list(version, kind, Some(namespace), "")?.len();
                ensure!(left == 0, "{left} of {kind} are left");
                Ok(())
            })?;
        }
        Ok(())
    }

    pub fn get(&self, object: &Value) -> Result<Option<DynamicObject>> {
        let (api, object) = self.api_of(object)?;
        Ok(self.runtime.block_on(api.get_opt(&name_of(&object)))?)
    }

    /// The slices of a Service.
    pub fn slices(&self, namespace: &str, service: &str) -> Result<Vec<DynamicObject>> {
        let selector = format!("kubernetes.io/service-name={service}");
        self.list(
            "discovery.k8s.io/v1",
            "EndpointSlice",
            Some(namespace),
            &selector,
        )
    }

    /// How many objects of a kind there are in all namespaces.
    pub fn count(&self, api_version: &str, kind: &str) -> Result<usize> {
        Ok(self.list(api_version, kind, None, "")?.len())
    }

    fn replace(&self, object: &Value) -> Result<Written> {
        let (api, object) = self.api_of(object)?;
        let name = name_of(&object);
        let written = self.timed(async || {
            api.replace(&name, &PostParams::default(), &object)
                .await
                .map(drop)
        });
        written.with_context(|| format!("replacing {name}"))
    }

    /// Runs a request to its acknowledgement.
    fn timed(&self, request: impl AsyncFnOnce() -> kube::Result<()>) -> Result<Written> {
        let sent = Instant::now();
        self.runtime.block_on(request())?;
        Ok(Written {
            sent,
            acknowledged: Instant::now(),
        })
    }

    fn mirror_services(&self, namespace: &str) -> Result<Vec<DynamicObject>> {
        self.list(
            "v1",
            "Service",
            Some(namespace),
            "mirror.linkerd.io/mirrored-service=true",
        )
    }

    fn list(
        &self,
        version: &str,
        kind: &str,
        namespace: Option<&str>,
        selector: &str,
    ) -> Result<Vec<DynamicObject>> {
        let resource = resource(version, kind);
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        Ok(self
            .runtime
            .block_on(api.list(&ListParams::default().labels(selector)))?
            .items)
    }

    fn delete_with_its_endpoints(&self, namespace: &str, service: &DynamicObject) -> Result<()> {
        let name = service.metadata.name.as_deref().unwrap_or_default();
        let object = |kind: &str| serde_json::json!({"apiVersion": "v1", "kind": kind, "metadata": {"namespace": namespace, "name": name}});
        self.delete(&object("Service"))?;
        self.write(&Event {
            action: Action::Deleted,
            object: object("Endpoints"),
        })?;
        Ok(())
    }

    fn api_of(&self, object: &Value) -> Result<(Api<DynamicObject>, DynamicObject)> {
        let object: DynamicObject = serde_json::from_value(object.clone())?;
        let types = object
            .types
            .as_ref()
            .ok_or_else(|| anyhow!("an object without a kind"))?;
        let resource = resource(&types.api_version, &types.kind);
        let client = self.client.clone();
        let api = match &object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        };
        Ok((api, object))
    }

    /// A Service with Endpoints gets a slice, and loses it again.
    fn wait_for_the_controllers(&mut self) -> Result<()> {
        let object = |kind: &str, field: &str, value: Value| {
            serde_json::json!({"apiVersion": "v1", "kind": kind,
                "metadata": {"namespace": "default", "name": "are-you-there"}, field: value})
        };
        let service = object(
            "Service",
            "spec",
            serde_json::json!({"ports": [{"port": 80}]}),
        );
        let endpoints =
            serde_json::json!([{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}]);
        let endpoints = object("Endpoints", "subsets", endpoints);
        self.put(&service)?;
        self.put(&endpoints)?;
        eventually("the mirroring controller's slice", START, || {
            self.controllers.check()?;
            ensure!(
                self.slices("default", "are-you-there")?.len() == 1,
                "there is no slice"
            );
            Ok(())
        })?;
        self.delete(&service)?;
        self.write(&Event {
            action: Action::Deleted,
            object: endpoints,
        })?;
        Ok(())
    }
}

#[allow(dead_code, reason = "for the suite `chart`, which shares this file")]
impl Cluster {
    /// Has the API server decide on the creation of an object, admission included, without keeping it. What it does not
    /// know is an error, not a warning.
    pub fn dry_run(&self, object: &Value) -> Result<()> {
        let (api, named) = self.api_of(object)?;
        let url = format!("{}?dryRun=All&fieldValidation=Strict", api.resource_url());
        self.post(&url, object)
            .with_context(|| format!("creating {}", name_of(&named)))?;
        Ok(())
    }

    /// Asks for a token of a service account, as a kubelet does for a pod.
    pub fn token(&self, namespace: &str, account: &str) -> Result<String> {
        let url = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let request = serde_json::json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600}});
        let answer = self.post(&url, &request)?;
        let token = answer["status"]["token"].as_str();
        Ok(token.context("an answer without a token")?.to_owned())
    }

    /// Posts what is no object of its own, such as a review.
    pub fn post(&self, url: &str, body: &Value) -> Result<Value> {
        let request = Request::post(url).header("Content-Type", "application/json");
        let request = request.body(body.to_string().into_bytes())?;
        let answer = self.runtime.block_on(self.client.request_text(request))?;
        Ok(serde_json::from_str(&answer)?)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.controllers.kill();
        self.api_server.kill();
        self.etcd.kill();
    }
}

impl ApiServerCommand {
    fn start(&self, directory: &Path) -> Result<Process> {
        let mut command: Command = command(&self.program);
        command.args(&self.arguments);
        Process::start("kube-apiserver", command, directory)
    }
}

fn start_etcd(program: &Path, directory: &Path, clients: u16, peers: u16) -> Result<Process> {
    let mut command = command(program);
    command
        .arg(format!("--data-dir={}", directory.join("etcd").display()))
        .args([
            format!("--listen-client-urls=http://127.0.0.1:{clients}"),
            format!("--advertise-client-urls=http://127.0.0.1:{clients}"),
            format!("--listen-peer-urls=https://127.0.0.1:{peers}"),
            format!("--initial-advertise-peer-urls=https://127.0.0.1:{peers}"),
            format!("--initial-cluster=default=https://127.0.0.1:{peers}"),
            "--peer-auto-tls".to_owned(),
            "--log-level=error".to_owned(),
        ]);
    Process::start("etcd", command, directory)
}

fn api_server_command(
    program: PathBuf,
    directory: &Path,
    etcd: u16,
    port: u16,
    key: &Path,
) -> ApiServerCommand {
    let key = key.display();
    let arguments = vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd}"),
        format!("--secure-port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
        // Nothing ever connects to it; without the flag, a machine without a default route has no address to offer.
        "--advertise-address=192.0.2.1".to_owned(),
        format!("--cert-dir={}", directory.join("certificates").display()),
        format!("--service-account-key-file={key}"),
        format!("--service-account-signing-key-file={key}"),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!(
            "--token-auth-file={}",
            directory.join("tokens.csv").display()
        ),
        "--authorization-mode=RBAC".to_owned(),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
    ];
    ApiServerCommand { program, arguments }
}

/// The users; what they may do is up to RBAC.
fn tokens() -> &'static str {
    "token-of-admin,admin,1,\"system:masters\"\n\
     token-of-watcher,watcher,2\n\
     token-of-tenant,tenant,3\n\
     token-of-stranger,stranger,4\n\
     token-of-coredns,coredns,5\n\
     token-of-doctor,doctor,6\n"
}

fn kubeconfig_text(port: u16, certificate: &Path) -> String {
    let users = [
        "admin", "watcher", "tenant", "stranger", "coredns", "doctor",
    ];
    let contexts = users
        .map(|user| format!("- {{name: {user}, context: {{cluster: hub, user: {user}}}}}\n"))
        .concat();
    let users = users
        .map(|user| format!("- {{name: {user}, user: {{token: token-of-{user}}}}}\n"))
        .concat();
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: admin\n\
         clusters:\n- name: hub\n  cluster: {{server: \"https://127.0.0.1:{port}\", certificate-authority: {certificate}}}\n\
         contexts:\n{contexts}users:\n{users}",
        certificate = certificate.display(),
    )
}

async fn connect(kubeconfig: &Path) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.proxy_url = None;
    Ok(Client::try_from(config)?)
}

fn wait_until_ready(runtime: &Runtime, client: &Client, api_server: &mut Process) -> Result<()> {
    eventually("the API server to be ready", START, || {
        api_server.check()?;
        let answer =
            runtime.block_on(client.request_text(Request::get("/readyz").body(Vec::new())?))?;
        ensure!(answer == "ok", "/readyz says {answer}");
        Ok(())
    })
}

fn name_of(object: &DynamicObject) -> String {
    object.metadata.name.clone().unwrap_or_default()
}

fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind_in_lower_case = kind.to_lowercase();
    let plural = match kind_in_lower_case.strip_suffix('y') {
        _ if kind == "Endpoints" => kind_in_lower_case,
        Some(stem) => format!("{stem}ies"),
        None => format!("{kind_in_lower_case}s"),
    };
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), &plural)
}
