//! API clients with certificates or tokens, over HTTP/1.1 or HTTP/2. They return responses unchanged: no
//! redirects, no retries, no decoding.

use std::borrow::Borrow;
use std::path::Path;
use std::sync::Arc;

use atoll_client::https::tls::{self, Trust};
use atoll_client::https::{Endpoint, dial, http1};
use atoll_client::kubeconfig::{KubeconfigFiles, Selection};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Method;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::client::TlsStream;

use crate::connection::{KeptConnection, Sender};
use crate::response::ApiResponse;
use crate::wait::within;

pub const JSON: &str = "application/json";
pub const MERGE: &str = "application/merge-patch+json";
pub const APPLY: &str = "application/apply-patch+yaml";

/// The address and credentials of a user. Each request opens a connection, except after `keep_alive`.
#[derive(Clone)]
pub struct Client {
    /// The path of the server is the prefix of every path: `/clusters/…`, or empty for the root workspace.
    endpoint: Endpoint,
    /// Additional headers of every request.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) accept: Option<&'static str>,
    kept: Option<Arc<Mutex<Option<KeptConnection>>>>,
}

#[derive(Clone)]
pub enum RequestContent {
    None,
    Json(Value),
    /// Content with its media type.
    Raw(&'static str, Bytes),
    /// Content without a media type.
    Bytes(Bytes),
}

/// An error because of which there is no complete response.
#[derive(Debug)]
pub enum ClientError {
    /// The connection failed, or the TLS handshake.
    Unreachable(std::io::Error),
    /// The connection ended, or the response was not HTTP.
    Interrupted(hyper::Error),
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ClientError::Unreachable(error) => write!(formatter, "cannot reach the server: {error}"),
            ClientError::Interrupted(error) => write!(formatter, "the connection ended early: {error}"),
        }
    }
}

impl std::error::Error for ClientError {}

impl Client {
    /// Returns a client of the user of the current context.
    pub fn from_kubeconfig(path: &Path) -> Client {
        let files = KubeconfigFiles::load(&Selection::Explicit(path.to_path_buf()));
        let files = files.unwrap_or_else(|error| panic!("{}: {error:?}", path.display()));
        let context = files.context(files.merged().current());
        let context = context.unwrap_or_else(|problem| panic!("{}: {problem:?}", path.display()));
        let endpoint = Endpoint::of(context).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        Client { endpoint, headers: Vec::new(), accept: Some(JSON), kept: None }
    }

    /// Returns a client without credentials.
    pub fn anonymous(&self) -> Client {
        self.with_endpoint(|endpoint| {
            (endpoint.certificate_pem, endpoint.key_pem, endpoint.token) = (None, None, None);
        })
    }

    /// Returns a client with a token instead of a certificate.
    pub fn token(&self, token: &str) -> Client {
        self.anonymous().and_token(token)
    }

    /// Returns a client with the same certificate and a token.
    pub fn and_token(&self, token: &str) -> Client {
        self.with_endpoint(|endpoint| endpoint.token = Some(token.into()))
    }

    /// Returns a client with this certificate and key.
    pub fn with_identity(&self, certificate_pem: &str, key_pem: &str) -> Client {
        self.anonymous().with_endpoint(|endpoint| {
            endpoint.certificate_pem = Some(certificate_pem.into());
            endpoint.key_pem = Some(key_pem.into());
        })
    }

    /// Returns a client with the certificate of another client.
    pub fn with_identity_of(&self, other: &Client) -> Client {
        self.with_endpoint(|endpoint| {
            endpoint.certificate_pem.clone_from(&other.endpoint.certificate_pem);
            endpoint.key_pem.clone_from(&other.endpoint.key_pem);
        })
    }

    /// Returns a client of another workspace.
    pub fn workspace(&self, path: &str) -> Client {
        let server = format!("https://{}/clusters/{path}", self.authority());
        self.with_endpoint(|endpoint| endpoint.server = server)
    }

    fn with_endpoint(&self, change: impl FnOnce(&mut Endpoint)) -> Client {
        let mut client = self.clone();
        change(&mut client.endpoint);
        client.kept = client.kept.map(|_| Arc::default());
        client
    }

    /// Returns a client that impersonates a user.
    pub fn acting_as(&self, user: &str, groups: &[&str]) -> Client {
        let groups = groups.iter().map(|group| ("impersonate-group".into(), group.to_string()));
        let headers = [("impersonate-user".into(), user.into())].into_iter().chain(groups).collect();
        Client { headers, ..self.clone() }
    }

    /// Returns a client with one more header.
    pub fn with_header(&self, name: impl Into<String>, value: impl Into<String>) -> Client {
        let mut client = self.clone();
        client.headers.push((name.into(), value.into()));
        client
    }

    /// Returns a client that sends no Accept header, unless `with_header` adds one.
    pub fn accepting_anything(&self) -> Client {
        Client { accept: None, ..self.clone() }
    }

    /// Returns a client that sends its requests one after the other on one connection.
    pub fn keep_alive(&self) -> Client {
        Client { kept: Some(Arc::default()), ..self.clone() }
    }

    /// Returns the prefix of every path.
    pub fn base(&self) -> &str {
        let prefix = "https://".len() + self.authority().len();
        self.endpoint.server[prefix..].trim_end_matches('/')
    }

    /// Returns the host and port.
    pub fn authority(&self) -> &str {
        let address = self.endpoint.server.trim_start_matches("https://");
        address.split('/').next().unwrap_or(address)
    }

    /// Returns the address and credentials for Atoll's own client.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns a kubeconfig with the address and credentials.
    pub fn kubeconfig(&self) -> String {
        let Endpoint { server, authority_pem, certificate_pem, key_pem, token } = &self.endpoint;
        let encode = |pem: &Vec<u8>| STANDARD.encode(pem);
        let user = json!({
            "client-certificate-data": certificate_pem.as_ref().map(encode),
            "client-key-data": key_pem.as_ref().map(encode),
            "token": token,
        });
        let cluster = json!({ "server": server, "certificate-authority-data": encode(authority_pem) });
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{ "name": "test", "cluster": cluster }],
            "users": [{ "name": "test", "user": user }],
            "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
        })
        .to_string()
    }

    pub fn tls(&self, protocols: &[&str]) -> ClientConfig {
        let Endpoint { authority_pem, certificate_pem, key_pem, .. } = &self.endpoint;
        let certificate = certificate_pem.as_ref().zip(key_pem.as_ref());
        let certificate = certificate.map(|(chain, key)| tls::client_certificate(chain, key));
        let protocols: Vec<&[u8]> = protocols.iter().map(|name| name.as_bytes()).collect();
        let config = certificate.transpose().and_then(|certificate| {
            tls::config(Trust::Authorities(tls::authorities(authority_pem)?), certificate, &protocols)
        });
        config.unwrap_or_else(|problem| panic!("{}: {problem}", self.endpoint.server))
    }

    /// Opens a TLS connection without HTTP.
    pub async fn stream(&self, protocols: &[&str]) -> std::io::Result<TlsStream<TcpStream>> {
        let (host, port) = self.authority().rsplit_once(':').expect("an address with a port");
        let host = host.trim_matches(['[', ']']);
        let opened = dial::open(host, port.parse().expect("a port"), None).await;
        let stream = opened.map_err(|(_, error)| error)?;
        dial::secure(stream, host, Arc::new(self.tls(protocols))).await
    }

    pub async fn http1(&self) -> std::io::Result<KeptConnection> {
        let stream = self.stream(&["http/1.1"]).await?;
        let (sender, _) = http1::handshake(stream).await.map_err(std::io::Error::other)?;
        Ok(KeptConnection { client: self.clone(), sender: Sender::One(sender) })
    }

    /// Uses hyper's defaults, because the windows of Atoll's own client are unusually large.
    pub async fn http2(&self) -> std::io::Result<KeptConnection> {
        let stream = self.stream(&["h2"]).await?;
        let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(std::io::Error::other)?;
        tokio::spawn(connection);
        Ok(KeptConnection { client: self.clone(), sender: Sender::Two(sender) })
    }

    /// Sends a request, which may fail.
    pub async fn try_request(
        &self,
        method: Method,
        path: &str,
        body: RequestContent,
    ) -> Result<ApiResponse, ClientError> {
        let what = format!("{method} {path} is answered");
        within(&what, async {
            let mut kept = match &self.kept {
                Some(kept) => Some(kept.lock().await),
                None => None,
            };
            let idle = kept.as_mut().and_then(|kept| kept.take());
            let mut connection = match idle {
                Some(connection) if connection.is_ready() => connection,
                _ => self.http1().await.map_err(ClientError::Unreachable)?,
            };
            // Headers may differ between clients that share a connection.
            connection.client = Client { kept: None, ..self.clone() };
            let answer = connection.request(method, path, body).await.map_err(ClientError::Interrupted)?;
            if let Some(mut kept) = kept
                && connection.ready().await.is_ok()
            {
                *kept = Some(connection);
            }
            Ok(answer)
        })
        .await
    }

    /// Sends a request, which must get a response.
    pub async fn request(&self, method: Method, path: &str, body: RequestContent) -> ApiResponse {
        let answer = self.try_request(method.clone(), path, body).await;
        answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    pub async fn get(&self, path: &str) -> ApiResponse {
        self.request(Method::GET, path, RequestContent::None).await
    }

    pub async fn post(&self, path: &str, object: impl Borrow<Value>) -> ApiResponse {
        self.write(Method::POST, path, JSON, object.borrow()).await
    }

    pub async fn put(&self, path: &str, object: impl Borrow<Value>) -> ApiResponse {
        self.write(Method::PUT, path, JSON, object.borrow()).await
    }

    pub async fn merge(&self, path: &str, patch: impl Borrow<Value>) -> ApiResponse {
        self.write(Method::PATCH, path, MERGE, patch.borrow()).await
    }

    /// Applies an object on the server. The path has the field manager.
    pub async fn apply(&self, path: &str, object: impl Borrow<Value>) -> ApiResponse {
        self.write(Method::PATCH, path, APPLY, object.borrow()).await
    }

    pub async fn delete(&self, path: &str) -> ApiResponse {
        self.request(Method::DELETE, path, RequestContent::None).await
    }

    async fn write(&self, method: Method, path: &str, media: &'static str, value: &Value) -> ApiResponse {
        self.request(method, path, RequestContent::Raw(media, value.to_string().into())).await
    }
}
