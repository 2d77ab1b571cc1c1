//! Certificates of servers and of clients: those that sign themselves, and those of an authority.

use std::path::Path;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

const HOUR: i64 = 3_600;
const MONTH: i64 = 30 * 24 * HOUR;

/// A certificate and its key.
#[derive(Debug)]
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
    let (params, key) = (params(&["localhost"], begins, ends), key());
    let certificate = params.self_signed(&key).unwrap();
    let der = certificate.der().clone();
    Issued::new(&certificate, &key, der)
}

/// Issues a certificate that is good for a month.
pub fn issue_good() -> Issued {
    issue(-HOUR, MONTH)
}

/// Parameters of a certificate for names and addresses, the first of which is the subject's.
fn params(names: &[&str], begins: i64, ends: i64) -> CertificateParams {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = i64::try_from(now.unwrap().as_secs()).unwrap();
    let time = |seconds: i64| {
        date_time_ymd(1970, 1, 1) + Duration::from_secs(u64::try_from(now + seconds).unwrap())
    };
    let owned: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(owned).unwrap();
    params.distinguished_name.push(DnType::CommonName, names[0]);
    (params.not_before, params.not_after) = (time(begins), time(ends));
    params
}

fn key() -> KeyPair {
    KeyPair::generate().unwrap()
}

// === impl Authority ===

impl Authority {
    /// An authority with a certificate that signs itself.
    pub fn new(name: &str) -> Self {
        let (mut params, key) = (params(&[name], -HOUR, MONTH), key());
        params.subject_alt_names.clear();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).unwrap();
        Self {
            certificate: certificate.pem(),
            der: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        }
    }

    /// Issues a certificate of a server.
    pub fn issue_server(&self) -> Issued {
        self.issue_server_for(&["localhost"])
    }

    /// The same with other names and addresses.
    pub fn issue_server_for(&self, names: &[&str]) -> Issued {
        self.issue(names, ExtendedKeyUsagePurpose::ServerAuth, MONTH)
    }

    /// Issues a certificate of a client.
    pub fn issue_client(&self) -> Issued {
        self.issue_client_until(MONTH)
    }

    /// Issues a certificate of a client that has expired.
    pub fn issue_expired_client(&self) -> Issued {
        self.issue_client_until(-1)
    }

    fn issue_client_until(&self, ends: i64) -> Issued {
        let usage = ExtendedKeyUsagePurpose::ClientAuth;
        self.issue(&["client.example.net"], usage, ends)
    }

    fn issue(&self, names: &[&str], usage: ExtendedKeyUsagePurpose, ends: i64) -> Issued {
        let (mut params, key) = (params(names, -HOUR, ends), key());
        // Strict clients want the key identifier of the authority, too.
        params.use_authority_key_identifier_extension = true;
        params.key_usages.push(KeyUsagePurpose::DigitalSignature);
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
        self.write_as(folder, "tls");
    }

    /// Writes `NAME.crt` and `NAME.key`.
    pub fn write_as(&self, folder: &Path, name: &str) {
        std::fs::write(folder.join(format!("{name}.crt")), &self.certificate).unwrap();
        std::fs::write(folder.join(format!("{name}.key")), &self.key).unwrap();
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

    /// The certificate.
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// Its key.
    pub fn key_der(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key_der.clone()).into()
    }
}
