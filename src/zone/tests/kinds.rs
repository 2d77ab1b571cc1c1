//! Names of services with cluster IPs.

use super::*;
use crate::table::Rules;
use crate::testing::{backends, service_mirror};

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
    let additional = records.filter(|one| matches!(one.section, MessageSection::Additional { .. }));
    let additional = additional.map(|one| format!("{} {}", one.owner, one.data));
    let ips = ["10.96.0.1", "10.0.0.1", "10.0.0.2"];
    assert_eq!(
        additional.collect::<Vec<_>>(),
        ips.map(|ip| format!("east.web.prod.global. A\t{ip}"))
    );
}
