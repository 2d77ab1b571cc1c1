//! The proxy on the way to an API server: that of the kubeconfig, or that of the environment by the rules of kubectl.

use std::net::IpAddr;

use http::Uri;
use http::uri::Scheme;
use ipnet::IpNet;

/// Returns the proxy for the API server at `url`: `proxy-url` of the kubeconfig always, else that of the environment unless
/// `NO_PROXY` has the API server. The error is a clause that names the setting.
pub(super) fn proxy(
    proxy_url: Option<&str>,
    url: &Uri,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Uri>, String> {
    if let Some(given) = proxy_url.filter(|given| !given.is_empty()) {
        return parse("proxy-url", given).map(Some);
    }
    let find = |names: &[&'static str]| {
        let mut values = names.iter().map(|name| (*name, variable(name)));
        values.find_map(|(name, value)| Some((name, value.filter(|value| !value.is_empty())?)))
    };
    let found = find(if url.scheme() == Some(&Scheme::HTTP) {
        &["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"]
    } else {
        &["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]
    });
    let excluded = find(&["NO_PROXY", "no_proxy"]).map(|(_, list)| list);
    match found {
        Some((name, given)) if !is_excluded(url, &excluded.unwrap_or_default()) => {
            parse(name, &given).map(Some)
        }
        _ => Ok(None),
    }
}

/// Parses the URL of a proxy. Without a scheme, it is `http`.
fn parse(setting: &str, text: &str) -> Result<Uri, String> {
    // The proxy resolves the names in both cases.
    let url = match text.split_once("://") {
        None => format!("http://{text}"),
        Some(("socks5h", rest)) => format!("socks5://{rest}"),
        Some(_) => text.to_owned(),
    };
    let is_known = |url: &Uri| matches!(url.scheme_str(), Some("http" | "https" | "socks5"));
    let parsed = url.parse().ok().filter(is_known);
    parsed.ok_or_else(|| {
        format!("{setting}: '{text}' is not the http, https or socks5 URL of a proxy")
    })
}

/// Returns whether requests to a URL need no proxy: it is of this host, or one of the entries of `NO_PROXY` selects it.
fn is_excluded(url: &Uri, list: &str) -> bool {
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
    let host = host.to_lowercase();
    let ip: Option<IpAddr> = host.parse().ok();
    let is_https = url.scheme() == Some(&Scheme::HTTPS);
    let port = url.port_u16().unwrap_or(if is_https { 443 } else { 80 });
    let is_selected = |entry: &str| {
        let one = |_| entry.parse::<IpAddr>().map(IpNet::from);
        match (entry.parse::<IpNet>().or_else(one), ip) {
            (Ok(network), Some(ip)) => network.contains(&ip),
            _ => selects_name(&entry.to_lowercase(), &host, port),
        }
    };
    host == "localhost"
        || ip.is_some_and(|ip| ip.is_loopback())
        || list.split(',').map(str::trim).any(is_selected)
}

/// Returns whether an entry selects a host: `example.com` with all below it, `.example.com` and `*.example.com` only what is
/// below, each with an optional port; `*` everything.
fn selects_name(entry: &str, host: &str, port: u16) -> bool {
    let (name, is_port) = match entry.rsplit_once(':') {
        Some((name, only)) => (name.trim_matches(['[', ']']), only.parse() == Ok(port)),
        None => (entry, true),
    };
    let domain = name.trim_start_matches('*').trim_start_matches('.');
    let above = host.strip_suffix(domain);
    let is_below = !domain.is_empty() && above.is_some_and(|above| above.ends_with('.'));
    name == "*" || (is_port && (is_below || name == host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(proxy_url: Option<&str>, url: &str, environment: &[(&str, &str)]) -> String {
        let variable = |name: &str| {
            let set = environment.iter().find(|(set, _)| *set == name);
            set.map(|(_, value)| (*value).to_owned())
        };
        match proxy(proxy_url, &url.parse().unwrap(), variable) {
            Ok(proxy) => proxy.map_or_else(String::new, |proxy| proxy.to_string()),
            Err(error) => error,
        }
    }

    /// `proxy-url` applies whatever the environment says. kubectl reaches API servers of this host without the proxies of the
    /// environment.
    #[test]
    fn kubeconfig_has_precedence_over_the_environment() {
        const EAST: &str = "https://api.east.example:6443";
        const WEST: &str = "https://api.west.example";
        let environment = [
            ("HTTPS_PROXY", ""),
            ("https_proxy", "proxy:3128"),
            ("HTTP_PROXY", "http://plain:80"),
            ("ALL_PROXY", "socks5h://all:1080"),
            ("NO_PROXY", "api.west.example,"),
        ];
        for (proxy_url, url, expected) in [
            (None, EAST, "http://proxy:3128/"),
            (None, WEST, ""),
            (None, "http://api.east.example", "http://plain:80/"),
            (None, "https://127.0.0.1:6443", ""),
            (None, "https://[::1]:6443", ""),
            (None, "https://localhost:6443", ""),
            (Some("https://own:443"), WEST, "https://own:443/"),
            (Some(""), EAST, "http://proxy:3128/"),
        ] {
            assert_eq!(chosen(proxy_url, url, &environment), expected, "{url}");
        }
        let of_all = chosen(None, EAST, &environment[3..]);
        assert_eq!(of_all, "socks5://all:1080/");
        let unknown = chosen(None, EAST, &[("HTTPS_PROXY", "socks4://own")]);
        let expected =
            "HTTPS_PROXY: 'socks4://own' is not the http, https or socks5 URL of a proxy";
        assert_eq!(unknown, expected);
    }

    /// The rules are those of Go, which kubectl follows.
    #[test]
    fn no_proxy_is_matched_against_the_api_server() {
        const EAST: &str = "https://api.east.example:6443";
        const V4: &str = "https://10.1.2.3";
        const V6: &str = "https://[2001:db8::1]:6443";
        for (list, url, is_direct) in [
            ("example", EAST, true),
            (".example", EAST, true),
            ("*.example", EAST, true),
            ("API.east.example", EAST, true),
            (".api.east.example", EAST, false),
            ("east", EAST, false),
            ("pi.east.example", EAST, false),
            ("a, ,api.east.example:6443,", EAST, true),
            ("api.east.example:443", EAST, false),
            ("*", EAST, true),
            ("", EAST, false),
            ("0.0.0.0", EAST, false),
            ("10.0.0.0/8", V4, true),
            ("11.0.0.0/8", V4, false),
            ("10.1.2.3", V4, true),
            ("10.1.2.3:443", V4, true),
            ("2001:db8::1", V6, true),
            ("2001:db8::/32", V6, true),
            ("2001:db8::2", V6, false),
        ] {
            let environment = [("HTTPS_PROXY", "http://proxy:1"), ("no_proxy", list)];
            let proxy = chosen(None, url, &environment);
            assert_eq!(proxy.is_empty(), is_direct, "{list} {url}");
        }
    }
}
