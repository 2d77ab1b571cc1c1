//! Installs the chart with the commands of the manual.

use anyhow::{Result, ensure};
use support::manual::Section;
use support::output::print_line;

use super::lab::Lab;

/// Runs the pods of all examples at once, each in a namespace of its own with pod security `restricted`. A person replaces these values:
/// the name of the cluster, the address, and the number of nodes.
pub const EXAMPLES: &str = r#"
number=60
for name in kind daemonset locked-down production; do
    kubectl create namespace $name
    kubectl label namespace $name pod-security.kubernetes.io/enforce=restricted
    helm install $name charts/global-dns -n $name --values charts/global-dns/examples/values/$name.yaml \
        --set config.clusterName=hub --set service.clusterIP=10.96.0.$((number++)) --set replicas=2
done
for name in kind daemonset locked-down production; do
    await_rollout $name "$(kubectl -n $name get deployment,daemonset -o name)"
    helm uninstall $name -n $name
done
"#;

/// Upgrades a release whose address Kubernetes chose, and changes its listeners. Prints its ports after each change, and how many lines
/// of the notes have `--force`. Helm does not create a Role in a namespace that does not exist.
const UPGRADES: &str = r#"
upgrade() {
    helm upgrade --install global-dns charts/global-dns -n upgrades --create-namespace \
        --set image.repository=registry.example.com/dns/global-dns --set config.clusterName=hub "$@"
}
service() { kubectl -n upgrades get service global-dns -o jsonpath="{.spec.$1}"; }
{
    upgrade | grep 'forward \. ADDRESS'
    await_rollout upgrades deployment/global-dns
    address=$(service clusterIP)
    upgrade | grep "forward \. $address"
    global-dns explain ns.dns.global | grep "$address"
} >&2
tls='--set tls.secretName=certificate'
for flags in "$tls" "$tls --set quic.enabled=true --force" "$tls --force" ''; do
    upgrade $flags >notes
    echo "$(service 'ports[*].name' | tr ' ' '\n' | sort | paste -sd' '): $(grep -c -e --force notes)"
done
helm uninstall global-dns -n upgrades
{ ! upgrade --set 'config.links.namespaces={nowhere}'; } 2>&1 | grep '"nowhere" not found' >&2
helm uninstall global-dns -n upgrades
"#;

/// Helm 3 merges lists of ports by their numbers: if one number has two protocols, the notes require `--force`.
const PORTS: &str = "\
dns dns-tcp dns-tls metrics: 0
dns dns-quic dns-tcp dns-tls metrics: 1
dns dns-tcp dns-tls metrics: 1
dns dns-tcp metrics: 0
";

pub fn check_upgrades(lab: &Lab) -> Result<()> {
    let found = lab.shell(UPGRADES)?;
    ensure!(found.contains(PORTS), "{found}");
    Ok(())
}

/// Installs the chart some times. An ordinary start leaves no warning.
pub fn install(lab: &Lab, times: usize) -> Result<()> {
    let manual = Section::read("install.md", "Install the chart")?.texts("sh")?;
    for number in 1..=times {
        // The nodes have the image already.
        lab.shell(&manual[0].replace("docker ", "true "))?;
        lab.settle()?;
        check_warnings(
            lab,
            "{ grep $(k get pods -l $SERVERS -o name | sed 's,pod/,-e ,') || true; }",
        )?;
        print_line(&format!(
            "    installation {number} of {times}: the replicas are apart"
        ));
        if number < times {
            lab.shell("helm uninstall global-dns -n global-dns --wait --cascade foreground")?;
        }
    }
    Ok(())
}

/// Fails if a filter leaves a warning about a pod of the server: a line with its name, number and text.
pub fn check_warnings(lab: &Lab, filter: &str) -> Result<()> {
    let unexpected = lab.shell(&format!(
        r#"k get events --field-selector type=Warning,involvedObject.kind=Pod \
            -o jsonpath='{{range .items[*]}}{{.involvedObject.name}}: {{.count}} {{.message}}{{"\n"}}{{end}}' |
            sed '/^global-dns-check: /d' | {filter}"#
    ))?;
    ensure!(unexpected.is_empty(), "{unexpected}");
    Ok(())
}

/// Forwards the zone, and asks as the manual does. The pods of CoreDNS that end still answer for some seconds.
pub fn forward(lab: &Lab) -> Result<()> {
    lab.shell(&commands("forwarding.md", "CoreDNS that you manage")?)?;
    lab.shell("restart kube-system coredns")?;
    let check = commands("forwarding.md", "Check")?;
    lab.await_texts(&check, &["status: NOERROR", "ns.dns.global."])
}

/// `hostname -f` of a pod prints its name in the domain of its cluster, and the cluster's DNS answers that name.
pub fn check_own_names(lab: &Lab) -> Result<()> {
    let asked = r#"address=$(kubectl -n prod get pod db-1 -o jsonpath='{.status.podIP}')
        kubectl -n prod exec db-1 -- hostname -f
        kubectl -n prod exec db-0 -- dig +short db-1.db.prod.svc.hub.example | grep -x "$address""#;
    lab.await_texts(asked, &["db-1.db.prod.svc.hub.example\n"])
}

/// What the commands of the manual and of the notes of the chart print after an installation.
const CHECKS: &str = r#"
for text in 'Phase:          Succeeded' db.prod.global. 10.96.100.1; do grep -F "$text" told; done
if grep unknown told; then exit 1; fi
notes=$(helm -n global-dns get notes global-dns | grep -E '^    (helm|kubectl) ')
[[ $(wc -l <<<"$notes") == 2 ]]
eval "$notes" | grep -F 10.96.100.1
global-dns check >told
if grep failing told; then exit 1; fi
"#;

pub fn check_commands(lab: &Lab) -> Result<()> {
    let manual = Section::read("install.md", "Install the chart")?.texts("sh")?;
    let asked = manual[1].replace("hub,east,west", "admin");
    lab.shell(&format!("{{\n{asked}\n}} >told\n{CHECKS}"))
        .map(drop)
}

/// Returns the commands of a section of the manual.
pub fn commands(page: &str, heading: &str) -> Result<String> {
    Ok(Section::read(page, heading)?.texts("sh")?.concat())
}
