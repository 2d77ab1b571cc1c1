//! The current Corefile of a cluster: its server blocks and its `bind` line.

use crate::zone::ZoneName;

/// Returns the addresses of the first `bind` line.
pub(super) fn bind_line(corefile: &str) -> Option<String> {
    let mut lines = corefile.lines().map(|line| without_comment(line).trim());
    let addresses = lines.find_map(|line| line.strip_prefix("bind "))?;
    Some(addresses.trim().to_owned())
}

/// Removes the server blocks of zones. The result ends with a line break.
///
/// # Errors
///
/// If a server block has one of the zones and others. The error is its first line.
pub(super) fn without_zones(corefile: &str, zones: &[ZoneName]) -> Result<String, String> {
    let (mut kept, mut depth, mut is_removed) = (String::new(), 0_usize, false);
    for line in corefile.lines() {
        let code = without_comment(line).trim();
        if depth == 0 && code.ends_with('{') {
            is_removed = is_of_zones(code, zones)?;
        }
        // `{$NAME}` is an environment variable.
        let opened = depth + code.matches('{').count();
        depth = opened.saturating_sub(code.matches('}').count());
        if !is_removed {
            kept += line;
            kept.push('\n');
        }
        is_removed &= depth > 0;
    }
    Ok(kept)
}

/// Returns whether a server block serves only zones of a list.
fn is_of_zones(head: &str, zones: &[ZoneName]) -> Result<bool, String> {
    let names = head
        .trim_end_matches('{')
        .split([' ', '\t', ','])
        .filter(|name| !name.is_empty());
    let is_listed = |name: &str| {
        let name = name.strip_prefix("dns://").unwrap_or(name);
        let name = name.split_once(':').map_or(name, |(name, _)| name);
        let zone = name.parse();
        zone.is_ok_and(|zone: ZoneName| zones.contains(&zone))
    };
    let listed: Vec<bool> = names.map(is_listed).collect();
    match (listed.contains(&true), listed.contains(&false)) {
        (true, true) => Err(head.to_owned()),
        (has_listed, _) => Ok(has_listed),
    }
}

fn without_comment(line: &str) -> &str {
    line.split_once('#').map_or(line, |(code, _)| code)
}
