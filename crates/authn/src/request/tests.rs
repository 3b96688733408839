use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};
use rustls::pki_types::CertificateDer;
use time::OffsetDateTime;
use x509_cert::der::Decode;

use super::*;
use crate::authority::Authority;
use crate::certificate::holder;

fn pem(common_name: &str, group: &str, names: Vec<SanType>) -> String {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, common_name);
    parameters.distinguished_name.push(DnType::OrganizationName, group);
    parameters.subject_alt_names = names;
    let key = KeyPair::generate().expect("a key");
    parameters.serialize_request(&key).expect("a request").pem().expect("text")
}

fn authority() -> (tempfile::TempDir, Authority) {
    let directory = tempfile::tempdir().expect("a directory");
    let authority = Authority::open(directory.path(), OffsetDateTime::now_utc()).expect("an authority");
    (directory, authority)
}

#[test]
fn requests_are_parsed() {
    let names = vec![
        SanType::DnsName("a.example".try_into().expect("a name")),
        SanType::IpAddress(IpAddr::from([10, 0, 0, 1])),
        SanType::URI("spiffe://x".try_into().expect("a name")),
        SanType::Rfc822Name("a@b".try_into().expect("a name")),
    ];
    let request = CertificateRequest::from_pem(pem("ann", "dev", names).as_bytes()).expect("a request");
    assert_eq!(
        (request.common_name.as_str(), request.organizations.as_slice()),
        ("ann", &["dev".to_string()][..])
    );
    assert_eq!(request.dns_names, ["a.example"]);
    assert_eq!(request.addresses, [IpAddr::from([10, 0, 0, 1])]);
    assert_eq!(
        (request.uris.as_slice(), request.emails.as_slice()),
        (&["spiffe://x".into()][..], &["a@b".into()][..])
    );
    assert!(request.is_signed());
    assert!(CertificateRequest::from_pem(b"nothing").is_err());
}

#[test]
fn a_modified_request_is_rejected() {
    let text = pem("ann", "dev", Vec::new());
    let mut request = CertificateRequest::from_pem(text.as_bytes()).expect("a request");
    let at = request.der.windows(3).position(|window| window == b"ann").expect("the name");
    request.der[at] = b'b';
    assert!(!request.is_signed());
    let (_directory, authority) = authority();
    let terms = Terms { usages: &["client auth"], seconds: 600, workspace: None, now: 0 };
    assert!(authority.certify(&request, &terms).is_err());
}

#[test]
fn certificates_contain_the_requested_attributes() {
    let (_directory, authority) = authority();
    let now = OffsetDateTime::now_utc().unix_timestamp();
    let request = CertificateRequest::from_pem(pem("ann", "dev", Vec::new()).as_bytes()).expect("a request");
    // Requests with several organizations are tested in the atoll crate.
    for (seconds, expires) in [(600, now + 600), (86_400, now + 86_400 - 300)] {
        let usages = ["client auth", "digital signature"];
        let terms = Terms { usages: &usages, seconds, workspace: Some("w1"), now };
        let text = authority.certify(&request, &terms).expect("a certificate");
        let der = CertificateDer::from_pem_slice(text.as_bytes()).expect("PEM");
        let parsed = x509_cert::Certificate::from_der(&der).expect("a certificate");
        for extension in parsed.tbs_certificate().extensions().expect("it has some") {
            // Go rejects certificates with larger numbers.
            let is_small = extension.extn_id.arcs().all(|arc| arc < 1 << 31);
            assert!(is_small, "{}", extension.extn_id);
        }
        let holder = holder(&der).expect("readable").expect("somebody");
        assert_eq!((holder.user.name.as_str(), holder.user.groups[0].as_str()), ("ann", "dev"));
        assert_eq!((holder.workspace.as_deref(), holder.expires), (Some("w1"), expires));
        let id = &holder.user.extra["authentication.kubernetes.io/credential-id"][0];
        assert!(id.starts_with("X509SHA256=") && id.len() == 75, "{id}");
    }
}

#[test]
fn other_attributes_of_the_subject_are_noticed() {
    let read = |attributes: &[(DnType, &str)]| {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = DistinguishedName::new();
        for (kind, value) in attributes {
            parameters.distinguished_name.push(kind.clone(), *value);
        }
        let key = KeyPair::generate().expect("a key");
        let request = parameters.serialize_request(&key).expect("a request").pem().expect("text");
        CertificateRequest::from_pem(request.as_bytes()).expect("a request").has_only_common_name()
    };
    let uid = DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]);
    assert!(read(&[(DnType::CommonName, "ann")]));
    for more in [DnType::OrganizationalUnitName, DnType::OrganizationName, DnType::CountryName, uid] {
        assert!(!read(&[(DnType::CommonName, "ann"), (more, "xx")]));
    }
    assert!(!read(&[(DnType::OrganizationName, "ann")]));
}
