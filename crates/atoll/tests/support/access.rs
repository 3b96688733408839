//! API clients with certificates or tokens, over HTTP/1.1 or HTTP/2, on connections that tests can keep.

use std::path::Path;
use std::sync::Arc;

use atoll_client::https::tls::{self, Trust};
use atoll_client::https::{dial, http1};
use atoll_client::kubeconfig::{KubeconfigFiles, Selection};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::within;

pub const JSON: &str = "application/json";
pub const MERGE: &str = "application/merge-patch+json";

/// The address and credentials of a client.
#[derive(Clone)]
pub struct Access {
    authority: String,
    /// The prefix of every path: `/clusters/…`, or empty for the root workspace.
    base: String,
    token: Option<String>,
    /// Additional headers of every request.
    headers: Vec<(&'static str, String)>,
    roots: Arc<RootCertStore>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// A complete response.
#[derive(Clone, Debug)]
pub struct ApiResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// A connection that is reused for several requests.
pub struct Http {
    access: Access,
    accept: &'static str,
    sender: Sender,
}

#[derive(Clone)]
pub enum Body {
    None,
    Json(Value),
    Raw(&'static str, Bytes),
}

enum Sender {
    One(SendRequest<Full<Bytes>>),
    Two(http2::SendRequest<Full<Bytes>>),
}

impl Access {
    /// Returns an access as the user of the current context.
    pub fn from_kubeconfig(path: &Path) -> Access {
        let files = KubeconfigFiles::load(&Selection::Explicit(path.to_path_buf())).unwrap();
        let context = files.context(files.merged().current()).unwrap();
        let server: http::Uri = context.server.parse().unwrap();
        Access {
            authority: server.authority().unwrap().to_string(),
            base: server.path().trim_end_matches('/').to_string(),
            token: None,
            headers: Vec::new(),
            roots: tls::authorities(&context.authority_pem.unwrap()).unwrap(),
            identity: context.certificate_pem.zip(context.key_pem),
        }
    }

    /// Returns an access without credentials.
    pub fn anonymous(&self) -> Access {
        Access { identity: None, token: None, ..self.clone() }
    }

    /// Returns an access with a token instead of a certificate.
    pub fn token(&self, token: &str) -> Access {
        Access { identity: None, token: Some(token.into()), ..self.clone() }
    }

    /// Returns an access that impersonates a user.
    pub fn acting_as(&self, user: &str, groups: &[&str]) -> Access {
        let groups = groups.iter().map(|group| ("impersonate-group", group.to_string()));
        let headers = [("impersonate-user", user.to_string())].into_iter().chain(groups).collect();
        Access { headers, ..self.clone() }
    }

    /// Returns an access with one more header.
    #[allow(dead_code, reason = "not all suites use it")]
    pub fn with_header(&self, name: &'static str, value: &str) -> Access {
        let mut headers = self.headers.clone();
        headers.push((name, value.to_string()));
        Access { headers, ..self.clone() }
    }

    /// Returns an access to another workspace.
    pub fn workspace(&self, path: &str) -> Access {
        Access { base: format!("/clusters/{path}"), ..self.clone() }
    }

    /// Returns an access with the certificate of another access.
    pub fn with_identity_of(&self, other: &Access) -> Access {
        Access { identity: other.identity.clone(), ..self.clone() }
    }

    /// Returns an access with this certificate and key.
    pub fn with_identity(&self, certificate_pem: &str, key_pem: &str) -> Access {
        let identity = Some((certificate_pem.into(), key_pem.into()));
        Access { identity, token: None, ..self.clone() }
    }

    /// Returns an access with the same certificate and a token.
    pub fn and_token(&self, token: &str) -> Access {
        Access { token: Some(token.into()), ..self.clone() }
    }

    /// Returns the prefix of every path.
    pub fn base(&self) -> &str {
        &self.base
    }

    pub fn authority(&self) -> &str {
        &self.authority
    }

    pub fn tls(&self, protocols: &[&str]) -> ClientConfig {
        let certificate = self.identity.as_ref();
        let certificate = certificate.map(|(chain, key)| tls::client_certificate(chain, key).unwrap());
        let protocols: Vec<&[u8]> = protocols.iter().map(|name| name.as_bytes()).collect();
        tls::config(Trust::Authorities(self.roots.clone()), certificate, &protocols).unwrap()
    }

    /// Opens a TLS connection without HTTP.
    pub async fn stream(&self, protocols: &[&str]) -> std::io::Result<TlsStream<TcpStream>> {
        let (host, port) = self.authority.rsplit_once(':').unwrap();
        let host = host.trim_matches(['[', ']']);
        let opened = dial::open(host, port.parse().unwrap(), None).await;
        let stream = opened.map_err(|(_, error)| error)?;
        dial::secure(stream, host, Arc::new(self.tls(protocols))).await
    }

    pub async fn http1(&self) -> std::io::Result<Http> {
        let stream = self.stream(&["http/1.1"]).await?;
        let (sender, _) = http1::handshake(stream).await.map_err(std::io::Error::other)?;
        Ok(Http { access: self.clone(), accept: JSON, sender: Sender::One(sender) })
    }

    /// Uses hyper's defaults, because the windows of Atoll's own client are unusually large.
    pub async fn http2(&self) -> std::io::Result<Http> {
        let stream = self.stream(&["h2"]).await?;
        let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(std::io::Error::other)?;
        tokio::spawn(connection);
        Ok(Http { access: self.clone(), accept: JSON, sender: Sender::Two(sender) })
    }

    /// Sends a request on a new connection. It must get a response.
    pub async fn request(&self, method: Method, path: &str, body: Body) -> ApiResponse {
        let mut http = within("the server accepts a connection", self.http1()).await.unwrap();
        let sending = http.request(method.clone(), path, body);
        match within(&format!("{method} {path} is answered"), sending).await {
            Ok(answer) => answer,
            Err(error) => panic!("{method} {path}: {error}"),
        }
    }

    pub async fn get(&self, path: &str) -> ApiResponse {
        self.request(Method::GET, path, Body::None).await
    }

    pub async fn post(&self, path: &str, object: Value) -> ApiResponse {
        self.request(Method::POST, path, Body::Json(object)).await
    }

    pub async fn put(&self, path: &str, object: Value) -> ApiResponse {
        self.request(Method::PUT, path, Body::Json(object)).await
    }

    pub async fn merge(&self, path: &str, patch: Value) -> ApiResponse {
        let body = Bytes::from(patch.to_string());
        self.request(Method::PATCH, path, Body::Raw(MERGE, body)).await
    }

    pub async fn delete(&self, path: &str) -> ApiResponse {
        self.request(Method::DELETE, path, Body::None).await
    }
}

impl Http {
    /// Sends a request and returns the response with an unread body.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Body,
    ) -> hyper::Result<Response<Incoming>> {
        let path = format!("{}{path}", self.access.base);
        let uri = match self.sender {
            Sender::One(_) => path,
            Sender::Two(_) => format!("https://{}{path}", self.access.authority),
        };
        let mut request = Request::builder().method(method).uri(uri).header(header::ACCEPT, self.accept);
        if let Sender::One(_) = self.sender {
            request = request.header(header::HOST, &self.access.authority);
        }
        if let Some(token) = &self.access.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        for (name, value) in &self.access.headers {
            request = request.header(*name, value);
        }
        let content = match body {
            Body::None => Bytes::new(),
            Body::Json(value) => {
                request = request.header(header::CONTENT_TYPE, JSON);
                Bytes::from(value.to_string())
            }
            Body::Raw(kind, content) => {
                request = request.header(header::CONTENT_TYPE, kind);
                content
            }
        };
        let request = request.body(Full::new(content)).unwrap();
        match &mut self.sender {
            Sender::One(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Sender::Two(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }

    pub async fn request(&mut self, method: Method, path: &str, body: Body) -> hyper::Result<ApiResponse> {
        let response = self.send(method, path, body).await?;
        ApiResponse::read(response).await
    }

    pub async fn get_accepting(&mut self, path: &str, accept: &'static str) -> hyper::Result<ApiResponse> {
        self.accept = accept;
        let answer = self.request(Method::GET, path, Body::None).await;
        self.accept = JSON;
        answer
    }
}

impl ApiResponse {
    async fn read(response: Response<Incoming>) -> hyper::Result<ApiResponse> {
        let (parts, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(ApiResponse { status: parts.status.as_u16(), headers: parts.headers, body })
    }

    /// Returns the body as JSON.
    pub fn json(&self) -> Value {
        match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(error) => panic!("{error} in {}", self.text()),
        }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Asserts the status code and returns the body as JSON.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }

    /// Asserts the status code, whatever the body is.
    #[track_caller]
    pub fn expect_status_code(&self, status: u16) {
        assert_eq!(self.status, status, "{}", self.text());
    }

    /// Asserts the code and the reason of a Status and returns its message.
    #[track_caller]
    pub fn expect_status(&self, code: u16, reason: &str) -> String {
        let value = self.expect(code);
        assert_eq!((&value["kind"], &value["code"]), (&"Status".into(), &code.into()), "{value}");
        assert_eq!(value["reason"], reason, "{value}");
        value["message"].as_str().unwrap().to_string()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// Returns the resource version of an object or a list.
#[track_caller]
pub fn revision(value: &Value) -> u64 {
    let text = value["metadata"]["resourceVersion"].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no revision in {value}"))
}

/// Returns the names of a list's items without the ConfigMap that every namespace has.
pub fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap_or_else(|| panic!("no items in {list}"));
    let names = items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_string());
    names.filter(|name| name != "kube-root-ca.crt").collect()
}
