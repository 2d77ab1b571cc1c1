//! Certificates of three authorities: one for servers, one for clients, and an untrusted one.

use std::fs;

use support::certificates::Authority;
use tempfile::TempDir;

use super::NAME;

/// PEM files: `ca.crt`, `server.crt` and `server.key`; `clients-ca.crt`, `client.crt` and `client.key`; and
/// `stranger.crt` and `stranger.key` of an untrusted authority.
pub struct Certificates {
    folder: TempDir,
}

impl Certificates {
    pub fn issue() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = |name: &str| {
            let authority = Authority::new(name);
            let file = folder.path().join(format!("{name}.crt"));
            fs::write(file, &authority.certificate).unwrap();
            authority
        };
        let server = authority("ca").issue_server_for(&[NAME, "localhost", "127.0.0.1"]);
        let (client, stranger) = (authority("clients-ca"), authority("strangers-ca"));
        for (name, issued) in [
            ("server", server),
            ("client", client.issue_client()),
            ("stranger", stranger.issue_client()),
        ] {
            issued.write_as(folder.path(), name);
        }
        Self { folder }
    }

    /// Returns the path of a file.
    pub fn path(&self, file: &str) -> String {
        self.folder.path().join(file).display().to_string()
    }
}
