//! The rules of `/etc/resolv.conf` (resolv.conf(5)): the name servers, and the names that a program asks for.

use std::net::SocketAddr;

/// The settings of a resolver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvConf {
    /// The name servers, in order: at most three, as in glibc and musl.
    pub servers: Vec<SocketAddr>,
    /// The search list.
    pub search: Vec<String>,
    /// Number of dots from which on a name is asked for as it is, before the search list.
    pub ndots: usize,
}

/// Maximum number of name servers. Resolvers ignore further ones.
const MAX_SERVERS: usize = 3;
/// Number of dots without the option `ndots`.
const DEFAULT_NDOTS: usize = 1;
/// Maximum of the option `ndots`.
const MAX_NDOTS: usize = 15;
/// Maximum length of a name without its final dot (RFC 1035 section 2.3.4). Longer names are not asked for.
const MAX_NAME: usize = 253;

// === impl ResolvConf ===

impl ResolvConf {
    /// Returns settings with one name server and no search list.
    pub fn of_server(server: SocketAddr) -> Self {
        Self {
            servers: vec![server],
            search: Vec::new(),
            ndots: DEFAULT_NDOTS,
        }
    }

    /// Parses a file. Ignores unknown lines, as resolvers do. The last search list replaces the others.
    pub fn parse(text: &str) -> Self {
        const PORT: u16 = 53;
        let mut conf = Self {
            servers: Vec::new(),
            search: Vec::new(),
            ndots: DEFAULT_NDOTS,
        };
        for line in text.lines() {
            match line.split_whitespace().collect::<Vec<_>>().as_slice() {
                ["nameserver", address, ..] if conf.servers.len() < MAX_SERVERS => {
                    let ip = address.parse().ok();
                    conf.servers.extend(ip.map(|ip| SocketAddr::new(ip, PORT)));
                }
                ["search" | "domain", domains @ ..] => {
                    let domains = domains.iter().map(|one| one.trim_matches('.').to_owned());
                    conf.search = domains.filter(|one| !one.is_empty()).collect();
                }
                ["options", options @ ..] => {
                    let values = options.iter().filter_map(|one| one.strip_prefix("ndots:"));
                    let ndots = values.filter_map(|value| value.parse().ok()).next_back();
                    conf.ndots = ndots.unwrap_or(conf.ndots).min(MAX_NDOTS);
                }
                _ => {}
            }
        }
        conf
    }

    /// Returns the names that a program asks for before `name` itself: `name` with each domain of the search list.
    /// `name` has no final dot.
    pub fn names_before(&self, name: &str) -> Vec<String> {
        if name.matches('.').count() >= self.ndots {
            return Vec::new();
        }
        let names = self
            .search
            .iter()
            .map(|domain| format!("{name}.{domain}"))
            .filter(|name| name.len() <= MAX_NAME);
        names.map(|name| name + ".").collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "# nameserver 192.0.2.9\nsearch prod.svc.cluster.local svc.cluster.local cluster.local.\n\
                       nameserver 10.96.0.10\noptions ndots:5 timeout:2\n";

    #[test]
    fn name_servers_are_at_most_three() {
        let servers = |text: &str| -> Vec<String> {
            let servers = ResolvConf::parse(text).servers;
            servers.iter().map(ToString::to_string).collect()
        };
        assert_eq!(servers(POD), ["10.96.0.10:53"]);
        assert_eq!(servers("nameserver\t2001:db8::10"), ["[2001:db8::10]:53"]);
        let four = "nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\nnameserver 192.0.2.4\n";
        assert_eq!(servers(four).len(), 3);
        for text in ["", "search a.test\n", "nameserver\n", "nameserver here\n"] {
            assert_eq!(servers(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn names_with_fewer_dots_than_ndots_are_first_searched_for() {
        let pod = ResolvConf::parse(POD);
        let expected = [
            "db.prod.global.prod.svc.cluster.local.",
            "db.prod.global.svc.cluster.local.",
            "db.prod.global.cluster.local.",
        ];
        assert_eq!(pod.names_before("db.prod.global"), expected);
        assert_eq!(pod.names_before("a.b.c.db.prod.global"), [""; 0]);
        let host = ResolvConf::parse("search a.test\ndomain b.test\n");
        assert_eq!(host.names_before("db.prod.global"), [""; 0]);
        assert_eq!(host.names_before("db"), ["db.b.test."]);
        let high = ResolvConf::parse("search a.test\noptions ndots:99\n");
        assert_eq!(high.ndots, 15);
        let long = "a".repeat(250);
        assert_eq!(high.names_before(&long), [""; 0]);
    }
}
