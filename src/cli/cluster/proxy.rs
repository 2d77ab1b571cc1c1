//! The proxy on the way to an API server: that of the kubeconfig, or that of the environment by the rules of kubectl.

use std::net::IpAddr;

use anyhow::Context as _;
use hyper::Uri;
use hyper_util::client::proxy::matcher::Matcher;

/// Returns the proxy for the API server at `url`: `proxy-url` of the kubeconfig always, else that of the environment unless
/// `NO_PROXY` has the API server. The error names the setting.
pub(super) fn proxy(
    proxy_url: Option<&str>,
    url: &Uri,
    variable: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<Option<Uri>> {
    if let Some(given) = proxy_url.filter(|given| !given.is_empty()) {
        return parse("proxy-url", given).map(Some);
    }
    let find = |name: &str| {
        let names = [name.to_owned(), name.to_lowercase()];
        names
            .into_iter()
            .filter_map(|name| Some((variable(&name)?, name)))
            .find(|(value, _)| !value.is_empty())
    };
    let is_http = url.scheme_str() == Some("http");
    let found =
        find(if is_http { "HTTP_PROXY" } else { "HTTPS_PROXY" }).or_else(|| find("ALL_PROXY"));
    let excluded = find("NO_PROXY").map(|(list, _)| list);
    found
        .filter(|_| !is_excluded(url, &excluded.unwrap_or_default()))
        .map(|(given, name)| parse(&name, &given))
        .transpose()
}

/// Parses the URL of a proxy. Without a scheme, it is `http`.
fn parse(setting: &str, text: &str) -> anyhow::Result<Uri> {
    // The proxy resolves the names in both cases.
    let url = match text.split_once("://") {
        None => format!("http://{text}"),
        Some(("socks5h", rest)) => format!("socks5://{rest}"),
        Some(_) => text.to_owned(),
    };
    url.parse()
        .ok()
        .filter(|url: &Uri| matches!(url.scheme_str(), Some("http" | "https" | "socks5")))
        .with_context(|| {
            format!("{setting}: '{text}' is not the http, https or socks5 URL of a proxy")
        })
}

/// Returns whether requests to a URL need no proxy: it is of this host, or one of the entries of `NO_PROXY` selects it. An entry may
/// have a port.
fn is_excluded(url: &Uri, list: &str) -> bool {
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_loopback = |ip: IpAddr| ip.is_loopback();
    let is_http = url.scheme_str() == Some("http");
    let usual_port = if is_http { 80 } else { 443 };
    let own_port = format!(":{}", url.port_u16().unwrap_or(usual_port));
    let without_port = |entry: &str| {
        let name = entry.strip_suffix(&own_port);
        // An IPv6 address has a port only after brackets.
        let name = name.filter(|name| name.ends_with(']') || !name.contains(':'));
        let name = name.map_or(entry, |name| name.trim_matches(['[', ']']));
        name.strip_prefix("*.").unwrap_or(name).to_owned()
    };
    let entries = list
        .split(',')
        .map(str::trim)
        .map(without_port)
        .collect::<Vec<_>>()
        .join(",");
    let matcher = Matcher::builder().all("http://proxy").no(entries).build();
    host == "localhost" || host.parse().is_ok_and(is_loopback) || matcher.intercept(url).is_none()
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
            Err(error) => error.to_string(),
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

    /// The rules are those of Go, which kubectl follows, but that `.example.com` also selects `example.com`.
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
            (".api.east.example", EAST, true),
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
            ("[2001:db8::1]:6443", V6, true),
            ("[2001:db8::1]:443", V6, false),
            ("10.1.2.3:80", "http://10.1.2.3", true),
            ("10.1.2.3:443", "http://10.1.2.3", false),
        ] {
            let environment = [("ALL_PROXY", "http://proxy:1"), ("no_proxy", list)];
            let proxy = chosen(None, url, &environment);
            assert_eq!(proxy.is_empty(), is_direct, "{list} {url}");
        }
    }
}
