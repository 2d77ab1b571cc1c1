//! `corefile`: the setting that makes the DNS of a cluster forward zones to this server.
//!
//! Each platform has another object for it. Some objects also have other settings, and what is applied replaces them. The
//! current object is then an input, and its other settings are kept. The recipes in the folder `coredns` show this output.

mod current;
mod service;

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;
use serde_json::{Map, Value, json};
use strum::{IntoStaticStr, VariantArray};

pub use service::{ClusterIpError, SELECTOR, cluster_ip, is_cluster_ip};

use crate::zone::ZoneName;

/// The DNS of a cluster. Its name is the value of `--platform`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Platform {
    /// CoreDNS with a Corefile that the user manages.
    Coredns,
    /// Azure Kubernetes Service.
    Aks,
    /// Amazon EKS with CoreDNS as an add-on.
    Eks,
    /// Google Kubernetes Engine with kube-dns.
    Gke,
    /// k3s.
    K3s,
    /// OpenShift with its DNS operator.
    Openshift,
    /// NodeLocal DNSCache.
    NodeLocalDns,
}

/// The forwarded zones, and the server.
#[derive(Clone, Debug)]
pub struct Forwarding {
    /// The zones, each once. There is at least one.
    pub zones: Vec<ZoneName>,
    /// The cluster IP of the server.
    pub address: IpAddr,
    /// Addresses of the `bind` line. Only for [`Platform::NodeLocalDns`]; empty: those of the current Corefile.
    pub bind: Vec<IpAddr>,
}

/// The reason why there is no setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// The output needs the current Corefile, which does not exist.
    #[error("{object} has no Corefile; is this the platform {platform}?")]
    NoCorefile {
        /// The object that should have it.
        object: &'static str,
        /// The platform.
        platform: &'static str,
    },
    /// The current Corefile has no `bind` line.
    #[error("the Corefile of {0} has no bind line; set the addresses of the cache with --bind")]
    NoBind(&'static str),
    /// A server block has zones of this server and others.
    #[error(
        "the Corefile of {object} has the server block '{block}', which has other zones, too; edit that block"
    )]
    SharedBlock {
        /// The object with the Corefile.
        object: &'static str,
        /// The first line of the block.
        block: String,
    },
    /// The current object cannot be parsed.
    #[error("cannot parse {object}: {reason}")]
    Unreadable {
        /// The object.
        object: &'static str,
        /// The error of the parser.
        reason: String,
    },
}

// === impl Platform ===

impl Platform {
    /// Returns what is printed.
    pub fn description(self) -> &'static str {
        match self {
            Self::Coredns => "Stanza for the end of a Corefile that you manage",
            Self::Aks | Self::K3s => "ConfigMap coredns-custom, with its current keys",
            Self::Eks => "Configuration values of the CoreDNS add-on, with the current Corefile",
            Self::Gke => "ConfigMap of kube-dns, with its current stub domains",
            Self::Openshift => "Object of the DNS operator, with its current servers",
            Self::NodeLocalDns => "Stanza for the end of the Corefile of NodeLocal DNSCache",
        }
    }

    /// Returns the path of the current object in the Kubernetes API, if the output depends on it.
    pub fn current_object(self, forwarding: &Forwarding) -> Option<&'static str> {
        match self {
            Self::Coredns => None,
            Self::NodeLocalDns if !forwarding.bind.is_empty() => None,
            Self::Aks | Self::K3s => {
                Some("/api/v1/namespaces/kube-system/configmaps/coredns-custom")
            }
            Self::Eks => Some("/api/v1/namespaces/kube-system/configmaps/coredns"),
            Self::Gke => Some("/api/v1/namespaces/kube-system/configmaps/kube-dns"),
            Self::Openshift => Some("/apis/operator.openshift.io/v1/dnses/default"),
            Self::NodeLocalDns => Some("/api/v1/namespaces/kube-system/configmaps/node-local-dns"),
        }
    }

    /// Returns whether there is no setting without the current object.
    pub fn needs_current_object(self) -> bool {
        match self {
            Self::Eks | Self::NodeLocalDns => true,
            Self::Coredns | Self::Aks | Self::Gke | Self::K3s | Self::Openshift => false,
        }
    }

    /// Returns the current object, for messages.
    pub fn object_name(self) -> &'static str {
        match self {
            Self::Coredns | Self::Eks => "ConfigMap kube-system/coredns",
            Self::Aks | Self::K3s => "ConfigMap kube-system/coredns-custom",
            Self::Gke => "ConfigMap kube-system/kube-dns",
            Self::Openshift => "dns.operator/default",
            Self::NodeLocalDns => "ConfigMap kube-system/node-local-dns",
        }
    }

    /// Returns the setting as text. `current` is the current object as JSON, if it exists.
    ///
    /// # Errors
    ///
    /// If the current object is missing or unusable, and the setting depends on it.
    pub fn setting(
        self,
        forwarding: &Forwarding,
        current: Option<&str>,
    ) -> Result<String, SettingError> {
        let current = current
            .map(|json| self.parse(json))
            .transpose()?
            .unwrap_or_default();
        match self {
            Self::Coredns => Ok(stanzas(forwarding, "")),
            Self::Aks | Self::K3s => Ok(custom_config_map(forwarding, &current)),
            Self::Eks => self.add_on_values(forwarding, &current),
            Self::Gke => self.stub_domains(forwarding, &current),
            Self::Openshift => Ok(dns_operator(forwarding, &current)),
            Self::NodeLocalDns => Ok(stanzas(forwarding, &self.bind_line(forwarding, &current)?)),
        }
    }

    fn parse(self, json: &str) -> Result<Value, SettingError> {
        serde_json::from_str(json).map_err(|error| self.unreadable(&error))
    }

    fn unreadable(self, error: &serde_json::Error) -> SettingError {
        SettingError::Unreadable {
            object: self.object_name(),
            reason: error.to_string(),
        }
    }

    fn corefile(self, current: &Value) -> Result<&str, SettingError> {
        current["data"]["Corefile"]
            .as_str()
            .ok_or(SettingError::NoCorefile {
                object: self.object_name(),
                platform: self.into(),
            })
    }

    /// Returns the `bind` line with its indentation: the addresses of the flag, or else the first one of the current
    /// Corefile.
    fn bind_line(self, forwarding: &Forwarding, current: &Value) -> Result<String, SettingError> {
        let addresses = match forwarding.bind.as_slice() {
            [] => {
                let line = current::bind_line(self.corefile(current)?);
                line.ok_or(SettingError::NoBind(self.object_name()))?
            }
            given => {
                let texts: Vec<String> = given.iter().map(ToString::to_string).collect();
                texts.join(" ")
            }
        };
        Ok(format!("    bind {addresses}\n"))
    }

    /// Returns the values of the add-on: the current Corefile with the stanzas.
    fn add_on_values(
        self,
        forwarding: &Forwarding,
        current: &Value,
    ) -> Result<String, SettingError> {
        let others = current::without_zones(self.corefile(current)?, &forwarding.zones).map_err(
            |block| SettingError::SharedBlock {
                object: self.object_name(),
                block,
            },
        )?;
        Ok(mapping("corefile", others + &stanzas(forwarding, "")))
    }

    /// Returns the ConfigMap of kube-dns. Stub domains of other zones, and other keys, are kept.
    fn stub_domains(
        self,
        forwarding: &Forwarding,
        current: &Value,
    ) -> Result<String, SettingError> {
        const KEY: &str = "stubDomains";
        let mut data = texts_of(current);
        let json = data.remove(KEY).unwrap_or_else(|| "{}".to_owned());
        let mut domains: Map<String, Value> =
            serde_json::from_str(&json).map_err(|error| self.unreadable(&error))?;
        for zone in &forwarding.zones {
            domains.insert(relative(zone).to_owned(), json!([forwarding.address]));
        }
        data.insert(KEY.to_owned(), Value::Object(domains).to_string() + "\n");
        let labels = "  labels:\n    addonmanager.kubernetes.io/mode: EnsureExists\n";
        Ok(config_map("kube-dns", labels, &data))
    }
}

// === Parts ===

type Texts = BTreeMap<String, String>;

/// Returns the name of a zone without the final dot.
fn relative(zone: &ZoneName) -> &str {
    zone.as_str().trim_end_matches('.')
}

/// Returns the server block of a zone.
fn stanza(zone: &ZoneName, address: IpAddr, bind: &str) -> String {
    let zone = relative(zone);
    format!("{zone}:53 {{\n    errors\n    cache 5\n{bind}    forward . {address}\n}}\n")
}

fn stanzas(forwarding: &Forwarding, bind: &str) -> String {
    let Forwarding { zones, address, .. } = forwarding;
    zones
        .iter()
        .map(|zone| stanza(zone, *address, bind))
        .collect()
}

/// Returns the ConfigMap with a key for each zone, in addition to the current keys.
fn custom_config_map(forwarding: &Forwarding, current: &Value) -> String {
    let mut data = texts_of(current);
    for zone in &forwarding.zones {
        let key = format!("{}.server", relative(zone));
        data.insert(key, stanza(zone, forwarding.address, ""));
    }
    config_map("coredns-custom", "", &data)
}

/// Returns the `data` of a ConfigMap.
fn texts_of(current: &Value) -> Texts {
    let data = current["data"].as_object().into_iter().flatten();
    let texts = data.filter_map(|(key, text)| Some((key.clone(), text.as_str()?.to_owned())));
    texts.collect()
}

fn config_map(name: &str, labels: &str, data: &Texts) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: kube-system\n{labels}{}",
        mapping("data", data)
    )
}

/// Returns the object of the DNS operator. Other servers are kept.
fn dns_operator(forwarding: &Forwarding, current: &Value) -> String {
    const NAME: &str = "global-dns";
    let servers = current["spec"]["servers"].as_array();
    let others = servers
        .into_iter()
        .flatten()
        .filter(|server| server["name"] != NAME);
    // JSON is valid YAML.
    let others: String = others.map(|server| format!("  - {server}\n")).collect();
    let zones: String = forwarding
        .zones
        .iter()
        .map(|zone| format!("    - {}\n", relative(zone)))
        .collect();
    format!(
        "apiVersion: operator.openshift.io/v1\nkind: DNS\nmetadata:\n  name: default\nspec:\n  servers:\n{others}  \
         - name: {NAME}\n    zones:\n{zones}    forwardPlugin:\n      upstreams:\n      - {}\n",
        forwarding.address
    )
}

/// Returns a YAML mapping with one key.
fn mapping(key: &str, value: impl Serialize) -> String {
    let mapping = BTreeMap::from([(key, value)]);
    serde_saphyr::to_string(&mapping).expect("texts can be written as YAML")
}

#[cfg(test)]
mod tests;
