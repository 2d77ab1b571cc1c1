//! `explain`, `table` and `events` find a replica through the port-forward of a simulated API server.

use serde_json::Value;
use support::commands::global_dns;
use support::objects::{Manifest, mirror, objects, replica};
use support::ports::free_port;
use support::process::{Process, ProcessOutput, run, run_global_dns};
use support::server::Server;
use support::standin::{Behavior, StandIn};

/// The zone and the TTL of the server, which are not the defaults.
const FLAGS: [&str; 2] = ["--zone=g.test", "--ttl=7"];

fn of_server() -> Manifest {
    objects()
        .with(mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"]))
        .with(mirror("shop", "cart", "east").endpoint("cart-0", &["10.96.1.2"]))
}

/// The objects of the API server, so that the origin of an output is visible.
fn of_api_server() -> Vec<Value> {
    let manifest: Manifest = mirror("prod", "direct", "east")
        .endpoint("direct-0", &["10.96.1.3"])
        .into();
    manifest.0
}

/// Starts an API server with pods.
fn api_server(pods: &[Value]) -> StandIn {
    StandIn::start(Behavior::Normal, &[&of_api_server()[..], pods].concat()).unwrap()
}

fn query(api_server: &StandIn, arguments: &[&str]) -> ProcessOutput {
    let kubeconfig = format!("--kubeconfig={}", api_server.kubeconfig.display());
    run_global_dns(&[arguments, &[&kubeconfig]].concat())
}

#[test]
fn commands_query_a_ready_replica_with_the_flags_of_the_server() {
    let server = Server::with_objects(of_server(), &FLAGS);
    let mut unready = replica("dns", "dns-0", 1);
    unready["status"]["conditions"][0]["status"] = "False".into();
    let api_server = api_server(&[unready, replica("dns", "dns-1", server.api.port())]);
    let table = query(&api_server, &["table", "-o", "json"]);
    assert_eq!((table.code, table.stderr.as_str()), (Some(0), ""));
    let table: Value = serde_json::from_str(&table.stdout).unwrap();
    assert_eq!(table, server.api("/api/v1/table"));
    let explained = query(&api_server, &["explain", "db.prod"]);
    assert_eq!((explained.code, explained.stderr.as_str()), (Some(0), ""));
    assert!(
        explained.stdout.starts_with("db.prod.g.test.\n"),
        "{}",
        explained.stdout
    );
    let zone = query(&api_server, &["table", "--output=zone"]);
    assert!(
        zone.stdout
            .contains("db.prod.g.test.\t7\tIN\tA\t10.96.1.1\n"),
        "{}",
        zone.stdout
    );
    let pods = api_server
        .requests()
        .into_iter()
        .filter(|one| one.resource == "pods");
    assert_eq!(pods.count(), 3);
    let others = api_server
        .requests()
        .into_iter()
        .filter(|one| one.resource != "pods");
    assert_eq!(others.count(), 0, "the objects were read, too");
}

#[test]
fn replica_that_does_not_answer_is_passed_over() {
    let server = Server::with_objects(of_server(), &FLAGS);
    // Nothing listens on the port of the first one.
    let pods = [
        replica("dns", "dns-0", free_port()),
        replica("dns", "dns-1", server.api.port()),
    ];
    let ended = query(&api_server(&pods), &["explain", "db.prod.g.test"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

#[test]
fn replica_is_found_in_the_named_namespace_only() {
    let server = Server::with_objects(of_server(), &FLAGS);
    let api_server = api_server(&[replica("dns", "dns-0", server.api.port())]);
    let ended = query(&api_server, &["table", "--server-namespace=dns"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let namespace = api_server.requests()[0].namespace.clone();
    assert_eq!(namespace, "dns");
    let ended = query(&api_server, &["table", "--server-namespace=other"]);
    assert_eq!(
        ended.stderr,
        "note: no ready pod of global-dns in namespace other; reading the objects directly, with default flags \
         (--direct takes the flags of serve)\n"
    );
}

#[test]
fn without_a_replica_the_objects_are_read_and_one_line_says_so() {
    for (pods, reasons) in [
        (vec![], ["no ready pod of global-dns in any namespace"; 2]),
        (
            vec![replica("dns", "dns-0", free_port())],
            ["cannot query pod dns/dns-0 at http://"; 2],
        ),
        (
            vec![replica("dns", "dns-0", free_port())],
            // If the node closes the stream while the request is sent, its reason is lost.
            ["Connection refused", "connection closed"],
        ),
    ] {
        let api_server = api_server(&pods);
        for arguments in [&["table"][..], &["explain", "direct.prod.global"]] {
            let ended = query(&api_server, arguments);
            assert_eq!(ended.code, Some(0), "{}", ended.stderr);
            assert!(ended.stdout.contains("10.96.1.3"), "{}", ended.stdout);
            assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
            assert!(ended.stderr.starts_with("note: "), "{}", ended.stderr);
            let has_reason = reasons.iter().any(|reason| ended.stderr.contains(reason));
            assert!(has_reason, "{}", ended.stderr);
        }
    }
}

#[test]
fn direct_reads_the_objects_with_the_flags_of_the_server() {
    let server = Server::with_objects(of_server(), &FLAGS);
    let api_server = api_server(&[replica("dns", "dns-0", server.api.port())]);
    let ended = query(
        &api_server,
        &["explain", "direct.prod.b.test", "--direct", "--zone=b.test"],
    );
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert!(ended.stdout.contains("10.96.1.3"), "{}", ended.stdout);
    assert!(
        api_server
            .requests()
            .iter()
            .all(|one| one.resource != "pods")
    );
}

#[test]
fn missing_permission_is_named_with_the_way_out() {
    let server = Server::with_objects(of_server(), &FLAGS);
    for (resource, action, way_out) in [
        (
            "pods",
            "cannot list pods in any namespace at http://",
            ", or set --server or --server-namespace",
        ),
        (
            "pods/portforward",
            "of pod dns/dns-0 at http://",
            ", or set --server",
        ),
    ] {
        let api_server = api_server(&[replica("dns", "dns-0", server.api.port())]);
        api_server.forbid(resource);
        let ended = query(&api_server, &["table"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(ended.stdout.contains("10.96.1.3"), "{}", ended.stdout);
        let events = query(&api_server, &["events"]);
        assert_eq!((events.code, events.stdout.as_str()), (Some(1), ""));
        for stderr in [&ended.stderr, &events.stderr] {
            for part in [
                action,
                &format!("403 {resource} is forbidden"),
                "grant \"list\" on pods and \"get\" and \"create\" on pods/portforward",
                way_out,
            ] {
                assert!(stderr.contains(part), "{stderr} lacks {part}");
            }
            assert_eq!(stderr.lines().count(), 1, "{stderr}");
        }
    }
}

#[test]
fn flags_that_the_server_decides_are_refused() {
    for (flags, variable, sentence) in [
        (
            &["--ttl=7"][..],
            None,
            "error: --ttl is decided by the server; remove it, or read the objects with --file or --direct",
        ),
        (
            &[
                "--server=127.0.0.1:1",
                "--cluster-name=hub",
                "--zone=g.test",
            ],
            None,
            "error: --zone, --cluster-name are decided by the server; remove them, or read the objects with --file or --direct",
        ),
        (
            &[],
            Some(("GLOBAL_DNS_TTL", "7")),
            "error: GLOBAL_DNS_TTL is decided by the server; remove it, or read the objects with --file or --direct",
        ),
    ] {
        for command in [&["table"][..], &["explain", "db.prod"]] {
            let mut command = global_dns(&[command, flags].concat());
            command.envs(variable);
            let ended = run(&mut command);
            let first = ended.stderr.lines().next();
            assert_eq!((ended.code, first), (Some(2), Some(sentence)));
        }
    }
}

#[test]
fn watch_finds_another_replica_when_its_own_ends() {
    let [first, second] = [(); 2].map(|()| Server::with_objects(of_server(), &FLAGS));
    let api_server = api_server(&[replica("dns", "dns-0", first.api.port())]);
    let kubeconfig = format!("--kubeconfig={}", api_server.kubeconfig.display());
    let command = global_dns(&["table", "--watch", "-o", "wide", &kubeconfig]);
    let mut process = Process::start("table --watch", command).unwrap();
    let shows = |process: &mut Process, text: &str| {
        let shown = |log: &support::process::Log| log.text().contains(text).then_some(());
        process.wait_for(text, shown).unwrap();
    };
    shows(&mut process, "10.96.1.1");
    first.rewrite(
        &of_server()
            .with(mirror("prod", "new", "east").endpoint("new-0", &["10.96.1.9"]))
            .text(),
    );
    shows(&mut process, "10.96.1.9");
    api_server.put(&replica("dns", "dns-0", second.api.port()));
    drop(first);
    shows(&mut process, "retrying");
    second.rewrite(
        &of_server()
            .with(mirror("prod", "last", "east").endpoint("last-0", &["10.96.1.8"]))
            .text(),
    );
    shows(&mut process, "10.96.1.8");
    // Without a handler, it ends the process at once. A shell that starts the tests in the background makes them ignore
    // SIGINT.
    process.signal("TERM").unwrap();
    assert_eq!(process.end().unwrap().code(), None);
}

#[test]
fn events_need_a_server() {
    let ended = query(&api_server(&[]), &["events"]);
    assert_eq!(
        (ended.code, ended.stderr.as_str()),
        (
            Some(1),
            "error: only a running server has events: no ready pod of global-dns in any namespace\n"
        )
    );
}
