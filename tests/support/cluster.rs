//! A real source cluster: etcd, a kube-apiserver and a kube-controller-manager.
//!
//! A suite uses one cluster. All ports are on loopback, unless nodes must reach them, and all files are in a temporary directory.
//! RBAC is enabled.
//! The contexts of [`Cluster::kubeconfig`] list the users.

mod objects;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use http::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::commands::{guarded, tool};
use crate::output::print_line;
use crate::ports::free_port;
use crate::process::{Process, run_checked};
use crate::recordings::{Action, Event};
use crate::wait::eventually;

/// The controllers that run.
const CONTROLLERS: &str = "endpoints-controller,endpointslice-controller,endpointslice-mirroring-controller,\
     garbage-collector-controller,namespace-controller";

/// A running source cluster.
pub struct Cluster {
    /// A kubeconfig with one context for each user: `admin`, `stranger`, `coredns`, `doctor`.
    pub kubeconfig: PathBuf,
    client: Client,
    runtime: Runtime,
    api_server_command: Daemon,
    controllers_command: Daemon,
    // The processes end in this order.
    controllers: Process,
    api_server: Process,
    etcd: Process,
    /// Ports of etcd for clients and for peers.
    etcd_ports: [u16; 2],
    directory: TempDir,
}

/// A process that can be started again.
struct Daemon {
    name: &'static str,
    program: PathBuf,
    arguments: Vec<String>,
}

/// What depends on whether the cluster has nodes.
struct ControlPlane {
    /// The address of the API server for clients.
    address: &'static str,
    /// Further arguments of the API server.
    api_server: Vec<String>,
    /// The controllers that run.
    controllers: String,
    /// Whether pods get tokens of their ServiceAccounts.
    has_pods: bool,
}

// === impl Cluster ===

impl Cluster {
    /// Starts the processes. Returns when the API server is ready and the controllers react.
    pub fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    /// Starts the processes with additional arguments for the API server.
    pub fn start_with(further: &[String]) -> Result<Self> {
        let mut api_server = vec![
            "--bind-address=127.0.0.1".to_owned(),
            // Nothing connects to this address. Without the flag, the start fails on a machine without a default route.
            "--advertise-address=192.0.2.1".to_owned(),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
        ];
        api_server.extend_from_slice(further);
        Self::start_processes(&ControlPlane {
            address: "127.0.0.1",
            api_server,
            controllers: CONTROLLERS.to_owned(),
            has_pods: false,
        })
    }

    /// Starts the processes with all controllers, for nodes that reach the API server at this address of the machine.
    pub fn start_for_nodes(address: &'static str) -> Result<Self> {
        Self::start_processes(&ControlPlane {
            address,
            api_server: vec![
                format!("--advertise-address={address}"),
                "--allow-privileged=true".to_owned(),
                "--kubelet-preferred-address-types=InternalIP".to_owned(),
                // A token is valid for the time that its pod requests.
                "--service-account-extend-token-expiration=false".to_owned(),
            ],
            controllers: "*".to_owned(),
            has_pods: true,
        })
    }

    fn start_processes(control_plane: &ControlPlane) -> Result<Self> {
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
        // etcd generates this private key for its peers. There are no peers, so the API server can use the key.
        let key = path.join("etcd/fixtures/peer/key.pem");
        eventually("etcd's key", || {
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
            kubeconfig_text(
                &format!("{}:{port}", control_plane.address),
                &path.join("certificates/apiserver.crt"),
            ),
        )?;
        let mut api_server_command = api_server_command(api_server, path, clients, port, &key);
        let arguments = &mut api_server_command.arguments;
        arguments.extend_from_slice(&control_plane.api_server);
        let mut api_server = api_server_command.start()?;
        let certificate = path.join("certificates/apiserver.crt");
        eventually("the API server's certificate", || {
            api_server.check()?;
            // The file exists shortly before its content, and the client reads it only once.
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

        let mut controllers_command = Daemon {
            name: "kube-controller-manager",
            program: controllers,
            arguments: vec![
                format!("--kubeconfig={}", kubeconfig.display()),
                "--leader-elect=false".to_owned(),
                "--secure-port=0".to_owned(),
                "--kube-api-qps=1000".to_owned(),
                "--kube-api-burst=1000".to_owned(),
                format!("--controllers={}", control_plane.controllers),
            ],
        };
        if control_plane.has_pods {
            controllers_command.arguments.extend([
                format!("--root-ca-file={}", certificate.display()),
                format!("--service-account-private-key-file={}", key.display()),
            ]);
        }
        let controllers = controllers_command.start()?;

        let mut cluster = Self {
            kubeconfig,
            client,
            runtime,
            api_server_command,
            controllers_command,
            controllers,
            api_server,
            etcd,
            etcd_ports: [clients, peers],
            directory,
        };
        cluster.wait_for_controllers()?;
        print_line(&format!(
            "cluster: started in {:.1} s",
            started.elapsed().as_secs_f64()
        ));
        Ok(cluster)
    }

    /// Returns the directory of the cluster, also for other files and logs.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the address of the API server.
    pub fn address(&self) -> Result<String> {
        let kubeconfig = fs::read_to_string(&self.kubeconfig)?;
        let (_, rest) = kubeconfig.split_once("https://").context("no server")?;
        let (address, _) = rest.split_once('"').context("no closing quote")?;
        Ok(address.to_owned())
    }

    /// Returns the path of the API server's self-signed certificate.
    pub fn certificate(&self) -> PathBuf {
        self.directory.path().join("certificates/apiserver.crt")
    }

    /// Kills the API server, which simulates a crash.
    pub fn kill_api_server(&mut self) {
        self.api_server.kill();
    }

    /// Starts the API server again with the same port and data. Returns when it is ready.
    pub fn restart_api_server(&mut self) -> Result<()> {
        self.api_server = self.api_server_command.start()?;
        self.client = self.runtime.block_on(connect(&self.kubeconfig))?;
        wait_until_ready(&self.runtime, &self.client, &mut self.api_server)
    }

    /// Ends the controllers. Those of a real cluster lose their leadership during an outage of the API server, and restart. Others
    /// would believe afterwards that all nodes were lost.
    pub fn stop_controllers(&mut self) {
        self.controllers.kill();
    }

    /// Starts the controllers again.
    pub fn restart_controllers(&mut self) -> Result<()> {
        self.controllers = self.controllers_command.start()?;
        Ok(())
    }

    /// Backs up etcd. Restarts etcd and the API server.
    pub fn back_up_etcd(&mut self) -> Result<()> {
        self.stop_etcd();
        let (data, backup) = self.etcd_and_backup_directories();
        run_checked(Command::new("cp").arg("-a").arg(data).arg(backup))?;
        self.start_etcd()
    }

    /// Restores the backup of etcd, including resource versions. The controllers do not work afterwards.
    pub fn restore_etcd(&mut self) -> Result<()> {
        self.stop_etcd();
        let (data, backup) = self.etcd_and_backup_directories();
        fs::remove_dir_all(&data)?;
        fs::rename(backup, data)?;
        self.start_etcd()
    }

    fn etcd_and_backup_directories(&self) -> (PathBuf, PathBuf) {
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
        self.restart_api_server()
    }

    /// Stops the API server like a host that hangs: the kernel keeps its connections open.
    pub fn freeze_api_server(&self) -> Result<()> {
        self.api_server.signal("STOP")
    }

    /// Continues the stopped API server. Returns when it is ready.
    pub fn thaw_api_server(&mut self) -> Result<()> {
        self.api_server.signal("CONT")?;
        wait_until_ready(&self.runtime, &self.client, &mut self.api_server)
    }

    /// Waits until the controllers create a slice for a Service with Endpoints. Deletes the objects.
    fn wait_for_controllers(&mut self) -> Result<()> {
        let object = |kind: &str, field: &str, value: Value| {
            json!({"apiVersion": "v1", "kind": kind,
                "metadata": {"namespace": "default", "name": "controller-probe"}, field: value})
        };
        let service = object("Service", "spec", json!({"ports": [{"port": 80}]}));
        let endpoints = json!([{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}]);
        let endpoints = object("Endpoints", "subsets", endpoints);
        self.put(&service)?;
        self.put(&endpoints)?;
        eventually("the mirroring controller's slice", || {
            self.controllers.check()?;
            ensure!(
                self.slices("default", "controller-probe")?.len() == 1,
                "no slice exists"
            );
            Ok(())
        })?;
        self.delete(&service)?;
        self.write(&Event {
            time: 0,
            action: Action::Deleted,
            object: endpoints,
        })?;
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.controllers.kill();
        self.api_server.kill();
        self.etcd.kill();
    }
}

impl Daemon {
    fn start(&self) -> Result<Process> {
        let mut command = guarded(&self.program);
        command.args(&self.arguments);
        Process::start(self.name, command)
    }
}

fn start_etcd(program: &Path, directory: &Path, clients: u16, peers: u16) -> Result<Process> {
    let mut command = guarded(program);
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
    Process::start("etcd", command)
}

fn api_server_command(
    program: PathBuf,
    directory: &Path,
    etcd: u16,
    port: u16,
    key: &Path,
) -> Daemon {
    let key = key.display();
    let arguments = vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd}"),
        format!("--secure-port={port}"),
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
    ];
    Daemon {
        name: "kube-apiserver",
        program,
        arguments,
    }
}

/// Returns the token file. RBAC objects grant the permissions of the users.
fn tokens() -> &'static str {
    "token-of-admin,admin,1,\"system:masters\"\n\
     token-of-stranger,stranger,4\n\
     token-of-coredns,coredns,5\n\
     token-of-doctor,doctor,6\n"
}

fn kubeconfig_text(address: &str, certificate: &Path) -> String {
    let users = ["admin", "stranger", "coredns", "doctor"];
    let contexts = users
        .map(|user| format!("- {{name: {user}, context: {{cluster: hub, user: {user}}}}}\n"))
        .concat();
    let users = users
        .map(|user| format!("- {{name: {user}, user: {{token: token-of-{user}}}}}\n"))
        .concat();
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: admin\n\
         clusters:\n- name: hub\n  cluster: {{server: \"https://{address}\", certificate-authority: {certificate}}}\n\
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
    eventually("the API server to be ready", || {
        api_server.check()?;
        let answer =
            runtime.block_on(client.request_text(Request::get("/readyz").body(Vec::new())?))?;
        ensure!(answer == "ok", "/readyz returned {answer}");
        Ok(())
    })
}
