//! A server that answers as much of the Kubernetes API as a syncer needs, and whatever else an attacker wants
//! it to send.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use atoll_testkit::Client;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A response that replaces the default response.
pub enum FakeResponse {
    Json(u16, Value),
    /// JSON that is expensive to make.
    Bytes(Bytes),
    /// The first bytes, and then the second bytes repeatedly. It stops after [`MAX_SENT`] bytes, so that a
    /// program without limits does not use up all memory.
    Endless(Bytes, Bytes),
}

type Behaviour = dyn Fn(&Method, &str) -> Option<FakeResponse> + Send + Sync;
type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The largest number of bytes sent in one response.
const MAX_SENT: usize = 1 << 30;

pub struct FakeCluster {
    pub address: SocketAddr,
    pub authority_pem: String,
    /// The number of accepted connections.
    pub connections: Arc<AtomicUsize>,
}

impl FakeCluster {
    /// Starts a cluster that behaves correctly.
    pub async fn start(name: &str) -> FakeCluster {
        FakeCluster::with(name, |_, _| None).await
    }

    /// Starts a cluster that sends the response of `behaviour`, which gets the method and the path with
    /// query, where it returns one.
    pub async fn with(
        name: &str,
        behaviour: impl Fn(&Method, &str) -> Option<FakeResponse> + Send + Sync + 'static,
    ) -> FakeCluster {
        FakeCluster::with_protocols(name, &["h2", "http/1.1"], behaviour).await
    }

    /// The same with the application protocols that the cluster offers in TLS.
    pub async fn with_protocols(
        name: &str,
        protocols: &[&str],
        behaviour: impl Fn(&Method, &str) -> Option<FakeResponse> + Send + Sync + 'static,
    ) -> FakeCluster {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (mut config, authority_pem) = tls_identity();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let connections = Arc::new(AtomicUsize::new(0));
        let state = Arc::new(FakeState {
            uid: format!("kube-system-of-{name}"),
            objects: Mutex::default(),
            behaviour: Box::new(behaviour),
        });
        let counted = connections.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                let (acceptor, state) = (acceptor.clone(), state.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let is_second = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                    let service = service_fn(move |request| {
                        let state = state.clone();
                        async move { Ok::<_, Infallible>(state.answer(request).await) }
                    });
                    let stream = TokioIo::new(stream);
                    let _ = match is_second {
                        true => {
                            http2::Builder::new(TokioExecutor::new()).serve_connection(stream, service).await
                        }
                        false => http1::Builder::new().serve_connection(stream, service).await,
                    };
                });
            }
        });
        FakeCluster { address, authority_pem, connections }
    }

    pub fn kubeconfig(&self, token: &str) -> String {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{ "name": "c", "cluster": {
                "server": format!("https://{}", self.address),
                "certificate-authority-data": STANDARD.encode(&self.authority_pem),
            } }],
            "users": [{ "name": "u", "user": { "token": token } }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        })
        .to_string()
    }

    /// Registers the cluster in a workspace, to be synced by the control plane.
    pub async fn register(&self, workspace: &Client, name: &str) {
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "atoll-system" } });
        let made = workspace.post("/api/v1/namespaces", namespace).await;
        assert!(matches!(made.status, 201 | 409), "{made:?}");
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": format!("cluster-{name}"), "labels": { "atoll.dev/cluster": name } },
            "data": { "kubeconfig": STANDARD.encode(self.kubeconfig("token")) },
        });
        workspace.post("/api/v1/namespaces/atoll-system/secrets", secret).await.expect(201);
        let cluster = json!({
            "apiVersion": "atoll.dev/v1alpha1", "kind": "Cluster", "metadata": { "name": name },
            "spec": { "mode": "push", "credentials": { "secret": { "namespace": "atoll-system", "name": format!("cluster-{name}") } } },
        });
        workspace.post("/apis/atoll.dev/v1alpha1/clusters", cluster).await.expect(201);
    }
}

struct FakeState {
    uid: String,
    objects: Mutex<HashMap<String, Value>>,
    behaviour: Box<Behaviour>,
}

impl FakeState {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let target = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
        if let Some(answer) = (self.behaviour)(&parts.method, &target) {
            return match answer {
                FakeResponse::Json(code, value) => json_response(code, &value),
                FakeResponse::Bytes(body) => bytes_response(200, body),
                FakeResponse::Endless(first, rest) => {
                    let body = Endless { next: first, rest, sent: 0 };
                    Response::builder()
                        .header("content-type", "application/json")
                        .body(body.boxed_unsync())
                        .unwrap()
                }
            };
        }
        let path = parts.uri.path().to_string();
        let sent = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let sent: Value = serde_json::from_slice(&sent).unwrap_or_default();
        let watches = parts.uri.query().is_some_and(|query| query.contains("watch=true"));
        match parts.method {
            Method::POST => {
                let path = format!("{path}/{}", sent["metadata"]["name"].as_str().unwrap_or_default());
                self.objects.lock().unwrap().insert(path, sent.clone());
                json_response(201, &sent)
            }
            Method::PUT => {
                self.objects.lock().unwrap().insert(path, sent.clone());
                json_response(200, &sent)
            }
            _ if watches => Response::new(
                Endless { next: Bytes::new(), rest: Bytes::new(), sent: MAX_SENT }.boxed_unsync(),
            ),
            _ => match (self.objects.lock().unwrap().get(&path), path.as_str()) {
                (Some(found), _) => json_response(200, found),
                (None, "/api/v1/namespaces/kube-system") => {
                    json_response(200, &json!({ "metadata": { "name": "kube-system", "uid": self.uid } }))
                }
                (None, "/version") => json_response(200, &json!({ "gitVersion": "v1.36.0" })),
                (None, _) if is_collection(&path) => {
                    json_response(200, &json!({ "metadata": { "resourceVersion": "1" }, "items": [] }))
                }
                (None, _) => json_response(
                    404,
                    &json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound" }),
                ),
            },
        }
    }
}

fn is_collection(path: &str) -> bool {
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    match segments[..] {
        ["api", _, ref rest @ ..] | ["apis", _, _, ref rest @ ..] => matches!(rest.len(), 1 | 3),
        _ => false,
    }
}

fn json_response(code: u16, value: &Value) -> Response<Body> {
    bytes_response(code, Bytes::from(value.to_string()))
}

fn bytes_response(code: u16, body: Bytes) -> Response<Body> {
    let body = Full::new(body).boxed_unsync();
    Response::builder().status(code).header("content-type", "application/json").body(body).unwrap()
}

struct Endless {
    next: Bytes,
    rest: Bytes,
    sent: usize,
}

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.sent >= MAX_SENT {
            // Never woken: the connection stays open.
            return Poll::Pending;
        }
        let rest = self.rest.clone();
        let next = std::mem::replace(&mut self.next, rest);
        self.sent += next.len().max(1);
        Poll::Ready(Some(Ok(Frame::data(next))))
    }
}

/// Returns a TLS configuration and the authority that signed its certificate.
fn tls_identity() -> (ServerConfig, String) {
    let key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::default();
    authority.distinguished_name.push(DnType::CommonName, "fake");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_pem = authority.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(authority, key);
    let mut parameters = CertificateParams::default();
    parameters.subject_alt_names =
        vec![SanType::IpAddress([127, 0, 0, 1].into()), SanType::DnsName("localhost".try_into().unwrap())];
    let own = KeyPair::generate().unwrap();
    (server_config(&parameters.signed_by(&own, &issuer).unwrap(), &own), authority_pem)
}

/// Returns the TLS configuration of a server with this certificate.
pub fn server_config(certificate: &Certificate, key: &KeyPair) -> ServerConfig {
    let chain = vec![certificate.der().clone()];
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    builder.with_no_client_auth().with_single_cert(chain, key).unwrap()
}

/// Returns status, reason and message of a condition of a Cluster.
pub async fn condition(workspace: &Client, cluster: &str, kind: &str) -> [String; 3] {
    let found = workspace.get(&format!("/apis/atoll.dev/v1alpha1/clusters/{cluster}")).await.expect(200);
    let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default();
    ["status", "reason", "message"].map(|field| found[field].as_str().unwrap_or_default().to_string())
}
