//! Tests of the selectors.

use super::*;
use serde_json::json;

#[test]
fn watches_have_the_expected_selectors() {
    assert_eq!(Watch::Services.label_selector(), "");
    assert_eq!(
        Watch::MirrorSlices.label_selector(),
        "mirror.linkerd.io/mirrored-service=true,!multicluster.kubernetes.io/service-name"
    );
    assert_eq!(
        Watch::LocalSlices.label_selector(),
        "service.kubernetes.io/headless,!mirror.linkerd.io/mirrored-service,\
         !multicluster.kubernetes.io/service-name,!multicluster.kubernetes.io/source-cluster,\
         endpointslice.kubernetes.io/managed-by!=endpointslice-mesh-controller.cilium.io"
    );
    assert_eq!(
        Watch::ForeignSlices.label_selector(),
        "!service.kubernetes.io/headless,!mirror.linkerd.io/mirrored-service,\
         !multicluster.kubernetes.io/service-name,!multicluster.kubernetes.io/source-cluster,\
         endpointslice.kubernetes.io/managed-by!=endpointslice-controller.k8s.io,\
         endpointslice.kubernetes.io/managed-by!=endpointslice-mesh-controller.cilium.io"
    );
}

#[test]
fn no_object_is_selected_by_two_watches() {
    let switches = [
        key::EXPORTED,
        key::MIRRORED_SERVICE,
        key::HEADLESS_MIRROR,
        key::HEADLESS,
        key::MCS_SERVICE,
        key::SOURCE_CLUSTER,
    ]
    .map(|k| (k, ["", "true"]));
    let managers = (
        key::MANAGED_BY,
        [controller::KUBERNETES, controller::CILIUM_MESH],
    );
    let switches = [&switches[..], &[managers]].concat();
    for bits in 0..1 << (2 * switches.len()) {
        let mut labels = serde_json::Map::new();
        for (i, (name, values)) in switches.iter().enumerate() {
            if bits >> (2 * i) & 1 == 1 {
                labels.insert((*name).to_owned(), json!(values[bits >> (2 * i + 1) & 1]));
            }
        }
        let address = ["None", "10.96.0.1"][bits & 1];
        let object =
            json!({"metadata": {"labels": labels}, "spec": {"clusterIP": address}}).to_string();
        let object = KubeObject::read(&object);
        for kind in [Kind::Service, Kind::EndpointSlice] {
            let selected = Watch::ALL
                .into_iter()
                .filter(|w| w.kind() == kind && w.selects(&object))
                .count();
            assert!(
                selected <= 1,
                "{object:?} is selected by {selected} watches"
            );
        }
    }
}

#[test]
fn services_of_this_cluster_and_mirrors_are_selected() {
    let headless = json!({"clusterIP": "None"});
    let assigned = json!({"clusterIP": "10.96.0.1"});
    for (labels, spec, is_selected) in [
        (json!({}), &headless, true),
        (json!({}), &assigned, true),
        (json!({"app": "web"}), &assigned, true),
        (json!({key::EXPORTED: "true"}), &assigned, true),
        (json!({key::EXPORTED: ""}), &assigned, true),
        (json!({key::MIRRORED_SERVICE: "true"}), &headless, true),
        (json!({key::MIRRORED_SERVICE: "true"}), &assigned, true),
        (
            json!({key::MIRRORED_SERVICE: "true", key::EXPORTED: "true"}),
            &assigned,
            true,
        ),
        (json!({key::MIRRORED_SERVICE: "false"}), &headless, false),
        (
            json!({key::MIRRORED_SERVICE: "", key::EXPORTED: "true"}),
            &assigned,
            false,
        ),
        (json!({key::MCS_SERVICE: "db"}), &headless, false),
        (
            json!({key::MCS_SERVICE: "db", key::EXPORTED: "true"}),
            &assigned,
            false,
        ),
    ] {
        let object = json!({"metadata": {"labels": labels}, "spec": spec}).to_string();
        let object = KubeObject::read(&object);
        assert_eq!(Watch::Services.selects(&object), is_selected, "{object:?}");
    }
}

#[test]
fn answers_depend_on_every_watch_except_that_of_links() {
    let others = Watch::ALL.into_iter().filter(|watch| !watch.is_needed());
    assert_eq!(others.collect::<Vec<_>>(), [Watch::Links]);
}
