//! The settings of `serve`: a file, or a variable with the same text. A setting that cannot be applied stops the start.

use std::fs;

use serde_json::Value;
use support::commands::global_dns;
use support::differences::assert_none;
use support::objects::{Manifest, mirror, objects};
use support::process::{ProcessOutput, run};
use support::server::Server;
use support::settings::VARIABLE;

use global_dns::settings::Settings;

/// Texts that are refused, each with a part of the sentence about it.
const WRONG: &str = include_str!("../../fixtures/settings/wrong.txt");

fn sample() -> Manifest {
    objects().with(mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"]))
}

fn refused(text: &str) -> String {
    let read = Settings::parse("settings.yaml", text);
    read.map(|_| String::new())
        .unwrap_or_else(|error| error.to_string())
}

#[test]
fn wrong_value_of_each_type_has_its_sentence() {
    let (mut text, mut cases, mut differences) = (String::new(), 0, Vec::new());
    for line in WRONG.lines() {
        let Some(part) = line.strip_prefix("= ") else {
            text += &format!("{line}\n");
            continue;
        };
        let error = refused(text.trim_start());
        let is_expected = error.starts_with("settings.yaml") && error.contains(part);
        if !is_expected || error.lines().count() != 1 {
            differences.push(format!("{text}{error}\nnot {part}"));
        }
        (text, cases) = (String::new(), cases + 1);
    }
    assert_none(&differences);
    assert!(cases > 50, "{cases}");
}

#[test]
fn null_is_the_default_and_json_is_read() {
    let default = Settings::default().to_yaml().unwrap();
    for text in [
        "",
        "ttl: null\nfailover: {delay: ~}\nlog:\n",
        "{\"ttl\": null, \"links\": {}}",
    ] {
        let read = Settings::parse("settings.yaml", text).unwrap();
        assert_eq!(read.to_yaml().unwrap(), default, "{text}");
    }
}

fn serve(arguments: &[&str], variable: Option<&str>) -> ProcessOutput {
    let mut command = global_dns(&[&["serve"], arguments].concat());
    command.envs(variable.map(|text| (VARIABLE, text)));
    run(&mut command)
}

/// The settings in force are printed as a file that is read again, after the flags.
#[test]
fn settings_in_force_are_printed_as_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("settings.yaml");
    let text = "clusterName: east\nzones: [a.test, {name: b.test, grammar: mcs}, {name: c.test, cluster: west}]\n\
                services: {prod/db: {failover: 'east:west', ttl: 7}}\nfailover: {back: 1m30s}\n\
                limits: {allow: [10.0.0.0/8]}\n";
    fs::write(&file, text).unwrap();
    let config = format!("--config={}", file.display());
    let printed = serve(&[&config, "--print-settings", "--cluster-name=hub"], None);
    assert_eq!((printed.code, printed.stderr.as_str()), (Some(0), ""));
    let expected = text.replace("east\n", "hub\n");
    let expected = Settings::parse("settings.yaml", &expected).unwrap();
    assert_eq!(printed.stdout, expected.to_yaml().unwrap());
    let again = serve(&["--print-settings"], Some(&printed.stdout));
    assert_eq!(again.stdout, printed.stdout);
    // A flag that names a zone of the file alone serves it as the file says.
    let chosen = serve(&[&config, "--print-settings", "--zone=c.test"], None);
    assert!(chosen.stdout.contains("cluster: west"), "{}", chosen.stdout);
    // The server shows the same.
    let server = Server::with_objects(sample(), &[&config, "--cluster-name=hub"]);
    let shown: Settings = serde_json::from_value(server.status()["settings"].clone()).unwrap();
    let shown = Value::from(shown.to_yaml().unwrap());
    assert!(
        shown.as_str().unwrap().contains("clusterName: hub"),
        "{shown}"
    );
}

/// A zone of another cluster must not hide names of this one. The kubelet names the domain in the search list of the pod, or if the pod has
/// that of the node, in its hosts.
#[test]
fn zone_of_another_cluster_is_beside_the_domain_of_this_one() {
    let search = "search prod.svc.hub.test svc.hub.test hub.test corp.example\noptions ndots:5\n";
    let hosts = "search svc.corp.example\n127.0.0.1\tlocalhost\n10.0.0.1\tdns-0.dns.prod.svc.hub.test\tdns-0\n";
    for (zone, expected) in [
        ("svc.west.test", ""),
        ("corp.example", ""),
        ("hub.test", "zones: zone hub.test. is the domain"),
        (
            "svc.hub.test",
            "zones: zone svc.hub.test. is below the domain",
        ),
        ("test", "zones: zone test. is above the domain"),
    ] {
        let text = format!("zones: [hub.test.example, {{name: {zone}, cluster: west}}]");
        let settings = Settings::parse("settings.yaml", &text).unwrap();
        for files in [search, hosts] {
            let checked = settings.check_cluster_domain(files);
            let error = checked.map_or_else(|why| why.to_string(), |()| String::new());
            let place =
                error.split_once(" of this cluster, hub.test. (clusterDomain of its kubelets): ");
            assert_eq!(place.map_or(&*error, |(place, _)| place), expected);
        }
        assert!(settings.check_cluster_domain("search hub.test\n").is_ok());
    }
}

#[test]
fn wrong_settings_stop_the_start_with_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("settings.yaml");
    fs::write(&file, "zones: [global]\ngrace: 5\n").unwrap();
    let (config, path) = (format!("--config={}", file.display()), file.display());
    let missing = format!("--config={}/none.yaml", folder.path().display());
    for (arguments, variable, expected) in [
        (
            &[&*config][..],
            None,
            format!("{path}, line 2: grace: expected a text, such as 20s, and not 5"),
        ),
        (
            &[],
            Some("ttl: 0"),
            format!("{VARIABLE}: ttl: 0 is not a whole number from 1 to 30"),
        ),
        (
            &[&*config],
            Some("ttl: 5"),
            format!("the settings are given twice: by --config {path} and by {VARIABLE}"),
        ),
        (
            &[&*missing],
            None,
            "cannot read the settings from ".to_owned(),
        ),
        (
            &["--zone=a.test,A.test."],
            None,
            "the flags: zones: zone a.test. is given twice".to_owned(),
        ),
    ] {
        let ended = serve(arguments, variable);
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (Some(2), ""),
            "{}",
            ended.stderr
        );
        assert!(
            ended.stderr.starts_with(&format!("error: {expected}")),
            "{}",
            ended.stderr
        );
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
}
