//! A proxy in front of a cluster that passes connections through or simulates the many ways in which a server
//! is not reachable.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, SanType};
use rustls::ServerConfig;
use serde_json::json;
use time::{Duration, OffsetDateTime};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::fake_cluster::server_config;

/// The behaviour of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyMode {
    /// The cluster.
    Cluster,
    /// Accepts connections and sends nothing, not even a certificate.
    NoHandshake,
    /// Completes the TLS handshake and then sends nothing.
    NoResponse,
    /// A certificate that has expired, and one that is not valid yet.
    Expired,
    NotYetValid,
    /// A certificate of an unknown authority, and one for another name.
    UnknownAuthority,
    WrongName,
    /// Answers every request with this status code.
    Status(u16),
}

pub struct FaultyProxy {
    pub address: SocketAddr,
    mode: watch::Sender<ProxyMode>,
}

impl FaultyProxy {
    /// Starts a proxy for the cluster at an address. Its certificates are signed by the authority in
    /// `directory`.
    pub async fn start_for(cluster: &str, directory: &Path) -> FaultyProxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (mode, seen) = watch::channel(ProxyMode::Cluster);
        let key = std::fs::read_to_string(directory.join("ca.key")).unwrap();
        let cluster: Arc<str> = cluster.into();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let mut changes = seen.clone();
                let mode = *changes.borrow_and_update();
                let (cluster, key) = (cluster.clone(), key.clone());
                tokio::spawn(async move {
                    let connection = async {
                        match mode {
                            ProxyMode::Cluster => forward(stream, &cluster).await,
                            ProxyMode::NoHandshake => {
                                // The connection stays open while this mode is active.
                                let _open = stream;
                                std::future::pending().await
                            }
                            other => serve(stream, other, &key).await,
                        }
                    };
                    // A change of the mode closes existing connections.
                    tokio::select! {
                        () = connection => {}
                        _ = changes.changed() => {}
                    }
                });
            }
        });
        FaultyProxy { address, mode }
    }

    pub fn set_mode(&self, mode: ProxyMode) {
        self.mode.send_replace(mode);
    }
}

async fn forward(mut stream: TcpStream, cluster: &str) {
    if let Ok(mut other) = TcpStream::connect(cluster).await {
        // Ends when either side closes.
        let _ = tokio::io::copy_bidirectional(&mut stream, &mut other).await;
    }
}

/// Serves as a server that is not the cluster, or as a cluster that cannot serve.
async fn serve(stream: TcpStream, mode: ProxyMode, key: &str) {
    let acceptor = TlsAcceptor::from(Arc::new(tls_config(mode, key)));
    // A client that does not trust the certificate disconnects.
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let service = service_fn(move |_: Request<Incoming>| async move {
        match mode {
            ProxyMode::Status(code) => Ok::<_, Infallible>(error_response(code)),
            _ => std::future::pending().await,
        }
    });
    let stream = TokioIo::new(stream);
    let _ = match is_http2 {
        true => http2::Builder::new(TokioExecutor::new()).serve_connection(stream, service).await,
        false => http1::Builder::new().serve_connection(stream, service).await,
    };
}

fn error_response(code: u16) -> Response<Full<Bytes>> {
    let reason = match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason,
        "message": format!("the proxy answers {code}"),
    });
    let response = Response::builder().status(code).header("content-type", "application/json");
    response.header("retry-after", "1").body(Full::new(Bytes::from(status.to_string()))).unwrap()
}

fn tls_config(mode: ProxyMode, key: &str) -> ServerConfig {
    let key = match mode {
        ProxyMode::UnknownAuthority => KeyPair::generate().unwrap(),
        _ => KeyPair::from_pem(key).unwrap(),
    };
    let mut authority = CertificateParams::default();
    authority.distinguished_name = DistinguishedName::new();
    authority.distinguished_name.push(DnType::CommonName, "atoll-ca");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = Issuer::new(authority, key);
    let mut parameters = CertificateParams::default();
    parameters.subject_alt_names = match mode {
        ProxyMode::WrongName => vec![SanType::DnsName("elsewhere.example".try_into().unwrap())],
        _ => vec![SanType::IpAddress([127, 0, 0, 1].into())],
    };
    let now = OffsetDateTime::now_utc();
    (parameters.not_before, parameters.not_after) = match mode {
        ProxyMode::Expired => (now - Duration::days(2), now - Duration::days(1)),
        ProxyMode::NotYetValid => (now + Duration::days(1), now + Duration::days(2)),
        _ => (now - Duration::days(1), now + Duration::days(1)),
    };
    let own = KeyPair::generate().unwrap();
    let mut config = server_config(&parameters.signed_by(&own, &issuer).unwrap(), &own);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}
