//! `explain`, `table` and `events` find a replica through the port-forward of a simulated API server.

use std::fs;

use serde_json::{Value, json};
use support::commands::global_dns;
use support::objects::{Manifest, mirror, objects, replica, workload};
use support::ports::free_port;
use support::process::{Log, Process, ProcessOutput, run, run_global_dns};
use support::server::Server;
use support::standin::{Behavior, StandIn};
use support::wait::wait_for;

/// The zone and the TTL of the server, which are not the defaults.
const FLAGS: [&str; 2] = ["--zone=g.test", "ttl=7"];

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

/// Starts an API server with a release in namespace `dns`, and further objects.
fn api_server(further: &[Value]) -> StandIn {
    let release = [workload("Deployment", "dns", "global-dns")];
    api_server_without_release(&[&release[..], further].concat())
}

fn api_server_without_release(further: &[Value]) -> StandIn {
    let objects = [&of_api_server()[..], further].concat();
    StandIn::start(Behavior::Normal, &objects).unwrap()
}

/// Returns how often a resource was requested.
fn requests(api_server: &StandIn, resource: &str) -> usize {
    let requests = api_server.requests();
    let same = requests.iter().filter(|one| one.resource == resource);
    same.count()
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
    assert_eq!(table["items"], json!(server.items("table")));
    let explained = query(&api_server, &["explain", "db.prod"]);
    assert_eq!((explained.code, explained.stderr.as_str()), (Some(0), ""));
    let start = "answered by pod dns/dns-1\n\ndb.prod.g.test.\n";
    assert!(explained.stdout.starts_with(start), "{}", explained.stdout);
    let zone = query(&api_server, &["table", "--output=zone"]).stdout;
    assert!(zone.starts_with("; answered by pod dns/dns-1\n"), "{zone}");
    assert!(
        zone.contains("db.prod.g.test.\t7\tIN\tA\t10.96.1.1\n"),
        "{zone}"
    );
    for output in ["text", "wide"] {
        for command in [&["table"][..], &["explain", "db.prod"], &["events"]] {
            let ended = query(&api_server, &[command, &["-o", output]].concat());
            let first = ended.stdout.lines().next();
            assert_eq!(first, Some("answered by pod dns/dns-1"), "{command:?}");
        }
    }
    let objects = ["services", "endpointslices"].map(|kind| requests(&api_server, kind));
    assert_eq!(objects, [0, 0], "the objects were read, too");
}

/// A tenant's pod with the labels of the chart must not answer in place of the server.
#[test]
fn pods_of_other_namespaces_never_answer() {
    let server = Server::with_objects(of_server(), &FLAGS);
    let forged = Server::with_objects(of_server(), &["--zone=forged.test"]);
    let tenant = replica("a-tenant", "dns-0", forged.api.port());
    // The labels of another workload of the namespace.
    let mut other = replica("dns", "a-pod", forged.api.port());
    other["metadata"]["labels"]["app.kubernetes.io/instance"] = json!("other");
    let own = replica("dns", "dns-1", server.api.port());
    for kind in ["Deployment", "DaemonSet"] {
        let release = workload(kind, "dns", "global-dns");
        let objects = [release, tenant.clone(), own.clone(), other.clone()];
        let api_server = api_server_without_release(&objects);
        for command in [&["table"][..], &["explain", "db.prod"], &["events"]] {
            let ended = query(&api_server, command);
            assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
            let first = ended.stdout.lines().next();
            assert_eq!(first, Some("answered by pod dns/dns-1"), "{command:?}");
            assert!(!ended.stdout.contains("forged"), "{}", ended.stdout);
        }
    }
    // A tenant's Deployment makes the user choose.
    let release =
        ["dns", "a-tenant"].map(|namespace| workload("Deployment", namespace, "global-dns"));
    let both = api_server_without_release(&[&release[..], &[own, tenant.clone()]].concat());
    let ended = query(&both, &["table"]);
    let choose = "a-tenant/global-dns, dns/global-dns; choose one with --server-namespace";
    assert!(ended.stderr.contains(choose), "{}", ended.stderr);
    assert_eq!(ended.code, Some(1));
    // Without a ready pod of the server, nobody answers in its place.
    let ended = query(&api_server(&[tenant]), &["events"]);
    assert_eq!(
        (ended.code, ended.stderr.as_str()),
        (
            Some(1),
            "error: only a running server has events: no ready pod of global-dns in namespace dns\n"
        )
    );
}

#[test]
fn replica_is_found_in_the_named_namespace_only() {
    let server = Server::with_objects(of_server(), &FLAGS);
    let api_server = api_server_without_release(&[replica("dns", "dns-0", server.api.port())]);
    let ended = query(&api_server, &["table", "--server-namespace=dns"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    // The flag needs no other permission.
    let requests = api_server.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(
        (&*requests[0].resource, &*requests[0].namespace),
        ("pods", "dns")
    );
    let ended = query(&api_server, &["table", "--server-namespace=other"]);
    let reason = "no ready pod of global-dns in namespace other";
    assert_refused(&ended, reason);
}

/// Asserts that a command says why no server answered, and how the objects are read instead.
fn assert_refused(ended: &ProcessOutput, reason: &str) {
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(
        ended.stderr.contains(reason),
        "{} lacks {reason}",
        ended.stderr
    );
    let way_out = "; --direct reads the objects of the cluster instead\n";
    assert!(ended.stderr.ends_with(way_out), "{}", ended.stderr);
}

#[test]
fn without_a_replica_the_reason_is_said_and_the_objects_can_be_read() {
    let none = api_server_without_release(&[]);
    let not_ready = api_server(&[]);
    let silent = api_server(&[replica("dns", "dns-0", free_port())]);
    for (api_server, reason) in [
        (
            &none,
            "no Deployment or DaemonSet of global-dns in any namespace",
        ),
        (&not_ready, "no ready pod of global-dns in namespace dns"),
        (
            &silent,
            "cannot request /api/v1/status of pod dns/dns-0: Connection refused",
        ),
    ] {
        for arguments in [&["table"][..], &["explain", "direct.prod.global"]] {
            assert_refused(&query(api_server, arguments), reason);
        }
        let events = query(api_server, &["events"]);
        let start = format!("error: only a running server has events: {reason}");
        assert_eq!(events.code, Some(1));
        assert!(events.stderr.starts_with(&start), "{}", events.stderr);
        let direct = query(api_server, &["table", "--direct"]);
        let first = "computed from objects, not answered by a server\n";
        assert!(direct.stdout.starts_with(first), "{direct:?}");
        assert!(direct.stdout.contains("direct.prod"), "{direct:?}");
    }
}

/// A page of `check` or of the table may come from the other replica, but not without a word of the first one.
#[test]
fn hung_replica_is_named_and_the_other_one_answers() {
    let [hung, other] = [(); 2].map(|()| Server::with_objects(of_server(), &FLAGS));
    let api_server = api_server(&[
        replica("dns", "dns-0", hung.api.port()),
        replica("dns", "dns-1", other.api.port()),
    ]);
    hung.signal("STOP");
    for arguments in [&["table"][..], &["explain", "db.prod"], &["check"]] {
        let ended = query(&api_server, arguments);
        let text = ended.stdout + &ended.stderr;
        let named = "pod dns/dns-0: no response within 2 s";
        assert!(text.contains(named), "{arguments:?}: {text}");
        assert_eq!(ended.code, Some(0), "{arguments:?}: {text}");
    }
}

#[test]
fn missing_permission_is_named_with_the_way_out() {
    let server = Server::with_objects(of_server(), &FLAGS);
    let workloads = "grant \"list\" on deployments and daemonsets in all namespaces, or set --server-namespace or --server";
    for (resource, action, way_out) in [
        (
            "deployments",
            "cannot list deployments in all namespaces at http://",
            workloads,
        ),
        (
            "pods",
            "cannot list pods in namespace dns at http://",
            "grant \"list\" on pods, or set --server",
        ),
        (
            "pods/portforward",
            "of pod dns/dns-0 at http://",
            "grant \"get\" and \"create\" on pods/portforward, or set --server",
        ),
    ] {
        let api_server = api_server(&[replica("dns", "dns-0", server.api.port())]);
        api_server.forbid(resource);
        let refused = format!("403 {resource} is forbidden");
        let ended = query(&api_server, &["table"]);
        for part in [action, &refused, way_out] {
            assert!(ended.stderr.contains(part), "{} lacks {part}", ended.stderr);
        }
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
}

/// No event is lost when a replica ends, whether the next one has recorded events or none.
#[test]
fn watch_finds_another_replica_when_its_own_ends() {
    for has_events in [true, false] {
        watch_moves_to_another_replica(has_events);
    }
}

fn watch_moves_to_another_replica(has_events: bool) {
    let [first, second] = [(); 2].map(|()| Server::with_objects(of_server(), &FLAGS));
    let api_server = api_server(&[replica("dns", "dns-0", first.api.port())]);
    let kubeconfig = format!("--kubeconfig={}", api_server.kubeconfig.display());
    let command = global_dns(&["events", "--watch", &kubeconfig]);
    let mut process = Process::start("events --watch", command).unwrap();
    let shows = |process: &mut Process, text: &str| {
        let shown = |log: &Log| log.text().contains(text).then_some(());
        process.wait_for(text, shown).unwrap();
    };
    let with = |name: &str| {
        let host = format!("{name}-0");
        of_server().with(mirror("prod", name, "east").endpoint(&host, &["10.96.1.9"]))
    };
    first.rewrite(&with("new").text());
    shows(&mut process, "Cluster east joined prod/new");
    api_server.put(&replica("dns", "dns-0", second.api.port()));
    if has_events {
        second.rewrite(&with("last").text());
    }
    drop(first);
    shows(&mut process, "reconnecting");
    if !has_events {
        // It asks for the status twice and for the list, and opens the stream.
        let before = api_server.forwards();
        let are_made = || api_server.forwards() >= before + 4;
        wait_for("the stream", || are_made().then_some(()));
        second.rewrite(&with("last").text());
    }
    shows(&mut process, "Cluster east joined prod/last");
    let missed = process.log().text().contains("no longer has all events");
    assert!(!missed, "{}", process.log().text());
    // Without a handler, it ends the process at once. A shell that starts the tests in the background makes them ignore
    // SIGINT.
    process.signal("TERM").unwrap();
    assert_eq!(process.end().unwrap().code(), None);
}

/// A stopped replica accepts connections and never replies. It is named, and the other one answers.
#[test]
fn stopped_replica_is_named_by_every_command() {
    let servers = [(); 2].map(|()| Server::with_objects(of_server(), &["--cluster-name=hub"]));
    let [first, second] = servers.each_ref().map(|server| server.api.port());
    let replicas = [
        replica("dns", "dns-0", first),
        replica("dns", "dns-1", second),
    ];
    let api_server = api_server(&replicas);
    servers[0].process().signal("STOP").unwrap();
    for (arguments, shown, named) in [
        (
            &["table"][..],
            "ok     db.prod    1 of 1",
            "note: pod dns/dns-0: no response within 2 s",
        ),
        (
            &["explain", "db.prod"],
            "yes       east     db-0",
            "note: pod dns/dns-0: no response within 2 s",
        ),
        (
            &["events"],
            "no such change since",
            "note: pod dns/dns-0: no response within 2 s",
        ),
        (
            &["check"],
            "version 0.1.0, services: 2",
            "attention  server          pod dns/dns-0: no response within 2 s",
        ),
        (
            &["fleet"],
            "ready  2         2",
            "pod dns/dns-0: cannot be read: no response within 3 s",
        ),
    ] {
        let ended = query(&api_server, arguments);
        assert!(ended.stdout.contains(shown), "{ended:?}");
        let lines = ended.stdout.lines().chain(ended.stderr.lines());
        let named = lines.filter(|line| line.contains(named)).count();
        assert_eq!(named, 1, "{ended:?}");
    }
    servers[0].process().signal("CONT").unwrap();
}

/// `fleet` reads the replicas of each context, and names a cluster that it may not read.
#[test]
fn fleet_finds_the_replicas_of_its_contexts() {
    let folder = tempfile::tempdir().unwrap();
    let clusters = ["a", "b"].map(|name| {
        let server = Server::with_objects(of_server(), &[&format!("--cluster-name={name}")]);
        let api_server = api_server(&[replica("dns", "dns-0", server.api.port())]);
        let text = fs::read_to_string(&api_server.kubeconfig).unwrap();
        fs::write(folder.path().join(name), text.replace("here", name)).unwrap();
        (server, api_server)
    });
    let files = ["a", "b"].map(|name| folder.path().join(name).display().to_string());
    let compare = || {
        let mut command = global_dns(&["fleet", "--contexts=a,b", "-o", "json"]);
        run(command.env("KUBECONFIG", files.join(":"))).stdout
    };
    let both = compare();
    assert!(!both.contains("cannot be read"), "{both}");
    clusters[1].1.forbid("deployments");
    let one = compare();
    let start = "b cannot be read: cannot list deployments in all namespaces at http://";
    assert!(one.contains(start), "{one}");
    assert!(one.contains("403 deployments is forbidden"), "{one}");
    assert!(!one.contains("a cannot be read"), "{one}");
}
