//! A small HTTPS client that returns responses unchanged: no redirects, no retries, no decoding.

use std::path::Path;
use std::sync::Arc;

use atoll_client::https::tls::{self, Trust};
use atoll_client::https::{dial, http1};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use rustls::ClientConfig;
use serde_json::Value;
use tokio::sync::Mutex;

/// An error because of which there is no complete response.
#[derive(Debug)]
pub enum ClientError {
    /// The connection failed, or the TLS handshake.
    Unreachable(std::io::Error),
    /// The connection ended, or the response was not HTTP.
    Interrupted(hyper::Error),
    /// A line of a watch was not JSON.
    NotJson(String),
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ClientError::Unreachable(error) => write!(formatter, "cannot reach the server: {error}"),
            ClientError::Interrupted(error) => write!(formatter, "the connection ended early: {error}"),
            ClientError::NotJson(text) => write!(formatter, "not JSON: {text}"),
        }
    }
}

impl std::error::Error for ClientError {}

/// A client that keeps one connection for ordinary requests. Each watch opens its own.
pub struct Client {
    host: String,
    port: u16,
    token: Option<String>,
    tls: Arc<ClientConfig>,
    idle: Mutex<Option<SendRequest<Full<Bytes>>>>,
}

/// A complete response.
#[derive(Clone, Debug)]
pub struct ApiResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl ApiResponse {
    /// Returns the body as JSON, or null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the value of a header. Several headers of that name are joined with commas.
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

/// Returns a request with a JSON body, or without a body if `body` is null.
pub fn request(method: &str, path: &str, body: &Value) -> Request<Bytes> {
    let bytes = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let mut request = Request::builder().method(method).uri(path);
    if !bytes.is_empty() {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    request.body(bytes).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
}

impl Client {
    /// Returns a client for `url`, which is `https://host:port`. `authority` is a PEM file.
    pub fn new(url: &str, authority: &Path, token: Option<&str>) -> Client {
        let address = url.trim_start_matches("https://");
        let (host, port) = address.rsplit_once(':').unwrap_or((address, "443"));
        let pem = std::fs::read(authority).unwrap_or_else(|error| panic!("{}: {error}", authority.display()));
        let tls = tls::authorities(&pem).and_then(|roots| tls::config(Trust::Authorities(roots), None, &[]));
        let tls = tls.unwrap_or_else(|problem| panic!("{}: {problem}", authority.display()));
        Client {
            host: host.to_string(),
            port: port.parse().unwrap_or_else(|error| panic!("{url}: {error}")),
            token: token.map(str::to_string),
            tls: Arc::new(tls),
            idle: Mutex::new(None),
        }
    }

    pub async fn get(&self, path: &str) -> Result<ApiResponse, ClientError> {
        self.send(request("GET", path, &Value::Null)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<ApiResponse, ClientError> {
        self.send(request("POST", path, body)).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Result<ApiResponse, ClientError> {
        self.send(request("PUT", path, body)).await
    }

    pub async fn delete(&self, path: &str) -> Result<ApiResponse, ClientError> {
        self.send(request("DELETE", path, &Value::Null)).await
    }

    /// Sends a patch. `kind` is `json` or `merge`.
    pub async fn patch(&self, path: &str, kind: &str, body: &Value) -> Result<ApiResponse, ClientError> {
        let mut request = request("PATCH", path, body);
        let media = format!("application/{kind}-patch+json");
        let media = HeaderValue::from_str(&media).unwrap_or_else(|error| panic!("{media}: {error}"));
        request.headers_mut().insert(header::CONTENT_TYPE, media);
        self.send(request).await
    }

    /// Sends a request. The token is added unless the request has an Authorization header. An empty header
    /// sends none.
    pub async fn send(&self, request: Request<Bytes>) -> Result<ApiResponse, ClientError> {
        let mut idle = self.idle.lock().await;
        let mut sender = match idle.take() {
            Some(sender) if sender.is_ready() => sender,
            _ => self.connect().await?,
        };
        let response =
            sender.send_request(self.with_headers(request)).await.map_err(ClientError::Interrupted)?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.map_err(ClientError::Interrupted)?.to_bytes();
        if sender.ready().await.is_ok() {
            *idle = Some(sender);
        }
        Ok(ApiResponse { status: parts.status.as_u16(), headers: parts.headers, body })
    }

    /// Opens a watch.
    pub async fn watch(&self, path: &str) -> Result<Watch, ClientError> {
        let mut sender = self.connect().await?;
        let request = self.with_headers(request("GET", path, &Value::Null));
        let response = sender.send_request(request).await.map_err(ClientError::Interrupted)?;
        Ok(Watch { response, buffer: BytesMut::new(), _connection: sender })
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, ClientError> {
        let opened = dial::open(&self.host, self.port, None).await;
        let stream = opened.map_err(|(_, error)| ClientError::Unreachable(error))?;
        let secured = dial::secure(stream, &self.host, self.tls.clone()).await;
        let stream = secured.map_err(ClientError::Unreachable)?;
        let (sender, _) = http1::handshake(stream).await.map_err(ClientError::Interrupted)?;
        Ok(sender)
    }

    fn with_headers(&self, request: Request<Bytes>) -> Request<Full<Bytes>> {
        let mut request = request.map(Full::new);
        let headers = request.headers_mut();
        let host = format!("{}:{}", self.host, self.port);
        if let Ok(host) = HeaderValue::from_str(&host) {
            headers.insert(header::HOST, host);
        }
        // An empty header means that none is sent.
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

/// The response to a watch.
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

    /// Returns the next line, or `None` when the server has ended the watch.
    pub async fn next(&mut self) -> Result<Option<Value>, ClientError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end + 1);
                if line.trim_ascii().is_empty() {
                    continue;
                }
                let event = serde_json::from_slice(&line);
                return event
                    .map(Some)
                    .map_err(|_| ClientError::NotJson(String::from_utf8_lossy(&line).into_owned()));
            }
            match self.response.body_mut().frame().await {
                Some(frame) => {
                    if let Ok(data) = frame.map_err(ClientError::Interrupted)?.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                None if self.buffer.trim_ascii().is_empty() => return Ok(None),
                None => return Err(ClientError::NotJson(String::from_utf8_lossy(&self.buffer).into_owned())),
            }
        }
    }
}
