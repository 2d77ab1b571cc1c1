//! Errors of the command line: the exit code, and one sentence that names the flag, file, variable or URL, and the way out.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::process::Command;
use std::thread;

use support::commands::{command, global_dns};
use support::kubeconfig::Kubeconfig;
use support::objects::{mirror, objects};
use support::process::{Process, ProcessOutput, run, run_global_dns};
use tempfile::TempDir;

const LISTEN: &str = "--listen=127.0.0.1:0";
const ADMIN: &str = "--admin-listen=127.0.0.1:0";
const API: &str = "--api-listen=127.0.0.1:0";

/// Writes objects into a file. Returns the temporary folder and the flag.
fn sample_file() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("objects.yaml");
    let db = mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"]);
    fs::write(&path, objects().with(db).text()).unwrap();
    let flag = format!("--file={}", path.display());
    (folder, flag)
}

/// Returns the line of the error, which can follow log lines.
fn error_of(ended: &ProcessOutput) -> &str {
    let lines = ended.stderr.lines();
    let mut errors = lines.filter(|line| line.starts_with("error: "));
    let error = errors.next();
    assert_eq!(errors.next(), None, "{}", ended.stderr);
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    error.unwrap_or_else(|| panic!("no error: {}", ended.stderr))
}

// === Values ===

/// Runs `table` with a file and a variable.
fn with_variable(variable: &str, value: &str, flags: &[&str]) -> ProcessOutput {
    let (_folder, file) = sample_file();
    let mut command = global_dns(&[&["table", &file], flags].concat());
    run(command.env(variable, value))
}

#[test]
fn flags_override_environment_variables() {
    for (flags, apex) in [(&[][..], "a.test.\t"), (&["--zone=c.test"], "c.test.\t")] {
        let flags = [flags, &["--output=zone"]].concat();
        let ended = with_variable("GLOBAL_DNS_ZONE", "a.test", &flags);
        let record = ended.stdout.lines().find(|line| !line.starts_with(';'));
        assert!(record.unwrap().starts_with(apex), "{ended:?}");
    }
    for (variable, value) in [("CONTEXT", "x"), ("SERVER", "x:1"), ("NAMESPACE", "prod")] {
        let variable = format!("GLOBAL_DNS_{variable}");
        let ended = with_variable(&variable, value, &["--output=zone"]);
        assert_eq!(ended.code, Some(0), "{variable}: {ended:?}");
    }
    let ended = with_variable("GLOBAL_DNS_FILE", "x", &["--context=y"]);
    assert!(ended.stderr.contains("cannot be used with"), "{ended:?}");
}

/// In no case, a flag is silently without effect.
#[test]
fn flags_that_ask_the_dns_of_a_cluster_need_a_way_to_it() {
    let (_folder, file) = sample_file();
    for flag in ["--name=db.prod", "--connect"] {
        let ended = run(global_dns(&["check", &file, flag]).env_remove("KUBERNETES_SERVICE_HOST"));
        let expected = format!(
            "error: {} asks the cluster's DNS",
            &flag[..flag.find('=').unwrap_or(flag.len())]
        );
        assert!(ended.stderr.starts_with(&expected), "{ended:?}");
        assert_eq!(ended.code, Some(2));
    }
}

// === Listeners ===

#[test]
fn address_that_cannot_be_bound_is_an_error_that_names_flag_and_way_out() {
    let (_folder, file) = sample_file();
    // The listeners stay open until the end of the test.
    let tcp_taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp_taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let tcp = tcp_taken.local_addr().unwrap();
    let udp = udp_taken.local_addr().unwrap();
    // 192.0.2.0/24 is reserved for documentation (RFC 5737).
    let of_another_host = "192.0.2.1:0".parse().unwrap();
    let in_use = |flag: &str| {
        format!(
            "Address already in use (os error 98); another process, or another listener of this one, uses the port: stop \
             it, or choose another port with {flag}"
        )
    };
    for (listener, flag, address, reason) in [
        ("dns", "--listen", udp, in_use("--listen")),
        ("dns", "--listen", tcp, in_use("--listen")),
        ("admin", "--admin-listen", tcp, in_use("--admin-listen")),
        ("api", "--api-listen", tcp, in_use("--api-listen")),
        ("dns", "--listen", of_another_host, String::new()),
    ] {
        let taken = format!("{flag}={address}");
        let others = [LISTEN, ADMIN, API].into_iter();
        let others = others.filter(|other| !other.starts_with(&format!("{flag}=")));
        let arguments = ["serve", &file, &taken].into_iter().chain(others);
        let ended = run_global_dns(&arguments.collect::<Vec<_>>());
        let expected =
            format!("error: cannot bind the {listener} listener to {address} ({flag}): {reason}");
        let error = error_of(&ended);
        assert_eq!(ended.code, Some(1), "{error}");
        assert!(error.starts_with(&expected), "{error}");
    }
}

/// Returns a command that runs the program without any capability.
fn without_capabilities(arguments: &[&str]) -> Command {
    let mut unprivileged = command("setpriv");
    unprivileged.args(["--bounding-set=-all", "--inh-caps=-all", "--"]);
    unprivileged
        .arg(support::commands::binary())
        .args(arguments);
    unprivileged
}

#[test]
#[ignore = "needs root and the default of net.ipv4.ip_unprivileged_port_start"]
fn port_below_1024_without_permission_says_what_to_do() {
    let (_folder, file) = sample_file();
    let arguments = ["serve", &file, "--listen=127.0.0.1:53", ADMIN, API];
    let ended = run(&mut without_capabilities(&arguments));
    let expected = "error: cannot bind the dns listener to 127.0.0.1:53 (--listen): Permission denied (os error 13); a \
                    port below 1024 needs root or the capability NET_BIND_SERVICE: choose a higher port with --listen, \
                    such as 5353";
    assert_eq!((ended.code, error_of(&ended)), (Some(1), expected));
}

// === The API server ===

/// An error of the wait for the table, without its start and its end.
fn reason_of<'e>(error: &'e str, kubeconfig: &Kubeconfig) -> &'e str {
    let file = &kubeconfig.path;
    let end = format!(
        "; check that this works: kubectl --kubeconfig {file} --context here get services,endpointslices --all-namespaces"
    );
    let rest = error.strip_prefix("error: there is no complete table: ");
    let rest = rest.and_then(|rest| rest.strip_suffix(&end));
    rest.unwrap_or_else(|| panic!("{error}"))
}

#[test]
fn api_server_that_stalls_is_an_error_with_its_url_and_context() {
    // The kernel accepts the connections.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let kubeconfig = Kubeconfig::write(&format!("http://{}", listener.local_addr().unwrap()));
    let ended = run_global_dns(&["table", "--direct", &kubeconfig.flag()]);
    assert_eq!(ended.code, Some(1));
    let start = format!(
        "{}, context 'here' of {}: ",
        kubeconfig.url, kubeconfig.path
    );
    let why = reason_of(error_of(&ended), &kubeconfig).strip_prefix(&start);
    // The wait for the table and for the first list end at the same time.
    let reasons = [
        "no complete list within 30 s",
        "the API server sent nothing for 30 s",
    ];
    assert!(why.is_some_and(|why| reasons.contains(&why)), "{why:?}");
}

/// A terminal would execute them. Another program reads the same texts.
#[test]
fn json_of_a_hostile_server_is_printed_without_control_characters() {
    let text = "a\u{9b}2J\u{202e}b\u{7f}\u{2028}\u{1b}";
    let items = serde_json::json!([{"section": "services", text: text}]);
    let document = serde_json::json!({
        "kind": "table", "replica": text, "generation": 1, "exit": 0, "items": items,
    });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("--server=http://{}", listener.local_addr().unwrap());
    let answering = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        while !lines.next().unwrap().unwrap().is_empty() {}
        let body = document.to_string();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all((head + &body).as_bytes()).unwrap();
    });
    let ended = run_global_dns(&["table", &server, "-o", "json"]);
    answering.join().unwrap();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let printed: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(
        (&printed["items"], &printed["replica"]),
        (&items, &text.into())
    );
    let is_harmful = |c: char| c.is_control() && c != '\n' || "\u{202e}\u{2028}".contains(c);
    assert!(!ended.stdout.contains(is_harmful), "{:?}", ended.stdout);
}

#[test]
fn api_server_that_refuses_connections_is_an_error_with_its_url_once() {
    let kubeconfig = Kubeconfig::of_closed_port();
    let flag = kubeconfig.flag();
    let cannot = format!(
        "cannot reach {}: tcp connect error: Connection refused",
        kubeconfig.url
    );
    for name in [
        &["table", "--direct"][..],
        &["explain", "--direct", "db.prod.global"],
    ] {
        let ended = run_global_dns(&[name, &[&flag]].concat());
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
        let expected = format!(
            "context 'here' of {}: {cannot} (os error 111)",
            kubeconfig.path
        );
        assert_eq!(reason_of(error_of(&ended), &kubeconfig), expected);
    }
    let serve = global_dns(&["serve", &flag, LISTEN, ADMIN, API]);
    let mut serve = Process::start("serve", serve).unwrap();
    let found = serve.wait_for("the warning", |log| {
        log.text().contains(&cannot).then_some(())
    });
    found.unwrap();
}

/// Starts a server that answers every request with 404. It ends with the process of the tests.
fn server_without_the_api() -> Kubeconfig {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let kubeconfig = Kubeconfig::write(&format!("http://{}", listener.local_addr().unwrap()));
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let lines = BufReader::new(&stream).lines().map_while(Result::ok);
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            // Fails if the client is gone.
            let _ = stream
                .write_all(b"HTTP/1.1 404 -\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    kubeconfig
}

#[test]
fn api_server_without_the_api_is_named() {
    let kubeconfig = server_without_the_api();
    let ended = run_global_dns(&["table", "--direct", &kubeconfig.flag()]);
    let error = error_of(&ended);
    for part in ["returned 404", &kubeconfig.url] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn missing_kubeconfig_outside_a_cluster_names_the_demo() {
    let mut table = global_dns(&["table"]);
    table
        .env("HOME", "/no/such/home")
        .env_remove("KUBERNETES_SERVICE_HOST");
    let ended = run(&mut table);
    let start = "error: cannot read the kubeconfig ~/.kube/config: No such file";
    let end = "; --server names a server, such as a demo";
    let error = error_of(&ended);
    assert!(error.starts_with(start) && error.ends_with(end), "{error}");
}
