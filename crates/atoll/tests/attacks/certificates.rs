//! Certificates of a workspace are accepted by its API and by no program that trusts the control plane's
//! authority.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use atoll_client::https::dial;
use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client, Kubectl};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyPair, SanType,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::bindings::{TenantServer, WORKSPACES, create_tenant_workspace};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const SELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// Creates a CertificateSigningRequest.
pub async fn signing_request(client: &Client, name: &str, signer: &str, usages: &[&str], pem: &str) {
    let request = json!({
        "metadata": { "name": name },
        "spec": { "request": STANDARD.encode(pem), "signerName": format!("kubernetes.io/{signer}"), "usages": usages },
    });
    client.post(REQUESTS, request).await.expect(201);
}

pub async fn approve(client: &Client, name: &str) {
    let path = format!("{REQUESTS}/{name}");
    let mut request = client.get(&path).await.expect(200);
    request["status"]["conditions"] = json!([{ "type": "Approved", "status": "True", "reason": "Test" }]);
    client.put(&format!("{path}/approval"), request).await.expect(200);
}

/// Waits until an approved request is signed and returns the certificate as PEM.
pub async fn certificate(client: &Client, name: &str) -> String {
    let mut certificate = String::new();
    eventually("the certificate is signed", async || {
        let request = client.get(&format!("{REQUESTS}/{name}")).await.expect(200);
        let encoded = request["status"]["certificate"].as_str().unwrap_or_default();
        certificate = String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap();
        !certificate.is_empty()
    })
    .await;
    certificate
}

/// Returns a certificate signing request and its private key, both as PEM.
pub fn certificate_request(subject: &[(DnType, &str)], names: Vec<SanType>) -> (String, String) {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    for (kind, value) in subject {
        parameters.distinguished_name.push(kind.clone(), *value);
    }
    parameters.subject_alt_names = names;
    let key = KeyPair::generate().unwrap();
    (parameters.serialize_request(&key).unwrap().pem().unwrap(), key.serialize_pem())
}

fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

fn roots(path: &Path) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add(der(&std::fs::read_to_string(path).unwrap())).unwrap();
    Arc::new(roots)
}

/// Returns whether a client with the kubeconfig of `client` accepts a server with this certificate as the API
/// server.
async fn is_accepted_as_server(client: &Client, certificate: &str, key: &str, name: &str) -> bool {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![der(certificate)], PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap())
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        // The client may close the connection during the handshake.
        let _ = TlsAcceptor::from(Arc::new(config)).accept(stream).await;
    });
    let stream = TcpStream::connect(address).await.unwrap();
    let connected = dial::secure(stream, name, Arc::new(client.tls(&["http/1.1"]))).await;
    serving.await.unwrap();
    connected.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_kubeconfig_accepts_the_serving_certificate_of_a_kubelet() {
    let server = TenantServer::start(&["owner"], &[]);
    let admin = server.admin();
    create_tenant_workspace(&admin, "root", "team", "owner").await;
    let names = || {
        let dns = ["localhost", "kubernetes", "kubernetes.default.svc"];
        let dns = dns.map(|name| SanType::DnsName(name.try_into().unwrap()));
        [SanType::IpAddress([127, 0, 0, 1].into())].into_iter().chain(dns).collect()
    };
    let node = [(DnType::CommonName, "system:node:m"), (DnType::OrganizationName, "system:nodes")];
    for client in [server.user("owner", "root:team"), admin.clone()] {
        let (pem, key) = certificate_request(&node, names());
        let usages = ["digital signature", "key encipherment", "server auth"];
        signing_request(&client, "m", "kubelet-serving", &usages, &pem).await;
        approve(&client, "m").await;
        let certificate = certificate(&client, "m").await;
        for name in ["127.0.0.1", "localhost", "kubernetes.default.svc"] {
            assert!(
                !is_accepted_as_server(&admin, &certificate, &key, name).await,
                "{} as {name}",
                client.base()
            );
        }
        // Clients that want to verify kubelets can do so.
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let trusted = roots(&server.atoll.directory.join("kubelet-ca.crt"));
        let verifier = rustls::client::WebPkiServerVerifier::builder_with_provider(trusted, provider);
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let verifier: Arc<dyn rustls::client::danger::ServerCertVerifier> = verifier.build().unwrap();
        verifier.verify_server_cert(&der(&certificate), &[], &name, &[], UnixTime::now()).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn client_certificates_of_a_workspace_are_accepted_by_its_api_only() {
    let server = TenantServer::start(&["owner"], &[]);
    let admin = server.admin();
    create_tenant_workspace(&admin, "root", "team", "owner").await;
    let owner = server.user("owner", "root:team");
    // With the name that kubelets and aggregated API servers grant all rights to.
    let (pem, key) =
        certificate_request(&[(DnType::CommonName, "kube-apiserver-kubelet-client")], Vec::new());
    signing_request(&owner, "chief", "kube-apiserver-client", &["client auth"], &pem).await;
    approve(&owner, "chief").await;
    let certificate = certificate(&owner, "chief").await;
    let chief = owner.with_identity(&certificate, &key);
    let me = chief.post(SELF, json!({})).await.expect(201);
    assert_eq!(me["status"]["userInfo"]["username"], "kube-apiserver-kubelet-client");
    for elsewhere in ["root", "*"] {
        chief.workspace(elsewhere).get("/api").await.expect(401);
    }
    // Programs without support for workspaces trust `ca.crt`, as `extension-apiserver-authentication` tells
    // them.
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let trusted = roots(&server.atoll.directory.join("ca.crt"));
    let verifier = WebPkiClientVerifier::builder_with_provider(trusted, provider).build().unwrap();
    let verified = verifier.verify_client_cert(&der(&certificate), &[], UnixTime::now());
    assert!(verified.is_err(), "a program that trusts ca.crt accepts it");
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_works_with_a_certificate_of_a_workspace() {
    let server = TenantServer::start(&["owner"], &[]);
    let admin = server.admin();
    let team = create_tenant_workspace(&admin, "root", "team", "owner").await;
    let owner = server.user("owner", "root:team");
    let (pem, key) = certificate_request(&[(DnType::CommonName, "owner")], Vec::new());
    signing_request(&owner, "mine", "kube-apiserver-client", &["client auth"], &pem).await;
    approve(&owner, "mine").await;
    let certificate = certificate(&owner, "mine").await;
    let place = tempfile::tempdir().unwrap();
    let kubeconfig = place.path().join("kubeconfig");
    std::fs::write(&kubeconfig, team.with_identity(&certificate, &key).kubeconfig()).unwrap();
    let Some(kubectl) = Kubectl::new(&kubeconfig) else { return };
    let me = kubectl.json("auth whoami");
    assert_eq!(me["status"]["userInfo"]["username"], "owner", "{me}");
    kubectl.run("create configmap made-by-kubectl");
    assert!(kubectl.run("get configmaps -o name").contains("configmap/made-by-kubectl"));
}

/// Serves as the kubelet of a node in root with this certificate. Returns the response to a request for the
/// log of a Pod on that node.
async fn log_from_kubelet(admin: &Client, node: &str, certificate: &str, key: &str) -> (u16, String) {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![der(certificate)], PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap())
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        // The server may close the connection during the handshake.
        let Ok(mut stream) = TlsAcceptor::from(Arc::new(config)).accept(stream).await else { return };
        let _ = stream.read(&mut [0; 4096]).await;
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
        let _ = stream.write_all(answer.as_bytes()).await;
        let _ = stream.shutdown().await;
    });
    run_pod(admin, node, port).await;
    let answer = admin.get(&format!("/api/v1/namespaces/default/pods/{node}/log")).await;
    serving.await.unwrap();
    (answer.status, answer.text())
}

/// Creates a node in root whose kubelet listens on a local port, and a Pod of the same name on it.
async fn run_pod(admin: &Client, node: &str, port: u16) {
    admin.post("/api/v1/nodes", json!({ "metadata": { "name": node } })).await.expect(201);
    let status = json!({ "status": {
        "addresses": [{ "type": "InternalIP", "address": "127.0.0.1" }],
        "daemonEndpoints": { "kubeletEndpoint": { "Port": port } },
    } });
    admin.merge(&format!("/api/v1/nodes/{node}/status"), status).await.expect(200);
    let pod = json!({
        "metadata": { "name": node },
        "spec": { "nodeName": node, "containers": [{ "name": "c", "image": "x" }] },
    });
    admin.post("/api/v1/namespaces/default/pods", pod).await.expect(201);
}

/// A tenant requests a kubelet serving certificate for the address of a node in root.
#[tokio::test(flavor = "multi_thread")]
async fn kubelet_certificate_of_a_tenant_is_not_accepted_for_a_node_of_root() {
    let data = tempfile::tempdir().unwrap();
    // The server creates the authority when it starts, so the flag names a file that is written afterwards.
    let trusted = data.path().join("kubelet-ca.crt");
    let server = TenantServer::start_in(
        data.path(),
        &["owner"],
        &[("--kubelet-certificate-authority", trusted.to_str().unwrap())],
    );
    let admin = server.admin();
    create_tenant_workspace(&admin, "root", "team", "owner").await;
    let node = [(DnType::CommonName, "system:node:m"), (DnType::OrganizationName, "system:nodes")];
    for (client, name, is_accepted_as_server) in
        [(admin.clone(), "of-root", true), (server.user("owner", "root:team"), "of-team", false)]
    {
        let (pem, key) = certificate_request(&node, vec![SanType::IpAddress([127, 0, 0, 1].into())]);
        let usages = ["digital signature", "key encipherment", "server auth"];
        signing_request(&client, "m", "kubelet-serving", &usages, &pem).await;
        approve(&client, "m").await;
        let certificate = certificate(&client, "m").await;
        let (status, text) = log_from_kubelet(&admin, name, &certificate, &key).await;
        assert_eq!(status == 200 && text == "ok", is_accepted_as_server, "{name}: {status} {text}");
    }
}

/// Returns a certificate for `user` as older servers signed it for a workspace, with the first object
/// identifier.
fn old_certificate(directory: &Path, user: &str, workspace: &str) -> (String, String) {
    let key = KeyPair::from_pem(&std::fs::read_to_string(directory.join("ca.key")).unwrap()).unwrap();
    let mut authority = CertificateParams::default();
    authority.distinguished_name = DistinguishedName::new();
    authority.distinguished_name.push(DnType::CommonName, "atoll-ca");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, user);
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let id: Vec<u8> =
        [0x0c, u8::try_from(workspace.len()).unwrap()].into_iter().chain(workspace.bytes()).collect();
    let extension = CustomExtension::from_oid_content(&[2, 25, 2_859_407_461, 1], id);
    parameters.custom_extensions = vec![extension];
    let own = KeyPair::generate().unwrap();
    let certificate = parameters.signed_by(&own, &Issuer::new(authority, key)).unwrap();
    (certificate.pem(), own.serialize_pem())
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_and_directories_of_older_versions_stay_valid() {
    let mut atoll = Atoll::start();
    let admin = atoll.admin();
    let created = admin.post(WORKSPACES, json!({ "metadata": { "name": "team" } })).await.expect(201);
    let id = created["status"]["id"].as_str().unwrap();
    // Restore the state in which an older version leaves a directory.
    let first = std::fs::read_to_string(atoll.directory.join("ca.crt")).unwrap();
    for authority in ["kubelet-ca", "workspace-ca"] {
        for extension in ["crt", "key"] {
            std::fs::remove_file(atoll.directory.join(format!("{authority}.{extension}"))).unwrap();
        }
    }
    atoll.kill();
    atoll.restart();
    assert_eq!(std::fs::read_to_string(atoll.directory.join("ca.crt")).unwrap(), first);
    let mut authorities = vec![first];
    for authority in ["kubelet-ca", "workspace-ca"] {
        for extension in ["crt", "key"] {
            let path = atoll.directory.join(format!("{authority}.{extension}"));
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", path.display());
        }
        authorities.push(std::fs::read_to_string(atoll.directory.join(format!("{authority}.crt"))).unwrap());
    }
    authorities.sort();
    authorities.dedup();
    assert_eq!(authorities.len(), 3, "the three authorities are different");
    let admin = atoll.admin();
    let (certificate, key) = old_certificate(&atoll.directory, "ann", id);
    let ann = admin.with_identity(&certificate, &key);
    let me = ann.workspace("root:team").post(SELF, json!({})).await.expect(201);
    assert_eq!(me["status"]["userInfo"]["username"], "ann");
    ann.get("/api").await.expect(401);
}

/// Calls the kubelet of a node in root and returns the client certificate that the server presented to it.
async fn certificate_presented_to_kubelets(atoll: &Atoll) -> CertificateDer<'static> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let trusted = roots(&atoll.directory.join("ca.crt"));
    let verifier = WebPkiClientVerifier::builder_with_provider(trusted, provider.clone()).build().unwrap();
    let own = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    let key = PrivateKeyDer::from_pem_slice(own.signing_key.serialize_pem().as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![own.cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let shown: Arc<Mutex<Option<CertificateDer<'static>>>> = Arc::default();
    let seen = shown.clone();
    let serving = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = TlsAcceptor::from(Arc::new(config)).accept(stream).await.unwrap();
        let certificate = stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned();
        *seen.lock().unwrap() = Some(certificate);
        let _ = stream.read(&mut [0; 4096]).await;
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
    });
    let admin = atoll.admin();
    run_pod(&admin, "m", port).await;
    assert_eq!(admin.get("/api/v1/namespaces/default/pods/m/log").await.text(), "ok");
    serving.await.unwrap();
    let shown = shown.lock().unwrap().take();
    shown.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn kubelet_client_certificate_is_not_accepted_by_the_api() {
    let atoll = Atoll::start();
    let holder =
        atoll_authn::certificate::holder(&certificate_presented_to_kubelets(&atoll).await).unwrap().unwrap();
    assert_eq!(holder.user.name, "kube-apiserver-kubelet-client");
    assert_eq!(holder.user.groups, ["system:authenticated"]);
    // Kubelets ask whether the identity may use the kubelet API. A stolen certificate grants that and no
    // more.
    let admin = atoll.admin();
    let may = async |verb: &str, resource: &str, subresource: &str| {
        let review = json!({ "spec": {
            "user": holder.user.name,
            "groups": holder.user.groups,
            "resourceAttributes": { "verb": verb, "version": "v1", "resource": resource, "subresource": subresource },
        } });
        let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        admin.post(reviews, review).await.expect(201)["status"]["allowed"] == true
    };
    assert!(may("create", "nodes", "proxy").await && may("get", "nodes", "stats").await);
    for (verb, resource) in [("list", "secrets"), ("create", "pods"), ("delete", "nodes")] {
        assert!(!may(verb, resource, "").await, "{verb} {resource}");
    }
}
