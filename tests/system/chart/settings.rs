//! The pods get the value `config` with the listeners of the chart, and `serve` accepts it.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::commands::global_dns;
use support::helm::{arguments, container, template};
use support::process::{run, run_checked};
use support::repository::repository;

use crate::chart::values::{matrix, minimum, with};

#[test]
fn serve_and_check_get_the_settings_of_every_combination() -> Result<()> {
    for (name, values) in matrix() {
        let rendered = template(&values)?;
        let server = rendered.container()?;
        let [serve, flags @ ..] = &arguments(server)?[..] else {
            anyhow::bail!("{name}: no arguments")
        };
        let check = container(rendered.only("Pod")?)?;
        let of_check = arguments(check)?.into_iter();
        let of_check: Vec<_> = of_check.filter(|flag| *flag != "--direct").collect();
        ensure!((*serve, of_check[0]) == ("serve", "check"), "{name}");
        ensure!(of_check[2..] == *flags, "{name}: {of_check:?}");
        ensure!(check["env"][0] == server["env"][0], "{name}");

        let settings = rendered.settings()?;
        let mut own = settings.clone();
        let fields = own.as_object_mut().context("no object")?;
        fields.retain(|field, _| !["listen", "tls"].contains(&field.as_str()));
        ensure!(own == values["config"], "{name}: {own}");
        let mut command = global_dns(&["serve", "--print-settings"]);
        command.args(flags).envs(rendered.variables("10.96.0.53")?);
        let printed = run_checked(&mut command).context(name.clone())?;
        let printed: Value = serde_saphyr::from_str(&printed)?;
        ensure!(is_within(&settings, &printed), "{name}: {printed}");
    }
    Ok(())
}

/// Returns whether a document has the fields of another one. `null` is the default. The filter of the log is printed in another
/// order.
fn is_within(part: &Value, whole: &Value) -> bool {
    match part {
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| *name != "level")
            .all(|(name, value)| is_within(value, &whole[name])),
        Value::Null => true,
        other => other == whole,
    }
}

/// A resolver that follows the zone's NS record must reach some replica, not only the one that answered.
#[test]
fn zone_name_server_is_the_service_and_not_a_pod() -> Result<()> {
    let chosen = "10.96.0.99";
    let given = json!({"clusterName": "hub", "answers": {"nsAddresses": ["192.0.2.1"]}});
    for (values, expected) in [
        (json!({}), Some(chosen)),
        (json!({"kind": "DaemonSet"}), Some(chosen)),
        (json!({"service": {"type": "LoadBalancer"}}), Some(chosen)),
        (
            json!({"service": {"type": "ClusterIP", "clusterIP": "2001:db8::53"}}),
            Some("2001:db8::53"),
        ),
        (json!({"config": given}), None),
    ] {
        let variables = template(&with(values.clone()))?.variables(chosen)?;
        let found = variables
            .iter()
            .find(|(name, _)| name == "GLOBAL_DNS_SERVICE_IPS");
        let found = found.map(|(_, value)| value.as_str());
        ensure!(found == expected, "{values}: {found:?}");
    }
    // A container that starts before its node has the Service exits, so that the kubelet restarts it.
    let mut variables = template(&minimum())?.variables(chosen)?;
    for (_, value) in variables.iter_mut().filter(|(_, value)| value == chosen) {
        *value = "$(GLOBAL_DNS_SERVICE_HOST)".to_owned();
    }
    let file = format!("--file={}", repository("src/demo.yaml").display());
    let ended = run(global_dns(&["serve", &file]).envs(variables));
    let is_named = ended.stderr.contains("'$(GLOBAL_DNS_SERVICE_HOST)'");
    ensure!(!ended.is_success() && is_named, "{ended:?}");
    Ok(())
}
