//! Certificates of servers and of clients: those that sign themselves, and those of an authority.

use std::path::Path;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

const HOUR: i64 = 3_600;
const MONTH: i64 = 30 * 24 * HOUR;

/// A certificate for `localhost`, and its key.
pub struct Issued {
    /// As a PEM file.
    pub certificate: String,
    /// As a PEM file.
    pub key: String,
    der: CertificateDer<'static>,
    key_der: Vec<u8>,
    /// What signed it.
    root: CertificateDer<'static>,
}

/// An authority that issues certificates.
pub struct Authority {
    /// As a PEM file.
    pub certificate: String,
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

/// Issues a certificate that signs itself; valid from `begins` to `ends`, seconds from now.
pub fn issue(begins: i64, ends: i64) -> Issued {
    let (params, key) = (params("localhost", begins, ends), key());
    let certificate = params.self_signed(&key).unwrap();
    let der = certificate.der().clone();
    Issued::new(&certificate, &key, der)
}

/// Issues a certificate that is good for a month.
pub fn issue_good() -> Issued {
    issue(-HOUR, MONTH)
}

fn params(name: &str, begins: i64, ends: i64) -> CertificateParams {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = i64::try_from(now.unwrap().as_secs()).unwrap();
    let time = |seconds: i64| {
        date_time_ymd(1970, 1, 1) + Duration::from_secs(u64::try_from(now + seconds).unwrap())
    };
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    (params.not_before, params.not_after) = (time(begins), time(ends));
    params
}

fn key() -> KeyPair {
    KeyPair::generate().unwrap()
}

// === impl Authority ===

impl Authority {
    pub fn new(name: &str) -> Self {
        let (mut params, key) = (params(name, -HOUR, MONTH), key());
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        Self {
            certificate: certificate.pem(),
            der: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        }
    }

    /// Issues a certificate of a server.
    pub fn issue_server(&self) -> Issued {
        self.issue(ExtendedKeyUsagePurpose::ServerAuth, MONTH)
    }

    /// Issues a certificate of a client.
    pub fn issue_client(&self) -> Issued {
        self.issue(ExtendedKeyUsagePurpose::ClientAuth, MONTH)
    }

    /// Issues a certificate of a client that has expired.
    pub fn issue_expired_client(&self) -> Issued {
        self.issue(ExtendedKeyUsagePurpose::ClientAuth, -1)
    }

    fn issue(&self, usage: ExtendedKeyUsagePurpose, ends: i64) -> Issued {
        let (mut params, key) = (params("localhost", -HOUR, ends), key());
        params.extended_key_usages.push(usage);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Issued::new(&certificate, &key, self.der.clone())
    }
}

// === impl Issued ===

impl Issued {
    fn new(certificate: &rcgen::Certificate, key: &KeyPair, root: CertificateDer<'static>) -> Self {
        Self {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            der: certificate.der().clone(),
            key_der: key.serialize_der(),
            root,
        }
    }

    /// Writes `tls.crt` and `tls.key`, as in a Secret.
    pub fn write(&self, folder: &Path) {
        std::fs::write(folder.join("tls.crt"), &self.certificate).unwrap();
        std::fs::write(folder.join("tls.key"), &self.key).unwrap();
    }

    /// The flags that name the files of [`Self::write`].
    pub fn flags(folder: &Path) -> [String; 2] {
        let flag = |flag: &str, file: &str| format!("--{flag}={}", folder.join(file).display());
        [flag("tls-cert", "tls.crt"), flag("tls-key", "tls.key")]
    }

    /// What a peer holds that accepts it.
    pub fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.clone()).unwrap();
        roots
    }

    pub fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    pub fn key_der(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key_der.clone()).into()
    }
}
