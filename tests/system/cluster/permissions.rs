//! Who may run the commands: the permissions of the manual and those of viewers suffice, and without them a command names what it
//! lacks.

use anyhow::{Result, ensure};
use support::manual::Section;

use super::lab::Lab;

/// Lets the chart grant the permissions of viewers to the user without other permissions.
const ADD_VIEWER: &str = r#"helm upgrade global-dns charts/global-dns -n global-dns --reuse-values \
    --set-json 'rbac.viewer.subjects=[{"kind": "User", "name": "stranger"}]'"#;

const COMMANDS_OF_VIEWERS: &str = "{
    global-dns explain db.prod --context stranger
    global-dns check --context stranger
    global-dns fleet --contexts stranger
} >output
! grep forbidden output";

/// Asks a replica with each set of permissions: for all namespaces, for `--server-namespace`, and as a viewer.
pub fn check(lab: &Lab) -> Result<()> {
    let section = Section::read("operate.md", "Status page and commands")?;
    let all = section.texts("yaml")?.concat();
    let is_own = |rule: &&str| !rule.contains("not with --server-namespace");
    let own: Vec<&str> = all.lines().filter(is_own).collect();
    ensure!(own.len() + 1 == all.lines().count(), "{all}");
    let (everywhere, in_one) = ("table", "table --server-namespace global-dns");
    let answered = ["answered by pod global-dns/"];
    let refused = |what| [what, "403", "is forbidden", "grant \""];
    let elsewhere = refused("in all namespaces");
    let here = refused("list pods in namespace global-dns");
    grant(lab, "clusterrole", &all, everywhere, &answered)?;
    grant(lab, "role", &all, everywhere, &elsewhere)?;
    grant(lab, "role", &own.join("\n"), in_one, &answered)?;
    grant(lab, "role", "  []", in_one, &here)?;
    lab.shell(ADD_VIEWER)?;
    lab.await_texts(COMMANDS_OF_VIEWERS, &[])
}

/// Gives a user without other permissions a role: in the namespace of the server, or in all. Waits until a command prints these texts.
fn grant(lab: &Lab, kind: &str, rules: &str, command: &str, texts: &[&str]) -> Result<()> {
    lab.shell(&format!(
        "kubectl delete clusterrole,clusterrolebinding,role,rolebinding finder -n global-dns --ignore-not-found
        k create {kind} finder --verb=get --resource=pods
        k create {kind}binding finder --{kind}=finder --user=stranger
        k patch {kind} finder --type merge --patch-file /dev/stdin <<<'rules:\n{rules}'"
    ))?;
    let asked = format!("global-dns {command} --context stranger 2>&1 || true");
    lab.await_texts(&asked, texts)
}
