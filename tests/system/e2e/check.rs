//! The command `check` with a real API server with RBAC, and through a real CoreDNS.
//!
//! Each step grants permissions to the user `doctor`. RBAC applies a change with a delay, so the steps wait for the
//! expected line.

mod forwarder;
mod objects;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::commands::global_dns;
use support::dig::dig;
use support::objects::{gateway_deployment, namespace};
use support::output::print_line;
use support::ports::free_port;
use support::process;
use support::server::Server;
use support::settings::add_arguments;
use support::steps::Steps;
use support::wait::eventually;
use support::wire::Transport;

use crate::e2e::linked_clusters::state_after_recordings;
use forwarder::{Forwarder, shipped, stanza};
use objects::{
    CACHE_TIMEOUT, binding, exported_service, failing_link, grant, link, link_definition,
    needed_rules, odd_service, own_address, plain_service, probe_service, state,
};

const USER: &str = "doctor";
const CLUSTERS: [&str; 3] = ["east", "west", "north"];

/// The report of `check` and its exit code.
#[derive(Debug)]
struct CheckRun {
    report: Value,
    code: Option<i32>,
}

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.step(
        "check_reports_ports_that_are_dead_and_ports_that_are_not_opaque",
        || check_recorded_ports(cluster),
    );
    steps.step("check_skips_links_if_their_kind_is_unknown", || {
        check_unknown_links(cluster)
    });
    steps.step(
        "check_is_green_with_the_permissions_of_the_chart_links_and_endpoints",
        || check_healthy_cluster(cluster),
    );
    steps.step(
        "check_reports_failures_in_links_labels_host_lists_and_slices",
        || check_links_labels_and_lists(cluster),
    );
    steps.step("check_reports_each_missing_verb", || {
        check_each_missing_verb(cluster)
    });
    steps.step(
        "check_requires_permissions_only_in_the_watched_namespaces",
        || check_one_namespace(cluster),
    );
    steps.step(
        "check_warns_about_unneeded_permissions_of_an_administrator",
        || check_administrator(cluster),
    );
    steps.step("check_reports_mirrors_of_a_removed_link", || {
        check_orphans(cluster)
    });
    steps.step(
        "check_skips_links_and_endpoints_without_permission_to_read_them",
        || check_unreadable_objects(cluster),
    );
    steps.step("check_reports_whether_coredns_forwards_the_zone", || {
        check_coredns_forwarding(cluster)
    });
    steps.step("check_is_green_only_for_endpoints_that_reply", || {
        check_connections(cluster)
    });
}

/// The pods of the recordings listen on 8080 instead of 80, and no namespace had opaque ports.
fn check_recorded_ports(cluster: &Cluster) -> Result<()> {
    cluster.apply_state(&state_after_recordings()?)?;
    grant(cluster, &needed_rules(), true)?;
    let run = CheckRun::run_until(cluster, &[], |run| {
        let of = |cluster: &str| {
            format!("default/nginx: cluster '{cluster}': port 80 is 8080 in its pods")
        };
        let clusters = ["east", "north", "west"].map(of).join(", ");
        let sentence = format!("Port cannot be reached from other clusters: {clusters}");
        run.check_line("red", "dead-ports", &sentence)?;
        let of = |cluster: &str| format!("Service/default/nginx-{cluster} 26257 (sql)");
        let mirrors = ["east", "north", "west"].map(of).join(", ");
        run.check_line(
            "yellow",
            "opaque-ports",
            &format!("not marked opaque: {mirrors}"),
        )
    })?;
    ensure!(run.code == Some(1), "{run:#?}");
    Ok(())
}

fn check_unknown_links(cluster: &Cluster) -> Result<()> {
    cluster.apply_state(&state()?)?;
    let run = CheckRun::run_until(cluster, &[], |run| {
        run.check_line(
            "yellow",
            "orphaned-mirrors",
            "State of links is unknown: the API server does not define Links",
        )
    })?;
    ensure!(run.code == Some(0), "{run:#?}");
    Ok(())
}

fn check_healthy_cluster(cluster: &Cluster) -> Result<()> {
    let forwarder = Forwarder::with_server(cluster)?;
    cluster.put(&link_definition())?;
    cluster.put(&namespace("linkerd-multicluster"))?;
    for name in CLUSTERS {
        // The API server serves the kind with a delay after its definition is written.
        eventually("the kind Link", || cluster.put(&link(name)))?;
    }
    cluster.put(&probe_service())?;
    let exported = exported_service(SocketAddr::from(([192, 0, 2, 1], 26257)));
    for object in &exported {
        cluster.put(object)?;
    }
    cluster.put(&gateway_deployment(&json!({CACHE_TIMEOUT: "0s"})))?;
    let flags = [
        forwarder.server_flag(),
        forwarder.resolver_flag(),
        forwarder.api_flag(),
    ];
    let run = CheckRun::run_until(cluster, &flags, |run| {
        ensure!(
            ["yellow", "red", "grey"]
                .iter()
                .all(|one| run.report[one] == 0),
            "{run:#?}"
        );
        Ok(())
    })?;
    ensure!(run.code == Some(0), "{run:#?}");
    for (check, sentence) in [
        ("api-server", "the API server answers"),
        ("permissions", "can list services in all namespaces"),
        ("permissions", "can watch services in all namespaces"),
        ("permissions", "can list endpointslices in all namespaces"),
        ("permissions", "can watch endpointslices in all namespaces"),
        (
            "more-permissions",
            "cannot change Services or EndpointSlices, read Secrets or start Pods",
        ),
        (
            "mirrors",
            "3 headless mirrors of 3 clusters (east, north, west) with 9 endpoints",
        ),
        ("headless-mirroring", "headless mirroring is on"),
        (
            "dead-ports",
            "every port can be reached from other clusters",
        ),
        (
            "opaque-ports",
            "no port of an endpoint mirror needs to be marked opaque",
        ),
        (
            "gateway-cache",
            "no gateway keeps the address of a pod that is gone",
        ),
        ("orphaned-mirrors", "every mirror's cluster has a Link"),
        (
            "endpoint-mirrors",
            "every headless mirror has endpoint mirrors",
        ),
        (
            "endpoint-slices",
            "every mirror with Endpoints has an EndpointSlice",
        ),
        (
            "versions",
            "Linkerd multicluster extension linkerd/helm edge-26.8.3",
        ),
    ] {
        run.check_line("green", check, sentence)?;
    }
    let versions = run.sentences("green", "versions");
    ensure!(
        versions.iter().any(|one| one.starts_with("Kubernetes v")),
        "{versions:?}"
    );
    check_gateway(cluster)?;
    for object in &exported {
        cluster.delete(object)?;
    }
    let run = CheckRun::run_as(cluster, "admin", &[])?;
    let sentence = "no headless Service is exported from here";
    run.check_line("green", "gateway-cache", sentence)?;
    print_line(&format!(
        "check: {}",
        run.sentences("green", "forwarding").join("; ")
    ));
    Ok(())
}

/// The gateway decides whether streams for an exported headless Service reach the right pods.
fn check_gateway(cluster: &Cluster) -> Result<()> {
    grant(cluster, &needed_rules(), true)?;
    let keeps = "gateways that keep the address of a pod that is gone: Deployment/linkerd-multicluster/linkerd-gateway";
    for (annotations, value) in [
        (json!({}), "(not set)"),
        (json!({CACHE_TIMEOUT: "1s"}), "(1s)"),
    ] {
        cluster.put(&gateway_deployment(&annotations))?;
        let run = CheckRun::run_as(cluster, "admin", &[])?;
        run.check_line("yellow", "gateway-cache", &format!("{keeps} {value}"))?;
    }
    cluster.put(&gateway_deployment(&json!({})))?;
    let metadata = json!({"annotations": {CACHE_TIMEOUT: "0s"}});
    let namespace = namespace("linkerd-multicluster");
    cluster.patch(&namespace, &json!({"metadata": metadata}))?;
    let run = CheckRun::run_as(cluster, "admin", &[])?;
    let sentence = "no gateway keeps the address of a pod that is gone";
    run.check_line("green", "gateway-cache", sentence)?;
    // The user may list Deployments, but not namespaces.
    let run = CheckRun::run_until(cluster, &[], |run| {
        let found = run.sentences("grey", "gateway-cache").join("");
        let start = "Gateway address cache: not checked, cannot list namespaces: the API server returned 403: ";
        ensure!(found.starts_with(start), "{run:#?}");
        Ok(())
    })?;
    ensure!(run.code == Some(0), "{run:#?}");
    grant(cluster, &needed_rules(), false)?;
    CheckRun::run_until(cluster, &[], |run| {
        let found = run.sentences("grey", "gateway-cache").join("");
        let start = "Gateway address cache: not checked, cannot list Deployments: the API server returned 403: ";
        ensure!(found.starts_with(start), "{run:#?}");
        Ok(())
    })?;
    cluster.delete(&gateway_deployment(&json!({})))?;
    grant(cluster, &needed_rules(), true)
}

/// A proxy accepts each connection, and closes it if it cannot reach the endpoint.
fn check_connections(cluster: &Cluster) -> Result<()> {
    let forwarder = Forwarder::with_server(cluster)?;
    let listener = TcpListener::bind((own_address(), 0))?;
    let address = listener.local_addr()?;
    let exported = exported_service(address);
    for object in &exported {
        cluster.put(object)?;
    }
    let flags = [
        forwarder.server_flag(),
        forwarder.resolver_flag(),
        "--connect".to_owned(),
        "--name=stream.default.global".to_owned(),
    ];
    for (reply, health, sentence) in [
        (
            Some(&b""[..]),
            "red",
            format!(
                "cannot connect to {address} (s-0 of cluster hub): the connection was accepted and then closed"
            ),
        ),
        (
            Some(b"+PONG"),
            "green",
            format!("connected to {address} (s-0 of cluster hub) in "),
        ),
        (
            None,
            "grey",
            format!(
                "{address} (s-0 of cluster hub): not checked, accepted by the proxy, without a reply"
            ),
        ),
    ] {
        let server = thread::spawn({
            let listener = listener.try_clone()?;
            move || -> Result<TcpStream> {
                let (mut stream, _) = listener.accept()?;
                let mut octets = [0; 2];
                ensure!(stream.read(&mut octets)? == 1, "not one octet: {octets:?}");
                if let Some(reply) = reply {
                    stream.write_all(reply)?;
                    stream.shutdown(Shutdown::Both)?;
                }
                // Without a reply, the connection stays open until the check has ended.
                Ok(stream)
            }
        });
        // The server answers the new Service soon.
        eventually("the answer", || {
            let output = dig(
                forwarder.address,
                Transport::Udp,
                "stream.default.global",
                "A",
            )?;
            ensure!(output.status == "NOERROR", "{}", output.status);
            Ok(())
        })?;
        let run = CheckRun::run_as(cluster, "admin", &flags)?;
        let found = run.sentences(health, "connections");
        ensure!(
            found.len() == 1 && found[0].starts_with(&sentence),
            "{run:#?}"
        );
        let joined = server.join();
        joined.map_err(|_| anyhow!("the listener panicked"))??;
    }
    for object in &exported {
        cluster.delete(object)?;
    }
    Ok(())
}

fn check_links_labels_and_lists(cluster: &Cluster) -> Result<()> {
    cluster.put_status(&link("west"), &failing_link()["status"])?;
    cluster.put(&plain_service())?;
    cluster.put(&odd_service())?;
    // The mirror is deleted, but its host stays in Linkerd's list.
    let mut lost = state()?
        .into_iter()
        .filter(|event| event.kind() == "Service" && event.name() == "nginx-set-0-east");
    let lost = lost.next().context("recording 10 has changed")?;
    cluster.delete(&lost.object)?;
    // Kubernetes deletes the slice of these Endpoints. The same happens to all if its controller is off (KEP-4974).
    let mut written = state()?.into_iter();
    let endpoints =
        written.rfind(|event| event.kind() == "Endpoints" && event.name() == "nginx-set-1-east");
    let mut endpoints = endpoints.context("recording 10 has changed")?.object;
    endpoints["metadata"]["labels"]["endpointslice.kubernetes.io/skip-mirror"] = json!("true");
    cluster.put(&endpoints)?;
    let run = CheckRun::run_until(
        cluster,
        &["shortNames.defaultNamespace=nowhere".to_owned()],
        |run| {
            let start = "namespaces that do not exist here: 'nowhere', of web in cluster 'west'";
            run.check_line("yellow", "namespaces", start)?;
            let start = "Headless mirror without endpoint mirrors: Service/default/nginx-east: lists nginx-set-0";
            let found = run.sentences("yellow", "endpoint-mirrors");
            ensure!(found.iter().any(|one| one.starts_with(start)), "{found:?}");
            let found = run.sentences("yellow", "endpoint-slices").join("");
            let start = "Endpoints of mirrors without an EndpointSlice (1 of ";
            let end = "): Endpoints/default/nginx-set-1-east";
            ensure!(found.starts_with(start) && found.ends_with(end), "{found}");
            Ok(())
        },
    )?;
    let sentence =
        "Links report that mirroring fails: default/web of cluster 'west' (Error: example message)";
    run.check_line("yellow", "link-status", sentence)?;
    let sentence = "1 object ignored because of its label mirror.linkerd.io/mirrored-service: \
                    Service/default/odd-east ('True')";
    run.check_line("yellow", "mirror-labels", sentence)?;
    // An administrator may list namespaces, so `check` reports the wrong one in a flag.
    let flags = [
        "shortNames.defaultNamespace=nowere",
        "shortNames.pinned.nginx=default",
    ]
    .map(str::to_owned);
    let admin_run = CheckRun::run_as(cluster, "admin", &flags)?;
    let sentence = "namespaces that do not exist here: 'nowere', which a flag names, 'nowhere', of web in cluster 'west'";
    admin_run.check_line("yellow", "namespaces", sentence)?;
    // `explain` reads a Service that does not matter for answers, with the permissions of `serve`.
    let mut explain = global_dns(&[
        "explain",
        "plain.default.global",
        "--direct",
        "--context",
        USER,
    ]);
    let text = process::run(explain.arg("--kubeconfig").arg(&cluster.kubeconfig)).stdout;
    let note = "Service/default/plain of this cluster has a cluster IP, and is not exported";
    ensure!(text.contains(note), "explain printed: {text}");
    for object in [plain_service(), odd_service()] {
        cluster.delete(&object)?;
    }
    cluster.put_status(&link("west"), &json!({"mirrorServices": null}))?;
    cluster.apply_state(&state()?)
}

fn check_each_missing_verb(cluster: &Cluster) -> Result<()> {
    for (index, (group, resource)) in [("", "services"), ("discovery.k8s.io", "endpointslices")]
        .into_iter()
        .enumerate()
    {
        for (verb, rest) in [("list", "watch"), ("watch", "list")] {
            let mut rules = needed_rules();
            rules[index] = json!({"apiGroups": [group], "resources": [resource], "verbs": [rest]});
            grant(cluster, &rules, true)?;
            let sentence = format!("cannot {verb} {resource} in all namespaces");
            let run = CheckRun::run_until(cluster, &[], |run| {
                let red = run.lines_with_health("red");
                ensure!(red == [format!("permissions: {sentence}")], "{run:#?}");
                Ok(())
            })?;
            ensure!(run.code == Some(1), "{run:#?}");
        }
    }
    grant(cluster, &needed_rules(), true)?;
    let run = CheckRun::run_until(cluster, &[], |run| {
        ensure!(run.lines_with_health("red").is_empty(), "{run:#?}");
        Ok(())
    })?;
    ensure!(run.code == Some(0), "{run:#?}");
    Ok(())
}

fn check_one_namespace(cluster: &Cluster) -> Result<()> {
    cluster.delete(&binding())?;
    let metadata = json!({"name": "doctor", "namespace": "default"});
    cluster.put(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": needed_rules(),
    }))?;
    let role_binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "doctor"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
    });
    cluster.put(&role_binding)?;
    let run = CheckRun::run_until(cluster, &["--namespace=default".to_owned()], |run| {
        run.check_line(
            "green",
            "permissions",
            "can list services in namespace default",
        )?;
        let text = "cannot change Services or EndpointSlices, read Secrets or start Pods";
        run.check_line("green", "more-permissions", text)?;
        run.check_line(
            "green",
            "mirrors",
            "3 headless mirrors of 3 clusters (east, north, west) with 9 endpoints",
        )
    })?;
    ensure!(run.code == Some(0), "{run:#?}");
    // The same user lacks permissions in other namespaces.
    let run = CheckRun::run_until(cluster, &["--namespace=default,shop".to_owned()], |run| {
        run.check_line(
            "red",
            "permissions",
            "cannot list services in namespace shop; cannot watch services in namespace shop; \
             cannot list endpointslices in namespace shop; cannot watch endpointslices in namespace shop",
        )
    })?;
    ensure!(run.code == Some(1), "{run:#?}");
    cluster.delete(&role_binding)?;
    // The permissions for one namespace are granted in all.
    grant(cluster, &needed_rules(), true)?;
    let run = CheckRun::run_until(cluster, &["--namespace=default".to_owned()], |run| {
        let found = run.sentences("yellow", "more-permissions").join("");
        ensure!(
            found.contains("list services in all namespaces"),
            "{run:#?}"
        );
        Ok(())
    })?;
    ensure!(run.code == Some(0), "{run:#?}");
    Ok(())
}

fn check_administrator(cluster: &Cluster) -> Result<()> {
    let run = CheckRun::run_as(cluster, "admin", &[])?;
    let found = run.sentences("yellow", "more-permissions");
    let start = "has more permissions than needed: create deployments, create endpointslices, ";
    ensure!(found.len() == 1 && found[0].starts_with(start), "{run:#?}");
    ensure!(run.code == Some(0), "{run:#?}");
    Ok(())
}

fn check_orphans(cluster: &Cluster) -> Result<()> {
    cluster.delete(&link("north"))?;
    let run = CheckRun::run_until(cluster, &[], |run| {
        let found = run.sentences("yellow", "orphaned-mirrors").join("");
        let expected = "Cluster has no Link: north: its endpoints are down";
        ensure!(found == expected, "{run:#?}");
        Ok(())
    })?;
    ensure!(run.code == Some(0), "{run:#?}");
    cluster.put(&link("north"))?;
    CheckRun::run_until(cluster, &[], |run| {
        run.check_line(
            "green",
            "orphaned-mirrors",
            "every mirror's cluster has a Link",
        )
    })?;
    Ok(())
}

fn check_unreadable_objects(cluster: &Cluster) -> Result<()> {
    grant(cluster, &needed_rules(), false)?;
    let run = CheckRun::run_until(cluster, &[], |run| {
        let found = run.sentences("grey", "orphaned-mirrors").join("");
        let start =
            "Orphaned mirrors: not checked, cannot list Links: the API server returned 403: ";
        ensure!(found.starts_with(start), "{run:#?}");
        let found = run.sentences("grey", "endpoint-slices").join("");
        let start = "EndpointSlices of mirrors: not checked, cannot list Endpoints: the API server returned 403: ";
        ensure!(found.starts_with(start), "{run:#?}");
        Ok(())
    })?;
    ensure!(run.code == Some(0), "{run:#?}");
    cluster.delete(&link_definition())?;
    Ok(())
}

fn check_coredns_forwarding(cluster: &Cluster) -> Result<()> {
    let forwarder = Forwarder::with_server(cluster)?;
    let dns = forwarder.server.dns;
    let check = |resolver: SocketAddr| {
        let flags = [format!("--dns={dns}"), format!("--resolver={resolver}")];
        CheckRun::run_until(cluster, &flags, |run| {
            let served = run.sentences("green", "server");
            ensure!(served.len() == 1, "{run:#?}");
            Ok(())
        })
    };
    let coredns = forwarder.address;
    let run = check(coredns)?;
    let sentence = format!(
        "{coredns} forwards global. to the server: the same SOA record, and the same answer for nginx.default.global. A"
    );
    run.check_line("green", "forwarding", &sentence)?;
    ensure!(run.code == Some(0), "{run:#?}");

    // A Corefile without stanza for the zone.
    let without = Forwarder::start(cluster, |address| {
        Ok(format!(
            "cluster.local:{} {{\n    bind {}\n    whoami\n}}\n",
            address.port(),
            address.ip()
        ))
    })?;
    let run = check(without.1)?;
    let sentence = format!(
        "{} does not forward global. yet: it returns REFUSED",
        without.1
    );
    run.check_line("yellow", "forwarding", &sentence)?;
    ensure!(run.code == Some(0), "{run:#?}");

    let unused = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let unreachable = Forwarder::start(cluster, |address| stanza(&shipped()?, address, unused))?;
    let run = check(unreachable.1)?;
    let sentence = format!(
        "{} fails only for global.: it returns SERVFAIL",
        unreachable.1
    );
    run.check_line("red", "forwarding", &sentence)?;
    ensure!(run.code == Some(1), "{run:#?}");

    // A global-dns server with other endpoints, as in another cluster.
    let other = Server::ready_of_cluster(&cluster.kubeconfig, &["excludeClusters=[west]"]);
    let elsewhere = Forwarder::start(cluster, |address| stanza(&shipped()?, address, other.dns))?;
    let run = check(elsewhere.1)?;
    let sentence = format!(
        "{} and the server answer differently: nginx.default.global. A",
        elsewhere.1
    );
    run.check_line("red", "forwarding", &sentence)?;
    ensure!(run.code == Some(1), "{run:#?}");
    Ok(())
}

// === impl CheckRun ===

impl CheckRun {
    /// Runs `check` as a user.
    fn run_as(cluster: &Cluster, user: &str, flags: &[String]) -> Result<Self> {
        let common_flags = ["--output=json", "--cluster-name=hub", "--context", user];
        let mut check = global_dns(&[&["check"], &common_flags[..]].concat());
        check.arg("--kubeconfig").arg(&cluster.kubeconfig);
        add_arguments(&mut check, flags);
        let ended = process::run(&mut check);
        let report = serde_json::from_str(&ended.stdout);
        Ok(Self {
            report: report.with_context(|| format!("check printed no JSON: {}", ended.output()))?,
            code: ended.code,
        })
    }

    /// Runs `check` as [`USER`] until the condition is met.
    fn run_until(
        cluster: &Cluster,
        flags: &[String],
        condition: impl Fn(&Self) -> Result<()>,
    ) -> Result<Self> {
        eventually("the expected report of check", || {
            let run = Self::run_as(cluster, USER, flags)?;
            condition(&run)?;
            Ok(run)
        })
    }

    fn lines(&self) -> impl Iterator<Item = &Value> {
        self.report["checks"].as_array().into_iter().flatten()
    }

    /// Returns the sentences of one check with this health.
    fn sentences(&self, health: &str, check: &str) -> Vec<String> {
        let own = self.lines();
        let own = own.filter(|line| line["health"] == health && line["check"] == check);
        own.filter_map(|line| line["sentence"].as_str().map(str::to_owned))
            .collect()
    }

    /// Returns every line with this health as `check: sentence`.
    fn lines_with_health(&self, health: &str) -> Vec<String> {
        let text = |line: &Value, field: &str| line[field].as_str().unwrap_or_default().to_owned();
        let own = self.lines().filter(|line| line["health"] == health);
        own.map(|line| format!("{}: {}", text(line, "check"), text(line, "sentence")))
            .collect()
    }

    fn check_line(&self, health: &str, check: &str, sentence: &str) -> Result<()> {
        let found = self
            .sentences(health, check)
            .iter()
            .any(|one| one == sentence);
        ensure!(found, "no {health} line '{sentence}' of {check}: {self:#?}");
        Ok(())
    }
}
