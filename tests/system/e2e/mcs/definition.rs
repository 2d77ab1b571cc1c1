//! The definition of ServiceImports: missing at the start, with one version, deleted while the server runs, and created
//! again. Without permission to list them, the server is not ready.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::http::Page;
use support::objects::{cluster_role, cluster_role_binding, gateway_mirror, mirror, namespace};
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;

use super::{
    VERSIONS, definition, erase, fixture, fixtures, install, start, start_ready, uninstall, write,
};

const DB_SHOP: &str = "db.shop.svc.clusterset.local. A";
const WEB_PROD: &str = "web.prod.svc.clusterset.local. A";
/// Names of mirrors, which ServiceImports do not concern.
const OTHERS: [(&str, &str); 3] = [
    ("db.linked.global. A", "10.96.70.1"),
    ("db-0.east.db.linked.global. A", "10.96.70.1"),
    ("pay.linked.global. A", "10.96.70.2"),
];

pub fn run_before(steps: &mut Steps, cluster: &Cluster) {
    steps.prerequisite("mirrors_exist_beside_the_imports", || {
        cluster.put(&namespace("linked"))?;
        let db = mirror("linked", "db", "east").endpoint("db-0", &["10.96.70.1"]);
        let pay = gateway_mirror("linked", "pay", "east", "10.96.70.2");
        write(cluster, &support::objects::objects().with(db).with(pay).0)
    });
    let mut server = None;
    steps.prerequisite("server_is_ready_without_the_definition", || {
        let started = start_ready(cluster);
        started.with_log(check_others(&started))?;
        ensure!(started.outcome(DB_SHOP) == "NXDOMAIN");
        server = Some(started);
        Ok(())
    });
    steps.prerequisite("definition_with_one_version_is_found_later", || {
        let server = server.as_ref().context("no server")?;
        install(cluster, &VERSIONS[..1])?;
        write(cluster, &fixture("submariner-headless")?)?;
        server.with_log(check_eventually(
            server,
            DB_SHOP,
            "10.1.1.10 10.2.1.10 10.2.1.11",
        ))
    });
    steps.prerequisite(
        "second_version_of_the_definition_is_the_same_imports",
        || {
            let server = server.as_ref().context("no server")?;
            let all = definition(&VERSIONS)?;
            cluster.patch(
                &all,
                &json!({"spec": {"versions": all["spec"]["versions"]}}),
            )?;
            install_is_complete(cluster)?;
            write(cluster, &fixture("cilium-clustersetip")?)?;
            let checked = check_eventually(server, WEB_PROD, "10.96.40.7")
                .and_then(|()| check_eventually(server, DB_SHOP, "10.1.1.10 10.2.1.10 10.2.1.11"))
                .and_then(|()| check_others(server));
            server.with_log(checked)?;
            // A fresh process finds both versions at once and reads one of them.
            let fresh = start_ready(cluster);
            let checked = check_eventually(&fresh, WEB_PROD, "10.96.40.7");
            fresh.with_log(checked.and_then(|()| check_no_import_twice(&fresh)))
        },
    );
}

pub fn run_after(steps: &mut Steps, cluster: &Cluster) {
    steps.forget_failed_prerequisite();
    steps.step(
        "server_without_permission_for_imports_is_not_ready_and_names_it",
        || check_missing_permission(cluster),
    );
    steps.step(
        "deleted_definition_empties_only_the_imports_and_may_return",
        || check_deleted_definition(cluster),
    );
}

/// Waits until the API server lists ServiceImports of all versions.
fn install_is_complete(cluster: &Cluster) -> Result<()> {
    VERSIONS.iter().try_for_each(|version| {
        let version = format!("multicluster.x-k8s.io/{version}");
        eventually("the versions", || {
            cluster.count(&version, "ServiceImport").map(drop)
        })
    })
}

fn check_eventually(server: &Server, question: &str, expected: &str) -> Result<()> {
    eventually(question, || {
        let outcome = server.outcome(question);
        ensure!(
            outcome == expected,
            "{question} is {outcome}, expected {expected}"
        );
        Ok(())
    })
}

fn check_others(server: &Server) -> Result<()> {
    for (question, expected) in OTHERS {
        let outcome = server.outcome(question);
        ensure!(
            outcome == expected,
            "{question} is {outcome}, expected {expected}"
        );
    }
    Ok(())
}

fn check_no_import_twice(server: &Server) -> Result<()> {
    let table = server.try_api("/api/v1/table")?;
    let services = table["services"].as_array().context("no services")?;
    let web: Vec<&Value> = services
        .iter()
        .filter(|one| one["service"] == "web" && one["namespace"] == "prod")
        .collect();
    ensure!(web.len() == 1, "{web:?}");
    ensure!(web[0]["kind"] == "import", "{web:?}");
    let endpoints = web[0]["endpoints"].as_array();
    ensure!(endpoints.is_some_and(|all| all.len() == 1), "{web:?}");
    Ok(())
}

// === Permissions ===

fn check_missing_permission(cluster: &Cluster) -> Result<()> {
    let (role, binding) = (role(false), binding());
    cluster.put(&role)?;
    cluster.put(&binding)?;
    let server = start(cluster, &["--context", "stranger"]);
    let named = eventually("/readyz to name the permission", || {
        let Page { status, body } = server.readyz()?;
        let lines: Vec<&str> = body
            .lines()
            .filter(|line| line.contains("forbidden"))
            .collect();
        let is_named = lines.len() == 1
            && lines[0].contains("ServiceImports")
            && lines[0].contains("serviceimports");
        ensure!(
            status == 503 && is_named,
            "/readyz returned {status}: {body}"
        );
        let outcome = server.outcome(OTHERS[0].0);
        ensure!(outcome == "SERVFAIL", "{outcome}");
        Ok(())
    });
    server.with_log(named)?;
    cluster.delete(&role)?;
    cluster.put(&self::role(true))?;
    let ready = eventually("readiness after the grant", || {
        let Page { status, body } = server.readyz()?;
        ensure!(status == 200, "/readyz returned {status}: {body}");
        Ok(())
    });
    server.with_log(ready.and_then(|()| check_others(&server)))?;
    check_eventually(&server, WEB_PROD, "10.96.40.7")?;
    erase(cluster, &[self::role(true), binding])
}

/// Returns the role of the chart, with or without the rule of `mcs.enabled`.
fn role(has_imports: bool) -> Value {
    let verbs = json!(["list", "watch"]);
    let mut rules = vec![
        json!({"apiGroups": [""], "resources": ["services"], "verbs": verbs}),
        json!({"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": verbs}),
    ];
    if has_imports {
        let group = "multicluster.x-k8s.io";
        rules.push(json!({"apiGroups": [group], "resources": ["serviceimports"], "verbs": verbs}));
    }
    cluster_role("global-dns-of-imports", &Value::Array(rules))
}

fn binding() -> Value {
    cluster_role_binding("global-dns-of-imports", "stranger")
}

// === The definition is deleted ===

fn check_deleted_definition(cluster: &Cluster) -> Result<()> {
    write(cluster, &fixtures()?)?;
    let server = start_ready(cluster);
    server.with_log(check_eventually(&server, WEB_PROD, "10.96.40.7"))?;
    let mark = server.log.mark();
    uninstall(cluster)?;
    let gone = check_eventually(&server, WEB_PROD, "NXDOMAIN")
        .and_then(|()| check_eventually(&server, DB_SHOP, "NXDOMAIN"))
        .and_then(|()| check_reports_of_missing_definition(&server, mark));
    server.with_log(gone)?;
    install(cluster, &VERSIONS)?;
    write(cluster, &fixtures()?)?;
    let back = check_eventually(&server, WEB_PROD, "10.96.40.7")
        .and_then(|()| check_eventually(&server, DB_SHOP, "10.1.1.10 10.2.1.10 10.2.1.11"))
        .and_then(|()| check_others(&server));
    server.with_log(back)
}

/// The server stays ready and says in one line that the kind is missing. The slices are left, without a ServiceImport.
fn check_reports_of_missing_definition(server: &Server, mark: usize) -> Result<()> {
    let message = "The API server does not define this kind";
    eventually("the line in the log", || {
        let events = server.log.events().into_iter().skip(mark);
        let lines = events.filter(|event| {
            let text = event["fields"]["message"].as_str().unwrap_or_default();
            text.starts_with(message)
        });
        let count = lines.count();
        ensure!(count == 1, "{count} lines '{message}'");
        Ok(())
    })?;
    let Page { status, body } = server.readyz()?;
    ensure!(status == 200, "/readyz returned {status}: {body}");
    check_others(server)?;
    for page in ["table", "explain?name=db.shop.svc.clusterset.local"] {
        eventually(page, || {
            let report = server.try_api(&format!("/api/v1/{page}"))?;
            let skipped = report["skipped"].as_array().context("no skipped objects")?;
            let of_db: Vec<&Value> = skipped
                .iter()
                .filter(|one| one["object"] == "EndpointSlice/shop/db-c7wtp")
                .collect();
            let detail = of_db
                .first()
                .and_then(|one| one["detail"].as_str())
                .unwrap_or_default();
            ensure!(
                of_db.len() == 1 && detail.contains("ServiceImport shop/db"),
                "{page}: {of_db:?}"
            );
            Ok(())
        })?;
    }
    Ok(())
}
