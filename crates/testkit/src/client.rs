//! A small HTTPS client that shows an answer as it came: no redirects, no retries, nothing decoded.

use std::path::Path;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;

/// What stood between a request and its whole answer.
#[derive(Debug)]
pub enum Error {
    /// Nobody listens there, or TLS failed.
    Unreachable(std::io::Error),
    /// The connection ended, or what came was no HTTP.
    Interrupted(hyper::Error),
    /// A line of a watch was no JSON.
    NotJson(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Unreachable(error) => write!(formatter, "cannot reach the server: {error}"),
            Error::Interrupted(error) => write!(formatter, "the connection ended early: {error}"),
            Error::NotJson(text) => write!(formatter, "not JSON: {text}"),
        }
    }
}

impl std::error::Error for Error {}

/// Keeps one connection for ordinary requests; a watch opens one of its own.
pub struct Client {
    host: String,
    port: u16,
    token: Option<String>,
    tls: Arc<ClientConfig>,
    kept: Mutex<Option<SendRequest<Full<Bytes>>>>,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    /// The body as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header's value, values of several headers of that name joined by a comma.
    pub fn header(&self, name: &str) -> Option<String> {
        let values: Vec<_> = self
            .headers
            .get_all(name)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()))
            .collect();
        (!values.is_empty()).then(|| values.join(", "))
    }
}

/// A request with a JSON body, or with none if it is null.
pub fn request(method: &str, path: &str, body: &Value) -> Request<Bytes> {
    let bytes = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let mut request = Request::builder().method(method).uri(path);
    if !bytes.is_empty() {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    request.body(bytes).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
}

impl Client {
    /// `url` is `https://host:port`; `authority` a PEM file.
    pub fn new(url: &str, authority: &Path, token: Option<&str>) -> Client {
        let address = url.trim_start_matches("https://");
        let (host, port) = address.rsplit_once(':').unwrap_or((address, "443"));
        let mut roots = RootCertStore::empty();
        let pem = std::fs::read(authority).unwrap_or_else(|error| panic!("{}: {error}", authority.display()));
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.unwrap_or_else(|error| panic!("{}: {error}", authority.display()));
            roots.add(certificate).unwrap_or_else(|error| panic!("{}: {error}", authority.display()));
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap_or_else(|error| panic!("TLS: {error}"))
            .with_root_certificates(roots)
            .with_no_client_auth();
        Client {
            host: host.to_string(),
            port: port.parse().unwrap_or_else(|error| panic!("{url}: {error}")),
            token: token.map(str::to_string),
            tls: Arc::new(tls),
            kept: Mutex::new(None),
        }
    }

    pub async fn get(&self, path: &str) -> Result<Answer, Error> {
        self.send(request("GET", path, &Value::Null)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Answer, Error> {
        self.send(request("POST", path, body)).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Result<Answer, Error> {
        self.send(request("PUT", path, body)).await
    }

    pub async fn delete(&self, path: &str) -> Result<Answer, Error> {
        self.send(request("DELETE", path, &Value::Null)).await
    }

    /// `kind` is `json` or `merge`.
    pub async fn patch(&self, path: &str, kind: &str, body: &Value) -> Result<Answer, Error> {
        let mut request = request("PATCH", path, body);
        let media = format!("application/{kind}-patch+json");
        let media = HeaderValue::from_str(&media).unwrap_or_else(|error| panic!("{media}: {error}"));
        request.headers_mut().insert(header::CONTENT_TYPE, media);
        self.send(request).await
    }

    /// Sends any request; the token is added unless it has an Authorization header (an empty one sends none).
    pub async fn send(&self, request: Request<Bytes>) -> Result<Answer, Error> {
        let mut kept = self.kept.lock().await;
        let mut sender = match kept.take() {
            Some(sender) if sender.is_ready() => sender,
            _ => self.connect().await?,
        };
        let response = sender.send_request(self.complete(request)).await.map_err(Error::Interrupted)?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.map_err(Error::Interrupted)?.to_bytes();
        if sender.ready().await.is_ok() {
            *kept = Some(sender);
        }
        Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body })
    }

    /// A watch, event by event.
    pub async fn watch(&self, path: &str) -> Result<Watch, Error> {
        let mut sender = self.connect().await?;
        let request = self.complete(request("GET", path, &Value::Null));
        let response = sender.send_request(request).await.map_err(Error::Interrupted)?;
        Ok(Watch { response, buffer: BytesMut::new(), _connection: sender })
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Error> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(Error::Unreachable)?;
        let name = ServerName::try_from(self.host.clone()).map_err(std::io::Error::other);
        let name = name.map_err(Error::Unreachable)?;
        let stream =
            TlsConnector::from(self.tls.clone()).connect(name, stream).await.map_err(Error::Unreachable)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(Error::Interrupted)?;
        tokio::spawn(connection);
        Ok(sender)
    }

    fn complete(&self, request: Request<Bytes>) -> Request<Full<Bytes>> {
        let mut request = request.map(Full::new);
        let headers = request.headers_mut();
        let host = format!("{}:{}", self.host, self.port);
        if let Ok(host) = HeaderValue::from_str(&host) {
            headers.insert(header::HOST, host);
        }
        // An empty one asks for none at all.
        let given = headers.get(header::AUTHORIZATION).map(HeaderValue::is_empty);
        let bearer =
            self.token.as_ref().and_then(|token| HeaderValue::from_str(&format!("Bearer {token}")).ok());
        match (given, bearer) {
            (None, Some(bearer)) => drop(headers.insert(header::AUTHORIZATION, bearer)),
            (Some(true), _) => drop(headers.remove(header::AUTHORIZATION)),
            _ => {}
        }
        request
    }
}

/// The answer to a watch, as far as it has come.
pub struct Watch {
    response: Response<Incoming>,
    buffer: BytesMut,
    _connection: SendRequest<Full<Bytes>>,
}

impl Watch {
    pub fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The next line; `None` when the server has ended the watch.
    pub async fn next(&mut self) -> Result<Option<Value>, Error> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end + 1);
                if line.trim_ascii().is_empty() {
                    continue;
                }
                let event = serde_json::from_slice(&line);
                return event
                    .map(Some)
                    .map_err(|_| Error::NotJson(String::from_utf8_lossy(&line).into_owned()));
            }
            match self.response.body_mut().frame().await {
                Some(frame) => {
                    if let Ok(data) = frame.map_err(Error::Interrupted)?.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                None if self.buffer.trim_ascii().is_empty() => return Ok(None),
                None => return Err(Error::NotJson(String::from_utf8_lossy(&self.buffer).into_owned())),
            }
        }
    }
}
