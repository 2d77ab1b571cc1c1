//! `table`: the selection of services and endpoints, the summary, colors.

use serde_json::Value;
use support::objects::{Gateway, Manifest, mirror, objects};
use support::process::{ProcessOutput, run_global_dns};
use support::server::Server;

fn sample() -> Manifest {
    objects()
        .with(
            mirror("prod", "db", "east")
                .endpoint("db-0", &["10.96.1.1"])
                .endpoint_behind(Gateway::Down, "db-1", &["10.96.1.2"]),
        )
        .with(mirror("prod", "db", "west").endpoint("db-0", &["10.96.2.1"]))
        .with(mirror("shop", "cart", "west").endpoint("cart-0", &["10.96.2.2"]))
        .with(mirror("shop", "gone", "east").endpoint_behind(
            Gateway::Down,
            "gone-0",
            &["10.96.1.3"],
        ))
}

/// Runs `table` with the server, and with its file.
fn tables(server: &Server, arguments: &[&str]) -> [ProcessOutput; 2] {
    let sources = [
        format!("--server={}", server.api),
        format!("--file={}", server.file.display()),
    ];
    sources.map(|source| run_global_dns(&[&["table"], arguments, &[&source]].concat()))
}

/// Returns the lines with their columns separated by one space, without the line of the generation.
fn lines(ended: &ProcessOutput) -> Vec<String> {
    let lines = ended.stdout.lines().filter(|line| !line.contains("serial"));
    let lines = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty()).collect()
}

#[test]
fn state_and_cluster_select_endpoints() {
    let server = Server::with_objects(sample(), &[]);
    for (arguments, expected) in [
        (&["--state=down"][..], &["east db-1", "east gone-0"][..]),
        (&["--cluster=west"], &["west db-0", "west cart-0"]),
        (&["--cluster=east", "--state=alive"], &["east db-0"]),
        (
            &["-A", "-n", "shop", "db"],
            &["east db-0", "east db-1", "west db-0"],
        ),
        (&["--state=standby"], &[]),
    ] {
        for ended in tables(&server, arguments) {
            assert_eq!(
                (ended.code, ended.stderr.as_str()),
                (Some(0), ""),
                "{arguments:?}"
            );
            let lines = lines(&ended);
            let rows = lines
                .iter()
                .filter(|line| line.contains("Service/") && line.contains(":"));
            let rows = rows.filter(|line| line.starts_with("east ") || line.starts_with("west "));
            let names: Vec<String> = rows
                .map(|row| row.split(' ').take(2).collect::<Vec<_>>().join(" "))
                .collect();
            assert_eq!(names, expected, "{arguments:?}: {}", ended.stdout);
        }
    }
}

#[test]
fn what_matches_nothing_is_named_and_the_exit_code_is_3() {
    let server = Server::with_objects(sample(), &[]);
    for (arguments, sentence) in [
        (&["zzz"][..], "no service matches 'zzz'"),
        (&["crat"], "no service matches 'crat'; did you mean 'cart'?"),
        (
            &["-n", "prdo"],
            "no service in namespace 'prdo'; did you mean 'prod'?",
        ),
        (
            &["--cluster=wset"],
            "no endpoint in cluster 'wset'; did you mean 'west'?",
        ),
    ] {
        for form in [&[][..], &["--summary"], &["-o", "json"]] {
            for ended in tables(&server, &[arguments, form].concat()) {
                assert_eq!(ended.code, Some(3), "{arguments:?} {form:?}");
                // With --file, nothing of the namespace is read.
                if arguments != ["-n", "prdo"] {
                    assert_eq!(ended.stderr, format!("error: {sentence}\n"));
                }
                if form == ["-o", "json"] {
                    let table: Value = serde_json::from_str(&ended.stdout).unwrap();
                    assert_eq!(table["services"], Value::Array(Vec::new()));
                } else {
                    assert_eq!(ended.stdout, "");
                }
            }
        }
    }
}

#[test]
fn summary_has_a_row_for_each_service_and_troubled_services_first() {
    let server = Server::with_objects(sample(), &[]);
    for ended in tables(&server, &["--summary"]) {
        let expected = [
            "SERVICE RESULT RETURNED east west",
            "× gone.shop NOERROR 1 × 0/1 down -",
            "‼ db.prod NOERROR 2 × 1/2 down √ 1/1",
            "√ cart.shop NOERROR 1 - √ 1/1",
            "services: 3, failing: 1, need attention: 1",
        ];
        assert_eq!(lines(&ended), expected);
    }
    let [served, read] = tables(&server, &["--summary", "-o", "json"]);
    let rows = |ended: &ProcessOutput| {
        let mut document: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(document["schemaVersion"], 2);
        let services = document["services"].as_array_mut().unwrap();
        let cells = services
            .iter_mut()
            .flat_map(|row| row["cells"].as_array_mut().unwrap());
        // Only a running server knows times.
        for cell in cells {
            let fields = cell.as_object_mut().unwrap();
            fields.remove("since");
            fields.remove("isOlder");
        }
        services.sort_by_key(|row| row["service"].as_str().unwrap().to_owned());
        services.clone()
    };
    assert_eq!(rows(&served), rows(&read));
}
