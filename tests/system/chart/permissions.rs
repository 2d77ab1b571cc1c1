//! The server with the token of its service account: the installed roles allow exactly the requests that it sends. So do those of
//! viewers for the requests of `check`, which sends those of all commands.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::commands::global_dns;
use support::objects;
use support::output::print_line;
use support::process;
use support::server::{Server, WaitUntil};
use support::steps::Steps;
use support::wait::eventually;
use tempfile::TempDir;

use crate::chart::values::{minimum, with, with_settings};
use support::helm::{NAMESPACE, RELEASE, arguments, chart, helm, template};

const ACCOUNT: &str = "system:serviceaccount:dns:global-dns";
const VIEWER: &str = "system:serviceaccount:dns:viewer";
/// The namespace of Links.
const LINKS: &str = "linkerd-multicluster";

pub fn run(steps: &mut Steps, cluster: &Cluster, audit: &Audit) {
    steps.prerequisite("two_namespaces_have_a_mirror_of_a_linked_cluster", || {
        mirror(cluster, "prod", "10.96.0.70")?;
        mirror(cluster, "shop", "10.96.0.71")?;
        cluster.put(&objects::link_definition())?;
        let link = objects::link(LINKS, "west", "west");
        eventually("the kind Link", || cluster.put(&link))
    });
    steps.step("roles_have_exactly_the_needed_permissions", || {
        let values = minimum();
        install(cluster, &values)?;
        check_sufficient(cluster, audit, &values, &["10.96.0.70", "10.96.0.71"], "")
    });
    steps.step("role_in_each_namespace_is_sufficient", || {
        let values = with_settings(&json!({"namespaces": ["prod"]}));
        install(cluster, &values)?;
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": RELEASE}});
        ensure!(cluster.get(&role)?.is_none(), "the ClusterRole still exists");
        check_sufficient(cluster, audit, &values, &["10.96.0.70"], "prod")
    });
    steps.step("viewers_may_do_what_the_commands_ask", || {
        let viewer = json!([{"kind": "ServiceAccount", "name": "viewer", "namespace": NAMESPACE}]);
        let values = with(json!({"rbac": {"viewer": {"subjects": viewer}}}));
        install(cluster, &values)?;
        check_viewer(cluster, audit, template(&values)?.pods().swap_remove(0))
    });
}

/// Installs or upgrades the chart.
fn install(cluster: &Cluster, values: &Value) -> Result<()> {
    let (chart, kubeconfig) = (chart(), cluster.kubeconfig.display().to_string());
    let what = ["upgrade", "--install", RELEASE, &chart];
    let place = ["--namespace", NAMESPACE, "--kubeconfig", &kubeconfig];
    let ended = helm(&[what, place].concat(), values)?;
    ensure!(ended.is_success(), "helm upgrade: {}", ended.stderr);
    Ok(())
}

/// Returns the cluster IP of the installed Service.
fn service_address(cluster: &Cluster) -> Result<String> {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": NAMESPACE, "name": RELEASE}});
    let service = cluster.get(&service)?.context("no Service")?;
    let address = service.data["spec"]["clusterIP"].as_str();
    Ok(address.context("no address")?.to_owned())
}

/// Checks that the server finds exactly these addresses, and that it uses all its permissions and no others.
fn check_sufficient(
    cluster: &Cluster,
    audit: &Audit,
    values: &Value,
    addresses: &[&str],
    namespace: &str,
) -> Result<()> {
    let permissions = [
        ("list", "services", namespace),
        ("watch", "services", namespace),
        ("list", "endpointslices", namespace),
        ("watch", "endpointslices", namespace),
        ("list", "links", LINKS),
        ("watch", "links", LINKS),
        ("list", "leases", LINKS),
    ];
    for (verb, resource, namespace) in permissions {
        eventually("the permission", || {
            ensure!(
                is_allowed(cluster, ACCOUNT, verb, resource, namespace)?,
                "the account may not {verb} {resource} in namespace '{namespace}'"
            );
            Ok(())
        })?;
    }
    for (verb, resource, namespace) in [
        ("watch", "leases", LINKS),
        ("get", "leases", LINKS),
        ("update", "leases", LINKS),
        ("get", "links", LINKS),
        ("update", "links", LINKS),
        ("list", "secrets", LINKS),
        ("list", "links", ""),
        ("list", "leases", ""),
    ] {
        ensure!(
            !is_allowed(cluster, ACCOUNT, verb, resource, namespace)?,
            "the account may {verb} {resource} in namespace '{namespace}'"
        );
    }
    let before = audit.requests(ACCOUNT)?.len();
    let server = serve(cluster, values)?;
    server.wait_until_ready();
    let endpoints = server.try_items("endpoints")?;
    let seen: BTreeSet<&str> = endpoints
        .iter()
        .filter_map(|endpoint| endpoint["addresses"][0].as_str())
        .collect();
    ensure!(
        seen == addresses.iter().copied().collect(),
        "the table has the addresses {seen:?}"
    );
    let expected = permissions.map(|(verb, resource, namespace)| {
        (verb.to_owned(), resource.to_owned(), namespace.to_owned())
    });
    let expected = BTreeSet::from(expected);
    eventually("every kind of request", || {
        let requests = audit.requests(ACCOUNT)?;
        for request in &requests[before..] {
            ensure!(request.code < 400, "{request:?}");
        }
        let kinds: BTreeSet<_> = requests[before..]
            .iter()
            .map(|r| (r.verb.clone(), r.resource.clone(), r.namespace.clone()))
            .collect();
        ensure!(kinds == expected, "{kinds:?}");
        Ok(())
    })?;
    let ready = server.readyz()?;
    ensure!(ready.body == "ok\n", "/readyz returns: {}", ready.body);
    let log = server.log.lines().join("\n");
    ensure!(!log.contains("forbidden: User"), "{log}");
    let asked = audit.requests(ACCOUNT)?.len() - before;
    print_line(&format!(
        "{asked} requests of the server's account, none forbidden; list and watch of 2 resources, in namespace '{namespace}'; \
         Links and Leases in '{LINKS}'"
    ));
    Ok(())
}

/// Checks that `check` gets every answer that it asks for as a viewer, and that viewers have no other permissions. The pod is not
/// ready, so that it asks for no port-forward, and not for the objects that it compares with what a server says. The layer `cluster`
/// has a server.
fn check_viewer(cluster: &Cluster, audit: &Audit, mut pod: Value) -> Result<()> {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": NAMESPACE, "name": "viewer"}});
    cluster.put(&account)?;
    pod["spec"]["nodeName"] = json!("gone");
    cluster.put(&pod)?;
    for (is_expected, verb, resource, namespace) in [
        (true, "get", "pods/portforward", NAMESPACE),
        (true, "create", "pods/portforward", NAMESPACE),
        (false, "create", "pods/portforward", "prod"),
        (false, "list", "pods", "prod"),
        (false, "get", "pods", NAMESPACE),
        (false, "list", "secrets", NAMESPACE),
        (false, "watch", "services", ""),
    ] {
        eventually("the permission", || {
            let is_allowed = is_allowed(cluster, VIEWER, verb, resource, namespace)?;
            ensure!(
                is_allowed == is_expected,
                "{verb} {resource} in '{namespace}'"
            );
            Ok(())
        })?;
    }
    let kubeconfig = kubeconfig_of(cluster, "viewer")?;
    let ended = process::run(global_dns(&["check", "--kubeconfig"]).arg(kubeconfig));
    ensure!(!ended.stdout.contains("forbidden"), "{ended:?}");
    eventually("every kind of request", || {
        let requests = audit.requests(VIEWER)?;
        ensure!(
            requests.iter().all(|request| request.code != 403),
            "{requests:?}"
        );
        let mut kinds: Vec<String> = requests
            .iter()
            .filter(|request| !request.resource.is_empty())
            .map(|request| format!("{} {}", request.verb, request.resource))
            .collect();
        kinds.sort();
        kinds.dedup();
        let expected =
            "create subjectaccessreviews, get nodes, list daemonsets, list deployments, list pods";
        ensure!(kinds.join(", ") == expected, "{kinds:?}");
        Ok(())
    })
}

/// Writes the kubeconfig of the administrator with the token of a service account.
fn kubeconfig_of(cluster: &Cluster, account: &str) -> Result<PathBuf> {
    let token = cluster.token(NAMESPACE, account)?;
    let kubeconfig = fs::read_to_string(&cluster.kubeconfig)?;
    ensure!(kubeconfig.contains("token-of-admin"), "{kubeconfig}");
    let path = cluster.directory().join(format!("kubeconfig-of-{account}"));
    fs::write(&path, kubeconfig.replace("token-of-admin", &token))?;
    Ok(path)
}

/// Starts the server with the flags and variables of the pod, except for listeners and access to the API server.
fn serve(cluster: &Cluster, values: &Value) -> Result<Server> {
    let rendered = template(values)?;
    let path = kubeconfig_of(cluster, RELEASE)?;
    let mut command = global_dns(&arguments(rendered.container()?)?);
    command.envs(rendered.variables(&service_address(cluster)?)?);
    for listener in ["--listen", "--admin-listen", "--api-listen"] {
        command.args([listener, "127.0.0.1:0"]);
    }
    command
        .args(["--log-format", "json", "--kubeconfig"])
        .arg(path);
    Ok(Server::start_command(
        tempfile::tempdir()?,
        command,
        WaitUntil::Listening,
    ))
}

/// Returns whether the authorizer currently allows a request of an account.
fn is_allowed(
    cluster: &Cluster,
    account: &str,
    verb: &str,
    resource: &str,
    namespace: &str,
) -> Result<bool> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let group = match resource {
        "endpointslices" => "discovery.k8s.io",
        "links" => "multicluster.linkerd.io",
        "leases" => "coordination.k8s.io",
        _ => "",
    };
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
        "user": account,
        "resourceAttributes": {"verb": verb, "group": group, "resource": resource, "subresource": subresource, "namespace": namespace},
    }});
    let answer = cluster.post(
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        &review,
    )?;
    Ok(answer["status"]["allowed"] == true)
}

/// Creates a headless mirror with one endpoint.
fn mirror(cluster: &Cluster, namespace: &str, address: &str) -> Result<()> {
    let mirror = objects::mirror(namespace, "db", "west");
    cluster.put(&mirror.service())?;
    cluster.put(&mirror.endpoint_mirror("db-0", &[address]))?;
    Ok(())
}

// === Audit ===

/// The API server's audit log of requests by service accounts.
pub struct Audit {
    directory: TempDir,
}

/// A request and its result.
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

    /// Returns the audit flags of the API server.
    pub fn arguments(&self) -> [String; 2] {
        [
            format!("--audit-policy-file={}", self.file("policy").display()),
            format!("--audit-log-path={}", self.file("log").display()),
        ]
    }

    /// Returns all requests of an account so far.
    fn requests(&self, account: &str) -> Result<Vec<Request>> {
        let text = fs::read_to_string(self.file("log")).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let events: Vec<Value> = whole
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()?;
        let of_account = events
            .iter()
            .filter(|event| event["user"]["username"] == *account);
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
