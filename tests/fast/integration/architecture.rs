//! Architecture rules, checked in the source text: dependencies between modules and files, and pure modules. The modules below
//! check circles, the users of outside crates, the layout of the repository and the names of types.

mod circles;
mod crates;
mod layout;
mod source;
mod tour;
mod types;

use std::collections::BTreeSet;

use source::sources;
use support::differences::assert_none;

/// The modules of `src`. Each module may use only modules that follow it.
const MODULES: [&str; 19] = [
    "app",
    "cli",
    "admin",
    "server",
    "source",
    "check",
    "explain",
    "corefile",
    "report",
    "wire",
    "zone",
    "table",
    "model",
    "log",
    "failures",
    "clock",
    "heartbeat",
    "histogram",
    "random",
];
/// Pure modules. Their functions depend only on their arguments, without clocks, I/O, locks or logs.
const PURE: [&str; 8] = [
    "check", "corefile", "explain", "model", "report", "table", "wire", "zone",
];
/// Exceptions: the queries of `global-dns check`, the pools of interned texts and ports, the swap of tables.
const IMPURE: [&str; 4] = [
    "check/dns_client",
    "model/interned",
    "model/ports",
    "table/publish",
];
const EFFECTS: [&str; 16] = [
    "File",
    "Instant",
    "LazyLock",
    "Mutex",
    "OnceLock",
    "RwLock",
    "SystemTime",
    "TcpStream",
    "UdpSocket",
    "eprintln",
    "fs",
    "parking_lot",
    "println",
    "thread",
    "tokio",
    "tracing",
];
/// Functions that intern a text, which takes a lock. Among the pure modules, only the one that parses objects may use
/// them.
const INTERNING: [&str; 5] = [
    "intern",
    "interned",
    "ObjectKey::new",
    "ObjectName::new",
    "Hostname::from_address",
];

#[test]
fn modules_use_only_modules_below_them() {
    let mut differences = Vec::new();
    for source in sources() {
        let place = MODULES.iter().position(|module| source.is_in(module));
        let Some(place) = place else {
            let is_root = ["main", "lib"].contains(&source.path.as_str());
            differences
                .extend((!is_root).then(|| format!("{} is in no listed module", source.path)));
            continue;
        };
        let is_above = |name: &&str| MODULES[..place].contains(name);
        let above = source
            .used_modules()
            .filter(|name| is_above(name) || *name == "{");
        differences.extend(above.map(|name| format!("{} uses {name}", source.path)));
    }
    assert_none(&differences);
}

#[test]
fn pure_modules_use_no_clock_no_io_no_lock_and_no_log() {
    let mut differences = Vec::new();
    let mut exceptions = BTreeSet::from(IMPURE);
    for source in sources() {
        let Some(module) = PURE.iter().find(|module| source.is_in(module)) else {
            continue;
        };
        let interning = INTERNING.into_iter().filter(|_| *module != "model");
        let named: Vec<&str> = EFFECTS
            .into_iter()
            .chain(interning)
            .filter(|path| source.names(path))
            .collect();
        if named.is_empty() || exceptions.remove(source.path.as_str()) {
            continue;
        }
        differences.push(format!("{} names {}", source.path, named.join(" ")));
    }
    assert!(exceptions.is_empty(), "unused exceptions: {exceptions:?}");
    assert_none(&differences);
}
