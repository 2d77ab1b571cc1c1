//! Settings as the flags of an earlier version, which has no file of settings. Comparisons with such a binary use it.

/// Settings whose value is that of a flag.
const FLAGS: [(&str, &str); 17] = [
    ("answers.nsAddresses", "ns-address"),
    ("answers.udpMax", "udp-max"),
    ("excludeClusters", "exclude-cluster"),
    ("failover.back", "failback-delay"),
    ("failover.delay", "failover-delay"),
    ("gatewayDown", "gateway-down"),
    ("grace", "grace"),
    ("limits.allow", "allow"),
    ("limits.udpWorkers", "udp-workers"),
    ("links.enabled", "links"),
    ("listen.tls", "tls-listen"),
    ("localMembers", "local-members"),
    ("shortNames.defaultNamespace", "default-namespace"),
    ("shortNames.which", "short-names"),
    ("tls.certificate", "tls-cert"),
    ("tls.key", "tls-key"),
    ("ttl", "ttl"),
];
/// Maps, whose flags have a value for each key.
const MAPS: [(&str, &str); 4] = [
    ("aliases.", "alias"),
    ("clusterAliases.", "cluster-alias"),
    ("services.", "failover"),
    ("shortNames.pinned.", "short-name"),
];

/// Returns arguments for a binary, by the text of its `--help`. Those of settings become flags if it has no `--config`.
pub fn arguments_for<'a>(help: &str, arguments: &[&'a str]) -> Vec<String> {
    let is_new = help.contains("--config");
    let convert = |argument: &&'a str| match is_new {
        true => (*argument).to_owned(),
        false => flag(argument).unwrap_or_else(|| (*argument).to_owned()),
    };
    arguments.iter().map(convert).collect()
}

/// Returns the flag of a setting such as `services.prod/db.failover=east:west`.
fn flag(setting: &str) -> Option<String> {
    let (path, value) = setting.split_once('=')?;
    let value = value.replace(['[', ']', '\'', ' '], "");
    if let Some((_, flag)) = FLAGS.iter().find(|(own, _)| *own == path) {
        let value = match (path, &*value) {
            ("localMembers" | "shortNames.which", "none") | ("links.enabled", "false") => "off",
            (_, value) => value,
        };
        return Some(format!("--{flag}={value}"));
    }
    let (start, flag) = MAPS.iter().find(|(start, _)| path.starts_with(start))?;
    let key = &path[start.len()..];
    let dotted = |service: &str| match service.split_once('/') {
        Some((namespace, service)) => format!("{service}.{namespace}"),
        None => service.to_owned(),
    };
    Some(match *flag {
        "failover" => format!("--failover={}={value}", key.strip_suffix(".failover")?),
        "alias" => {
            let services: Vec<String> = value.split(',').map(dotted).collect();
            format!("--alias={}={}", dotted(key), services.join("+"))
        }
        flag => format!("--{flag}={key}={value}"),
    })
}
