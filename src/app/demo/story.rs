//! The story of `demo --live`: a cluster is linked, a pod restarts, gateways die and recover.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use tracing::warn;

use crate::app::output::print;
use crate::source::Events;
use crate::table::change::{Change, ChangeKind};

/// The built-in sample of `demo`.
pub(super) const SAMPLE: &str = include_str!("../../demo.yaml");

/// A scene: what happens, and the objects of the clusters meanwhile.
struct Scene {
    caption: &'static str,
    change: fn(&mut Vec<Value>),
}

/// The scenes, which are repeated.
const SCENES: [Scene; 6] = [
    Scene {
        caption: "Only east is linked. db.prod.global has the pods of this cluster and of east.",
        change: |objects| unlink(objects, "west"),
    },
    Scene {
        caption: "west is linked. The answer grows, and no client is restarted.",
        change: |_| {},
    },
    Scene {
        caption: "A pod restarts in west. Its endpoint has a new address.",
        change: restart_pod,
    },
    Scene {
        caption: "The gateway of east goes down. Its endpoints leave db.prod.global. pay.shop.global fails over from east to \
                  west, the next step of its order.",
        change: |objects| {
            restart_pod(objects);
            take_down_gateway(objects, "east");
        },
    },
    Scene {
        caption: "The gateway of east recovers. pay.shop.global returns to east, after it has been up for a while.",
        change: restart_pod,
    },
    Scene {
        caption: "Everything goes down. The names return what is left as the last resort.",
        change: |objects| {
            restart_pod(objects);
            take_down_gateway(objects, "east");
            take_down_gateway(objects, "west");
            stop_pods(objects);
        },
    },
];

/// Plays the scenes in a loop. Each lasts for `pause`.
pub(super) async fn play(sample: PathBuf, events: Events, pause: Duration) {
    let objects = match sample_objects() {
        Ok(objects) => objects,
        Err(error) => {
            warn!(%error, "Cannot read the sample");
            return;
        }
    };
    for (number, scene) in (1..=SCENES.len()).zip(&SCENES).cycle() {
        let caption = scene.caption;
        let change = Change::new(ChangeKind::Demo, caption.to_owned());
        events.record([change]);
        let line = format!("{number}/{}  {caption}\n", SCENES.len());
        print(&line).unwrap_or_else(|error| warn!(%error, "Cannot print the caption"));
        if let Err(error) = replace(&sample, &scene_text(&objects, scene)) {
            warn!(%error, sample = %sample.display(), "Cannot change the sample");
        }
        sleep(pause).await;
    }
}

/// Returns the objects of the sample, which is one list.
fn sample_objects() -> Result<Vec<Value>, serde_saphyr::Error> {
    let mut list: Value = serde_saphyr::from_str(SAMPLE)?;
    Ok(list["items"]
        .as_array_mut()
        .map(std::mem::take)
        .unwrap_or_default())
}

/// Returns the objects of a scene as a list.
fn scene_text(objects: &[Value], scene: &Scene) -> String {
    let mut objects = objects.to_vec();
    set_order(&mut objects);
    (scene.change)(&mut objects);
    json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string()
}

/// Replaces the file at once, so that no half of it is read.
fn replace(sample: &Path, text: &str) -> std::io::Result<()> {
    let new = sample.with_extension("new");
    std::fs::write(&new, text)?;
    std::fs::rename(&new, sample)
}

// === Changes ===

const CLUSTER: &str = "mirror.linkerd.io/cluster-name";

fn is_slice(object: &Value) -> bool {
    object["kind"] == "EndpointSlice"
}

/// Gives `shop/pay` an order in which the gateways matter. The sample has its mode, `auto`.
fn set_order(objects: &mut [Value]) {
    for object in objects {
        let metadata = &mut object["metadata"];
        if metadata["name"] == "pay" && metadata["annotations"].is_object() {
            metadata["annotations"]["global-dns/failover"] = json!("east:west:*");
        }
    }
}

/// Removes the mirrors of a cluster, and the cluster from federations.
fn unlink(objects: &mut Vec<Value>, cluster: &str) {
    const MEMBERS: &str = "multicluster.linkerd.io/remote-discovery";
    objects.retain(|object| object["metadata"]["labels"][CLUSTER] != cluster);
    for object in objects {
        if let Some(members) = object["metadata"]["annotations"][MEMBERS].as_str() {
            let others = members
                .split(',')
                .filter(|member| !member.ends_with(&format!("@{cluster}")));
            let others: Vec<&str> = others.collect();
            object["metadata"]["annotations"][MEMBERS] = json!(others.join(","));
        }
    }
}

/// Gives the endpoint mirror of a pod in west a new cluster IP, as after each restart.
fn restart_pod(objects: &mut Vec<Value>) {
    for object in objects {
        if object["metadata"]["name"] == "db-0-west" && !is_slice(object) {
            object["spec"]["clusterIP"] = json!("10.96.20.9");
            object["spec"]["clusterIPs"] = json!(["10.96.20.9"]);
        }
    }
}

/// Takes down the gateway of a cluster, in the slices of its mirrors.
fn take_down_gateway(objects: &mut Vec<Value>, cluster: &str) {
    let missing: Vec<Value> = objects
        .iter()
        .filter_map(|object| slice_of(object, cluster))
        .collect();
    let of_cluster = |object: &&mut Value| object["metadata"]["labels"][CLUSTER] == cluster;
    set_not_ready(objects.iter_mut().filter(of_cluster));
    objects.extend(missing);
}

/// Returns the slice of an endpoint mirror of a cluster whose gateway is down. In the sample, endpoint mirrors have no
/// slice while their gateway is up.
fn slice_of(mirror: &Value, cluster: &str) -> Option<Value> {
    let metadata = &mirror["metadata"];
    let mut labels = metadata["labels"].clone();
    let is_endpoint_mirror = labels["mirror.linkerd.io/headless-mirror-svc-name"].is_string();
    if is_slice(mirror) || !is_endpoint_mirror || labels[CLUSTER] != cluster {
        return None;
    }
    labels["kubernetes.io/service-name"] = metadata["name"].clone();
    Some(json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": metadata["namespace"],
            "name": format!("{}-gateway", metadata["name"].as_str().unwrap_or_default()),
            "labels": labels,
        },
        "addressType": "IPv4",
        "ports": [],
        "endpoints": [{"addresses": ["198.51.100.10"], "conditions": {"ready": false}}],
    }))
}

/// Makes the pods of this cluster not ready.
fn stop_pods(objects: &mut [Value]) {
    let is_own = |object: &&mut Value| object["metadata"]["labels"][CLUSTER].is_null();
    set_not_ready(objects.iter_mut().filter(is_own));
}

fn set_not_ready<'o>(objects: impl Iterator<Item = &'o mut Value>) {
    for slice in objects.filter(|object| is_slice(object)) {
        for endpoint in slice["endpoints"].as_array_mut().into_iter().flatten() {
            endpoint["conditions"]["ready"] = json!(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Included;
    use crate::table::Table;
    use crate::testing::table as table_of;

    fn table(scene: &Scene) -> Table {
        let objects = sample_objects().unwrap();
        let text = scene_text(&objects, scene);
        let list: Value = serde_json::from_str(&text).unwrap();
        let items = list["items"].as_array().unwrap();
        table_of(items)
    }

    /// Returns the clusters with endpoints of `prod/db` that are returned, the step of `shop/pay`, and whether the name
    /// of `prod/db` is a last resort.
    fn summary(scene: &Scene) -> (String, String, bool) {
        let table = table(scene);
        let db = table.service("prod", "db").unwrap();
        let included = db.name_addresses.included;
        let returned = db.endpoints.iter().filter(|e| included.has(e));
        let mut clusters: Vec<&str> = returned.map(|endpoint| endpoint.labels()[1]).collect();
        clusters.dedup();
        let pay = table.service("shop", "pay").unwrap();
        let failover = pay.failover.as_ref().unwrap();
        let is_last_resort =
            included != Included::Alive && db.endpoints.iter().any(|e| !e.is_alive());
        (
            clusters.join(" "),
            failover.answering_text(),
            is_last_resort,
        )
    }

    /// Without the state of earlier scenes, the first step that is alive answers for `shop/pay`.
    #[test]
    fn scenes_show_what_their_captions_say() {
        let expected = [
            ("east hub", "east", false),
            ("east hub west", "east", false),
            ("east hub west", "east", false),
            ("hub west", "west", false),
            ("east hub west", "east", false),
            ("east west", "east", true),
        ];
        for (scene, (clusters, step, is_last_resort)) in SCENES.iter().zip(expected) {
            let shown = summary(scene);
            assert_eq!(
                shown,
                (clusters.to_owned(), step.to_owned(), is_last_resort),
                "{}",
                scene.caption
            );
        }
    }
}
