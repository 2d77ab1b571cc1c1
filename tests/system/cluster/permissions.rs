//! Who may run the commands: the permissions of the manual and those of viewers suffice, and without them a command names what it
//! lacks.

use anyhow::{Result, ensure};
use support::manual::Section;
use support::process::run;
use support::wait::eventually;

use super::lab::Lab;

/// Lets the chart grant the permissions of viewers to the user without other permissions.
const ADD_VIEWER: &str = r#"helm upgrade global-dns charts/global-dns -n global-dns --reuse-values \
    --set-json 'rbac.viewer.subjects=[{"kind": "User", "name": "stranger"}]'"#;

/// Asks a replica with each set of permissions: for all namespaces, for `--server-namespace`, and as a viewer.
pub fn check(lab: &Lab) -> Result<()> {
    let rules = Section::read("operate.md", "Status page and commands")?.texts("yaml")?;
    let all = rules.concat();
    let own = all
        .lines()
        .filter(|rule| !rule.contains("not with --server-namespace"));
    let own = own.collect::<Vec<_>>().join("\n");
    ensure!(own.lines().count() + 1 == all.lines().count(), "{all}");
    let (everywhere, in_one) = (
        "global-dns table",
        "global-dns table --server-namespace global-dns",
    );
    may(lab, "clusterrole", &all, everywhere)?;
    may_not(lab, "role", &all, everywhere, "in all namespaces")?;
    may_not(
        lab,
        "role",
        "  []",
        in_one,
        "list pods in namespace global-dns",
    )?;
    may(lab, "role", &own, in_one)?;
    grant(lab, "role", "  []")?;
    lab.shell(ADD_VIEWER)?;
    for command in ["explain db.prod", "check", "fleet"] {
        eventually("the effect of the chart's roles", || {
            let context = if command == "fleet" {
                "--contexts"
            } else {
                "--context"
            };
            let output = lab.shell(&format!("global-dns {command} {context} stranger"))?;
            ensure!(!output.contains("forbidden"), "{output}");
            Ok(())
        })?;
    }
    Ok(())
}

fn may(lab: &Lab, kind: &str, rules: &str, command: &str) -> Result<()> {
    grant(lab, kind, rules)?;
    eventually("the effect of a grant", || {
        let output = lab.shell(&format!("{command} --context stranger"))?;
        ensure!(
            output.starts_with("answered by pod global-dns/"),
            "{output}"
        );
        Ok(())
    })
}

fn may_not(lab: &Lab, kind: &str, rules: &str, command: &str, missing: &str) -> Result<()> {
    grant(lab, kind, rules)?;
    eventually("the effect of a grant", || {
        let error = run(&mut lab.command(&format!("{command} --context stranger"))?).stderr;
        let has_all = [missing, "403", "is forbidden", "grant \""]
            .iter()
            .all(|part| error.contains(part));
        ensure!(has_all, "{error}");
        Ok(())
    })
}

/// Gives a user without other permissions a role: in the namespace of the server, or in all.
fn grant(lab: &Lab, kind: &str, rules: &str) -> Result<()> {
    lab.shell(&format!(
        "kubectl delete clusterrole,clusterrolebinding,role,rolebinding finder -n global-dns --ignore-not-found
         kubectl -n global-dns create {kind} finder --verb=get --resource=pods
         kubectl -n global-dns create {kind}binding finder --{kind}=finder --user=stranger
         kubectl -n global-dns patch {kind} finder --type merge --patch-file /dev/stdin <<<'rules:\n{rules}'"
    ))
    .map(drop)
}
