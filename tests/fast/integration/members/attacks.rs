//! What a tenant can do with long texts and annotations, and what not.

use serde_json::json;
use support::objects::{ClusterIp, Manifest, federated, gateway_mirror, mirror, objects};
use support::server::Server;

use super::{check_outcomes, problems_of_kind};

const EAST: &str = "10.96.1.1";
const WEST: &str = "10.96.2.1";
const PAY: &str = "pay.shop.global. A";

/// Returns `shop/pay` behind a cluster IP in east and west.
fn pay() -> [ClusterIp; 2] {
    [
        gateway_mirror("shop", "pay", "east", EAST),
        gateway_mirror("shop", "pay", "west", WEST),
    ]
}

/// Each text of an object has 200 KB. The valid service beside them is answered as ever.
#[test]
fn long_texts_are_short_in_every_view() {
    const FQ_NAME: &str = "mirror.linkerd.io/remote-svc-fq-name";
    let long = |text: &str| text.repeat(200_000 / text.len());
    let east = |service: &str| {
        mirror("prod", service, "east").endpoint(&format!("{service}-0"), &["10.96.1.1"])
    };
    let mut unnamed = Manifest::from(east("name"));
    unnamed.0[0]["metadata"]["annotations"][FQ_NAME] = json!(long("x"));
    let members: Vec<String> = (0..20_000).map(|n| format!("w@c{n:05}")).collect();
    let manifest = objects()
        .with(east("db"))
        .with(unnamed)
        .with(east("ttl").annotation("global-dns/ttl", &long("9")))
        .with(east("other").annotation("kubectl.kubernetes.io/last-applied", &long("{\\\"")))
        .with(federated("prod", "twice", "10.96.9.1", &long("web@east,")))
        .with(federated("prod", "member", "10.96.9.2", &long("web@x")))
        .with(federated("prod", "many", "10.96.9.3", &members.join(",")))
        .with(gateway_mirror("prod", "many", "west", "10.96.9.4"));
    let server = Server::with_objects(manifest, &["--cluster-name=hub"]);
    check_outcomes(
        &server,
        "beside long texts",
        &[
            ("db.prod.global. A", "10.96.1.1"),
            ("other.prod.global. A", "10.96.1.1"),
            // `west` is not one of thousands of clusters, so it answers too (rule K1).
            ("many.prod.global. A", "10.96.9.3 10.96.9.4"),
        ],
    );
    for path in ["table", "endpoints", "problems"] {
        let length = server.api(&format!("/api/v1/{path}")).to_string().len();
        assert!(length < 20_000, "{path}: {length}");
    }
    for service in ["name", "ttl", "other", "twice", "member", "many"] {
        let explained = server.api(&format!("/api/v1/explain?name={service}.prod"));
        let length = explained.to_string().len();
        assert!(length < 10_000, "{service}: {length}");
    }
    server.log.wait(0, "Published table"); // skipped objects are logged before it
    for problem in server.log.problems(0) {
        assert!(problem[2].len() < 1_000, "{problem:?}");
    }
}

/// Linkerd copies the annotations of an exported Service. The tenant of another cluster decides nothing here.
#[test]
fn annotation_of_an_exporter_moves_no_load() {
    let [east, west] = pay();
    let mut manifest = objects().with(east).with(west);
    for (name, value) in [
        ("failover", "west"),
        ("expected-clusters", "nowhere"),
        ("gateway-down", "include"),
        ("alias", "pay.shop"),
    ] {
        manifest.0[0]["metadata"]["annotations"][format!("global-dns/{name}")] = json!(value);
    }
    let server = Server::with_objects(manifest, &[]);
    assert_eq!(server.outcome(PAY), format!("{EAST} {WEST}"));
    let ignored = problems_of_kind(&server, "ignored-setting");
    let text = json!(ignored).to_string();
    assert!(text.contains("global-dns/failover=west"), "{text}");
}
