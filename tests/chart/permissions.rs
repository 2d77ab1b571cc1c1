//! The server with the token of its own service account: what the installed roles allow is enough, and not more than
//! it uses.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::commands::global_dns;
use support::objects;
use support::say::say;
use support::server::{Await, Server};
use support::steps::Steps;
use support::wait::eventually;
use tempfile::TempDir;

use crate::helm::{NAMESPACE, RELEASE, template};
use crate::installation::{install, service_address};
use crate::values::with;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const ACCOUNT: &str = "system:serviceaccount:dns:global-dns";

pub fn run(steps: &mut Steps, cluster: &Cluster, audit: &Audit) {
    steps.needed("two_namespaces_have_a_mirror", || {
        mirror(cluster, "prod", "10.96.0.70")?;
        mirror(cluster, "shop", "10.96.0.71")
    });
    steps.step(
        "the_cluster_role_is_enough_and_nothing_in_it_is_unused",
        || {
            let values = with(json!({}));
            install(cluster, &values)?;
            is_enough(cluster, audit, &values, &["10.96.0.70", "10.96.0.71"], "")
        },
    );
    steps.step("no_verb_of_the_cluster_role_can_be_left_out", || {
        no_verb_can_be_left_out(cluster)
    });
    steps.step("a_role_in_each_namespace_is_enough", || {
        let values = with(json!({"namespaces": ["prod"]}));
        install(cluster, &values)?;
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": RELEASE}});
        ensure!(cluster.get(&role)?.is_none(), "the ClusterRole is still there");
        is_enough(cluster, audit, &values, &["10.96.0.70"], "prod")
    });
}

/// The server sees exactly these addresses, and asks for no more than it may, and for all that it may.
fn is_enough(
    cluster: &Cluster,
    audit: &Audit,
    values: &Value,
    addresses: &[&str],
    namespace: &str,
) -> Result<()> {
    let verbs = [
        ("list", "services"),
        ("watch", "services"),
        ("list", "endpointslices"),
        ("watch", "endpointslices"),
    ];
    for (verb, resource) in verbs {
        eventually("the permission", PATIENCE, || {
            ensure!(
                may(cluster, verb, resource, namespace)?,
                "no {verb} of {resource}"
            );
            Ok(())
        })?;
    }
    let before = audit.requests()?.len();
    let server = serve(cluster, values)?;
    server.wait_until_ready();
    let table = server.try_api("/api/v1/table")?;
    let services = table["services"].as_array().context("no services")?;
    let endpoints = services
        .iter()
        .flat_map(|service| service["endpoints"].as_array().into_iter().flatten());
    let seen: BTreeSet<&str> = endpoints
        .filter_map(|endpoint| endpoint["addresses"][0].as_str())
        .collect();
    ensure!(
        seen == addresses.iter().copied().collect(),
        "the table has {seen:?}"
    );
    let expected: BTreeSet<_> = verbs
        .map(|(verb, resource)| (verb.to_owned(), resource.to_owned(), namespace.to_owned()))
        .into();
    eventually("every kind of request", PATIENCE, || {
        let requests = audit.requests()?;
        for request in &requests[before..] {
            // The API server says of a streamed list that it does not do that.
            let is_not_offered = request.verb == "watch" && request.code == 422;
            ensure!(request.code < 400 || is_not_offered, "{request:?}");
        }
        let kinds = requests[before..]
            .iter()
            .map(|r| (r.verb.clone(), r.resource.clone(), r.namespace.clone()));
        let kinds: BTreeSet<_> = kinds.collect();
        ensure!(kinds == expected, "{kinds:?}");
        Ok(())
    })?;
    let ready = server.readyz()?;
    ensure!(ready.body == "ok\n", "/readyz says: {}", ready.body);
    let log = server.log.lines().join("\n");
    ensure!(!log.contains("forbidden: User"), "{log}");
    let asked = audit.requests()?.len() - before;
    say(&format!(
        "{asked} requests of the server's account, none refused; list and watch of 2 resources, in namespace '{namespace}'"
    ));
    Ok(())
}

/// Without any one of them the server says what it lacks.
fn no_verb_can_be_left_out(cluster: &Cluster) -> Result<()> {
    let rendered = template(&with(json!({})))?;
    let whole = rendered.only("ClusterRole")?;
    for (rule, resource, watch) in [
        (0, "services", "mirror-services"),
        (1, "endpointslices", "mirror-slices"),
    ] {
        for (left, removed) in [("watch", "list"), ("list", "watch")] {
            let mut role = whole.clone();
            role["rules"][rule]["verbs"] = json!([left]);
            cluster.put(&role)?;
            eventually("the removal", PATIENCE, || {
                ensure!(
                    !may(cluster, removed, resource, "")?,
                    "it still may {removed} {resource}"
                );
                Ok(())
            })?;
            let server = serve(cluster, &with(json!({})))?;
            eventually("/readyz to say what is forbidden", PATIENCE, || {
                let page = server.readyz()?;
                let lines = page.body.lines();
                let mut of_watch = lines.filter(|line| line.starts_with(watch));
                let told = of_watch.any(|line| line.contains("forbidden"));
                ensure!(
                    told,
                    "without {removed} of {resource}, /readyz says: {}",
                    page.body
                );
                // Without a list there is no table; without a watch, one that nothing keeps up to date.
                ensure!(
                    page.status == if removed == "list" { 503 } else { 200 },
                    "{page:?}"
                );
                Ok(())
            })?;
        }
        cluster.put(whole)?;
    }
    Ok(())
}

/// Starts the server as the pod would be, but for where it listens and how it reaches the API server.
pub fn serve(cluster: &Cluster, values: &Value) -> Result<Server> {
    let mut values = values.clone();
    for listener in ["listen", "adminListen", "apiListen"] {
        values[listener] = json!(["127.0.0.1:0"]);
    }
    values["log"] = json!({"format": "json"});
    // There is no volume for it.
    values["snapshot"] = json!({"enabled": false});
    let arguments = template(&values)?.passed_arguments(&service_address(cluster)?)?;
    // The kubeconfig of the admin, with the token of the account in the place of the admin's.
    let token = cluster.token(NAMESPACE, RELEASE)?;
    let kubeconfig = fs::read_to_string(&cluster.kubeconfig)?;
    ensure!(kubeconfig.contains("token-of-admin"), "{kubeconfig}");
    let path = cluster.directory().join("kubeconfig-of-the-account");
    fs::write(&path, kubeconfig.replace("token-of-admin", &token))?;
    let mut command = global_dns(&[]);
    command.args(arguments).arg("--kubeconfig").arg(path);
    Ok(Server::start_command(
        tempfile::tempdir()?,
        command,
        Await::Listening,
    ))
}

/// Whether the account may do this: what the authorizer says at the moment.
fn may(cluster: &Cluster, verb: &str, resource: &str, namespace: &str) -> Result<bool> {
    let group = if resource == "services" {
        ""
    } else {
        "discovery.k8s.io"
    };
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
        "user": ACCOUNT,
        "resourceAttributes": {"verb": verb, "group": group, "resource": resource, "namespace": namespace},
    }});
    let answer = cluster.post(
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        &review,
    )?;
    Ok(answer["status"]["allowed"] == true)
}

/// A headless mirror with one endpoint.
fn mirror(cluster: &Cluster, namespace: &str, address: &str) -> Result<()> {
    let mirror = objects::mirror(namespace, "db", "west");
    cluster.put(&mirror.service())?;
    cluster.put(&mirror.endpoint_mirror("db-0", &[address]))?;
    Ok(())
}

// === Audit ===

/// What the API server writes down about requests of service accounts.
pub struct Audit {
    directory: TempDir,
}

/// A request, and how it ended.
#[derive(Debug)]
pub struct Request {
    verb: String,
    resource: String,
    namespace: String,
    code: u64,
}

// === impl Audit ===

impl Audit {
    /// Writes the policy.
    pub fn prepare() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let policy = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [
            {"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"},
        ]});
        let audit = Self { directory };
        fs::write(audit.file("policy"), policy.to_string())?;
        Ok(audit)
    }

    /// What the API server must be told.
    pub fn arguments(&self) -> [String; 2] {
        [
            format!("--audit-policy-file={}", self.file("policy").display()),
            format!("--audit-log-path={}", self.file("log").display()),
        ]
    }

    /// Every request of the server's account so far.
    fn requests(&self) -> Result<Vec<Request>> {
        let text = fs::read_to_string(self.file("log")).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let events: Vec<Value> = whole
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()?;
        let of_account = events
            .iter()
            .filter(|event| event["user"]["username"] == ACCOUNT);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let request = |event: &Value| Request {
            verb: text(&event["verb"]),
            resource: text(&event["objectRef"]["resource"]),
            namespace: text(&event["objectRef"]["namespace"]),
            code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
        };
        Ok(of_account.map(request).collect())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}
