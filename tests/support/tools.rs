//! Programs of others.

use std::env;
use std::path::PathBuf;

/// Finds a program: in the folders `KUBEBUILDER_ASSETS` and `GLOBAL_DNS_TEST_TOOLS`, then on the path, then where
/// daemons and Go live, which are not on every user's path.
pub fn find(name: &str) -> Option<PathBuf> {
    let named = ["KUBEBUILDER_ASSETS", "GLOBAL_DNS_TEST_TOOLS"];
    let named = named.into_iter().filter_map(env::var_os).map(PathBuf::from);
    let path = env::var_os("PATH").unwrap_or_default();
    let others = ["/usr/local/go/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"];
    let folders = named
        .chain(env::split_paths(&path))
        .chain(others.map(PathBuf::from));
    folders
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
}
