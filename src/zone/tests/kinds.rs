//! Names of services with cluster IPs.

use super::*;
use crate::table::Rules;
use crate::testing::{backends, federated, service_mirror};

/// Returns the mirror of `prod/web` in east through a gateway, with its slice.
fn through_gateway() -> Vec<Value> {
    let mirror = service_mirror("prod", "web", "east", "10.96.0.1");
    vec![mirror, backends("prod", "web-east", true, true)]
}

#[test]
fn service_that_is_not_headless_has_a_short_name_only_by_a_setting() {
    let check_short = |rules: &Rules, objects: &[Value], expected: &str| {
        check(&table_by(rules, objects), &[("web.global A", expected)]);
    };
    let objects = through_gateway();
    check_short(&rules(), &objects, "NXDOMAIN global.");
    let pinned = Rules {
        pinned_names: [("web".parse().unwrap(), "prod".parse().unwrap())].into(),
        ..rules()
    };
    check_short(&pinned, &objects, "A 10.96.0.1");
    let default = Rules {
        default_namespace: Some("prod".parse().unwrap()),
        ..rules()
    };
    check_short(&default, &objects, "A 10.96.0.1");
    // It cannot take the short name of a headless service away.
    let headless = vec![
        mirror("shop", "web", "east"),
        endpoint("shop", "web", "east", "web-0", &["10.96.1.1"]),
    ];
    check_short(&rules(), &[objects, headless].concat(), "A 10.96.1.1");
}

/// RFC 2181 section 9: no part of an RRset is returned without TC. The name of a cluster with pods and a cluster IP has the
/// addresses of all of them.
#[test]
fn additional_section_has_all_addresses_of_a_target() {
    let pods = [("web-0", "10.0.0.1", true), ("web-1", "10.0.0.2", true)];
    let [mut service, slice] = local("prod", "web", &pods);
    service["metadata"]["labels"]["mirror.linkerd.io/exported"] = json!("true");
    let objects = [through_gateway(), vec![service, slice]].concat();
    // This cluster has the name of the link: two sources of one name are united (rule M6).
    let rules = Rules {
        cluster_name: "east".parse().unwrap(),
        ..rules()
    };
    let (zones, table) = (zones(&["global"]), table_by(&rules, &objects));
    let name = Name::from_text("_http._tcp.east.web.prod.global").unwrap();
    let srv = answer(read(&zones, &table, &name), RecordType::SRV);
    let records = srv.records(AnswerContext::new(&name, 7)).into_iter();
    let additional = records.filter(|one| matches!(one.section, Section::Additional { .. }));
    let additional = additional.map(|one| format!("{} {}", one.owner, one.data));
    let ips = ["10.96.0.1", "10.0.0.1", "10.0.0.2"];
    assert_eq!(
        additional.collect::<Vec<_>>(),
        ips.map(|ip| format!("east.web.prod.global. A\t{ip}"))
    );
}

/// Its address is that of the cluster, also under an order (rule K1). Addresses of several clusters are left out.
#[test]
fn federated_service_of_one_cluster_is_a_step_of_an_order() {
    let [mut own, _] = local("prod", "web", &[]);
    own["metadata"]["annotations"]["global-dns/failover"] = json!("east:west");
    let west = service_mirror("prod", "web", "west", "10.96.1.2");
    for (members, expected) in [
        ("web@east", "A 10.96.1.9"),
        ("web@east,web@north", "SERVFAIL"),
    ] {
        let federation = federated("prod", "web", "10.96.1.9", members);
        let table = table(&[own.clone(), west.clone(), federation]);
        check(&table, &[("web.prod.global A", expected)]);
    }
}

/// A person wrote no order for a service that has no endpoint: its name does not exist.
#[test]
fn default_order_makes_no_name() {
    let rules = Rules {
        failover: Some("north:east".parse().unwrap()),
        ..rules()
    };
    let [own, _] = local("prod", "web", &[]);
    let mut member = own.clone();
    member["metadata"]["labels"]["mirror.linkerd.io/exported"] = json!("true");
    check(
        &table_by(&rules, &[member]),
        &[("web.prod.global A", "NXDOMAIN global.")],
    );
    let west = service_mirror("prod", "web", "west", "10.96.1.2");
    check(
        &table_by(&rules, &[west]),
        &[("web.prod.global A", "SERVFAIL")],
    );
}
