//! The steps of `demo --live`: a pod restarts, gateways go down and recover, a cluster is no longer linked.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::sleep;

use crate::cli::print;
use crate::source::Events;
use crate::table::change::{Change, ChangeKind};

/// The built-in sample.
pub(super) const SAMPLE: &str = include_str!("../../demo.yaml");
const STEPS: &str = include_str!("../../demo-live.yaml");
const CLUSTER: &str = "mirror.linkerd.io/cluster-name";

#[derive(Deserialize)]
struct Step {
    caption: String,
    #[serde(default)]
    without: String,
    objects: Vec<Value>,
}

/// Plays the steps in a loop. Each lasts for `pause`.
pub(super) async fn play(sample: PathBuf, events: Events, pause: Duration) -> anyhow::Result<()> {
    let steps: Vec<Step> = serde_saphyr::from_str(STEPS)?;
    for (number, step) in (1..=steps.len()).zip(&steps).cycle() {
        events.record_now(Change::new(ChangeKind::Demo, step.caption.clone()));
        print(&format!("{number}/{}  {}\n", steps.len(), step.caption))?;
        // The file is replaced at once, so that no half of it is read.
        let new = sample.with_extension("new");
        std::fs::write(&new, objects(step)?)?;
        std::fs::rename(&new, &sample)?;
        sleep(pause).await;
    }
    Ok(())
}

/// Returns the objects of the sample, as a step changes them.
fn objects(step: &Step) -> anyhow::Result<String> {
    let mut list: Value = serde_saphyr::from_str(SAMPLE)?;
    let items = list["items"].as_array_mut().context("no list")?;
    items.retain(|object| object["metadata"]["labels"][CLUSTER] != step.without);
    for patch in &step.objects {
        let is_same = |object: &&mut Value| {
            let fields = ["/kind", "/metadata/namespace", "/metadata/name"];
            fields.map(|field| object.pointer(field)) == fields.map(|field| patch.pointer(field))
        };
        match items.iter_mut().find(is_same) {
            Some(object) => merge(object, patch),
            None => items.push(patch.clone()),
        }
    }
    Ok(list.to_string())
}

fn merge(old: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        return old.clone_from(patch);
    };
    for (name, value) in fields {
        merge(&mut old[name], value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::table;
    use crate::zone::read_own_name;

    /// Returns the clusters with endpoints of `prod/db` that are returned, the step of `shop/pay`, and whether the name
    /// of `prod/db` is a last resort.
    fn summary(step: &Step) -> (String, String, bool) {
        let list: Value = serde_json::from_str(&objects(step).unwrap()).unwrap();
        let table = table(list["items"].as_array().unwrap());
        let db = table.service("prod", "db").unwrap();
        let returned: Vec<_> = read_own_name(db).unwrap().endpoints().collect();
        let mut clusters: Vec<&str> = returned.iter().map(|one| one.labels()[1]).collect();
        clusters.dedup();
        let pay = table.service("shop", "pay").unwrap();
        let failover = pay.failover.as_ref().unwrap();
        let is_last_resort = returned.iter().any(|one| !one.is_alive());
        (
            clusters.join(" "),
            failover.answering_text(),
            is_last_resort,
        )
    }

    /// Without the state of earlier steps, the first step of the order that is alive answers for `shop/pay`.
    #[test]
    fn steps_show_what_their_captions_say() {
        let steps: Vec<Step> = serde_saphyr::from_str(STEPS).unwrap();
        let shown = steps.iter().map(summary);
        let expected = [
            ("east hub west", "east", false),
            ("east hub west", "east", false),
            ("hub west", "west", false),
            ("east hub west", "east", false),
            ("east west", "east", true),
            ("east hub", "east", false),
        ];
        let expected = expected.map(|(db, pay, is_last)| (db.to_owned(), pay.to_owned(), is_last));
        assert_eq!(shown.collect::<Vec<_>>(), expected);
    }
}
