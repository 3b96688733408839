//! Runs controllers outside of the server: against an Atoll, and against the real kube-apiserver if Go is
//! installed.

// Clippy takes only functions marked as tests for test code.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use atoll_authn::authority::Authority;
use atoll_authn::service_account::{KeyRing, Tokens};
use atoll_client::https::Https;
use atoll_client::{Client, PatchType};
use atoll_controllers::context::{Context, Signers, WorkloadScope};
use atoll_controllers::run_selected;
use atoll_informer::{ApiScope, SystemClock};
use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Upstream};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};
use tokio::task::JoinSet;

const CONTROLLERS: &str = "csrapproving,csrcleaner,csrsigning,clusterrole-aggregation,namespace,pv-protection,\
    pvc-protection,vac-protection,resourcequota,root-ca-cert-publisher,serviceaccount,serviceaccount-token";
const PLACE: &str = "/api/v1/namespaces/lively";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

#[tokio::test(flavor = "multi_thread")]
async fn controllers_work_with_atoll() {
    let atoll = Atoll::start_with(&["--controllers=false"]);
    let data = &atoll.directory;
    check_all(&Server { admin: atoll.admin(), signer: data, token_keys: data }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn controllers_work_with_kube_apiserver() {
    let keys = tempfile::tempdir().unwrap();
    KeyRing::open(keys.path()).unwrap();
    let flag = format!("--service-account-key-file={}", keys.path().join("service-account.pub").display());
    let Some(upstream) = Upstream::start(&["--", &flag]) else { return };
    let signer = upstream.directory().join("keys");
    check_all(&Server { admin: upstream.admin(), signer: &signer, token_keys: keys.path() }).await;
}

/// A server, and the files of its signers.
struct Server<'a> {
    admin: atoll_testkit::Client,
    /// Directory with the key that signs client certificates.
    signer: &'a Path,
    token_keys: &'a Path,
}

/// Returns Atoll's own client of a user.
fn client_of(user: &atoll_testkit::Client) -> Client {
    Client::new(Arc::new(Https::new(user.endpoint()).unwrap()))
}

async fn check_all(server: &Server<'_>) {
    let client = client_of(&server.admin);
    let authority = Authority::open(server.signer, time::OffsetDateTime::now_utc()).unwrap();
    let tokens = Tokens::new("https://kubernetes.default.svc", KeyRing::open(server.token_keys).unwrap());
    let signers = Signers::of(Arc::new(authority), Arc::new(tokens));
    let root_ca = signers.root_ca.clone().unwrap();
    let api = ApiScope::single(client_of(&server.admin));
    let context = Context::new(api, Arc::new(SystemClock), WorkloadScope::All).with_signers(signers);
    // Dropping the set ends the controllers.
    let mut running = JoinSet::new();
    running.spawn(async move { run_selected(context, &CONTROLLERS.parse().unwrap()).await });

    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "lively" } });
    client.create("/api/v1/namespaces", &namespace).await.unwrap();
    service_account_and_root_ca(&client, &root_ca).await;
    roles(&client).await;
    quotas(&client).await;
    protection(&client).await;
    certificates(server, &client).await;
    tokens_in_secrets(server, &client).await;
    namespaces(&client).await;
}

async fn service_account_and_root_ca(client: &Client, root_ca: &str) {
    let account = format!("{PLACE}/serviceaccounts/default");
    eventually("the namespace has an account", async || client.get(&account).await.is_ok()).await;
    let first = client.get(&account).await.unwrap();
    client.delete(&account).await.unwrap();
    eventually("it has another one", async || {
        client.get(&account).await.is_ok_and(|second| second["metadata"]["uid"] != first["metadata"]["uid"])
    })
    .await;
    let map = format!("{PLACE}/configmaps/kube-root-ca.crt");
    let is_published = async || client.get(&map).await.is_ok_and(|map| map["data"]["ca.crt"] == root_ca);
    eventually("it is told whom to trust", is_published).await;
    let wrong = json!({ "data": { "ca.crt": "nobody" } });
    client.patch(&map, PatchType::Merge, &wrong).await.unwrap();
    eventually("it is told again", is_published).await;
}

async fn roles(client: &Client) {
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = |name: &str, labels: Value, rules: Value, aggregation: Value| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": { "name": name, "labels": labels }, "rules": rules, "aggregationRule": aggregation,
        })
    };
    let gathers = json!({ "clusterRoleSelectors": [{ "matchLabels": { "gathered": "yes" } }] });
    let rules = json!([{ "apiGroups": ["example.com"], "resources": ["things"], "verbs": ["get"] }]);
    client.create(roles, &role("gathering", json!({}), json!([]), gathers)).await.unwrap();
    let given = role("given", json!({ "gathered": "yes" }), rules.clone(), Value::Null);
    client.create(roles, &given).await.unwrap();
    let path = format!("{roles}/gathering");
    eventually("the rules are gathered", async || {
        client.get(&path).await.is_ok_and(|role| role["rules"] == rules)
    })
    .await;
}

async fn quotas(client: &Client) {
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "few" },
        "spec": { "hard": { "secrets": "5", "count/leases.coordination.k8s.io": "3" } },
    });
    let secret = |name: &str| json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name } });
    client.create(&format!("{PLACE}/secrets"), &secret("one")).await.unwrap();
    client.create(&format!("{PLACE}/resourcequotas"), &quota).await.unwrap();
    let path = format!("{PLACE}/resourcequotas/few");
    let uses = async |secrets: &str, leases: &str| {
        let used = json!({ "secrets": secrets, "count/leases.coordination.k8s.io": leases });
        client.get(&path).await.is_ok_and(|quota| quota["status"]["used"] == used)
    };
    eventually("what is there is counted", async || uses("1", "0").await).await;
    client.create(&format!("{PLACE}/secrets"), &secret("two")).await.unwrap();
    eventually("what is new is counted", async || uses("2", "0").await).await;
    for name in ["one", "two"] {
        client.delete(&format!("{PLACE}/secrets/{name}")).await.unwrap();
    }
    eventually("what is gone is no longer counted", async || uses("0", "0").await).await;
}

async fn protection(client: &Client) {
    let claims = format!("{PLACE}/persistentvolumeclaims");
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "claim" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": { "requests": { "storage": "1Gi" } },
        },
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "user" },
        "spec": {
            "nodeName": "somewhere", "automountServiceAccountToken": false,
            "containers": [{ "name": "c", "image": "example.com/c" }],
            "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "claim" } }],
        },
    });
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": "volume" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" }, "hostPath": { "path": "/tmp/nowhere" },
        },
    });
    let volumes = "/api/v1/persistentvolumes";
    client.create(volumes, &volume).await.unwrap();
    client.create(&claims, &claim).await.unwrap();
    client.create(&format!("{PLACE}/pods"), &pod).await.unwrap();
    let (claim, volume) = (format!("{claims}/claim"), format!("{volumes}/volume"));
    for path in [&claim, &volume] {
        eventually("it is protected", async || {
            client.get(path).await.is_ok_and(|object| object["metadata"]["finalizers"][0].is_string())
        })
        .await;
        client.delete(path).await.unwrap();
    }
    eventually("the volume is gone", async || is_gone(client, &volume).await).await;
    assert!(client.get(&claim).await.is_ok(), "a claim that is used stays");
    let at_once = json!({ "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0 });
    client.delete_with(&format!("{PLACE}/pods/user"), &at_once).await.unwrap();
    eventually("the claim is gone", async || is_gone(client, &claim).await).await;
}

async fn certificates(server: &Server<'_>, client: &Client) {
    // This request is approved by a user.
    let key = request(client, "jane", "people", "kubernetes.io/kube-apiserver-client").await;
    let mut approved = client.get(&format!("{REQUESTS}/jane")).await.unwrap();
    approved["status"]["conditions"] =
        json!([{ "type": "Approved", "status": "True", "reason": "Tested", "message": "by a test" }]);
    client.update(&format!("{REQUESTS}/jane/approval"), &approved).await.unwrap();
    let identity = (certificate(client, "jane").await, key);
    assert_eq!(user_name(&client_of(&server.admin.with_identity(&identity.0, &identity.1))).await, "jane");
    // This request is approved automatically.
    let kubelet = "kubernetes.io/kube-apiserver-client-kubelet";
    let key = request(client, "system:node:some", "system:nodes", kubelet).await;
    let identity = (certificate(client, "system:node:some").await, key);
    assert_eq!(
        user_name(&client_of(&server.admin.with_identity(&identity.0, &identity.1))).await,
        "system:node:some"
    );
    let request = client.get(&format!("{REQUESTS}/system:node:some")).await.unwrap();
    assert_eq!(request["status"]["conditions"][0]["reason"], "AutoApproved");
}

/// Requests a certificate, and returns its private key.
async fn request(client: &Client, name: &str, group: &str, signer: &str) -> String {
    let key = KeyPair::generate().unwrap();
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.distinguished_name.push(DnType::OrganizationName, group);
    parameters.distinguished_name.push(DnType::CommonName, name);
    let pem = parameters.serialize_request(&key).unwrap().pem().unwrap();
    let request = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": { "name": name },
        "spec": {
            "request": STANDARD.encode(pem), "signerName": signer, "usages": ["digital signature", "client auth"],
        },
    });
    client.create(REQUESTS, &request).await.unwrap();
    key.serialize_pem()
}

async fn certificate(client: &Client, name: &str) -> String {
    let path = format!("{REQUESTS}/{name}");
    let mut encoded = String::new();
    eventually("there is a certificate", async || {
        let request = client.get(&path).await.unwrap();
        encoded = request["status"]["certificate"].as_str().unwrap_or_default().to_string();
        !encoded.is_empty()
    })
    .await;
    String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap()
}

async fn tokens_in_secrets(server: &Server<'_>, client: &Client) {
    let annotations = json!({ "kubernetes.io/service-account.name": "default" });
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "token", "annotations": annotations },
        "type": "kubernetes.io/service-account-token",
    });
    client.create(&format!("{PLACE}/secrets"), &secret).await.unwrap();
    let path = format!("{PLACE}/secrets/token");
    let mut token = String::new();
    eventually("there is a token", async || {
        let secret = client.get(&path).await.unwrap();
        token = secret["data"]["token"].as_str().unwrap_or_default().to_string();
        !token.is_empty()
    })
    .await;
    let token = String::from_utf8(STANDARD.decode(token).unwrap()).unwrap();
    assert_eq!(
        user_name(&client_of(&server.admin.token(&token))).await,
        "system:serviceaccount:lively:default"
    );
}

/// Returns the user name that the server sees.
async fn user_name(client: &Client) -> String {
    let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let mut name = String::new();
    // The server may accept a new token with a delay.
    eventually("the server accepts the client", async || {
        let review = client.create(path, &review).await;
        let found = review.map(|review| review["status"]["userInfo"]["username"].as_str().map(String::from));
        name = found.ok().flatten().unwrap_or_default();
        !name.is_empty()
    })
    .await;
    name
}

async fn namespaces(client: &Client) {
    let held = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "held", "finalizers": ["example.com/held"] },
    });
    let slow = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "slow", "finalizers": ["example.com/slow"] },
        "spec": { "containers": [{ "name": "c", "image": "example.com/c" }] },
    });
    client.create(&format!("{PLACE}/configmaps"), &held).await.unwrap();
    client.create(&format!("{PLACE}/pods"), &slow).await.unwrap();
    client.delete(PLACE).await.unwrap();
    reports_remaining(client, "pods", "example.com/slow").await;
    let held = format!("{PLACE}/configmaps/held");
    let untouched = client.get(&held).await.unwrap();
    assert!(untouched["metadata"]["deletionTimestamp"].is_null(), "pods are deleted first");
    release(client, &format!("{PLACE}/pods/slow")).await;
    reports_remaining(client, "configmaps", "example.com/held").await;
    release(client, &held).await;
    eventually("the namespace is gone", async || is_gone(client, PLACE).await).await;
}

/// Waits until the conditions of the namespace report one remaining object and its finalizer.
async fn reports_remaining(client: &Client, plural: &str, finalizer: &str) {
    let content = format!("Some resources are remaining: {plural}. has 1 resource instances");
    let finalizers = format!(
        "Some content in the namespace has finalizers remaining: {finalizer} in 1 resource instances"
    );
    let expected = [
        ("NamespaceDeletionDiscoveryFailure", "False", "All resources successfully discovered"),
        ("NamespaceDeletionGroupVersionParsingFailure", "False", "All legacy kube types successfully parsed"),
        (
            "NamespaceDeletionContentFailure",
            "False",
            "All content successfully deleted, may be waiting on finalization",
        ),
        ("NamespaceContentRemaining", "True", &content),
        ("NamespaceFinalizersRemaining", "True", &finalizers),
    ];
    eventually("its conditions say what is left", async || {
        let namespace = client.get(PLACE).await.unwrap();
        let conditions = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().map(|own| (&own["type"], &own["status"], &own["message"]));
        conditions.len() == expected.len()
            && found.zip(expected).all(|(found, (kind, status, message))| {
                found.0 == kind && found.1 == status && found.2 == message
            })
    })
    .await;
}

async fn release(client: &Client, path: &str) {
    let released = json!({ "metadata": { "finalizers": null } });
    client.patch(path, PatchType::Merge, &released).await.unwrap();
}

async fn is_gone(client: &Client, path: &str) -> bool {
    client.get(path).await.is_err_and(|status| status.code() == 404)
}
