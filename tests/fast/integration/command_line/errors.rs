//! Errors of the command line: the message and the exit code.

use std::net::{TcpListener, UdpSocket};
use std::time::Duration;

use support::commands::global_dns;
use support::objects::{Manifest, mirror, objects};
use support::process::{ProcessOutput, run, run_global_dns};
use support::server::Server;

const FREE: [&str; 3] = [
    "--listen=127.0.0.1:0",
    "--admin-listen=127.0.0.1:0",
    "--api-listen=127.0.0.1:0",
];

fn sample() -> Manifest {
    mirror("prod", "db", "east")
        .endpoint("db-0", &["10.96.1.1"])
        .into()
}

/// Writes [`sample`] into a file. Returns the temporary folder and the path.
fn sample_file() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("objects.yaml");
    std::fs::write(&path, sample().text()).unwrap();
    let flag = format!("--file={}", path.display());
    (folder, flag)
}

/// Writes a kubeconfig for an API server. Returns the temporary folder and the path.
fn kubeconfig(server: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
         clusters: [{{name: here, cluster: {{server: '{server}'}}}}]\n\
         users: [{{name: me, user: {{}}}}]\n\
         contexts: [{{name: here, context: {{cluster: here, user: me}}}}]\n"
    );
    std::fs::write(&path, text).unwrap();
    let path = path.display().to_string();
    (folder, path)
}

/// Returns an address without a listener.
fn closed_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

/// Returns the line of the error, which can follow log lines.
fn sentence(ended: &ProcessOutput) -> &str {
    let mut lines = ended
        .stderr
        .lines()
        .filter(|line| line.starts_with("error: "));
    let sentence = lines
        .next()
        .unwrap_or_else(|| panic!("no error: {}", ended.stderr));
    assert_eq!(lines.next(), None, "{}", ended.stderr);
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    sentence
}

#[test]
fn wrong_usage_exits_with_2_and_names_flag_and_value() {
    let (_folder, file) = sample_file();
    let cases: &[(&[&str], &[&str])] = &[
        (
            &["--zone", "glo bal"],
            &["'glo bal'", "'--zone <ZONE[=mcs]>'", "letters, digits"],
        ),
        (&["--zone", "."], &["'.'", "'--zone <ZONE[=mcs]>'", "root"]),
        (&["--zone", ""], &["''", "'--zone <ZONE[=mcs]>'"]),
        (&["--zone", "a..b"], &["'a..b'", "'--zone <ZONE[=mcs]>'"]),
        (
            &["--zone=global", "--zone=Global."],
            &["zone global. is given twice"],
        ),
        (&["--zone=a.test,a.test"], &["zone a.test. is given twice"]),
        (
            &["--zone=global", "--zone=dns.global"],
            &["zone dns.global. holds the name of the server of zone global."],
        ),
        (
            &["--ttl", "0"],
            &["'0'", "'--ttl <SECONDS>'", "between 1 and"],
        ),
        (&["--ttl-max=-1"], &["'-1'", "'--ttl-max <SECONDS>'"]),
        (
            &["--negative-ttl", "soon"],
            &["'soon'", "'--negative-ttl <SECONDS>'"],
        ),
        (
            &["--cluster-alias", "x"],
            &["'x'", "'--cluster-alias <LINK=NAME>'", "'='"],
        ),
        (
            &["--cluster-alias", "x=Y"],
            &["'x=Y'", "'--cluster-alias <LINK=NAME>'", "'Y'"],
        ),
        (
            &["--cluster-name", "my_cluster"],
            &["'my_cluster'", "'--cluster-name <NAME>'"],
        ),
        (
            &["--short-name", "db"],
            &["'db'", "'--short-name <SERVICE=NAMESPACE>'"],
        ),
        (
            &["--short-names", "some"],
            &["'some'", "'--short-names <WHICH>'", "pinned"],
        ),
        (
            &["--gateway-down", "never"],
            &["'never'", "'--gateway-down <RULE>'", "last-resort"],
        ),
        (
            &["--local-members", "all"],
            &["'all'", "'--local-members <WHICH>'", "matching"],
        ),
        (
            &["--namespace", "Prod"],
            &["'Prod'", "'--namespace <NAMESPACE>'"],
        ),
        (&["--frob"], &["'--frob'"]),
        (
            &["--kubeconfig", "k"],
            &["'--file <FILE>'", "'--kubeconfig <FILE>'"],
        ),
        (
            &["--context", "c"],
            &["'--file <FILE>'", "'--context <NAME>'"],
        ),
    ];
    for (flags, parts) in cases {
        for command in ["serve", "table"] {
            let ended = run_global_dns(&[&[command, &file], *flags].concat());
            let message = sentence(&ended);
            assert_eq!(
                (ended.code, ended.stdout.as_str()),
                (Some(2), ""),
                "{message}"
            );
            for part in *parts {
                assert!(
                    ended.stderr.contains(part),
                    "{flags:?}: {} lacks {part}",
                    ended.stderr
                );
            }
        }
    }
    let serve_alone: &[(&[&str], &[&str])] = &[
        (&["--listen", "5353"], &["'5353'", "'--listen <ADDRESS>'"]),
        (
            &["--order", "random"],
            &["'random'", "'--order <ORDER>'", "local-first"],
        ),
        (&["--grace", "5"], &["'5'", "'--grace <DURATION>'", "unit"]),
        (
            &["--ns-address", "here"],
            &["'here'", "'--ns-address <IP>'"],
        ),
        (
            &["--log-format", "xml"],
            &["'xml'", "'--log-format <FORM>'", "json"],
        ),
    ];
    for (flags, parts) in serve_alone {
        let ended = run_global_dns(&[&["serve", &file], *flags].concat());
        let message = sentence(&ended);
        assert_eq!(ended.code, Some(2), "{message}");
        for part in *parts {
            assert!(
                ended.stderr.contains(part),
                "{flags:?}: {} lacks {part}",
                ended.stderr
            );
        }
    }
}

#[test]
fn no_command_and_unknown_commands_exit_with_2_and_help_with_0() {
    for (arguments, code) in [
        (&[][..], 2),
        (&["frob"], 2),
        (&["explain"], 2),
        (&["--help"], 0),
        (&["serve", "--help"], 0),
        (&["--version"], 0),
    ] {
        assert_eq!(run_global_dns(arguments).code, Some(code), "{arguments:?}");
    }
}

#[test]
fn help_lists_flags_with_their_environment_variables() {
    let help = run_global_dns(&["serve", "--help"]).stdout;
    for flag in [
        "listen",
        "admin-listen",
        "api-listen",
        "zone",
        "cluster-name",
        "cluster-alias",
        "exclude-cluster",
        "ttl",
        "ttl-max",
        "negative-ttl",
        "default-namespace",
        "short-name",
        "short-names",
        "gateway-down",
        "local-members",
        "order",
        "ns-address",
        "namespace",
        "file",
        "kubeconfig",
        "context",
        "grace",
        "log-level",
        "log-format",
    ] {
        let variable = flag.to_uppercase().replace('-', "_");
        assert!(help.contains(&format!("--{flag} <")), "--{flag}");
        assert!(
            help.contains(&format!("[env: GLOBAL_DNS_{variable}=")),
            "{variable}"
        );
    }
}

#[test]
fn port_in_use_is_an_error_that_names_the_listener() {
    let (_folder, file) = sample_file();
    // The listeners stay open until the end of the test.
    let tcp_taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp_taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (tcp, udp) = (
        tcp_taken.local_addr().unwrap(),
        udp_taken.local_addr().unwrap(),
    );
    for (listener, flag, address) in [
        ("dns", "--listen", udp),
        ("dns", "--listen", tcp),
        ("admin", "--admin-listen", tcp),
        ("api", "--api-listen", tcp),
    ] {
        let taken = format!("{flag}={address}");
        let others = FREE
            .iter()
            .copied()
            .filter(|free| !free.starts_with(&format!("{flag}=")));
        let mut arguments = vec!["serve", &file, &taken];
        arguments.extend(others);
        let ended = run_global_dns(&arguments);
        let expected = format!(
            "error: cannot bind the {listener} listener to {address} ({flag}): Address already in use (os error 98); "
        );
        let message = sentence(&ended);
        assert_eq!(ended.code, Some(1), "{message}");
        assert!(message.starts_with(&expected), "{message}");
    }
}

#[test]
fn address_of_another_host_is_an_error() {
    let (_folder, file) = sample_file();
    // 192.0.2.0/24 is reserved for documentation (RFC 5737).
    let ended = run_global_dns(&["serve", &file, "--listen=192.0.2.1:0", FREE[1], FREE[2]]);
    let message = sentence(&ended);
    assert_eq!(ended.code, Some(1));
    assert!(
        message.starts_with("error: cannot bind the dns listener to 192.0.2.1:0 (--listen): "),
        "{message}"
    );
}

#[test]
fn missing_kubeconfig_is_an_error_with_its_cause_once() {
    for command in ["serve", "table"] {
        let ended = run_global_dns(&[command, "--kubeconfig=/nonexistent/kubeconfig"]);
        let message = sentence(&ended);
        assert_eq!(ended.code, Some(1), "{message}");
        assert!(message.contains("/nonexistent/kubeconfig"), "{message}");
        // The message must not repeat its cause.
        let cause = "No such file or directory";
        assert_eq!(message.matches(cause).count(), 1, "{message}");
    }
}

#[test]
fn invalid_kubeconfig_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    std::fs::write(&path, "clusters: [\n").unwrap();
    let flag = format!("--kubeconfig={}", path.display());
    for command in ["serve", "table"] {
        let ended = run_global_dns(&[command, &flag]);
        let message = sentence(&ended);
        assert_eq!(ended.code, Some(1), "{message}");
        assert!(message.contains(&path.display().to_string()), "{message}");
    }
}

#[test]
fn missing_context_is_an_error_that_names_it() {
    let (_folder, path) = kubeconfig("https://127.0.0.1:1");
    let flag = format!("--kubeconfig={path}");
    for command in ["serve", "table"] {
        let ended = run_global_dns(&[command, &flag, "--context=elsewhere"]);
        let message = sentence(&ended);
        assert_eq!(ended.code, Some(1), "{message}");
        assert!(message.contains("elsewhere"), "{message}");
    }
}

#[test]
fn unreachable_api_server_is_one_sentence_within_half_a_minute() {
    for scheme in ["http", "https"] {
        let address = closed_address();
        let (_folder, path) = kubeconfig(&format!("{scheme}://{address}"));
        let flag = format!("--kubeconfig={path}");
        for command in [&["table"][..], &["explain", "db.prod.global"]] {
            let ended = run_global_dns(&[command, &[flag.as_str()]].concat());
            let message = sentence(&ended);
            assert_eq!(
                (ended.code, ended.stdout.as_str()),
                (Some(1), ""),
                "{message}"
            );
            assert!(message.contains("there is no complete table"), "{message}");
            assert!(message.contains("onnection refused"), "{message}");
            assert!(ended.took < Duration::from_secs(30), "{:?}", ended.took);
        }
    }
}

#[test]
fn unreachable_server_is_an_error() {
    let url = format!("http://{}", closed_address());
    let flag = format!("--server={url}");
    for command in [
        &["table"][..],
        &["table", "--output=zone"],
        &["explain", "db.prod.global"],
    ] {
        let ended = run_global_dns(&[command, &[flag.as_str()]].concat());
        let message = sentence(&ended);
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (Some(1), ""),
            "{message}"
        );
        assert!(
            message.starts_with(&format!("error: cannot request {url}/api/v1/")),
            "{message}"
        );
        assert!(message.contains("onnection refused"), "{message}");
    }
    let ended = run_global_dns(&["table", "--server=https://127.0.0.1:1"]);
    assert_eq!(ended.code, Some(1));
    assert!(
        sentence(&ended).contains("only http://"),
        "{}",
        ended.stderr
    );
}

#[test]
fn server_together_with_files_is_wrong_usage() {
    let (_folder, file) = sample_file();
    let ended = run_global_dns(&["table", &file, "--server=http://127.0.0.1:1"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
}

#[test]
fn invalid_log_level_is_an_error() {
    let (_folder, file) = sample_file();
    let ended = run_global_dns(&["table", &file, "--log-level=info,="]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    let message = sentence(&ended);
    assert!(
        message.contains("--log-level") && message.contains("'info,='"),
        "{message}"
    );
}

#[test]
fn invalid_address_of_pod_or_node_is_an_error() {
    let (_folder, file) = sample_file();
    for variable in ["GLOBAL_DNS_POD_IPS", "GLOBAL_DNS_NODE_IPS"] {
        let mut command = global_dns(&[&["serve", file.as_str()][..], &FREE].concat());
        command.env(variable, "192.0.2.1,here");
        let ended = run(&mut command);
        let expected =
            format!("error: environment variable {variable}: 'here' is not an IP address");
        assert_eq!((ended.code, sentence(&ended)), (Some(1), expected.as_str()));
    }
}

#[test]
fn flags_override_environment_variables() {
    let (_folder, file) = sample_file();
    let zones = |arguments: &[&str]| {
        let mut command = global_dns(&[&["table", &file, "--output=json"], arguments].concat());
        command.env("GLOBAL_DNS_ZONE", "a.test,b.example.test");
        command.env("GLOBAL_DNS_TTL", "7");
        let ended = run(&mut command);
        let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        (
            report["zones"].to_string(),
            report["services"][0]["ttl"].to_string(),
        )
    };
    let both = r#"["a.test.","b.example.test."]"#.to_owned();
    assert_eq!(zones(&[]), (both, "7".to_owned()));
    let flag = (r#"["c.test."]"#.to_owned(), "9".to_owned());
    assert_eq!(zones(&["--zone=c.test", "--ttl=9"]), flag);
}

#[test]
fn invalid_environment_variable_is_wrong_usage_that_names_the_value() {
    let (_folder, file) = sample_file();
    let mut command = global_dns(&["table", &file]);
    command.env("GLOBAL_DNS_ZONE", "a.test,glo bal");
    let ended = run(&mut command);
    assert_eq!(ended.code, Some(2));
    assert!(sentence(&ended).contains("'glo bal'"), "{}", ended.stderr);
}

#[test]
fn default_cluster_name_causes_a_warning_when_a_local_member_is_published() {
    let warning = |server: &Server| {
        let lines = server.log.events();
        lines.iter().any(|line| {
            line["level"] == "WARN" && line["fields"]["problem"] == "default-cluster-name"
        })
    };
    let with_local = objects()
        .with(sample())
        .with(support::objects::local("prod", "db").endpoint(Some("db-0"), "192.0.2.1", true));
    for (manifest, flags, warns) in [
        (&with_local, &[][..], true),
        (&with_local, &["--cluster-name=hub"], false),
        (&sample(), &[], false),
    ] {
        let server = Server::with_objects(manifest.clone(), flags);
        server.log.wait(0, "Published table"); // the warning is logged before it
        assert_eq!(warning(&server), warns, "{flags:?}");
    }
}

/// Each value is refused with a sentence that names the part of it.
#[test]
fn invalid_setting_of_failover_is_a_usage_error() {
    for (flag, value, part) in [
        ("--failover", "", "step 1 is empty"),
        ("--failover", "east::west", "step 2 is empty"),
        (
            "--failover",
            "prod/db=ea_st",
            "'ea_st' is not the name of a cluster",
        ),
        (
            "--failover",
            "prod/db=east:west:east",
            "'east' occurs twice",
        ),
        ("--failover", "local:*:east:*", "'*' occurs twice"),
        ("--failover", "east+*", "'*' stands for all other clusters"),
        (
            "--failover",
            "db=east",
            "'db=east' is not the name of a cluster; a value for one service begins with NAMESPACE/SERVICE=",
        ),
        (
            "--failover",
            "shop/pay=east=90+west=10",
            "'east=90' is not the name of a cluster",
        ),
        // A comma separates steps, so two services need a semicolon.
        (
            "--failover",
            "prod/db=east,shop/db=west",
            "'shop/db=west' is not the name of a cluster",
        ),
        (
            "--failover",
            "local:*;east:*",
            "--failover has a value for all services twice",
        ),
        (
            "--failover",
            "prod/db=east;prod/db=west",
            "--failover has a value for prod/db twice",
        ),
        ("--failover-delay", "soon", "soon"),
    ] {
        let ended = run_global_dns(&["serve", &format!("{flag}={value}")]);
        assert_eq!(ended.code, Some(2), "{flag} {value}: {}", ended.stderr);
        assert!(
            ended.stderr.contains(part),
            "{flag} {value}: {}",
            ended.stderr
        );
    }
}

/// An order in a variable was cut at its comma.
#[test]
fn settings_of_several_services_are_separated_by_semicolons() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("objects.yaml");
    let service = |namespace: &str| {
        let east = mirror(namespace, "db", "east").endpoint("db-0", &["10.96.1.1"]);
        let west = mirror(namespace, "db", "west").endpoint("db-0", &["10.96.2.1"]);
        objects().with(east).with(west)
    };
    std::fs::write(&path, service("prod").with(service("shop")).text()).unwrap();
    let file = format!("--file={}", path.display());
    let orders = "prod/db=auto:west,east;shop/db=east:west";
    let by_variable = || {
        let mut command = global_dns(&["table", &file, "--output=json"]);
        command.env("GLOBAL_DNS_FAILOVER", orders);
        command
    };
    let by_flag = || global_dns(&["table", &file, "--output=json", "--failover", orders]);
    for mut command in [by_variable(), by_flag()] {
        let ended = run(&mut command);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        let failovers = report["services"].as_array().unwrap().iter();
        let failovers: Vec<_> = failovers
            .map(|service| {
                let failover = &service["failover"];
                let steps = failover["steps"].as_array().unwrap().iter();
                let steps: Vec<_> = steps.map(|step| step["clusters"].clone()).collect();
                serde_json::json!([failover["order"], steps])
            })
            .collect();
        let expected = [
            serde_json::json!(["auto:west:east", ["west", "east"]]),
            serde_json::json!(["east:west", ["east", "west"]]),
        ];
        assert_eq!(failovers, expected);
    }
}
