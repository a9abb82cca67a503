//! An authority, what it vouches for, and the key that tokens are signed with.

use std::fs;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};

use crate::address::API_SERVICE;
use crate::error::{Error, Tried};

/// Who an API server may be called, in any cluster.
const NAMES: [&str; 7] = [
    "127.0.0.1",
    "localhost",
    API_SERVICE,
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// Writes `ca.crt`, `server.crt` and `server.key` (the API server, also by the addresses given),
/// `kubelets.crt` and `kubelets.key` (what it shows to kubelets), `accounts.key` and `accounts.pub`.
pub fn write(folder: &Path, addresses: &[&str]) -> Result<(), Error> {
    let put = |name: &str, text: String| {
        fs::write(folder.join(name), text).at("could not write", &folder.join(name))
    };
    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::default();
    authority.distinguished_name.push(DnType::CommonName, "tests");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    put("ca.crt", authority.self_signed(&authority_key)?.pem())?;
    let issuer = Issuer::new(authority, authority_key);

    let names = NAMES.iter().chain(addresses).map(|&name| name.to_owned());
    let mut server = CertificateParams::new(names.collect::<Vec<_>>())?;
    server.distinguished_name.push(DnType::CommonName, "apiserver");
    let mut client = CertificateParams::default();
    client.distinguished_name.push(DnType::CommonName, "apiserver-of-kubelets");
    client.distinguished_name.push(DnType::OrganizationName, "system:masters");
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    for (name, leaf) in [("server", server), ("kubelets", client)] {
        let key = KeyPair::generate()?;
        put(&format!("{name}.crt"), leaf.signed_by(&key, &issuer)?.pem())?;
        put(&format!("{name}.key"), key.serialize_pem())?;
    }
    let accounts = KeyPair::generate()?;
    put("accounts.key", accounts.serialize_pem())?;
    put("accounts.pub", accounts.public_key_pem())
}
