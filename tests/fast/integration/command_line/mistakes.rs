//! Mistakes of users: each error names the URL, context, flag, file or variable, and the way out, once.

use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::process::Command;

use support::commands::{command, global_dns};
use support::objects::{mirror, objects};
use support::ports::free_port;
use support::process::{Process, ProcessOutput, run, run_global_dns};
use support::wait::wait_for;
use tempfile::TempDir;

use super::api_server::ApiServer;

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

/// Returns the line of the error.
fn error_of(ended: &ProcessOutput) -> &str {
    let mut errors = ended
        .stderr
        .lines()
        .filter(|line| line.starts_with("error: "));
    let error = errors.next();
    assert_eq!(errors.next(), None, "{}", ended.stderr);
    error.unwrap_or_else(|| panic!("no error: {}", ended.stderr))
}

// === The API server ===

#[test]
fn api_server_that_stalls_is_an_error_with_its_url_and_context() {
    let server = ApiServer::stalled();
    let ended = run_global_dns(&["table", "--kubeconfig", &server.kubeconfig]);
    let (error, file) = (error_of(&ended), &server.kubeconfig);
    let start = format!(
        "error: there is no complete table: {}, context 'here' of {file}: ",
        server.url
    );
    assert!(error.starts_with(&start), "{error}");
    let end = format!(
        "; check that this works: kubectl --kubeconfig {file} --context here get services,endpointslices --all-namespaces"
    );
    let why = error
        .strip_prefix(&start)
        .and_then(|rest| rest.strip_suffix(&end));
    // The wait for the table and for the first list end at the same time.
    let reasons = [
        "no complete list within 30 s",
        "the API server sent nothing for 30 s",
    ];
    assert!(why.is_some_and(|why| reasons.contains(&why)), "{error}");
    assert_eq!(ended.code, Some(1));
}

#[test]
fn api_server_that_refuses_connections_is_an_error_with_its_url_once() {
    let server = ApiServer::closed();
    for name in [&["table"][..], &["explain", "db.prod.global"]] {
        let ended = run_global_dns(&[name, &["--kubeconfig", &server.kubeconfig]].concat());
        let error = error_of(&ended);
        let expected = format!(
            "error: there is no complete table: context 'here' of {}: cannot reach {}: tcp connect error: Connection \
             refused (os error 111); check that this works: kubectl ",
            server.kubeconfig, server.url
        );
        assert!(error.starts_with(&expected), "{error}");
        assert_eq!(error.matches("refused").count(), 1, "{error}");
        assert_eq!(error.matches(&server.url).count(), 1, "{error}");
    }
    // The diagnosis names it, too.
    let check = run_global_dns(&["check", "--kubeconfig", &server.kubeconfig]);
    let line = format!(
        "context 'here' of {}: cannot reach {}: ",
        server.kubeconfig, server.url
    );
    assert!(check.stdout.contains(&line), "{}", check.stdout);
}

#[test]
fn log_of_a_server_names_the_api_server_that_refuses() {
    let server = ApiServer::closed();
    let flags = [
        "--kubeconfig",
        &server.kubeconfig,
        "--listen=127.0.0.1:0",
        ADMIN,
        API,
    ];
    let serve = global_dns(&[&["serve"], &flags[..]].concat());
    let mut serve = Process::start("serve", serve).unwrap();
    let expected = format!(
        "cannot reach {}: tcp connect error: Connection refused",
        server.url
    );
    let found = serve.wait_for("the warning", |log| {
        log.text().contains(&expected).then_some(())
    });
    found.unwrap();
}

#[test]
fn api_server_without_the_api_is_too_old() {
    let server = ApiServer::start(BTreeMap::new());
    let ended = run_global_dns(&["table", "--kubeconfig", &server.kubeconfig]);
    let error = error_of(&ended);
    for part in [
        "returned 404",
        "(global-dns needs Kubernetes 1.22 or later)",
        &server.url,
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn kubeconfig_errors_name_the_file_and_the_contexts() {
    let server = ApiServer::closed();
    for command in ["serve", "table"] {
        let ended = run_global_dns(&[command, "--kubeconfig=/no/such/file"]);
        let expected = "error: cannot read the kubeconfig /no/such/file: No such file or directory (os error 2); set \
                        --kubeconfig to an existing file";
        assert_eq!((ended.code, error_of(&ended)), (Some(1), expected));

        let ended = run_global_dns(&[
            command,
            "--kubeconfig",
            &server.kubeconfig,
            "--context=staging",
        ]);
        let expected = format!(
            "error: cannot use the kubeconfig {}: it has no context 'staging'; its contexts are: here; choose one with \
             --context",
            server.kubeconfig
        );
        assert_eq!((ended.code, error_of(&ended)), (Some(1), expected.as_str()));
    }
    let mut table = global_dns(&["table"]);
    table
        .env("HOME", "/no/such/home")
        .env(
            "GLOBAL_DNS_API_LISTEN",
            format!("127.0.0.1:{}", free_port()),
        )
        .env_remove("KUBERNETES_SERVICE_HOST");
    let ended = run(&mut table);
    let end = " either; global-dns demo starts one with sample data";
    assert!(error_of(&ended).ends_with(end), "{}", ended.stderr);
    let start =
        "error: cannot read the kubeconfig at its default location ~/.kube/config: No such file";
    assert!(error_of(&ended).starts_with(start), "{}", ended.stderr);
}

// === Listeners ===

/// Starts a server and returns its DNS addresses.
fn addresses_of(listen: &str) -> Vec<String> {
    let (_folder, file) = sample_file();
    let listen = format!("--listen={listen}");
    let serve = global_dns(&["serve", &file, &listen, ADMIN, API, "--log-format=json"]);
    let mut serve = Process::start("serve", serve).unwrap();
    let addresses = serve.wait_for("the table", |log| {
        let events = log.events();
        let is_published =
            |event: &serde_json::Value| event["fields"]["message"] == "Published table";
        let addresses = events
            .iter()
            .filter(|event| event["fields"]["listener"] == "dns")
            .filter(|event| event["fields"]["message"] == "Listening");
        let address =
            |event: &serde_json::Value| event["fields"]["address"].as_str().map(str::to_owned);
        events
            .iter()
            .any(is_published)
            .then(|| addresses.filter_map(address).collect())
    });
    addresses.unwrap()
}

/// Returns whether this host has IPv6.
fn has_ipv6() -> bool {
    UdpSocket::bind("[::1]:0").is_ok()
}

#[test]
fn port_alone_listens_on_both_families_and_localhost_on_both_loopback_addresses() {
    for (listen, hosts) in [
        (":0", ["0.0.0.0:", "[::]:"]),
        ("localhost:0", ["127.0.0.1:", "[::1]:"]),
    ] {
        let addresses = addresses_of(listen);
        let hosts = if has_ipv6() { &hosts[..] } else { &hosts[..1] };
        assert_eq!(addresses.len(), hosts.len(), "{addresses:?}");
        for (address, host) in addresses.iter().zip(hosts) {
            assert!(address.starts_with(host), "{listen}: {addresses:?}");
        }
    }
}

#[test]
fn listen_address_without_port_is_wrong_usage_that_shows_the_forms() {
    let (_folder, file) = sample_file();
    for bad in ["1053", "127.0.0.1", "*:1053", "dns.example:1053", ""] {
        for flag in ["--listen", "--admin-listen", "--api-listen"] {
            let ended = run_global_dns(&["serve", &file, flag, bad]);
            let error = error_of(&ended);
            assert_eq!(ended.code, Some(2), "{error}");
            for part in [
                &format!("'{bad}'"),
                flag,
                "0.0.0.0:5353",
                "; :5353 ",
                "localhost:5353",
            ] {
                assert!(error.contains(part), "{part}: {error}");
            }
        }
    }
}

#[test]
fn port_in_use_names_flag_and_address_and_the_way_out() {
    let (_folder, file) = sample_file();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    for command in [&["serve", file.as_str()][..], &["demo"]] {
        let flags = [
            format!("--listen={address}"),
            ADMIN.to_owned(),
            API.to_owned(),
        ];
        let flags = flags.each_ref().map(String::as_str);
        let ended = run_global_dns(&[command, &flags].concat());
        let expected = format!(
            "error: cannot bind the dns listener to {address} (--listen): Address already in use (os error 98); another \
             process, or another listener of this one, uses the port: stop it, or choose another port with --listen"
        );
        assert_eq!((ended.code, error_of(&ended)), (Some(1), expected.as_str()));
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
    let ended = run(&mut without_capabilities(&[
        "serve",
        &file,
        "--listen=127.0.0.1:53",
        ADMIN,
        API,
    ]));
    let expected = "error: cannot bind the dns listener to 127.0.0.1:53 (--listen): Permission denied (os error 13); a \
                    port below 1024 needs root or the capability NET_BIND_SERVICE: choose a higher port with --listen, \
                    such as 5353";
    assert_eq!((ended.code, error_of(&ended)), (Some(1), expected));
}

// === Values ===

#[test]
fn log_level_is_a_level_or_directives() {
    let (_folder, file) = sample_file();
    for bad in [
        "warning",
        "a b",
        "",
        "global_dns",
        "info,",
        "info,x=verbose",
    ] {
        for command in ["serve", "table"] {
            let ended = run_global_dns(&[command, &file, "--log-level", bad]);
            let error = error_of(&ended);
            assert_eq!(ended.code, Some(2), "{bad}: {error}");
            for part in [
                "--log-level <LEVEL>",
                "error, warn, info, debug, trace",
                "MODULE=LEVEL",
            ] {
                assert!(error.contains(part), "{part}: {error}");
            }
        }
    }
    for good in [
        "warn",
        "INFO",
        "off",
        "info,global_dns::source=debug",
        "global_dns[watch]=debug",
    ] {
        let ended = run_global_dns(&["table", &file, "--log-level", good]);
        assert_eq!(ended.code, Some(0), "{good}: {}", ended.stderr);
        let has_info = ended.stderr.contains("INFO Published table");
        let is_info = good.to_lowercase().starts_with("info");
        assert_eq!(has_info, is_info, "{good}: {}", ended.stderr);
    }
}

#[test]
fn empty_zone_is_not_taken_for_the_root() {
    let (_folder, file) = sample_file();
    let ended = run_global_dns(&["table", &file, "--zone="]);
    assert_eq!(ended.code, Some(2));
    assert!(
        error_of(&ended).ends_with("the name of a zone is empty; the default zone needs no value")
    );
}

#[test]
fn folder_as_file_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    let ended = run_global_dns(&["table", "--file", &path]);
    let expected = format!(
        "error: cannot read {path}: Is a directory (os error 21); name each of its files with --file"
    );
    assert_eq!((ended.code, error_of(&ended)), (Some(1), expected.as_str()));
}

// === Environment variables ===

#[test]
fn error_about_a_value_of_a_variable_names_the_variable() {
    let (_folder, file) = sample_file();
    let run_with = |variable: &str, value: &str, arguments: &[&str]| {
        run(global_dns(arguments).env(variable, value))
    };
    let ended = run_with("GLOBAL_DNS_TTL", "x", &["table", &file]);
    let expected = "error: invalid value 'x' for 'GLOBAL_DNS_TTL (--ttl <SECONDS>)': a TTL is a number of seconds \
                    between 1 and 86400";
    assert_eq!((ended.code, error_of(&ended)), (Some(2), expected));
    for (variable, value, arguments, part) in [
        (
            "GLOBAL_DNS_TTL",
            "x",
            &["demo"][..],
            "'GLOBAL_DNS_TTL (--ttl <SECONDS>)'",
        ),
        (
            "GLOBAL_DNS_ORDER",
            "x",
            &["serve", &file],
            "'GLOBAL_DNS_ORDER (--order <ORDER>)'",
        ),
        (
            "GLOBAL_DNS_ZONE",
            "",
            &["table", &file],
            "'GLOBAL_DNS_ZONE (--zone <ZONE[=mcs]>)'",
        ),
        (
            "GLOBAL_DNS_RESOLVER",
            "x",
            &["check", &file],
            "'GLOBAL_DNS_RESOLVER (--resolver <IP[:PORT]>)'",
        ),
        (
            "GLOBAL_DNS_KUBECONFIG",
            "x",
            &["table", &file],
            "'GLOBAL_DNS_KUBECONFIG (--kubeconfig <FILE>)'",
        ),
    ] {
        let ended = run_with(variable, value, arguments);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(error_of(&ended).contains(part), "{part}: {}", ended.stderr);
    }
    // The value is from the command line.
    let ended = run_with("GLOBAL_DNS_TTL", "7", &["table", &file, "--ttl=x"]);
    assert!(
        error_of(&ended).contains("for '--ttl <SECONDS>'"),
        "{}",
        ended.stderr
    );
}

#[test]
fn unknown_variable_causes_a_warning_with_the_nearest_name() {
    let (_folder, file) = sample_file();
    let mut table = global_dns(&["table", &file]);
    table.env("GLOBAL_DNS_TLL", "7").env("GLOBAL_DNS_TTL", "8");
    let ended = run(&mut table);
    let expected = "warning: ignored the unknown environment variable GLOBAL_DNS_TLL; the nearest known one is \
                    GLOBAL_DNS_TTL\n";
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), expected));

    let mut serve = global_dns(&[
        "serve",
        &file,
        "--listen=127.0.0.1:0",
        ADMIN,
        API,
        "--log-format=json",
    ]);
    serve
        .env("GLOBAL_DNS_ZONES", "a.test")
        .env("GLOBAL_DNS_POD_IPS", "192.0.2.1");
    let serve = Process::start("serve", serve).unwrap();
    let warnings = wait_for("the table", || {
        let events = serve.log().events();
        let is_published = events
            .iter()
            .any(|event| event["fields"]["message"] == "Published table");
        let is_warning = |event: &serde_json::Value| event["fields"]["variable"].is_string();
        is_published.then(|| events.into_iter().filter(is_warning).collect::<Vec<_>>())
    });
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(warnings[0]["level"], "WARN");
    assert_eq!(warnings[0]["fields"]["variable"], "GLOBAL_DNS_ZONES");
    assert_eq!(warnings[0]["fields"]["nearest"], "GLOBAL_DNS_ZONE");
}

/// Kubernetes sets them for Services of the pod's namespace, here of the releases `global-dns` and `global-dns-east`.
#[test]
fn variables_of_services_cause_no_warning() {
    let (_folder, file) = sample_file();
    let mut table = global_dns(&["table", &file]);
    for service in ["GLOBAL_DNS", "GLOBAL_DNS_EAST"] {
        for (end, value) in [
            ("SERVICE_HOST", "10.96.0.53"),
            ("SERVICE_PORT", "53"),
            ("SERVICE_PORT_DNS", "53"),
            ("PORT", "udp://10.96.0.53:53"),
            ("PORT_53_UDP", "udp://10.96.0.53:53"),
            ("PORT_53_UDP_PROTO", "udp"),
            ("PORT_53_UDP_PORT", "53"),
            ("PORT_53_UDP_ADDR", "10.96.0.53"),
            ("PORT_9153_TCP_ADDR", "10.96.0.53"),
        ] {
            table.env(format!("{service}_{end}"), value);
        }
    }
    let ended = run(&mut table);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}
