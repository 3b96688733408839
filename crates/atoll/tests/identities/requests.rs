//! CertificateSigningRequests, from the request to a certificate that is accepted.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client, Kubectl, Setup};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair, SanType};
use serde_json::{Value, json};

use crate::workspaces::create_workspace;
use crate::{create_account, request_token, user_name};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

struct Request {
    pem: String,
    key: String,
}

fn request(subject: &[(DnType, &str)], names: Vec<SanType>) -> Request {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    for (kind, value) in subject {
        parameters.distinguished_name.push(kind.clone(), DnValue::Utf8String(value.to_string()));
    }
    parameters.subject_alt_names = names;
    let key = KeyPair::generate().unwrap();
    let pem = parameters.serialize_request(&key).unwrap().pem().unwrap();
    Request { pem, key: key.serialize_pem() }
}

fn object(name: &str, signer: &str, usages: &[&str], request: &Request) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": { "request": STANDARD.encode(&request.pem), "signerName": format!("kubernetes.io/{signer}"), "usages": usages },
    })
}

fn second_organization() -> DnType {
    DnType::CustomDnType(vec![2, 5, 4, 10])
}

async fn decide(client: &Client, name: &str, verdict: &str) {
    let path = format!("{REQUESTS}/{name}");
    let mut request = client.get(&path).await.expect(200);
    request["status"]["conditions"] = json!([{ "type": verdict, "status": "True", "reason": "Test" }]);
    client.put(&format!("{path}/approval"), request).await.expect(200);
}

/// Returns the issued certificate, or the reason why the request was denied or failed.
async fn issued_or_denied(client: &Client, name: &str) -> Result<String, String> {
    let mut issued_or_denied = None;
    eventually("the request is decided", async || {
        let request = client.get(&format!("{REQUESTS}/{name}")).await.expect(200);
        let failed = request["status"]["conditions"].as_array().into_iter().flatten();
        let failed = failed.into_iter().find(|condition| condition["type"] == "Failed");
        issued_or_denied = match (request["status"]["certificate"].as_str(), failed) {
            (Some(certificate), _) => {
                Some(Ok(String::from_utf8(STANDARD.decode(certificate).unwrap()).unwrap()))
            }
            (None, Some(failed)) => {
                assert_eq!(failed["reason"], "SignerValidationFailure");
                Some(Err(failed["message"].as_str().unwrap().to_string()))
            }
            (None, None) => None,
        };
        issued_or_denied.is_some()
    })
    .await;
    issued_or_denied.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn approved_request_becomes_a_user_with_all_groups() {
    let atoll = Atoll::start();
    let admin = atoll.admin();
    let subject =
        [(DnType::OrganizationName, "dev"), (DnType::CommonName, "ann"), (second_organization(), "ops")];
    let request = request(&subject, Vec::new());
    let mut wanted = object("ann", "kube-apiserver-client", &["client auth", "digital signature"], &request);
    wanted["spec"]["expirationSeconds"] = json!(3600);
    let created = admin.post(REQUESTS, wanted).await.expect(201);
    assert_eq!(created["spec"]["username"], "atoll-admin");
    assert!(created["spec"]["extra"]["authentication.kubernetes.io/credential-id"].is_array(), "{created}");
    match Kubectl::new(&atoll.kubeconfig()) {
        Some(kubectl) => {
            let message = kubectl.run("certificate approve ann");
            assert!(message.contains("ann approved"), "{message}");
        }
        None => decide(&admin, "ann", "Approved").await,
    }
    let certificate = issued_or_denied(&admin, "ann").await.unwrap();
    let ann = admin.with_identity(&certificate, &request.key);
    assert_eq!(user_name(&ann).await.as_deref(), Ok("ann"));
    let expires = atoll_authn::certificate::expiry(certificate.as_bytes()).unwrap();
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs().cast_signed();
    assert!((3500..=3600).contains(&(expires - now)), "{}", expires - now);
    // Her groups are in the requests that she creates.
    let der = rustls::pki_types::pem::PemObject::from_pem_slice(certificate.as_bytes());
    let der: rustls::pki_types::CertificateDer<'_> = der.unwrap();
    let holder = atoll_authn::certificate::holder(&der).unwrap().unwrap();
    assert_eq!(holder.user.groups, ["dev", "ops", "system:authenticated"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn signers_reject_requests_outside_their_rules() {
    let atoll = Atoll::start();
    let admin = atoll.admin();
    let node = [(DnType::CommonName, "system:node:m"), (DnType::OrganizationName, "system:nodes")];
    let subject = [(DnType::CommonName, "m"), (DnType::OrganizationName, "system:nodes")];
    let dns = || vec![SanType::DnsName("m".try_into().unwrap())];
    let (client, server) = (["digital signature", "client auth"], ["digital signature", "server auth"]);
    let (for_clients, for_kubelets, serving) =
        ("kube-apiserver-client", "kube-apiserver-client-kubelet", "kubelet-serving");
    let cases = [
        (
            for_clients,
            &server,
            request(&node, Vec::new()),
            Err("invalid usage for client certificate: server auth"),
        ),
        (for_clients, &client, request(&subject, dns()), Ok(())),
        (
            for_kubelets,
            &client,
            request(&subject, Vec::new()),
            Err("subject common name does not begin with system:node:"),
        ),
        (for_kubelets, &client, request(&node, dns()), Err("DNS subjectAltNames are not allowed")),
        (
            for_kubelets,
            &client,
            request(&[(DnType::CommonName, "system:node:m")], Vec::new()),
            Err("subject organization is not system:nodes"),
        ),
        (
            for_kubelets,
            &server,
            request(&node, Vec::new()),
            Err("usages did not match [client auth digital signature key encipherment]"),
        ),
        (serving, &server, request(&node, Vec::new()), Err("DNS or IP subjectAltName is required")),
        (serving, &server, request(&node, dns()), Ok(())),
    ];
    for (number, (signer, usages, request, expected)) in cases.into_iter().enumerate() {
        let name = format!("r{number}");
        admin.post(REQUESTS, object(&name, signer, usages, &request)).await.expect(201);
        decide(&admin, &name, "Approved").await;
        let issued_or_denied = issued_or_denied(&admin, &name).await;
        assert_eq!(issued_or_denied.as_ref().map(drop).map_err(String::as_str), expected, "{number}");
    }
    // Denied requests, undecided requests and requests for other signers are not changed.
    let request = request(&subject, Vec::new());
    let mut other = object("other", "x", &client, &request);
    other["spec"]["signerName"] = json!("example.com/signer");
    admin.post(REQUESTS, other).await.expect(201);
    admin.post(REQUESTS, object("denied", for_clients, &client, &request)).await.expect(201);
    admin.post(REQUESTS, object("waiting", for_clients, &client, &request)).await.expect(201);
    decide(&admin, "other", "Approved").await;
    decide(&admin, "denied", "Denied").await;
    admin.post(REQUESTS, object("last", for_clients, &client, &request)).await.expect(201);
    decide(&admin, "last", "Approved").await;
    issued_or_denied(&admin, "last").await.unwrap();
    for name in ["other", "denied", "waiting"] {
        let request = admin.get(&format!("{REQUESTS}/{name}")).await.expect(200);
        assert!(request["status"].get("certificate").is_none(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn authorized_kubelet_requests_are_approved_automatically() {
    let atoll = Setup::new().tokens("boot,bootstrapper,1,\"system:masters\"\n").start();
    let admin = atoll.admin();
    let node = [(DnType::CommonName, "system:node:m"), (DnType::OrganizationName, "system:nodes")];
    let request = request(&node, Vec::new());
    let usages = ["digital signature", "client auth"];
    let wanted = object("m", "kube-apiserver-client-kubelet", &usages, &request);
    admin.token("boot").post(REQUESTS, wanted).await.expect(201);
    let certificate = issued_or_denied(&admin, "m").await.unwrap();
    let approved = admin.get(&format!("{REQUESTS}/m")).await.expect(200);
    let condition = &approved["status"]["conditions"][0];
    assert_eq!((&condition["type"], &condition["reason"]), (&json!("Approved"), &json!("AutoApproved")));
    assert_eq!(condition["message"], "Auto approving kubelet client certificate after SubjectAccessReview.");
    assert_eq!(
        user_name(&admin.with_identity(&certificate, &request.key)).await.as_deref(),
        Ok("system:node:m")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_of_a_workspace_are_valid_there_only() {
    let atoll = Atoll::start();
    let admin = atoll.admin();
    let (first, _) = create_workspace(&admin, "first").await;
    let (second, _) = create_workspace(&admin, "second").await;
    let request = request(&[(DnType::CommonName, "ann")], Vec::new());
    first
        .post(REQUESTS, object("ann", "kube-apiserver-client", &["client auth"], &request))
        .await
        .expect(201);
    decide(&first, "ann", "Approved").await;
    let certificate = issued_or_denied(&first, "ann").await.unwrap();
    assert_eq!(user_name(&first.with_identity(&certificate, &request.key)).await.as_deref(), Ok("ann"));
    for elsewhere in [&admin, &second] {
        assert_eq!(
            user_name(&elsewhere.with_identity(&certificate, &request.key)).await,
            Err(401),
            "{}",
            elsewhere.base()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn token_secrets_get_a_token() {
    let atoll = Atoll::start();
    let admin = atoll.admin();
    create_account(&admin, "a").await;
    let secrets = "/api/v1/namespaces/default/secrets";
    let secret = |name: &str, account: &str| {
        json!({
            "metadata": { "name": name, "annotations": { "kubernetes.io/service-account.name": account } },
            "type": "kubernetes.io/service-account-token",
        })
    };
    admin.post(secrets, secret("s", "a")).await.expect(201);
    admin.post(secrets, secret("orphan", "nobody")).await.expect(201);
    let mut data = Value::Null;
    eventually("the Secret has a token", async || {
        data = admin.get(&format!("{secrets}/s")).await.expect(200)["data"].clone();
        data["token"].is_string()
    })
    .await;
    let text =
        |name: &str| String::from_utf8(STANDARD.decode(data[name].as_str().unwrap()).unwrap()).unwrap();
    assert_eq!(text("namespace"), "default");
    assert_eq!(text("ca.crt"), std::fs::read_to_string(atoll.directory.join("ca.crt")).unwrap());
    let own = text("token");
    assert_eq!(user_name(&admin.token(&own)).await.as_deref(), Ok("system:serviceaccount:default:a"));
    eventually("the Secret without an account is deleted", async || {
        admin.get(&format!("{secrets}/orphan")).await.status == 404
    })
    .await;
    let requested = request_token(&admin, "a", json!({})).await;
    // The token becomes invalid with the Secret. Tokens of TokenRequests stay valid.
    admin.delete(&format!("{secrets}/s")).await.expect(200);
    assert_eq!(user_name(&admin.token(&own)).await, Err(401));
    assert!(user_name(&admin.token(&requested)).await.is_ok());
    // The Secret is deleted with the account.
    admin.post(secrets, secret("again", "a")).await.expect(201);
    admin.delete("/api/v1/namespaces/default/serviceaccounts/a").await.expect(200);
    eventually("the Secret is deleted with its account", async || {
        admin.get(&format!("{secrets}/again")).await.status == 404
    })
    .await;
}
