//! A small client for the commands: one connection a request.

use std::sync::Arc;

use atoll_meta::{Status, json};
use bytes::Bytes;
use http::{Method, Request, Response, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::kubeconfig::Context;

pub struct Client {
    /// Scheme, host and port.
    pub origin: String,
    /// What the server's address has behind the port: the workspace.
    pub base: String,
    token: Option<String>,
    tls: Arc<ClientConfig>,
}

/// What went wrong, for a person.
pub enum Problem {
    /// The server said no.
    Refused(Status),
    Failed(String),
}

impl Client {
    pub fn new(context: &Context) -> Result<Self, String> {
        let uri: Uri = context.server.parse().map_err(|error| format!("{:?}: {error}", context.server))?;
        let authority = uri.authority().ok_or_else(|| format!("{:?} has no host", context.server))?;
        Ok(Client {
            origin: format!("https://{authority}"),
            base: uri.path().trim_end_matches('/').to_string(),
            token: context.token.clone(),
            tls: Arc::new(tls(context)?),
        })
    }

    /// A request whose answer is read whole, as JSON.
    pub async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Problem> {
        let body = body.map(json::to_vec).unwrap_or_default();
        let response =
            self.send(method, path, "application/json", Bytes::from(body)).await.map_err(Problem::Failed)?;
        let status = response.status();
        let collected = response.into_body().collect().await;
        let bytes = collected.map_err(|error| Problem::Failed(error.to_string()))?.to_bytes();
        let value = json::parse(&bytes).map(|parsed| parsed.value).unwrap_or_default();
        if status.is_success() {
            return Ok(value);
        }
        match Status::from_value(&value) {
            Some(refusal) => Err(Problem::Refused(refusal)),
            None => Err(Problem::Failed(format!("{}{path} answered {status}", self.origin))),
        }
    }

    /// A request whose answer the caller reads as it comes.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, String> {
        let uri: Uri =
            format!("{}{path}", self.origin).parse().map_err(|error| format!("{path:?}: {error}"))?;
        let stream = connect(&self.origin, self.tls.clone()).await?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        tokio::spawn(connection);
        let mut request = Request::builder()
            .method(method)
            .uri(&uri)
            .header(header::HOST, uri.authority().map_or("", |authority| authority.as_str()))
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, content_type);
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Full::new(body)).map_err(|error| error.to_string())?;
        sender.send_request(request).await.map_err(|error| error.to_string())
    }
}

/// A connection to the server at `origin`.
async fn connect(origin: &str, tls: Arc<ClientConfig>) -> Result<TlsStream<TcpStream>, String> {
    let uri: Uri = origin.parse().map_err(|error| format!("{origin:?}: {error}"))?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_string();
    let port = uri.port_u16().unwrap_or(443);
    let unreachable =
        |error: std::io::Error| format!("cannot reach {origin}: {error}; is the server running?");
    let stream = TcpStream::connect((host.as_str(), port)).await.map_err(unreachable)?;
    stream.set_nodelay(true).map_err(unreachable)?;
    let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
    TlsConnector::from(tls).connect(name, stream).await.map_err(unreachable)
}

/// Who we are, and whom we trust.
fn tls(context: &Context) -> Result<ClientConfig, String> {
    if context.insecure {
        return Err("this context skips TLS verification; give it certificate-authority-data instead".into());
    }
    let mut roots = RootCertStore::empty();
    let pem = context.authority_pem.as_deref().ok_or("this context has no certificate-authority-data")?;
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| format!("certificate-authority: {error}"))?;
        roots.add(certificate).map_err(|error| format!("certificate-authority: {error}"))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    match (&context.certificate_pem, &context.key_pem) {
        (Some(certificate), Some(key)) => {
            let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
            let chain = chain.map_err(|error| format!("client-certificate: {error}"))?;
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("client-key: {error}"))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| error.to_string())
        }
        _ => Ok(builder.with_no_client_auth()),
    }
}

impl From<Problem> for String {
    fn from(problem: Problem) -> String {
        match problem {
            Problem::Refused(status) => status.message().to_string(),
            Problem::Failed(message) => message,
        }
    }
}
