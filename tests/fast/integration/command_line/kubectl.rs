//! Commands reach an API server wherever kubectl does: with a credential plugin, through a proxy, with a list of kubeconfigs, with
//! tokens that end in a newline.

use std::fs::{self, Permissions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;
use support::commands::global_dns;
use support::kubeconfig::Kubeconfig;
use support::objects::{mirror, objects, replica, workload};
use support::ports::free_port;
use support::process::{ProcessOutput, run};
use support::server::{Server, WaitUntil};
use support::standin::{Access, Behavior, StandIn};
use support::wait::wait_for;
use tempfile::TempDir;

/// Prints a token with an ExecCredential, as `aws eks get-token` does, and adds a line to the file `CALLS`.
const PLUGIN: &str = r#"#!/bin/sh
echo "$KUBERNETES_EXEC_INFO" >>"$CALLS"
sleep "$SECONDS_OF_PLUGIN"
echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1",'
echo '"status":{"token":"'"$(cat "$1")"'","expirationTimestamp":"2099-01-01T00:00:00Z"}}'
"#;

/// An API server that requires a token, with a replica.
struct ApiServer {
    standin: StandIn,
    address: SocketAddr,
    token_file: String,
    authority: String,
    server: Server,
    folder: TempDir,
}

impl ApiServer {
    fn start() -> Self {
        let db = mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"]);
        let server = Server::with_objects(objects().with(db), &[]);
        let release = workload("Deployment", "dns", "global-dns");
        let pod = replica("dns", "dns-0", server.api.port());
        let standin =
            StandIn::start_with_access(Access::Credentials, Behavior::Normal, &[release, pod]);
        let standin = standin.unwrap();
        let text = fs::read_to_string(&standin.kubeconfig).unwrap();
        let value = |start: &str| {
            let rest = text.split_once(start).unwrap().1;
            rest.split_once('\'').unwrap().0.to_owned()
        };
        let folder = tempfile::tempdir().unwrap();
        let plugin = folder.path().join("plugin");
        fs::write(&plugin, PLUGIN).unwrap();
        fs::set_permissions(&plugin, Permissions::from_mode(0o755)).unwrap();
        Self {
            address: value("server: 'https://").parse().unwrap(),
            token_file: value("tokenFile: '"),
            authority: format!("certificate-authority: '{}'", value("authority: '")),
            standin,
            server,
            folder,
        }
    }

    fn kubeconfig(&self, user: &str) -> Kubeconfig {
        Kubeconfig::with(&format!("https://{}", self.address), &self.authority, user)
    }

    /// Returns a kubeconfig for an API server that only a proxy reaches.
    fn behind_proxy(&self, cluster: &str) -> Kubeconfig {
        let cluster = format!("{}, tls-server-name: 127.0.0.1, {cluster}", self.authority);
        let user = format!("tokenFile: '{}'", self.token_file);
        Kubeconfig::with("https://api.east.invalid:6443", &cluster, &user)
    }

    /// Returns a kubeconfig with the credential plugin.
    fn with_plugin(&self) -> Kubeconfig {
        let (folder, token) = (self.folder.path().display(), &self.token_file);
        self.kubeconfig(&format!(
            "exec: {{apiVersion: client.authentication.k8s.io/v1beta1, command: '{folder}/plugin', args: ['{token}'], \
             env: [{{name: CALLS, value: '{folder}/calls'}}], interactiveMode: IfAvailable, provideClusterInfo: true}}"
        ))
    }

    /// Returns what the plugin was told in each call since the last time.
    fn calls(&self) -> Vec<String> {
        let path = self.folder.path().join("calls");
        let calls = fs::read_to_string(&path).unwrap_or_default();
        _ = fs::remove_file(&path);
        calls.lines().map(str::to_owned).collect()
    }
}

/// Returns a command with an empty home, without an environment of the test.
fn command(kubeconfig: &str, arguments: &[&str], home: &TempDir) -> Command {
    let mut command = global_dns(arguments);
    command
        .env("KUBECONFIG", kubeconfig)
        .env("HOME", home.path())
        .env("SECONDS_OF_PLUGIN", "0")
        .env(
            "GLOBAL_DNS_API_LISTEN",
            format!("127.0.0.1:{}", free_port()),
        )
        .env_remove("KUBERNETES_SERVICE_HOST");
    command
}

fn table(kubeconfig: &str) -> ProcessOutput {
    let home = tempfile::tempdir().unwrap();
    run(&mut command(kubeconfig, &["table"], &home))
}

fn assert_answered(ended: &ProcessOutput) {
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:#?}");
    assert!(ended.stdout.contains("dns/dns-0"), "{}", ended.stdout);
}

/// Each further run of a plugin of two seconds, as `aws` has on many machines, would take two seconds more.
#[test]
fn credential_plugin_runs_once_for_a_command() {
    let api_server = ApiServer::start();
    let kubeconfig = api_server.with_plugin();
    let home = tempfile::tempdir().unwrap();
    let mut slow = command(&kubeconfig.path, &["table"], &home);
    assert_answered(&run(slow.env("SECONDS_OF_PLUGIN", "2")));
    let calls = api_server.calls();
    assert_eq!(calls.len(), 1, "{calls:?}");
    let info: Value = serde_json::from_str(&calls[0]).unwrap();
    assert_eq!(info["apiVersion"], "client.authentication.k8s.io/v1beta1");
    let server = format!("https://{}", api_server.address);
    assert_eq!(info["spec"]["cluster"]["server"], server);
    assert_eq!(info["spec"]["interactive"], false);
    for arguments in [
        &["explain", "db.prod"][..],
        &["events"],
        &["table", "--direct"],
        &["explain", "db.prod", "--direct"],
        &["check"],
    ] {
        run(&mut command(&kubeconfig.path, arguments, &home));
        assert_eq!(api_server.calls().len(), 1, "{arguments:?}");
    }
    // Without a replica.
    drop(api_server.server);
    for arguments in [&["table"][..], &["explain", "db.prod"], &["fleet"]] {
        let ended = run(&mut command(&kubeconfig.path, arguments, &home));
        assert_eq!(ended.code, Some(1), "{ended:#?}");
        let calls = fs::read_to_string(api_server.folder.path().join("calls")).unwrap();
        fs::write(api_server.folder.path().join("calls"), "").unwrap();
        assert_eq!(calls.lines().count(), 1, "{arguments:?}");
    }
    assert!(!api_server.standin.requests().is_empty());
}

#[test]
fn tokens_that_end_in_a_newline_are_accepted() {
    let api_server = ApiServer::start();
    let token = fs::read_to_string(&api_server.token_file).unwrap();
    let inline = api_server.kubeconfig(&format!("token: \"{token}\\n\""));
    assert_answered(&table(&inline.path));
    fs::write(&api_server.token_file, format!("{token}\n")).unwrap();
    let in_file = api_server.kubeconfig(&format!("tokenFile: '{}'", api_server.token_file));
    assert_answered(&table(&in_file.path));
}

#[test]
fn absent_files_of_a_list_are_left_out() {
    let api_server = ApiServer::start();
    let present = api_server.kubeconfig(&format!("tokenFile: '{}'", api_server.token_file));
    assert_answered(&table(&format!("/no/such/file::{}:/none", present.path)));
    let absent = table("/no/such/file:/none").stderr;
    let start = "error: cannot read the kubeconfig KUBECONFIG (/no/such/file:/none): No such file";
    assert!(absent.starts_with(start), "{absent}");
}

/// Starts a proxy that connects to one address, whatever is asked for. Returns its address and the first lines of requests.
fn proxy(to: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let lines = asked.clone();
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let mut reader = BufReader::new(client.try_clone().unwrap());
            let mut first = String::new();
            reader.read_line(&mut first).unwrap();
            let mut line = first.clone();
            while !line.trim().is_empty() {
                line.clear();
                reader.read_line(&mut line).unwrap();
            }
            lines.lock().unwrap().push(first.trim().to_owned());
            client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            let server = TcpStream::connect(to).unwrap();
            let streams = [&client, &server].map(|one| one.try_clone().unwrap());
            let [to_client, to_server] = streams;
            thread::spawn(move || pass(client, to_server));
            thread::spawn(move || pass(server, to_client));
        }
    });
    (address, asked)
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    _ = io::copy(&mut from, &mut to);
    _ = to.shutdown(Shutdown::Write);
}

#[test]
fn proxies_of_the_kubeconfig_and_of_the_environment_are_used() {
    let api_server = ApiServer::start();
    let (address, asked) = proxy(api_server.address);
    let connects = || std::mem::take(&mut *asked.lock().unwrap());
    let home = tempfile::tempdir().unwrap();
    let of_file = api_server.behind_proxy(&format!("proxy-url: 'http://{address}'"));
    let of_environment = api_server.behind_proxy("");
    let url = format!("http://{address}");
    for (kubeconfig, environment) in [
        (&of_file, &[][..]),
        (
            &of_file,
            &[("NO_PROXY", "*"), ("HTTPS_PROXY", "http://127.0.0.1:1")],
        ),
        (
            &of_environment,
            &[("HTTPS_PROXY", &*url), ("NO_PROXY", "127.0.0.1,")],
        ),
        (&of_environment, &[("all_proxy", &*url)]),
    ] {
        let mut table = command(&kubeconfig.path, &["table"], &home);
        assert_answered(&run(table.envs(environment.iter().copied())));
        let connect = "CONNECT api.east.invalid:6443 HTTP/1.1";
        assert!(connects().contains(&connect.to_owned()), "{environment:?}");
    }
    // The proxy is down.
    let down = api_server.behind_proxy("proxy-url: 'http://me:secret@127.0.0.1:1'");
    let error = table(&down.path).stderr;
    assert!(error.contains(" the proxy 127.0.0.1:1: "), "{error}");
    // The API server needs no proxy.
    let direct = api_server.kubeconfig(&format!("tokenFile: '{}'", api_server.token_file));
    for (kubeconfig, is_reached) in [(&direct, true), (&of_environment, false)] {
        let mut table = command(&kubeconfig.path, &["table"], &home);
        table.env("HTTPS_PROXY", &url);
        let ended = run(table.env("NO_PROXY", "10.0.0.0/8, .east.invalid"));
        assert_eq!(ended.stdout.contains("dns/dns-0"), is_reached, "{ended:#?}");
        assert_eq!(connects(), [""; 0]);
    }
}

/// An error is about a field or a variable that a person can change.
#[test]
fn errors_about_credentials_and_proxies_name_the_setting() {
    let write = |cluster: &str, user: &str| Kubeconfig::with("https://10.0.0.1", cluster, user);
    let bare = |cluster: &str, user: &str| Kubeconfig::with("127.0.0.1:1", cluster, user);
    let home = tempfile::tempdir().unwrap();
    for (kubeconfig, reason) in [
        (
            bare("", "token: t"),
            "server: '127.0.0.1:1' has no scheme, and a token needs TLS: write https://127.0.0.1:1",
        ),
        (
            write("proxy-url: 'ftp://proxy'", ""),
            "proxy-url: 'ftp://proxy' is not the http, https or socks5 URL of a proxy",
        ),
        (
            write("", "auth-provider: {name: gcp}"),
            "auth-provider: 'gcp' is not supported, nor by kubectl; use a credential plugin (exec)",
        ),
        (
            write("", "token: \"a\\nb\""),
            "token: it has characters that no token has",
        ),
        (
            write("", "tokenFile: /no/such/token"),
            "tokenFile /no/such/token: No such file or directory",
        ),
        (
            write(
                "",
                "exec: {command: no-such-plugin, installHint: Install it.}",
            ),
            "the credential plugin 'no-such-plugin' (exec) failed: No such file or directory (os error 2) Install it.",
        ),
        (
            write("", "exec: {command: 'false'}"),
            "the credential plugin 'false' (exec) failed: exit status: 1",
        ),
        (
            write("", "exec: {command: echo, args: ['{status: {}}']}"),
            "the credential plugin 'echo' (exec) failed: it printed neither a token nor a certificate",
        ),
        (
            write("", "exec: {command: echo}"),
            "the credential plugin 'echo' (exec) failed: no ExecCredential",
        ),
        (
            write("certificate-authority: /no/such/ca", ""),
            "failed to load certificate authority",
        ),
    ] {
        let flag = kubeconfig.flag();
        let error = run(&mut command("", &["table", &flag], &home)).stderr;
        let start = "error: cannot use ";
        assert!(
            error.starts_with(start) && error.contains(reason),
            "{error}"
        );
        assert!(error.contains("context 'here' of "), "{error}");
        assert!(!error.contains("feature"), "{error}");
    }
}

/// Starts `serve` without CA certificates of the system, as in the image.
fn serve_without_certificates(kubeconfig: &str, until: WaitUntil) -> Server {
    let kubeconfig = format!("--kubeconfig={kubeconfig}");
    let mut command = global_dns(&[
        "serve",
        "--cluster-name=hub",
        "--listen=127.0.0.1:0",
        "--admin-listen=127.0.0.1:0",
        "--api-listen=127.0.0.1:0",
        "--log-format=json",
        &kubeconfig,
    ]);
    command
        .env("SSL_CERT_FILE", "/nonexistent")
        .env("SSL_CERT_DIR", "/nonexistent");
    Server::start_command(tempfile::tempdir().unwrap(), command, until)
}

#[test]
fn server_without_certificates_of_the_system_needs_no_certificate_authority() {
    let plain = StandIn::start(Behavior::Normal, &[]).unwrap();
    let api_server = ApiServer::start();
    let url = format!("https://{}", api_server.address);
    let user = format!("tokenFile: '{}'", api_server.token_file);
    let insecure = |url: &str| Kubeconfig::with(url, "insecure-skip-tls-verify: true", &user);
    let with_scheme = fs::read_to_string(&plain.kubeconfig).unwrap();
    let without = plain.kubeconfig.with_extension("without-scheme");
    fs::write(&without, with_scheme.replace("http://", "")).unwrap();
    for kubeconfig in [
        plain.kubeconfig.to_str().unwrap(),
        without.to_str().unwrap(),
        &insecure(&url).path,
        &insecure(url.trim_start_matches("https://")).path,
    ] {
        serve_without_certificates(kubeconfig, WaitUntil::Ready);
    }
    // Without an authority, the API server cannot be verified.
    let unverified = Kubeconfig::with(&url, "", &user);
    let server = serve_without_certificates(&unverified.path, WaitUntil::Listening);
    let expected = "set certificate-authority in the kubeconfig to the CA of the API server";
    wait_for("the reason", || {
        let page = server.admin("/readyz");
        (page.status == 503 && page.body.contains(expected)).then_some(())
    });
}
