//! HTTPS: the transport to an API server, and its parts for connections of other kinds.
//!
//! ```text
//!   Https (API servers) ────────────┐
//!   the server (kubelets and Pods) ─┼─► dial: name, address rule, TCP, TLS ─► http1 or HTTP/2
//!   clients of tests ───────────────┘     ▲             └─ upgrade
//!                                         └ tls: configurations and certificates
//! ```

pub mod dial;
pub mod http1;
pub mod tls;
mod upgrade;

use std::io::ErrorKind;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::client::TlsStream;

use crate::connect_error::{Cause, ConnectError};
use crate::dialing::TenantAddresses;
use crate::{BoxError, BoxFuture, ResponseBody, Transport};

/// Interval of HTTP/2 keep-alive pings, which detect a dead connection.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// Timeout for a new connection, including TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// HTTP/2 flow-control window of a connection.
const WINDOW: u32 = 8 << 20;

/// Address and credentials of a server.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// `https://host:port` and an optional path prefix.
    pub server: String,
    pub authority_pem: Vec<u8>,
    pub certificate_pem: Option<Vec<u8>>,
    pub key_pem: Option<Vec<u8>>,
    pub token: Option<String>,
}

/// Two HTTP/2 connections, so that watches do not take the streams of other requests. A broken connection is
/// opened again for the next request. If the server does not select HTTP/2, it is HTTP/1.1.
pub struct Https {
    host: String,
    port: u16,
    origin: String,
    base: String,
    authorization: std::sync::Mutex<Option<HeaderValue>>,
    authority_pem: Vec<u8>,
    tls: std::sync::Mutex<TlsConfigs>,
    connect_timeout: Duration,
    /// Restriction on the address, if a tenant specified it.
    tenants: Option<Arc<TenantAddresses>>,
    requests: Mutex<Option<SendRequest<Full<Bytes>>>>,
    watches: Mutex<Option<SendRequest<Full<Bytes>>>>,
    /// HTTP/1.1 connections.
    kept: http1::KeptConnections,
}

/// Configurations with the same certificates.
#[derive(Clone)]
struct TlsConfigs {
    all: Arc<ClientConfig>,
    /// For connections that change their protocol.
    http1: Arc<ClientConfig>,
}

impl TlsConfigs {
    fn of(endpoint: &Endpoint) -> Result<TlsConfigs, String> {
        let all = Arc::new(endpoint.tls()?);
        Ok(TlsConfigs { http1: upgrade::http1_only(&all), all })
    }
}

enum Connection {
    Http1(http1::Http1Sender),
    Http2(SendRequest<Full<Bytes>>),
}

#[cfg(feature = "kubeconfig")]
impl Endpoint {
    /// Returns the endpoint of a context; fails if the server cannot be verified.
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
        let authorization = endpoint.token.as_deref().map(bearer).transpose()?;
        Ok(Https {
            host: authority.host().trim_matches(['[', ']']).to_string(),
            port: authority.port_u16().unwrap_or(443),
            origin: format!("https://{authority}"),
            base: uri.path().trim_end_matches('/').to_string(),
            authorization: std::sync::Mutex::new(authorization),
            authority_pem: endpoint.authority_pem.clone(),
            tls: std::sync::Mutex::new(TlsConfigs::of(endpoint)?),
            connect_timeout: CONNECT_TIMEOUT,
            tenants: None,
            requests: Mutex::default(),
            watches: Mutex::default(),
            kept: http1::KeptConnections::default(),
        })
    }

    /// Restricts the addresses to those that tenants may use.
    #[must_use]
    pub fn for_tenant(self, addresses: Arc<TenantAddresses>) -> Https {
        Https { tenants: Some(addresses), ..self }
    }

    /// Sets the timeout for a new connection, including TLS.
    #[must_use]
    pub fn with_connect_timeout(self, timeout: Duration) -> Https {
        Https { connect_timeout: timeout, ..self }
    }

    /// Replaces the bearer token for all later requests.
    pub fn use_token(&self, token: &str) -> Result<(), String> {
        let value = bearer(token)?;
        *self.authorization.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        Ok(())
    }

    /// Replaces the client certificate for all later requests. Open connections serve the requests that they have.
    pub async fn use_certificate(&self, certificate_pem: &[u8], key_pem: &[u8]) -> Result<(), String> {
        let endpoint = Endpoint {
            authority_pem: self.authority_pem.clone(),
            certificate_pem: Some(certificate_pem.to_vec()),
            key_pem: Some(key_pem.to_vec()),
            ..Endpoint::default()
        };
        *self.tls.lock().unwrap_or_else(PoisonError::into_inner) = TlsConfigs::of(&endpoint)?;
        // The server knows a connection by the certificate that it was opened with.
        for connection in [&self.requests, &self.watches] {
            *connection.lock().await = None;
        }
        while self.kept.take().is_some() {}
        Ok(())
    }

    async fn connection(&self, is_watch: bool) -> Result<Connection, BoxError> {
        let mut current = if is_watch { &self.watches } else { &self.requests }.lock().await;
        if let Some(open) = current.as_ref().filter(|open| !open.is_closed()) {
            return Ok(Connection::Http2(open.clone()));
        }
        if !is_watch && let Some(kept) = self.kept.take() {
            return Ok(Connection::Http1(kept));
        }
        let stream = self.secured(&self.tls().all).await?;
        if stream.get_ref().1.alpn_protocol() != Some(tls::HTTP2) {
            return Ok(Connection::Http1(http1::handshake(stream).await?.0));
        }
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
        Ok(Connection::Http2(sender))
    }
}

impl Https {
    /// Opens a connection within the timeout.
    async fn secured(&self, tls: &Arc<ClientConfig>) -> Result<TlsStream<TcpStream>, ConnectError> {
        match tokio::time::timeout(self.connect_timeout, self.connect(tls)).await {
            Ok(stream) => stream,
            Err(_) => {
                let seconds = self.connect_timeout.as_secs();
                let what = format!("the server does not respond within {seconds} s");
                let error = std::io::Error::new(ErrorKind::TimedOut, what);
                Err(self.connect_error(Cause::TimedOut, &error))
            }
        }
    }

    async fn connect(&self, tls: &Arc<ClientConfig>) -> Result<TlsStream<TcpStream>, ConnectError> {
        let opened = dial::open(&self.host, self.port, self.tenants.as_deref()).await;
        let stream = opened.map_err(|(cause, error)| self.connect_error(cause, &error))?;
        let secured = dial::secure(stream, &self.host, tls.clone()).await;
        secured.map_err(|error| self.connect_error(dial::cause(&error), &error))
    }

    fn tls(&self) -> TlsConfigs {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn authorization(&self) -> Option<HeaderValue> {
        self.authorization.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn connect_error(&self, cause: Cause, error: &std::io::Error) -> ConnectError {
        ConnectError { cause, address: format!("{}:{}", self.host, self.port), what: error.to_string() }
    }
}

fn bearer(token: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| "the token contains characters that are not allowed in a header")?;
    value.set_sensitive(true);
    Ok(value)
}

impl Transport for Https {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            let is_watch = parts.uri.query().is_some_and(|query| query.contains("watch=true"));
            parts.uri = format!("{}{}{}", self.origin, self.base, parts.uri).parse()?;
            if let Some(authorization) = self.authorization() {
                parts.headers.insert(header::AUTHORIZATION, authorization);
            }
            let request = Request::from_parts(parts, Full::new(body));
            let mut connection = match self.connection(is_watch).await? {
                Connection::Http2(connection) => connection,
                Connection::Http1(connection) => {
                    return http1::send(connection, request, (!is_watch).then_some(&self.kept)).await;
                }
            };
            connection.ready().await?;
            let response = connection.send_request(request).await?;
            Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()))
        })
    }
}

impl Endpoint {
    fn tls(&self) -> Result<ClientConfig, String> {
        let trust = tls::Trust::Authorities(tls::authorities(&self.authority_pem)?);
        let certificate = self.certificate_pem.as_deref().zip(self.key_pem.as_deref());
        let certificate = certificate.map(|(certificate, key)| tls::client_certificate(certificate, key));
        tls::config(trust, certificate.transpose()?, &[tls::HTTP2, tls::HTTP1])
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::Client;

    const AUTHORITY: &str = include_str!("https/authority.pem");

    async fn reason(server: String) -> String {
        reason_within(CONNECT_TIMEOUT, server).await
    }

    async fn reason_within(timeout: Duration, server: String) -> String {
        let endpoint = Endpoint { server, authority_pem: AUTHORITY.into(), ..Endpoint::default() };
        let transport = Https::new(&endpoint).unwrap().with_connect_timeout(timeout);
        let status = Client::new(Arc::new(transport)).get("/version").await.unwrap_err();
        status.details().unwrap().causes[0].reason.clone()
    }

    #[tokio::test]
    async fn connection_failures_have_distinct_causes() {
        // Longer than any host name may be.
        let name = "a".repeat(80);
        assert_eq!(reason(format!("https://{name}:6443")).await, "NameNotResolved");
        // No process listens on port 1.
        assert_eq!(reason("https://127.0.0.1:1".into()).await, "ConnectionRefused");
        // A server that closes the connection.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let hanging_up = std::thread::spawn(move || drop(listener.accept()));
        assert_eq!(reason(format!("https://{address}")).await, "Unreachable");
        hanging_up.join().unwrap();
        // A server that accepts the connection and sends nothing.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("https://{}", listener.local_addr().unwrap());
        assert_eq!(reason_within(Duration::from_millis(100), server).await, "TimedOut");
    }

    #[test]
    fn certificate_errors_have_distinct_causes() {
        use rustls::CertificateError;
        let of = |error: CertificateError| {
            dial::cause(&std::io::Error::other(rustls::Error::InvalidCertificate(error)))
        };
        assert_eq!(of(CertificateError::Expired), Cause::CertificateExpired);
        assert_eq!(of(CertificateError::NotValidYet), Cause::CertificateNotYetValid);
        assert_eq!(of(CertificateError::UnknownIssuer), Cause::CertificateUntrusted);
        assert_eq!(of(CertificateError::BadSignature), Cause::CertificateUntrusted);
        assert_eq!(of(CertificateError::NotValidForName), Cause::CertificateForAnotherName);
        assert_eq!(dial::cause(&std::io::Error::other("else")), Cause::Unreachable);
    }

    #[test]
    fn certificate_authority_is_required() {
        let endpoint =
            Endpoint { server: "https://a:1".into(), authority_pem: "nothing".into(), ..Endpoint::default() };
        assert!(Https::new(&endpoint).is_err_and(|error| error.contains("no certificate")));
    }
}
