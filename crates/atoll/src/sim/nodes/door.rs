//! Where the kubelets of nodes listen that belong to a server elsewhere. Whoever calls shows a certificate, and the server is asked
//! whether its holder may: as real kubelets do.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use atoll_authn::authority::Authority;
use atoll_authn::certificate;
use atoll_client::Client;
use atoll_sim::Door;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::json;
use time::OffsetDateTime;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// Nobody renews the certificate; it is new with every start.
const LIFETIME: Duration = Duration::from_secs(3650 * 86_400);

/// `trusted` has signed what callers show.
pub async fn open(directory: &Path, trusted: &[u8], client: Client) -> Result<Door, String> {
    let words = |error: &dyn std::fmt::Display| format!("kubelets cannot be called: {error}");
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(trusted) {
        roots.add(certificate.map_err(|error| words(&error))?).map_err(|error| words(&error))?;
    }
    let (now, home) = (OffsetDateTime::now_utc(), Ipv4Addr::LOCALHOST.into());
    let authority = Authority::open(directory, now).map_err(|error| words(&error))?;
    let serving = authority.serving(&[], &[home], now, LIFETIME).map_err(|error| words(&error))?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| words(&error))?
        .with_client_cert_verifier(verifier.build().map_err(|error| words(&error))?)
        .with_single_cert(
            vec![serving.certificate_der().map_err(|error| words(&error))?],
            serving.key_der().map_err(|error| words(&error))?,
        )
        .map_err(|error| words(&error))?;
    let listener = TcpListener::bind((home, 0)).await.map_err(|error| words(&error))?;
    Ok(Door {
        listener,
        tls: TlsAcceptor::from(Arc::new(config)),
        admits: Some(Arc::new(move |shown| {
            let client = client.clone();
            Box::pin(async move { may(&client, &shown).await })
        })),
        ports: Arc::default(),
        measurements: Arc::default(),
    })
}

/// Whether the holder of a certificate may do with nodes what only their server does.
async fn may(client: &Client, shown: &[CertificateDer<'static>]) -> bool {
    let holder = shown.first().and_then(|first| certificate::holder(first).ok().flatten());
    let Some(holder) = holder else { return false };
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": holder.user.name,
            "groups": holder.user.groups,
            "resourceAttributes": {"verb": "create", "version": "v1", "resource": "nodes", "subresource": "proxy"},
        },
    });
    match client.create(REVIEWS, &review).await {
        Ok(answer) => answer["status"]["allowed"] == true,
        Err(status) => {
            tracing::warn!(%status, user = holder.user.name, "nobody says whether somebody may call kubelets");
            false
        }
    }
}
