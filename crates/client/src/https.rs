//! Any API server, over the network.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;

use crate::{BoxError, BoxFuture, ResponseBody, Transport};

/// How soon it is noticed that nobody is there any longer.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// How much may be under way on one connection.
const WINDOW: u32 = 8 << 20;

/// Where a server is and who asks.
#[derive(Clone, Default)]
pub struct Endpoint {
    /// `https://host:port`, and what paths begin with.
    pub server: String,
    pub authority_pem: Vec<u8>,
    pub certificate_pem: Option<Vec<u8>>,
    pub key_pem: Option<Vec<u8>>,
    pub token: Option<String>,
}

/// Two connections over HTTP/2, so that many watches leave room for other requests. One that breaks is opened again for
/// the next request.
pub struct Https {
    host: String,
    port: u16,
    origin: String,
    base: String,
    authorization: Option<HeaderValue>,
    tls: TlsConnector,
    requests: Mutex<Option<Connection>>,
    watches: Mutex<Option<Connection>>,
}

type Connection = SendRequest<Full<Bytes>>;

#[cfg(feature = "kubeconfig")]
impl Endpoint {
    /// Where a context leads, if there is a way to know that it does.
    pub fn of(context: crate::kubeconfig::Context) -> Result<Endpoint, String> {
        if context.insecure {
            return Err("it skips TLS verification; give it certificate-authority-data instead".into());
        }
        Ok(Endpoint {
            server: context.server,
            authority_pem: context.authority_pem.ok_or("it has no certificate-authority-data")?,
            certificate_pem: context.certificate_pem,
            key_pem: context.key_pem,
            token: context.token,
        })
    }
}

impl Https {
    pub fn new(endpoint: &Endpoint) -> Result<Https, String> {
        let uri: Uri = endpoint.server.parse().map_err(|error| format!("{:?}: {error}", endpoint.server))?;
        let authority = uri.authority().ok_or_else(|| format!("{:?} has no host", endpoint.server))?;
        let authorization = match &endpoint.token {
            Some(token) => {
                let mut value = HeaderValue::try_from(format!("Bearer {token}"))
                    .map_err(|_| "the token has characters that cannot be sent")?;
                value.set_sensitive(true);
                Some(value)
            }
            None => None,
        };
        Ok(Https {
            host: authority.host().trim_matches(['[', ']']).to_string(),
            port: authority.port_u16().unwrap_or(443),
            origin: format!("https://{authority}"),
            base: uri.path().trim_end_matches('/').to_string(),
            authorization,
            tls: TlsConnector::from(Arc::new(tls(endpoint)?)),
            requests: Mutex::default(),
            watches: Mutex::default(),
        })
    }

    async fn connection(&self, is_watch: bool) -> Result<Connection, BoxError> {
        let mut current = if is_watch { &self.watches } else { &self.requests }.lock().await;
        if let Some(open) = current.as_ref().filter(|open| !open.is_closed()) {
            return Ok(open.clone());
        }
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        let stream = self.tls.connect(ServerName::try_from(self.host.clone())?, stream).await?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(KEEP_ALIVE)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .handshake(TokioIo::new(stream))
            .await?;
        tokio::spawn(connection);
        *current = Some(sender.clone());
        Ok(sender)
    }
}

impl Transport for Https {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            let is_watch = parts.uri.query().is_some_and(|query| query.contains("watch=true"));
            parts.uri = format!("{}{}{}", self.origin, self.base, parts.uri).parse()?;
            if let Some(authorization) = &self.authorization {
                parts.headers.insert(header::AUTHORIZATION, authorization.clone());
            }
            let mut connection = self.connection(is_watch).await?;
            connection.ready().await?;
            let response = connection.send_request(Request::from_parts(parts, Full::new(body))).await?;
            Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()))
        })
    }
}

fn tls(endpoint: &Endpoint) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&endpoint.authority_pem) {
        let certificate = certificate.map_err(|error| format!("certificate-authority: {error}"))?;
        roots.add(certificate).map_err(|error| format!("certificate-authority: {error}"))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let mut config = match (&endpoint.certificate_pem, &endpoint.key_pem) {
        (Some(certificate), Some(key)) => {
            let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
            let chain = chain.map_err(|error| format!("client-certificate: {error}"))?;
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("client-key: {error}"))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| error.to_string())?
        }
        _ => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}
