//! Client certificates, and the server's own certificates.

use std::path::Path;

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client, KeptConnection, RequestContent, Setup};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, DnValue, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair,
};
use rustls::pki_types::CertificateDer;
use serde_json::json;
use time::OffsetDateTime;

use crate::support::{CONFIG_MAPS, config_map, config_map_with};
use crate::{SELF, create_account, request_token, user_name};

/// Parameters of a client certificate signed by the server's authority.
struct CertificateSpec {
    subject: Vec<(DnType, &'static str)>,
    usages: Vec<ExtendedKeyUsagePurpose>,
    from: i64,
    until: i64,
}

impl CertificateSpec {
    fn of(subject: Vec<(DnType, &'static str)>) -> CertificateSpec {
        CertificateSpec { subject, usages: vec![ExtendedKeyUsagePurpose::ClientAuth], from: -600, until: 600 }
    }
}

/// Returns the type of a second organization: rcgen supports one attribute of each type.
fn second_organization() -> DnType {
    DnType::CustomDnType(vec![2, 5, 4, 10])
}

fn uid() -> DnType {
    DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2])
}

fn issue(directory: &Path, spec: &CertificateSpec) -> (String, String) {
    let key = KeyPair::from_pem(&std::fs::read_to_string(directory.join("ca.key")).unwrap()).unwrap();
    let mut authority = CertificateParams::default();
    authority.distinguished_name = DistinguishedName::new();
    authority.distinguished_name.push(DnType::CommonName, "atoll-ca");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = Issuer::new(authority, key);
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    for (kind, value) in &spec.subject {
        parameters.distinguished_name.push(kind.clone(), DnValue::Utf8String(value.to_string()));
    }
    let now = OffsetDateTime::now_utc();
    parameters.not_before = now + time_from(spec.from);
    parameters.not_after = now + time_from(spec.until);
    parameters.extended_key_usages = spec.usages.clone();
    let own = KeyPair::generate().unwrap();
    let certificate = parameters.signed_by(&own, &issuer).unwrap();
    (certificate.pem(), own.serialize_pem())
}

fn time_from(seconds: i64) -> time::Duration {
    time::Duration::seconds(seconds)
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_name_the_user_and_all_groups() {
    let atoll = Atoll::start_bare();
    let with = |spec: &CertificateSpec| {
        let (certificate, key) = issue(&atoll.directory, spec);
        atoll.admin().with_identity(&certificate, &key)
    };
    let (name, group, also) = (DnType::CommonName, DnType::OrganizationName, second_organization());
    let orders: [Vec<(DnType, &'static str)>; 3] = [
        vec![(name.clone(), "ann"), (group.clone(), "dev"), (also.clone(), "system:masters")],
        vec![(group.clone(), "dev"), (also.clone(), "system:masters"), (name.clone(), "ann")],
        vec![(group.clone(), "dev"), (name.clone(), "ann"), (also.clone(), "system:masters"), (uid(), "7")],
    ];
    for (number, subject) in orders.into_iter().enumerate() {
        let ann = with(&CertificateSpec::of(subject));
        let user = ann.post(SELF, json!({})).await.expect(201)["status"]["userInfo"].clone();
        assert_eq!(user["username"], "ann", "{number}");
        assert_eq!(user["groups"], json!(["dev", "system:masters", "system:authenticated"]), "{number}");
        assert_eq!(user["uid"].as_str(), (number == 2).then_some("7"));
        let credential = user["extra"]["authentication.kubernetes.io/credential-id"][0].as_str().unwrap();
        assert!(credential.starts_with("X509SHA256="), "{credential}");
    }
    // A certificate without a common name is rejected.
    let nameless = with(&CertificateSpec::of(vec![(group.clone(), "system:masters")]));
    assert_eq!(user_name(&nameless).await.as_deref(), Ok("system:anonymous"));
    let ann = || vec![(name.clone(), "ann"), (group.clone(), "system:masters")];
    let empty_uid = [ann(), vec![(uid(), "")]].concat();
    let refused = [
        ("expired", CertificateSpec { from: -900, until: -300, ..CertificateSpec::of(ann()) }),
        ("not yet valid", CertificateSpec { from: 300, until: 600, ..CertificateSpec::of(ann()) }),
        (
            "for servers",
            CertificateSpec {
                usages: vec![ExtendedKeyUsagePurpose::ServerAuth],
                ..CertificateSpec::of(ann())
            },
        ),
        ("an empty uid", CertificateSpec::of(empty_uid)),
    ];
    create_account(&atoll.admin(), "a").await;
    let own = request_token(&atoll.admin(), "a", json!({})).await;
    for (what, spec) in refused {
        let client = with(&spec);
        assert_eq!(user_name(&client).await, Err(401), "{what}");
        // A valid token is accepted instead.
        let both = client.and_token(&own);
        assert_eq!(user_name(&both).await.as_deref(), Ok("system:serviceaccount:default:a"), "{what}");
    }
    // If both are valid, the certificate is used.
    let both = with(&CertificateSpec::of(ann())).and_token(&own);
    assert_eq!(user_name(&both).await.as_deref(), Ok("\"ann\""));
    assert_eq!(
        user_name(&with(&CertificateSpec::of(ann())).and_token("wrong")).await.as_deref(),
        Ok("\"ann\"")
    );
    // Without extended key usages the certificate is valid for all purposes.
    let plain = with(&CertificateSpec { usages: Vec::new(), ..CertificateSpec::of(ann()) });
    assert_eq!(user_name(&plain).await.as_deref(), Ok("\"ann\""));
    // A certificate of another authority with the same names.
    let other = Atoll::start_bare();
    let (certificate, key) = issue(&other.directory, &CertificateSpec::of(ann()));
    assert_eq!(user_name(&atoll.admin().with_identity(&certificate, &key)).await, Err(401));
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_certificate_is_rejected_on_an_open_connection() {
    let atoll = Atoll::start_bare();
    let subject = vec![(DnType::CommonName, "ann"), (DnType::OrganizationName, "system:masters")];
    let code = async |http: &mut KeptConnection| {
        http.request(http::Method::GET, "/api", RequestContent::None).await.unwrap().status
    };
    // On a busy machine the shortest lifetime may be over before the first request.
    for seconds in [3, 9, 27, 81] {
        let (certificate, key) = issue(
            &atoll.directory,
            &CertificateSpec { until: seconds, ..CertificateSpec::of(subject.clone()) },
        );
        let mut http = atoll.admin().with_identity(&certificate, &key).http2().await.unwrap();
        if code(&mut http).await == 200 {
            // On the same connection.
            return eventually("the certificate has expired", async || code(&mut http).await == 401).await;
        }
    }
    panic!("no certificate was valid long enough for a request");
}

async fn served_certificate(client: &Client) -> CertificateDer<'static> {
    let stream = client.stream(&["h2"]).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn server_certificates_are_renewed_while_it_runs() {
    let atoll = Setup::new().flag("--controllers", false).flag("--certificate-lifetime", 30).start();
    let authority = std::fs::read(atoll.directory.join("ca.crt")).unwrap();
    let before = atoll.admin();
    let (certificate, text) =
        (served_certificate(&before).await, std::fs::read_to_string(atoll.kubeconfig()).unwrap());
    let mut held = before.http2().await.unwrap();
    eventually("another certificate is served", async || served_certificate(&before).await != certificate)
        .await;
    eventually("the kubeconfig has another one", async || {
        std::fs::read_to_string(atoll.kubeconfig()).unwrap() != text
    })
    .await;
    // Both the old and the new certificates are valid, on old and new connections.
    atoll.admin().get("/api").await.expect(200);
    assert_eq!(held.request(http::Method::GET, "/version", RequestContent::None).await.unwrap().status, 200);
    assert_eq!(std::fs::read(atoll.directory.join("ca.crt")).unwrap(), authority);
    eventually("the first kubeconfig is too old", async || before.get("/api").await.status == 401).await;
    atoll.admin().get("/api").await.expect(200);
}

/// Replaces `ca.crt` as the README describes.
#[tokio::test(flavor = "multi_thread")]
async fn server_without_an_authority_creates_a_new_one() {
    let mut atoll = Atoll::start_bare();
    let before = atoll.admin();
    before.post(CONFIG_MAPS, config_map_with("kept", "1")).await.expect(201);
    atoll.terminate();
    atoll.wait();
    let file = |extension: &str| atoll.directory.join(format!("ca.{extension}"));
    let (certificate, key) = (file("crt"), file("key"));
    std::fs::rename(&key, atoll.directory.join("old.key")).unwrap();
    let half = Setup::new().directory(&atoll.directory).try_start();
    assert!(half.is_err(), "a certificate without its key must be an error");
    std::fs::rename(&certificate, atoll.directory.join("old.crt")).unwrap();
    atoll.restart();
    atoll.admin().get(&config_map("kept")).await.expect(200);
    assert!(
        before.http1().await.is_err(),
        "clients with the old kubeconfig must not trust the new authority"
    );
    let stranger = atoll.admin().with_identity_of(&before);
    // The handshake or the first request fails, depending on the version of TLS.
    if let Ok(mut http) = stranger.http1().await {
        let answer = http.request(http::Method::GET, CONFIG_MAPS, RequestContent::None).await;
        assert!(!answer.is_ok_and(|answer| answer.status == 200), "old client certificates must be rejected");
    }
}
