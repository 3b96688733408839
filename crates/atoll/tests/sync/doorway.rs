//! A door before a cluster: people come through, or find one of the many ways in which servers are not reached.

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
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use time::{Duration, OffsetDateTime};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// What whoever comes finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// The cluster.
    Cluster,
    /// Somebody who takes connections and says nothing, not even who it is.
    Nothing,
    /// The same, but that it says who it is.
    Silence,
    /// Somebody with a certificate that is not valid any more, or not yet.
    Expired,
    NotYet,
    /// With one of an authority that nobody knows, and with one for another name.
    Stranger,
    Namesake,
    /// Somebody who answers everything with this.
    Answer(u16),
}

pub struct Doorway {
    pub address: SocketAddr,
    behind: watch::Sender<Behind>,
}

impl Doorway {
    /// Before the cluster at an address, with the authority of which it makes certificates.
    pub async fn before(cluster: &str, directory: &Path) -> Doorway {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (behind, seen) = watch::channel(Behind::Cluster);
        let key = std::fs::read_to_string(directory.join("ca.key")).unwrap();
        let cluster: Arc<str> = cluster.into();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let mut changes = seen.clone();
                let behind = *changes.borrow_and_update();
                let (cluster, key) = (cluster.clone(), key.clone());
                tokio::spawn(async move {
                    let visit = async {
                        match behind {
                            Behind::Cluster => through(stream, &cluster).await,
                            Behind::Nothing => {
                                // It stays open for as long as this is so.
                                let _held = stream;
                                std::future::pending().await
                            }
                            other => meet(stream, other, &key).await,
                        }
                    };
                    // Whoever is inside has to come again when it changes.
                    tokio::select! {
                        () = visit => {}
                        _ = changes.changed() => {}
                    }
                });
            }
        });
        Doorway { address, behind }
    }

    pub fn put(&self, behind: Behind) {
        self.behind.send_replace(behind);
    }
}

async fn through(mut stream: TcpStream, cluster: &str) {
    if let Ok(mut other) = TcpStream::connect(cluster).await {
        // It ends when one of them does.
        let _ = tokio::io::copy_bidirectional(&mut stream, &mut other).await;
    }
}

/// As somebody who is not the cluster, or says that it cannot serve.
async fn meet(stream: TcpStream, behind: Behind, key: &str) {
    let acceptor = TlsAcceptor::from(Arc::new(identity(behind, key)));
    // Whoever does not trust it hangs up.
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let is_second = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let service = service_fn(move |_: Request<Incoming>| async move {
        match behind {
            Behind::Answer(code) => Ok::<_, Infallible>(answer(code)),
            _ => std::future::pending().await,
        }
    });
    let stream = TokioIo::new(stream);
    let _ = match is_second {
        true => http2::Builder::new(TokioExecutor::new()).serve_connection(stream, service).await,
        false => http1::Builder::new().serve_connection(stream, service).await,
    };
}

fn answer(code: u16) -> Response<Full<Bytes>> {
    let reason = match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason,
        "message": format!("the door says {code}"),
    });
    let response = Response::builder().status(code).header("content-type", "application/json");
    response.header("retry-after", "1").body(Full::new(Bytes::from(status.to_string()))).unwrap()
}

fn identity(behind: Behind, key: &str) -> ServerConfig {
    let key = match behind {
        Behind::Stranger => KeyPair::generate().unwrap(),
        _ => KeyPair::from_pem(key).unwrap(),
    };
    let mut authority = CertificateParams::default();
    authority.distinguished_name = DistinguishedName::new();
    authority.distinguished_name.push(DnType::CommonName, "atoll-ca");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = Issuer::new(authority, key);
    let mut parameters = CertificateParams::default();
    parameters.subject_alt_names = match behind {
        Behind::Namesake => vec![SanType::DnsName("elsewhere.example".try_into().unwrap())],
        _ => vec![SanType::IpAddress([127, 0, 0, 1].into())],
    };
    let now = OffsetDateTime::now_utc();
    (parameters.not_before, parameters.not_after) = match behind {
        Behind::Expired => (now - Duration::days(2), now - Duration::days(1)),
        Behind::NotYet => (now + Duration::days(1), now + Duration::days(2)),
        _ => (now - Duration::days(1), now + Duration::days(1)),
    };
    let own = KeyPair::generate().unwrap();
    let certificate = parameters.signed_by(&own, &issuer).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(certificate.pem().as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(own.serialize_pem().as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_no_client_auth().with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}
