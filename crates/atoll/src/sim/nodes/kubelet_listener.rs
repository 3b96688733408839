//! The kubelets' listener of simulated nodes with an API server in another process. Clients are authenticated
//! by certificate and authorized by a SubjectAccessReview, as in real kubelets.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use atoll_authn::authority::Authority;
use atoll_authn::certificate;
use atoll_client::Client;
use atoll_sim::KubeletListener;
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
/// The certificate is created at every start and never renewed.
const LIFETIME: Duration = Duration::from_secs(3650 * 86_400);

/// Opens the listener. `trusted` is the CA of client certificates, and `client` creates the
/// SubjectAccessReviews. Also returns the kubelets' CA as PEM.
pub async fn open(
    directory: &Path,
    trusted: &[u8],
    client: Client,
) -> Result<(KubeletListener, String), String> {
    let failure = |error: &dyn std::fmt::Display| format!("cannot listen for the kubelets: {error}");
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(trusted) {
        roots.add(certificate.map_err(|error| failure(&error))?).map_err(|error| failure(&error))?;
    }
    let (now, home) = (OffsetDateTime::now_utc(), Ipv4Addr::LOCALHOST.into());
    let authority = Authority::open(directory, now).map_err(|error| failure(&error))?;
    let serving = authority.serving(&[], &[home], now, LIFETIME).map_err(|error| failure(&error))?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failure(&error))?
        .with_client_cert_verifier(verifier.build().map_err(|error| failure(&error))?)
        .with_single_cert(
            vec![serving.certificate_der().map_err(|error| failure(&error))?],
            serving.key_der().map_err(|error| failure(&error))?,
        )
        .map_err(|error| failure(&error))?;
    let listener = TcpListener::bind((home, 0)).await.map_err(|error| failure(&error))?;
    let kubelet_listener = KubeletListener {
        listener,
        tls: TlsAcceptor::from(Arc::new(config)),
        admits: Some(Arc::new(move |shown| {
            let client = client.clone();
            Box::pin(async move { is_allowed(&client, &shown).await })
        })),
        ports: Arc::default(),
        measurements: Arc::default(),
    };
    Ok((kubelet_listener, authority.certificate_pem.clone()))
}

/// Whether the holder of a certificate may access nodes/proxy.
async fn is_allowed(client: &Client, shown: &[CertificateDer<'static>]) -> bool {
    let holder = shown.first().and_then(|first| certificate::holder(first).ok().flatten());
    // A certificate that is valid in one workspace only is not the server's.
    let Some(holder) = holder.filter(|holder| holder.workspace.is_none()) else { return false };
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
            tracing::warn!(%status, user = holder.user.name, "cannot authorize a client of the kubelets; rejecting it");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use atoll_client::{BoxError, BoxFuture, ResponseBody, Transport};
    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::{BodyExt, Full};
    use serde_json::Value;

    use super::*;

    /// A server that allows one user and records the reviews.
    struct AccessReviewServer {
        admitted: &'static str,
        reviews: Mutex<Vec<Value>>,
    }

    impl Transport for AccessReviewServer {
        fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
            Box::pin(async move {
                let review: Value = serde_json::from_slice(request.body())?;
                let allowed = review["spec"]["user"] == self.admitted;
                self.reviews.lock().unwrap().push(review["spec"].clone());
                let answer = Full::from(json!({"status": {"allowed": allowed}}).to_string());
                Ok(Response::new(answer.map_err(BoxError::from).boxed_unsync()))
            })
        }
    }

    #[tokio::test]
    async fn only_authorized_clients_are_admitted() {
        let (directory, server) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let now = OffsetDateTime::now_utc();
        let authority = Authority::open(server.path(), now).unwrap();
        let server_stub = Arc::new(AccessReviewServer { admitted: "server", reviews: Mutex::default() });
        let client = Client::new(server_stub.clone());
        let (kubelet_listener, _) =
            open(directory.path(), authority.certificate_pem.as_bytes(), client).await.unwrap();
        let admits = kubelet_listener.admits.unwrap();
        for (name, expected) in [("server", true), ("stranger", false)] {
            let shown = authority.client(name, Some("some"), now, LIFETIME).unwrap();
            assert_eq!(admits(vec![shown.certificate_der().unwrap()]).await, expected, "{name}");
        }
        assert!(!admits(Vec::new()).await, "no certificate");
        assert!(!admits(vec![CertificateDer::from(vec![1, 2, 3])]).await, "an invalid certificate");
        let reviews = server_stub.reviews.lock().unwrap();
        let expected =
            json!({"verb": "create", "version": "v1", "resource": "nodes", "subresource": "proxy"});
        assert_eq!((reviews.len(), &reviews[0]["resourceAttributes"]), (2, &expected));
        assert!(reviews[0]["groups"].to_string().contains("some"));
    }
}
