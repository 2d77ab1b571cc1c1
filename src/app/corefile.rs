//! `corefile`: finds the Service of the server and the current setting of the cluster's DNS, and prints the new setting.

use std::io::Write as _;
use std::net::IpAddr;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};

use super::first_table::ONE_SHOT_TIMING;
use super::flags::log_to_stderr;
use super::output::print;
use crate::cli::CorefileArgs;
use crate::corefile::{ClusterIpError, Forwarding, Platform, SELECTOR, cluster_ip, is_cluster_ip};
use crate::model::{Kind, ServiceKey};
use crate::source::kube;

/// Prints the setting. Writes nothing to the cluster.
pub(super) async fn print_corefile(args: CorefileArgs) -> anyhow::Result<ExitCode> {
    log_to_stderr(&args.log)?;
    let zones = args.zones();
    let CorefileArgs {
        platform,
        zone: _, // see `zones`
        reverse_zone: _,
        service,
        address,
        bind,
        kubeconfig,
        log: _,
    } = args;
    let setting = match address.filter(|_| !kubeconfig.is_given()) {
        Some(address) => setting_without_cluster(
            platform,
            Forwarding {
                zones,
                address,
                bind,
            },
        )?,
        None => {
            let cluster = kube::Cluster::open(kubeconfig.access(), ONE_SHOT_TIMING).await?;
            let setting = async {
                let address = find_address(&cluster, address, service.as_ref()).await?;
                let forwarding = Forwarding {
                    zones,
                    address,
                    bind,
                };
                read_setting(&cluster, platform, &forwarding).await
            };
            let setting = setting.await;
            setting.map_err(|error| at(&cluster, &error))?
        }
    };
    print(&setting)?;
    Ok(ExitCode::SUCCESS)
}

/// Adds the cluster to an error. Errors of connections already have the URL.
fn at(cluster: &kube::Cluster, error: &anyhow::Error) -> anyhow::Error {
    let (url, from) = (cluster.url(), cluster.credentials());
    let (url, text) = (url.trim_end_matches('/'), format!("{error:#}"));
    if text.contains(url) {
        anyhow!("{from}: {text}; {}", from.way_out())
    } else {
        anyhow!("{url}, {from}: {text}")
    }
}

/// Returns the setting, and prints a note if it does not have the other entries of the current object.
fn setting_without_cluster(platform: Platform, forwarding: Forwarding) -> anyhow::Result<String> {
    if platform.current_object(&forwarding).is_some() {
        let (object, name) = (platform.object_name(), <&str>::from(platform));
        if platform.needs_current_object() {
            bail!(
                "the output for {name} needs the Corefile in {object}, and with --address the cluster is read only with \
                 --kubeconfig or --context: set one of them"
            );
        }
        // The setting is valid without the note.
        let _ = writeln!(
            std::io::stderr(),
            "note: the other entries of {object} are not in the output, because the cluster was not read; to keep them, \
             set --kubeconfig or --context"
        );
    }
    Ok(platform.setting(&forwarding, None)?)
}

/// Finds the cluster IP of the server. Checks a given one.
async fn find_address(
    cluster: &kube::Cluster,
    given: Option<IpAddr>,
    service: Option<&ServiceKey>,
) -> anyhow::Result<IpAddr> {
    let failed = |why: String| anyhow!("cannot list Services: {why}");
    if let Some(address) = given {
        let all = cluster
            .select(Kind::Service, "", &[])
            .await
            .map_err(failed)?;
        return if is_cluster_ip(address, &all) {
            Ok(address)
        } else {
            Err(ClusterIpError::NotClusterIp(address).into())
        };
    }
    Ok(match service {
        Some(key) => {
            let found = cluster.service(key).await.map_err(failed)?;
            let name = format!("{}/{}", key.namespace, key.service);
            cluster_ip(found.as_slice(), Some(&name))?
        }
        None => {
            let found = cluster.select(Kind::Service, SELECTOR, &[]).await;
            cluster_ip(&found.map_err(failed)?, None)?
        }
    })
}

/// Reads the current object, if the platform needs it, and returns the setting.
async fn read_setting(
    cluster: &kube::Cluster,
    platform: Platform,
    forwarding: &Forwarding,
) -> anyhow::Result<String> {
    let current = match platform.current_object(forwarding) {
        Some(path) => {
            let object = cluster.object(path).await;
            let failed = |why: String| anyhow!("cannot get {}: {why}", platform.object_name());
            object.map_err(failed)?
        }
        None => None,
    };
    let setting = platform.setting(forwarding, current.as_deref());
    setting.context("cannot make the setting")
}
