//! Cluster names (rule M6), endpoint mirrors and their parents.

use support::objects::{Manifest, local, mirror, objects};
use support::server::Server;

use super::{check_outcomes, conflicts, expected};

fn sample() -> Manifest {
    objects()
        .with(
            mirror("prod", "db", "east")
                .endpoint("db-0", &["10.96.1.1"])
                .endpoint("db-1", &["10.96.1.2"]),
        )
        .with(mirror("prod", "db", "west").endpoint("db-0", &["10.96.2.1"]))
        .with(
            local("prod", "db")
                .exported()
                .endpoint(Some("db-0"), "192.0.2.1", true),
        )
}

#[test]
fn aliased_cluster_is_found_only_by_its_alias() {
    let server = Server::with_objects(
        sample(),
        &["--cluster-name=hub", "--cluster-alias=west=us-1,east=eu-1"],
    );
    check_outcomes(
        &server,
        "aliases",
        &[
            (
                "db.prod.global. A",
                "10.96.1.1 10.96.1.2 10.96.2.1 192.0.2.1",
            ),
            ("us-1.db.prod.global. A", "10.96.2.1"),
            ("db-0.us-1.db.prod.global. A", "10.96.2.1"),
            ("db-1.eu-1.db.global. A", "10.96.1.2"),
            ("west.db.prod.global. A", "NXDOMAIN"),
            ("east.db.prod.global. A", "NXDOMAIN"),
            ("db-0.west.db.prod.global. A", "NXDOMAIN"),
            (
                "us-1.db.prod.global. SRV",
                "0 10 26257 db-0.us-1.db.prod.global.",
            ),
        ],
    );
    assert_eq!(conflicts(&server), expected(&[]));
}

#[test]
fn two_sources_of_one_cluster_name_are_merged_and_reported() {
    let cases = [
        (
            "an alias equal to the name of another link",
            &["--cluster-name=hub", "--cluster-alias=west=east"][..],
            "10.96.1.1 10.96.2.1",
            "192.0.2.1",
        ),
        (
            "the local cluster with the name of a link",
            &["--cluster-name=east"],
            "10.96.1.1 192.0.2.1",
            "NXDOMAIN",
        ),
    ];
    for (what, flags, united, hub) in cases {
        let server = Server::with_objects(sample(), flags);
        let all = "10.96.1.1 10.96.1.2 10.96.2.1 192.0.2.1";
        check_outcomes(
            &server,
            what,
            &[
                ("db.prod.global. A", all),
                ("db-0.east.db.prod.global. A", united),
                ("db-1.east.db.prod.global. A", "10.96.1.2"),
                ("hub.db.prod.global. A", hub),
            ],
        );
        let reported = [("cluster-name", "prod/db"), ("endpoint", "prod/db")];
        assert_eq!(conflicts(&server), expected(&reported), "{what}");
        let metric = "global_dns_conflicts{kind=\"cluster-name\"}";
        assert_eq!(server.metric(metric), 1.0, "{what}");
    }
}

#[test]
fn excluded_cluster_is_omitted_and_counted() {
    let alone = "10.96.1.1 10.96.1.2 192.0.2.1";
    for (flags, gone) in [
        (&["--exclude-cluster=west"][..], "west"),
        // The flag takes the name after aliases.
        (
            &["--cluster-alias=west=us-1", "--exclude-cluster=us-1"],
            "us-1",
        ),
    ] {
        let server = Server::with_objects(sample(), &[&["--cluster-name=hub"], flags].concat());
        let cluster = format!("{gone}.db.prod.global. A");
        let host = format!("db-0.{gone}.db.prod.global. A");
        check_outcomes(
            &server,
            gone,
            &[
                ("db.prod.global. A", alone),
                (&cluster, "NXDOMAIN"),
                (&host, "NXDOMAIN"),
                ("east.db.prod.global. A", "10.96.1.1 10.96.1.2"),
            ],
        );
        let metric = "global_dns_skipped_objects{reason=\"excluded-cluster\"}";
        assert_eq!(
            server.metric(metric),
            2.0,
            "{gone}: headless and endpoint mirror"
        );
    }
    let flags = [
        "--cluster-name=hub",
        "--cluster-alias=west=us-1",
        "--exclude-cluster=west",
    ];
    let server = Server::with_objects(sample(), &flags);
    assert_eq!(server.outcome("us-1.db.prod.global. A"), "10.96.2.1");
}

#[test]
fn excluded_cluster_does_not_remove_local_members() {
    // The local service is not exported: it joins because of a mirror.
    let manifest = objects()
        .with(mirror("prod", "db", "west").endpoint("db-0", &["10.96.2.1"]))
        .with(local("prod", "db").endpoint(Some("db-0"), "192.0.2.1", true));
    for (name, excluded, all) in [
        ("hub", "west", "192.0.2.1"),
        ("hub", "hub", "10.96.2.1 192.0.2.1"),
        ("west", "west", "192.0.2.1"),
    ] {
        let name_flag = format!("--cluster-name={name}");
        let excluded_flag = format!("--exclude-cluster={excluded}");
        let server = Server::with_objects(manifest.clone(), &[&name_flag, &excluded_flag]);
        let cluster = format!("{name}.db.prod.global. A");
        check_outcomes(
            &server,
            excluded,
            &[
                ("db.prod.global. A", all),
                (&cluster, "192.0.2.1"),
                ("db.global. A", all),
            ],
        );
    }
}

#[test]
fn endpoint_mirror_requires_a_parent_of_its_cluster_and_service() {
    let mut manifest = Manifest::from(
        mirror("prod", "db", "east")
            .endpoint("db-0", &["10.96.1.1"])
            .endpoint("db-1", &["10.96.1.2"])
            .endpoint("db-2", &["10.96.1.3"])
            .endpoint("db-3", &["10.96.1.4"]),
    );
    manifest = manifest
        .with(mirror("prod", "cache", "east"))
        .with(mirror("shop", "db", "east"));
    let parent = "mirror.linkerd.io/headless-mirror-svc-name";
    // The slice of each endpoint mirror follows it.
    manifest.0[3]["metadata"]["labels"][parent] = "cache-east".into();
    manifest.0[5]["metadata"]["labels"][parent] = "db-gone".into();
    manifest.0[7]["metadata"]["labels"]["mirror.linkerd.io/cluster-name"] = "west".into();
    let server = Server::with_objects(manifest, &[]);
    check_outcomes(
        &server,
        "parents",
        &[
            ("db.prod.global. A", "10.96.1.1"),
            ("db-1.east.db.prod.global. A", "NXDOMAIN"),
            ("west.db.prod.global. A", "NXDOMAIN"),
            ("cache.prod.global. A", "NXDOMAIN"),
        ],
    );
    let metric = "global_dns_skipped_objects{reason=\"no-parent\"}";
    assert_eq!(server.metric(metric), 3.0);
}

#[test]
fn service_with_a_cluster_ip_is_not_a_parent() {
    let mut manifest =
        Manifest::from(mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"]));
    manifest.0[0]["spec"]["clusterIP"] = "10.96.9.9".into();
    manifest.0[0]["spec"]["clusterIPs"] = serde_json::json!(["10.96.9.9"]);
    let server = Server::with_objects(manifest, &[]);
    // It is a mirror of another kind, and its endpoint mirror has no parent.
    assert_eq!(server.outcome("db.prod.global. A"), "10.96.9.9");
    assert_eq!(server.outcome("db-0.east.db.prod.global. A"), "NXDOMAIN");
    let metric = "global_dns_skipped_objects{reason=\"no-parent\"}";
    assert_eq!(server.metric(metric), 1.0);
}

#[test]
fn without_the_annotation_the_exact_suffix_is_removed_once() {
    let mut manifest = objects()
        .with(mirror("prod", "db-east", "east").endpoint("db-east-0", &["10.96.1.1"]))
        .with(mirror("prod", "db", "west").endpoint("db-0", &["10.96.2.1"]));
    for object in &mut manifest.0 {
        if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
            annotations.clear();
        }
    }
    // A name without the suffix of its cluster is skipped.
    let mut odd = Manifest::from(mirror("prod", "odd", "west"));
    odd.0[0]["metadata"]["annotations"] = serde_json::json!({});
    odd.0[0]["metadata"]["name"] = "odd-east".into();
    let server = Server::with_objects(manifest.with(odd), &[]);
    check_outcomes(
        &server,
        "suffixes",
        &[
            ("db-east.prod.global. A", "10.96.1.1"),
            ("db-east-0.east.db-east.prod.global. A", "10.96.1.1"),
            ("db-0.west.db.prod.global. A", "10.96.2.1"),
            ("db.prod.global. A", "10.96.2.1"),
            ("odd.prod.global. A", "NXDOMAIN"),
        ],
    );
    let metric = "global_dns_skipped_objects{reason=\"bad-name\"}";
    assert_eq!(server.metric(metric), 1.0);
}

#[test]
fn mirror_that_changes_its_identity_is_moved() {
    // Rule M8: `db` of link `us-east` and `db-us` of link `east` have the same mirror name, so the later link
    // overwrites it.
    let of_us_east = mirror("prod", "db", "us-east");
    let of_east = || mirror("prod", "db-us", "east");
    let server = Server::with_objects(of_us_east.endpoint("db-0", &["10.96.1.1"]), &[]);
    assert_eq!(server.outcome("db.prod.global. A"), "10.96.1.1");
    let later = Manifest::from(of_east().endpoint("db-us-0", &["10.96.2.1"]));
    server.rewrite(&later.text());
    server.wait_for_outcome("db-us.prod.global. A", "10.96.2.1");
    assert_eq!(server.outcome("db.prod.global. A"), "NXDOMAIN");
    assert_eq!(conflicts(&server), expected(&[]));
}

#[test]
fn service_that_is_headless_in_one_cluster_only_is_reported() {
    let mut cluster_ip = Manifest::from(mirror("prod", "db", "west"));
    cluster_ip.0[0]["spec"]["clusterIP"] = "10.96.9.9".into();
    cluster_ip.0[0]["spec"]["clusterIPs"] = serde_json::json!(["10.96.9.9"]);
    let headless = mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"]);
    let mixed = objects().with(headless).with(cluster_ip.clone());
    for (manifest, outcome, reported) in [
        (mixed, "10.96.1.1", &[("kind", "prod/db")][..]),
        (cluster_ip, "10.96.9.9", &[]),
    ] {
        let server = Server::with_objects(manifest, &[]);
        assert_eq!(server.outcome("db.prod.global. A"), outcome);
        assert_eq!(conflicts(&server), expected(reported));
    }
}
