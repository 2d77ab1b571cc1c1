//! Chromium with DNS over HTTPS as its only resolver, with POST and GET. A separate layer runs this test, because its
//! packages are larger than all other requirements of this layer.

use std::fs;

use serde_json::json;
use support::commands::{command, tool};
use support::networks::in_new_network;
use support::process::{run, run_checked};

use super::Method::Https;
use super::curl::Website;
use super::row;

/// Opens the page with a new profile. Returns whether it opened, and Chromium's output.
fn open(website: &Website, template: &str, trusts_the_authority: bool) -> (bool, String) {
    let home = tempfile::tempdir().unwrap();
    let profile = home.path().join("profile");
    let database = home.path().join(".pki/nssdb");
    fs::create_dir_all(&profile).unwrap();
    fs::create_dir_all(&database).unwrap();
    let database = format!("sql:{}", database.display());
    let certutil = |arguments: &[&str]| {
        let mut certutil = command(tool("certutil").unwrap());
        run_checked(certutil.args(["-d", &database]).args(arguments)).unwrap()
    };
    certutil(&["-N", "--empty-password"]);
    if trusts_the_authority {
        let ca = website.files.path("ca.crt");
        certutil(&["-A", "-t", "C,,", "-n", "tests", "-i", &ca]);
    }
    // The settings that "use secure DNS" with a custom provider writes.
    let state = json!({"dns_over_https": {"mode": "secure", "templates": template}});
    fs::write(profile.join("Local State"), state.to_string()).unwrap();
    let mut command = command(tool("chromium").unwrap());
    command.env("HOME", home.path()).env_remove("DISPLAY");
    command.args([
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
    ]);
    command.args([
        "--disable-background-networking",
        "--disable-component-update",
    ]);
    command.arg(format!("--user-data-dir={}", profile.display()));
    let ended = run(command.arg("--dump-dom").arg(&website.url));
    let is_open = ended.is_success() && ended.stdout.contains(">ok\n");
    (is_open, ended.output())
}

#[test]
fn chromium_opens_a_page_by_a_name_from_dns_over_https() {
    in_new_network(|| {
        let website = Website::start();
        for (client, template) in [
            (
                "Chromium, template without {?dns} (POST)",
                "https://127.0.0.1/dns-query",
            ),
            (
                "Chromium, template with {?dns} (GET)",
                "https://127.0.0.1/dns-query{?dns}",
            ),
        ] {
            let before = website.server.requests("https");
            let (is_open, output) = open(&website, template, true);
            assert!(is_open, "{client}: {output}");
            let asked = website.server.requests("https") - before;
            assert!(asked > 0, "{client}");
            row(
                Https,
                client,
                &format!("{}: ok, {asked} queries", website.url),
            );
        }
        let (is_open, output) = open(&website, "https://127.0.0.1/dns-query", false);
        assert!(!is_open, "{output}");
        assert!(output.contains("ERR_NAME_NOT_RESOLVED"), "{output}");
        row(
            Https,
            "Chromium, an unknown certificate authority",
            "refused: ERR_NAME_NOT_RESOLVED",
        );
        let others = ["udp", "tcp"].map(|transport| website.server.requests(transport));
        assert_eq!(others, [0, 0]);
    });
}
