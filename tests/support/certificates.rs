//! Certificates of servers and clients, self-signed or issued by an authority.

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
pub struct Identity {
    /// The certificate in PEM.
    pub certificate: String,
    /// The key in PEM.
    pub key: String,
    der: CertificateDer<'static>,
    key_der: Vec<u8>,
    /// The certificate of the issuer.
    root: CertificateDer<'static>,
}

/// A certificate authority.
pub struct Authority {
    /// Its certificate in PEM.
    pub certificate: String,
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

/// Issues a self-signed certificate that is valid from `begins` to `ends`, in seconds from now.
pub fn issue(begins: i64, ends: i64) -> Identity {
    let (params, key) = (params(&["localhost"], begins, ends), key());
    let certificate = params.self_signed(&key).unwrap();
    let der = certificate.der().clone();
    Identity::new(&certificate, &key, der)
}

/// Issues a self-signed certificate that is valid for a month.
pub fn issue_valid() -> Identity {
    issue(-HOUR, MONTH)
}

/// Returns the parameters of a certificate for names and addresses. The first name is the subject.
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
    /// Creates an authority with a self-signed certificate.
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

    /// Issues a server certificate for `localhost`.
    pub fn issue_server(&self) -> Identity {
        self.issue_server_for(&["localhost"])
    }

    /// Issues a server certificate for other names and addresses.
    pub fn issue_server_for(&self, names: &[&str]) -> Identity {
        self.issue(names, ExtendedKeyUsagePurpose::ServerAuth, MONTH)
    }

    /// Issues a certificate of a peer, which is a server and a client, for names.
    pub fn issue_peer_for(&self, names: &[&str]) -> Identity {
        let usages = [
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        self.issue_with(names, &usages, MONTH)
    }

    /// Issues a client certificate.
    pub fn issue_client(&self) -> Identity {
        self.issue_client_until(MONTH)
    }

    /// Issues an expired client certificate.
    pub fn issue_expired_client(&self) -> Identity {
        self.issue_client_until(-1)
    }

    fn issue_client_until(&self, ends: i64) -> Identity {
        let usage = ExtendedKeyUsagePurpose::ClientAuth;
        self.issue(&["client.example.net"], usage, ends)
    }

    fn issue(&self, names: &[&str], usage: ExtendedKeyUsagePurpose, ends: i64) -> Identity {
        self.issue_with(names, &[usage], ends)
    }

    fn issue_with(
        &self,
        names: &[&str],
        usages: &[ExtendedKeyUsagePurpose],
        ends: i64,
    ) -> Identity {
        let (mut params, key) = (params(names, -HOUR, ends), key());
        // Strict clients require the key identifier of the authority.
        params.use_authority_key_identifier_extension = true;
        params.key_usages.push(KeyUsagePurpose::DigitalSignature);
        params.extended_key_usages.extend_from_slice(usages);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Identity::new(&certificate, &key, self.der.clone())
    }
}

// === impl Issued ===

impl Identity {
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

    /// Returns the settings of the server for the files of [`Self::write`].
    pub fn settings(folder: &Path) -> [String; 2] {
        let of = |name: &str, file: &str| format!("tls.{name}={}", folder.join(file).display());
        [of("certificate", "tls.crt"), of("key", "tls.key")]
    }

    /// Returns the root store of a peer that trusts this certificate.
    pub fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.clone()).unwrap();
        roots
    }

    /// Returns the certificate in DER.
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// Returns the key in DER.
    pub fn key_der(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key_der.clone()).into()
    }
}
