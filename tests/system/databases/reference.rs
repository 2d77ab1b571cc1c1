//! The files of `charts/global-dns/examples/three-clusters`: shell, certificates, and what they repeat from other files.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use support::commands::{command, tool};
use support::process::run_checked;
use support::repository::{repository, tracked_files};

/// Folder of the scripts.
const FOLDER: &str = "charts/global-dns/examples/three-clusters";

/// Returns the names of the scripts, and of the file that all of them read.
fn scripts() -> Vec<String> {
    let files = tracked_files().into_iter();
    let inside =
        files.filter_map(|file| Some(file.strip_prefix(FOLDER)?.strip_prefix('/')?.to_owned()));
    let without_type = |name: &String| !name.contains(['.', '/']);
    inside.filter(without_type).collect()
}

#[test]
fn shellcheck_finds_nothing_in_the_scripts() -> Result<()> {
    let scripts = scripts();
    ensure!(scripts.len() == 11, "{scripts:?}");
    let mut shellcheck = command(tool("shellcheck")?);
    shellcheck.current_dir(repository(FOLDER));
    run_checked(shellcheck.args(["--external-sources", "--"]).args(&scripts))?;
    Ok(())
}

#[test]
fn certificates_of_all_clusters_have_one_authority() -> Result<()> {
    let folder = tempfile::tempdir()?;
    for name in ["certificates", "common"] {
        fs::copy(repository(FOLDER).join(name), folder.path().join(name))?;
    }
    let run = || run_checked(&mut command(folder.path().join("certificates")));
    run()?;
    let made = folder.path().join("certificates.d");
    let authority = fs::read_to_string(made.join("ca.crt"))?;
    for cluster in ["east", "west", "north"] {
        let issuer = made.join(cluster).join("issuer.crt");
        let text = openssl(&["x509", "-noout", "-text"], &issuer)?;
        for part in [
            "Issuer: CN = root.linkerd.cluster.local",
            "Subject: CN = identity.linkerd.cluster.local",
            "CA:TRUE, pathlen:0",
            "Certificate Sign, CRL Sign",
            "ASN1 OID: prime256v1",
        ] {
            ensure!(text.contains(part), "{cluster} lacks {part}: {text}");
        }
        let of_key = openssl(&["pkey", "-pubout"], &issuer.with_extension("key"))?;
        let of_certificate = openssl(&["x509", "-noout", "-pubkey"], &issuer)?;
        ensure!(of_key == of_certificate, "{cluster}");
    }
    run()?;
    ensure!(
        fs::read_to_string(made.join("ca.crt"))? == authority,
        "the second run replaces the authority"
    );
    Ok(())
}

fn openssl(arguments: &[&str], file: &Path) -> Result<String> {
    let mut openssl = command(tool("openssl")?);
    run_checked(openssl.args(arguments).arg("-in").arg(file))
}

#[test]
fn files_agree_with_those_that_they_repeat() -> Result<()> {
    let read = |name: &str| fs::read_to_string(repository(name)).with_context(|| name.to_owned());
    let stanza = read("coredns/Corefile")?;
    let stanza: String = stanza
        .split_inclusive('\n')
        .filter(|line| !line.starts_with('#'))
        .collect();
    let zone = read(&format!("{FOLDER}/global-dns/stub-zone"))?;
    ensure!(zone.replace("ADDRESS", "10.96.0.53") == stanza, "{zone}");

    let chart: Value = serde_saphyr::from_str(&read("charts/global-dns/Chart.yaml")?)?;
    let values: Value =
        serde_saphyr::from_str(&read(&format!("{FOLDER}/global-dns/common.yaml"))?)?;
    let repository = values["image"]["repository"].as_str().context("no image")?;
    let version = chart["appVersion"].as_str().context("no version")?;
    let common = read(&format!("{FOLDER}/common"))?;
    ensure!(
        common.contains(&format!("\nimage={repository}:{version}\n")),
        "{common}"
    );

    // Each cluster has a controller for each other one, and the name that its Links use.
    let clusters = ["east", "west", "north"];
    ensure!(
        common.contains(&format!("\nclusters=({})\n", clusters.join(" "))),
        "{common}"
    );
    for cluster in clusters {
        let values: Value =
            serde_saphyr::from_str(&read(&format!("{FOLDER}/global-dns/{cluster}.yaml"))?)?;
        ensure!(values["config"]["clusterName"] == cluster, "{values}");
        let values: Value =
            serde_saphyr::from_str(&read(&format!("{FOLDER}/linkerd/{cluster}.yaml"))?)?;
        let controllers = values["controllers"].as_array().into_iter().flatten();
        let names: Vec<&Value> = controllers
            .map(|controller| &controller["link"]["ref"]["name"])
            .collect();
        let others: Vec<&str> = clusters
            .into_iter()
            .filter(|other| *other != cluster)
            .collect();
        ensure!(names == others, "{cluster}: {names:?}");
    }
    Ok(())
}
