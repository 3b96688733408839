//! Client certificates, and the server's own.

use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, DnValue, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair,
};
use rustls::pki_types::CertificateDer;
use serde_json::json;
use time::OffsetDateTime;

use crate::support::access::{Access, Body, Http};
use crate::support::process::{Atoll, Setup};
use crate::support::{CONFIG_MAPS, config_map, config_map_with, eventually};
use crate::{SELF, account, token, who};

/// What a certificate of the server's authority shall say.
struct Wanted {
    subject: Vec<(DnType, &'static str)>,
    usages: Vec<ExtendedKeyUsagePurpose>,
    from: i64,
    until: i64,
}

impl Wanted {
    fn of(subject: Vec<(DnType, &'static str)>) -> Wanted {
        Wanted { subject, usages: vec![ExtendedKeyUsagePurpose::ClientAuth], from: -600, until: 600 }
    }
}

/// A second organization: rcgen has room for one of each kind.
fn also_organization() -> DnType {
    DnType::CustomDnType(vec![2, 5, 4, 10])
}

fn uid() -> DnType {
    DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2])
}

fn issue(directory: &Path, wanted: &Wanted) -> (String, String) {
    let key = KeyPair::from_pem(&std::fs::read_to_string(directory.join("ca.key")).unwrap()).unwrap();
    let mut authority = CertificateParams::default();
    authority.distinguished_name = DistinguishedName::new();
    authority.distinguished_name.push(DnType::CommonName, "atoll-ca");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = Issuer::new(authority, key);
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    for (kind, value) in &wanted.subject {
        parameters.distinguished_name.push(kind.clone(), DnValue::Utf8String(value.to_string()));
    }
    let now = OffsetDateTime::now_utc();
    parameters.not_before = now + time_from(wanted.from);
    parameters.not_after = now + time_from(wanted.until);
    parameters.extended_key_usages = wanted.usages.clone();
    let own = KeyPair::generate().unwrap();
    let certificate = parameters.signed_by(&own, &issuer).unwrap();
    (certificate.pem(), own.serialize_pem())
}

fn time_from(seconds: i64) -> time::Duration {
    time::Duration::seconds(seconds)
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_name_users_and_all_their_groups() {
    let atoll = Atoll::start_bare();
    let with = |wanted: &Wanted| {
        let (certificate, key) = issue(&atoll.directory, wanted);
        atoll.admin().with_identity(&certificate, &key)
    };
    let (name, group, also) = (DnType::CommonName, DnType::OrganizationName, also_organization());
    let orders: [Vec<(DnType, &'static str)>; 3] = [
        vec![(name.clone(), "ann"), (group.clone(), "dev"), (also.clone(), "system:masters")],
        vec![(group.clone(), "dev"), (also.clone(), "system:masters"), (name.clone(), "ann")],
        vec![(group.clone(), "dev"), (name.clone(), "ann"), (also.clone(), "system:masters"), (uid(), "7")],
    ];
    for (number, subject) in orders.into_iter().enumerate() {
        let ann = with(&Wanted::of(subject));
        let user = ann.post(SELF, json!({})).await.expect(201)["status"]["userInfo"].clone();
        assert_eq!(user["username"], "ann", "{number}");
        assert_eq!(user["groups"], json!(["dev", "system:masters", "system:authenticated"]), "{number}");
        assert_eq!(user["uid"].as_str(), (number == 2).then_some("7"));
        let credential = user["extra"]["authentication.kubernetes.io/credential-id"][0].as_str().unwrap();
        assert!(credential.starts_with("X509SHA256="), "{credential}");
    }
    // One that names nobody is nobody's.
    let nameless = with(&Wanted::of(vec![(group.clone(), "system:masters")]));
    assert_eq!(who(&nameless).await.as_deref(), Ok("system:anonymous"));
    let ann = || vec![(name.clone(), "ann"), (group.clone(), "system:masters")];
    let empty_uid = [ann(), vec![(uid(), "")]].concat();
    let refused = [
        ("expired", Wanted { from: -900, until: -300, ..Wanted::of(ann()) }),
        ("not yet valid", Wanted { from: 300, until: 600, ..Wanted::of(ann()) }),
        ("for servers", Wanted { usages: vec![ExtendedKeyUsagePurpose::ServerAuth], ..Wanted::of(ann()) }),
        ("an empty uid", Wanted::of(empty_uid)),
    ];
    account(&atoll.admin(), "a").await;
    let own = token(&atoll.admin(), "a", json!({})).await;
    for (what, wanted) in refused {
        let access = with(&wanted);
        assert_eq!(who(&access).await, Err(401), "{what}");
        // A good token makes up for it.
        let both = access.and_token(&own);
        assert_eq!(who(&both).await.as_deref(), Ok("system:serviceaccount:default:a"), "{what}");
    }
    // Of two that are good, the certificate counts.
    let both = with(&Wanted::of(ann())).and_token(&own);
    assert_eq!(who(&both).await.as_deref(), Ok("\"ann\""));
    assert_eq!(who(&with(&Wanted::of(ann())).and_token("wrong")).await.as_deref(), Ok("\"ann\""));
    // Without any purpose it is good for everything.
    let plain = with(&Wanted { usages: Vec::new(), ..Wanted::of(ann()) });
    assert_eq!(who(&plain).await.as_deref(), Ok("\"ann\""));
    // Of another authority, with the same names.
    let other = Atoll::start_bare();
    let (certificate, key) = issue(&other.directory, &Wanted::of(ann()));
    assert_eq!(who(&atoll.admin().with_identity(&certificate, &key)).await, Err(401));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_expires_ends_with_its_time() {
    let atoll = Atoll::start_bare();
    let subject = vec![(DnType::CommonName, "ann"), (DnType::OrganizationName, "system:masters")];
    let code =
        async |http: &mut Http| http.request(http::Method::GET, "/api", Body::None).await.unwrap().status;
    // On a busy machine the shortest may be over before anybody has asked.
    for seconds in [3, 9, 27, 81] {
        let (certificate, key) =
            issue(&atoll.directory, &Wanted { until: seconds, ..Wanted::of(subject.clone()) });
        let mut http = atoll.admin().with_identity(&certificate, &key).http2().await.unwrap();
        if code(&mut http).await == 200 {
            // On the same connection.
            return eventually("it has expired", async || code(&mut http).await == 401).await;
        }
    }
    panic!("it is not good for a minute");
}

async fn served(access: &Access) -> CertificateDer<'static> {
    let stream = access.stream(&["h2"]).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_own_certificates_are_renewed_while_it_runs() {
    let atoll = Setup::new().flag("--controllers", false).flag("--certificate-lifetime", 30).start();
    let authority = std::fs::read(atoll.directory.join("ca.crt")).unwrap();
    let before = atoll.admin();
    let (certificate, text) =
        (served(&before).await, std::fs::read_to_string(atoll.admin_kubeconfig()).unwrap());
    let mut held = before.http2().await.unwrap();
    eventually("another certificate is served", async || served(&before).await != certificate).await;
    eventually("the kubeconfig has another one", async || {
        std::fs::read_to_string(atoll.admin_kubeconfig()).unwrap() != text
    })
    .await;
    // Both old and new ones are good for now, on old and new connections.
    atoll.admin().get("/api").await.expect(200);
    assert_eq!(held.request(http::Method::GET, "/version", Body::None).await.unwrap().status, 200);
    assert_eq!(std::fs::read(atoll.directory.join("ca.crt")).unwrap(), authority);
    eventually("the first kubeconfig is too old", async || before.get("/api").await.status == 401).await;
    atoll.admin().get("/api").await.expect(200);
}

/// As the README says that `ca.crt` is replaced.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_its_authority_makes_a_new_one() {
    let mut atoll = Atoll::start_bare();
    let before = atoll.admin();
    before.post(CONFIG_MAPS, config_map_with("kept", "1")).await.expect(201);
    atoll.terminate();
    atoll.wait();
    let file = |extension: &str| atoll.directory.join(format!("ca.{extension}"));
    let (certificate, key) = (file("crt"), file("key"));
    std::fs::rename(&key, atoll.directory.join("old.key")).unwrap();
    let half = Setup::new().directory(&atoll.directory).try_start();
    assert!(half.is_err(), "half of an authority is an error");
    std::fs::rename(&certificate, atoll.directory.join("old.crt")).unwrap();
    atoll.restart();
    atoll.admin().get(&config_map("kept")).await.expect(200);
    assert!(before.http1().await.is_err(), "it is not trusted by those who have the old kubeconfig");
    let stranger = atoll.admin().with_identity_of(&before);
    // Whether it is the handshake or the first request that says so depends on the version of TLS.
    if let Ok(mut http) = stranger.http1().await {
        let answer = http.request(http::Method::GET, CONFIG_MAPS, Body::None).await;
        assert!(!answer.is_ok_and(|answer| answer.status == 200), "their certificates still count");
    }
}
