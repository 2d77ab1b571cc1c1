//! The modules that may use each outside crate.

use std::collections::BTreeSet;

use super::source::{Source, sources};
use support::differences::assert_none;

/// Outside crates with the only modules that may use them.
const CRATE_USERS: [(&str, &[&str]); 18] = [
    ("arc_swap", &["table/publish"]),
    ("arcstr", &["model/interned"]),
    ("clap", &["cli"]),
    ("clap_complete", &["cli"]),
    // Its numbers are predictable. Secrets and IDs come from the kernel (`src/random.rs`).
    ("fastrand", &["server", "source/backoff", "zone/order"]),
    ("foldhash", &["table/shared"]),
    (
        "hickory_proto",
        &["check/dns_client", "server/encrypted", "wire/records"],
    ),
    ("hickory_server", &["server/encrypted"]),
    ("ipnet", &["wire/access"]),
    ("k8s_openapi", &["check/objects", "source/kube"]),
    ("kube", &["source/kube"]),
    (
        "nix",
        &[
            "server/accept",
            "server/descriptors",
            "server/socket",
            "server/udp",
        ],
    ),
    ("procfs", &["admin/metrics"]),
    (
        "rustix",
        &["app/identity", "app/thread", "random", "server/bind"],
    ),
    ("rustls", &["server/encrypted"]),
    // For tests only.
    ("support", &[]),
    ("triomphe", &["model/ports"]),
    ("x509_cert", &["server/encrypted"]),
];

#[test]
fn outside_crates_are_used_only_by_their_modules() {
    let mut differences = Vec::new();
    let mut unused: BTreeSet<(&str, &str)> = CRATE_USERS
        .into_iter()
        .flat_map(|(name, modules)| modules.iter().map(move |module| (name, *module)))
        .collect();
    for source in sources() {
        for (name, modules) in CRATE_USERS
            .into_iter()
            .filter(|(name, _)| source.names_crate(name))
        {
            match modules.iter().find(|module| source.is_in(module)) {
                Some(module) => _ = unused.remove(&(name, *module)),
                None => differences.push(format!("{} uses crate {name}", source.path)),
            }
        }
    }
    differences.extend(
        unused
            .iter()
            .map(|(name, module)| format!("{module} does not use crate {name}")),
    );
    assert_none(&differences);
}

#[test]
fn crates_are_distinguished_from_modules_of_the_same_name() {
    for (text, names) in [
        ("use kube::Client;", true),
        ("use ::kube::Client;", true),
        ("use kube as api;", true),
        ("fn f(c: kube::Client) {}", true),
        ("type T = Vec<::kube::Client>;", true),
        ("#[derive(kube::CustomResource)] struct S;", true),
        ("use crate::integration::source::kube::Cluster;", false),
        (
            "use crate::integration::source::{self, kube}; fn f() { kube::open() }",
            false,
        ),
        ("use super::kube; fn f() { kube::open() }", false),
        ("pub mod kube; fn f() { kube::open() }", false),
        ("fn f() { source::kube::open() }", false),
        ("/// [`kube::Client`]\nfn f() {} // kube::Client", false),
        (
            "const A: &str = \"kube::Client\"; fn f<'kube>(kube: u8) {}",
            false,
        ),
        ("#[cfg(test)] use kube::Client; fn f() {}", false),
        (
            "#[cfg(test)] mod tests { use kube::Client; } fn f() {}",
            false,
        ),
    ] {
        assert_eq!(Source::new("", text).names_crate("kube"), names, "{text}");
    }
}
