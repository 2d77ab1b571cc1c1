//! Installs the chart with the commands of the manual.

use anyhow::{Context, Result, ensure};
use support::manual::Section;
use support::output::print_line;
use support::wait::eventually;

use super::lab::Lab;

/// Waits until the rollout has ended.
pub const ROLLOUT: &str =
    "kubectl -n global-dns rollout status --timeout=120s deployment/global-dns";

/// Restarts CoreDNS, which reads its Corefile.
pub const RESTART_COREDNS: &str = "kubectl -n kube-system rollout restart deployment coredns
     kubectl -n kube-system rollout status --timeout=120s deployment coredns";

/// Runs the pods of all examples at once, each in a namespace of its own with pod security `restricted`.
pub fn check_examples(lab: &Lab) -> Result<()> {
    let examples = ["kind", "daemonset", "locked-down", "production"];
    for (name, number) in examples.iter().zip(60..) {
        // These values a person replaces: the name of the cluster, the address, and the number of nodes.
        lab.shell(&format!(
            "kubectl create namespace {name}
             kubectl label namespace {name} pod-security.kubernetes.io/enforce=restricted
             helm install {name} charts/global-dns -n {name} --values charts/global-dns/examples/values/{name}.yaml \
                 --set config.clusterName=hub --set service.clusterIP=10.96.0.{number} --set replicas=2"
        ))?;
    }
    for name in examples {
        let workload = if name == "daemonset" {
            name
        } else {
            "deployment"
        };
        let rollout =
            format!("kubectl -n {name} rollout status --timeout=120s {workload}/{name}-global-dns");
        lab.shell(&rollout).with_context(|| lab.describe(name))?;
        lab.shell(&format!("helm uninstall {name} -n {name}"))?;
    }
    Ok(())
}

/// Upgrades a release whose address Kubernetes chose, and changes its listeners. Helm 3 merges lists of ports by their numbers: if
/// one number has two protocols, the notes require `--force`.
pub fn check_upgrades(lab: &Lab) -> Result<()> {
    let upgrade = |flags: &str| {
        lab.shell(&format!(
            "helm upgrade --install global-dns charts/global-dns -n upgrades --create-namespace \
                 --set image.repository=registry.example.com/dns/global-dns --set config.clusterName=hub {flags}"
        ))
    };
    let service = |field: &str| {
        lab.shell(&format!(
            "kubectl -n upgrades get service global-dns -o jsonpath='{{.spec.{field}}}'"
        ))
    };
    let notes = upgrade("")?;
    ensure!(notes.contains("forward . ADDRESS"), "{notes}");
    let rollout = ROLLOUT.replace("-n global-dns", "-n upgrades");
    lab.shell(&rollout)
        .with_context(|| lab.describe("upgrades"))?;
    let address = service("clusterIP")?;
    let notes = upgrade("")?;
    ensure!(notes.contains(&format!("forward . {address}")), "{notes}");
    let explained = lab.shell("global-dns explain ns.dns.global")?;
    ensure!(explained.contains(&address), "{explained}");

    let tls = "--set tls.secretName=certificate";
    let quic = "--set tls.secretName=certificate --set quic.enabled=true";
    for (values, ports, force) in [
        (tls, "dns dns-tcp dns-tls metrics", ""),
        (quic, "dns dns-quic dns-tcp dns-tls metrics", "--force"),
        (tls, "dns dns-tcp dns-tls metrics", "--force"),
        ("", "dns dns-tcp metrics", ""),
    ] {
        let notes = upgrade(&format!("{values} {force}"))?;
        ensure!(
            notes.contains("--force") != force.is_empty(),
            "{values}: {notes}"
        );
        let found = service("ports[*].name")?;
        let mut found: Vec<&str> = found.split(' ').collect();
        found.sort_unstable();
        ensure!(found.join(" ") == ports, "{values}: {found:?}");
    }
    let uninstall = "helm uninstall global-dns -n upgrades";
    lab.shell(uninstall)?;
    let refused = upgrade("--set config.links.namespaces={nowhere}");
    let error = format!(
        "{:#}",
        refused
            .err()
            .context("Helm creates a Role in no namespace")?
    );
    ensure!(error.contains("\"nowhere\" not found"), "{error}");
    lab.shell(uninstall).map(drop)
}

/// Installs the chart. An ordinary start leaves no warning.
pub fn install(lab: &Lab) -> Result<()> {
    let commands = Section::read("install.md", "Install the chart")?.texts("sh")?;
    // The nodes have the image already.
    lab.shell(&commands[0].replace("docker ", "true "))?;
    lab.shell(ROLLOUT)
        .with_context(|| lab.describe("global-dns"))?;
    lab.check_spread()?;
    for pod in lab.servers()? {
        let warnings = lab.warnings(&pod)?;
        ensure!(warnings.is_empty(), "{warnings}");
    }
    Ok(())
}

/// Forwards the zone, and asks as the manual does.
pub fn forward(lab: &Lab) -> Result<()> {
    let add = Section::read("forwarding.md", "CoreDNS that you manage")?.texts("sh")?;
    lab.shell(&add.concat())?;
    lab.shell(RESTART_COREDNS)?;
    let check = Section::read("forwarding.md", "Check")?.texts("sh")?;
    // The pods of CoreDNS that end still answer for some seconds.
    eventually("the answer of global-dns", || {
        let reply = lab.shell(&check.concat())?;
        let is_ours = reply.contains("status: NOERROR") && reply.contains("ns.dns.global.");
        ensure!(is_ours, "{reply}");
        Ok(())
    })
}

/// `hostname -f` of a pod prints its name in the domain of its cluster, and the cluster's DNS answers that name.
pub fn check_own_names(lab: &Lab) -> Result<()> {
    let own = "db-1.db.prod.svc.hub.example";
    let asked = format!(
        "kubectl -n prod exec db-1 -- hostname -f
         kubectl -n prod exec db-0 -- dig +short {own}"
    );
    eventually("the pods of the database", || {
        let address = lab.shell("kubectl -n prod get pod db-1 -o jsonpath='{.status.podIP}'")?;
        let found = lab.shell(&asked)?;
        ensure!(found == format!("{own}\n{address}\n"), "{found}; {address}");
        Ok(())
    })
}

/// Runs the commands that the manual and the notes of the chart name after an installation.
pub fn check(lab: &Lab) -> Result<()> {
    let commands = Section::read("install.md", "Install the chart")?.texts("sh")?;
    let output = lab.shell(&commands[1].replace("hub,east,west", "admin"))?;
    for part in [
        "Phase:          Succeeded",
        "db.prod.global.",
        "10.96.100.1",
    ] {
        ensure!(output.contains(part), "no '{part}': {output}");
    }
    ensure!(
        !output.contains("unknown"),
        "helm test, explain, fleet: {output}"
    );
    let notes = lab.shell("helm -n global-dns get notes global-dns")?;
    let is_command =
        |line: &&str| line.starts_with("    helm ") || line.starts_with("    kubectl ");
    let commands: Vec<&str> = notes.lines().filter(is_command).collect();
    ensure!(commands.len() == 2, "{notes}");
    let output = lab.shell(&commands.join("\n"))?;
    ensure!(output.contains("10.96.100.1"), "{output}");
    let output = lab.shell("global-dns check")?;
    ensure!(!output.contains("failing"), "{output}");
    Ok(())
}

/// Installs the chart twelve times. Both replicas are on different nodes each time.
pub fn install_twelve_times(lab: &Lab) -> Result<()> {
    for number in 1..=12 {
        if number > 1 {
            lab.shell("helm uninstall global-dns -n global-dns --wait --cascade foreground")?;
        }
        install(lab)?;
        print_line(&format!(
            "    installation {number} of 12: the replicas are apart"
        ));
    }
    Ok(())
}

/// Waits until two replicas are ready, and their predecessors have ended.
pub fn settle(lab: &Lab) -> Result<()> {
    lab.shell(ROLLOUT)?;
    eventually("two ready replicas", || {
        let pods = lab.servers()?;
        ensure!(
            pods.len() == 2 && pods.iter().all(|pod| pod.is_ready),
            "{pods:?}"
        );
        Ok(())
    })
}
