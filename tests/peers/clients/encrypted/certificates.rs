//! Certificates: an authority for servers, one for clients, and one that nobody trusts.

use std::fs;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use tempfile::TempDir;

use super::NAME;

/// PEM files: `ca.crt`, `server.crt` and `server.key`; `clients-ca.crt`, `client.crt` and `client.key`; and
/// `stranger.crt` and `stranger.key` of an authority that nobody trusts.
pub struct Certificates {
    folder: TempDir,
}

impl Certificates {
    pub fn issue() -> Self {
        let issued = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let servers = issued.authority("ca");
        let clients = issued.authority("clients-ca");
        let strangers = issued.authority("strangers-ca");
        let names = [NAME, "localhost", "127.0.0.1"];
        issued.leaf(
            "server",
            &names,
            ExtendedKeyUsagePurpose::ServerAuth,
            &servers,
        );
        let client = ["client.example.net"];
        issued.leaf(
            "client",
            &client,
            ExtendedKeyUsagePurpose::ClientAuth,
            &clients,
        );
        issued.leaf(
            "stranger",
            &client,
            ExtendedKeyUsagePurpose::ClientAuth,
            &strangers,
        );
        issued
    }

    /// The path of a file.
    pub fn path(&self, file: &str) -> String {
        self.folder.path().join(file).display().to_string()
    }

    fn authority(&self, name: &str) -> Issuer<'static, KeyPair> {
        let mut params = valid_for_a_month(&[]);
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        self.write(&format!("{name}.crt"), &certificate.pem());
        Issuer::new(params, key)
    }

    fn leaf(
        &self,
        name: &str,
        subjects: &[&str],
        usage: ExtendedKeyUsagePurpose,
        issuer: &Issuer<'static, KeyPair>,
    ) {
        let mut params = valid_for_a_month(subjects);
        params
            .distinguished_name
            .push(DnType::CommonName, subjects[0]);
        // Strict clients want the key identifier of the authority, too.
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, issuer).unwrap();
        self.write(&format!("{name}.crt"), &certificate.pem());
        self.write(&format!("{name}.key"), &key.serialize_pem());
    }

    fn write(&self, name: &str, pem: &str) {
        fs::write(self.folder.path().join(name), pem).unwrap();
    }
}

/// Parameters of a certificate for these names and addresses.
fn valid_for_a_month(subjects: &[&str]) -> CertificateParams {
    const HOUR: u64 = 3_600;
    let subjects: Vec<String> = subjects
        .iter()
        .map(|subject| (*subject).to_owned())
        .collect();
    let mut params = CertificateParams::new(subjects).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.unwrap().as_secs();
    let time = |seconds: u64| date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds);
    (params.not_before, params.not_after) = (time(now - HOUR), time(now + 30 * 24 * HOUR));
    params
}
