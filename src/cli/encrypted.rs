//! Flags of DNS over TLS and QUIC.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use crate::server::ListenAddress;
use crate::server::encrypted::Options;

/// DNS over TLS and QUIC. The default, which `demo` uses, has no listener.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Encrypted listeners")]
#[command(group = ArgGroup::new("encrypted").args(["tls_listen", "quic_listen"]).multiple(true))]
pub struct EncryptedArgs {
    /// Address for DNS over TLS, for example 0.0.0.0:5853 (repeatable) [default: none]
    #[arg(
        long,
        value_name = "ADDRESS",
        value_delimiter = ',',
        requires_all = ["tls_cert", "tls_key"]
    )]
    pub tls_listen: Vec<ListenAddress>,

    /// Address for DNS over QUIC, for example 0.0.0.0:5853 (repeatable). Experimental: handshakes run one after
    /// another, a connection carries at most 100 queries, replies are not padded, and connections are not limited
    /// [default: none]
    #[arg(
        long,
        value_name = "ADDRESS",
        value_delimiter = ',',
        requires_all = ["tls_cert", "tls_key"]
    )]
    pub quic_listen: Vec<ListenAddress>,

    /// PEM file of the certificate and its chain, as in tls.crt of a Secret; required by the encrypted listeners;
    /// reloaded when it changes
    #[arg(long, value_name = "FILE", requires = "encrypted")]
    pub tls_cert: Option<PathBuf>,

    /// PEM file of the private key, as in tls.key of a Secret; required by the encrypted listeners; reloaded when it
    /// changes
    #[arg(long, value_name = "FILE", requires = "encrypted")]
    pub tls_key: Option<PathBuf>,

    /// PEM file of certificate authorities, as in ca.crt of a Secret: clients of the encrypted listeners must present a
    /// certificate that one of them issued; reloaded when it changes [default: none]
    #[arg(long, value_name = "FILE", requires = "encrypted")]
    pub tls_client_ca: Option<PathBuf>,
}

impl EncryptedArgs {
    /// Returns the options of the encrypted listeners, or `None` if there is none.
    pub fn options(self) -> Option<Options> {
        let Self {
            tls_listen,
            quic_listen,
            tls_cert,
            tls_key,
            tls_client_ca,
        } = self;
        // clap requires both files with a listener.
        let (Some(certificate), Some(key)) = (tls_cert, tls_key) else {
            return None;
        };
        Some(Options {
            tls: tls_listen,
            quic: quic_listen,
            certificate,
            key,
            client_ca: tls_client_ca,
        })
    }
}
