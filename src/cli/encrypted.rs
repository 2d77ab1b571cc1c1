//! Flags of DNS over TLS, HTTPS and QUIC.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::values::parse_https_path;
use crate::server::encrypted::Options;

/// DNS over TLS, HTTPS and QUIC. The default is what `demo` has: none.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Encrypted listeners")]
#[command(group = ArgGroup::new("encrypted").args(["tls_listen", "https_listen", "quic_listen"]).multiple(true))]
pub struct EncryptedArgs {
    /// DNS over TLS, at an address such as 0.0.0.0:5853 (repeatable) [default: none]
    #[arg(
        long,
        env = "GLOBAL_DNS_TLS_LISTEN",
        value_name = "ADDRESS",
        value_delimiter = ',',
        requires_all = ["tls_cert", "tls_key"]
    )]
    pub tls_listen: Vec<SocketAddr>,

    /// DNS over HTTPS, at an address such as 0.0.0.0:8443 (repeatable) [default: none]
    #[arg(
        long,
        env = "GLOBAL_DNS_HTTPS_LISTEN",
        value_name = "ADDRESS",
        value_delimiter = ',',
        requires_all = ["tls_cert", "tls_key"]
    )]
    pub https_listen: Vec<SocketAddr>,

    /// DNS over QUIC, at an address such as 0.0.0.0:5853 (repeatable). Experimental: handshakes are done one after another,
    /// a connection carries 100 queries, replies are not padded, and connections are not limited [default: none]
    #[arg(
        long,
        env = "GLOBAL_DNS_QUIC_LISTEN",
        value_name = "ADDRESS",
        value_delimiter = ',',
        requires_all = ["tls_cert", "tls_key"]
    )]
    pub quic_listen: Vec<SocketAddr>,

    /// PEM file of the certificate and those that it was issued by, as in a Secret's tls.crt; reloaded when it changes
    #[arg(
        long,
        env = "GLOBAL_DNS_TLS_CERT",
        value_name = "FILE",
        requires = "encrypted"
    )]
    pub tls_cert: Option<PathBuf>,

    /// PEM file of the certificate's private key, as in a Secret's tls.key; reloaded when it changes
    #[arg(
        long,
        env = "GLOBAL_DNS_TLS_KEY",
        value_name = "FILE",
        requires = "encrypted"
    )]
    pub tls_key: Option<PathBuf>,

    /// PEM file of certificate authorities, as in a Secret's ca.crt: every client over TLS, HTTPS and QUIC must then have a
    /// certificate of one of them; reloaded when it changes
    #[arg(
        long,
        env = "GLOBAL_DNS_TLS_CLIENT_CA",
        value_name = "FILE",
        requires = "encrypted"
    )]
    pub tls_client_ca: Option<PathBuf>,

    /// Path of DNS over HTTPS
    #[arg(long, env = "GLOBAL_DNS_HTTPS_PATH", value_name = "PATH", default_value = "/dns-query", value_parser = parse_https_path)]
    pub https_path: String,
}

impl EncryptedArgs {
    /// Returns what is served encrypted, if anything is.
    pub fn options(self) -> Option<Options> {
        let Self {
            tls_listen,
            https_listen,
            quic_listen,
            tls_cert,
            tls_key,
            tls_client_ca,
            https_path,
        } = self;
        // With a listener there are both files: anything else is wrong usage.
        let (Some(certificate), Some(key)) = (tls_cert, tls_key) else {
            return None;
        };
        Some(Options {
            tls: tls_listen,
            https: https_listen,
            quic: quic_listen,
            https_path,
            certificate,
            key,
            client_ca: tls_client_ca,
        })
    }
}
