//! The API of a server elsewhere, for what otherwise talks to one in the same process: one connection, made again when
//! it breaks.

use std::sync::Arc;

use atoll_client::{BoxError, BoxFuture, ResponseBody, Transport};
use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use tokio::sync::Mutex;

use crate::client::{self, connect};
use crate::kubeconfig::Context;

pub struct Remote {
    /// Scheme, host and port.
    origin: String,
    /// What the server's address has behind the port: the workspace.
    base: String,
    token: Option<String>,
    agent: HeaderValue,
    tls: Arc<ClientConfig>,
    /// Where the server speaks HTTP/2: then all requests share it.
    shared: Mutex<Option<http2::SendRequest<Full<Bytes>>>>,
}

impl Remote {
    /// `agent` is under which its writes are kept account of.
    pub fn new(context: &Context, agent: &'static str) -> Result<Self, String> {
        let uri: Uri = context.server.parse().map_err(|error| format!("{:?}: {error}", context.server))?;
        let authority = uri.authority().ok_or_else(|| format!("{:?} has no host", context.server))?;
        let mut tls = client::tls(context)?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Remote {
            origin: format!("https://{authority}"),
            base: uri.path().trim_end_matches('/').to_string(),
            token: context.token.clone(),
            agent: HeaderValue::from_static(agent),
            tls: Arc::new(tls),
            shared: Mutex::new(None),
        })
    }

    async fn carry(&self, request: Request<Bytes>) -> Result<Response<ResponseBody>, BoxError> {
        let request = self.addressed(request)?;
        let mut shared = self.shared.lock().await;
        if let Some(sender) = shared.as_mut().filter(|sender| !sender.is_closed()) {
            let mut sender = sender.clone();
            drop(shared);
            sender.ready().await?;
            return Ok(opened(sender.send_request(request).await?));
        }
        let stream = connect(&self.origin, self.tls.clone()).await?;
        let speaks_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        if !speaks_http2 {
            drop(shared);
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            return Ok(opened(sender.send_request(request).await?));
        }
        let mut builder = http2::Builder::new(TokioExecutor::new());
        // A server that is cut off does not say so.
        builder
            .timer(TokioTimer::new())
            .keep_alive_interval(std::time::Duration::from_secs(15))
            .keep_alive_timeout(std::time::Duration::from_secs(15))
            .keep_alive_while_idle(true);
        let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        *shared = Some(sender.clone());
        drop(shared);
        sender.ready().await?;
        Ok(opened(sender.send_request(request).await?))
    }

    /// With the whole address, and who asks.
    fn addressed(&self, request: Request<Bytes>) -> Result<Request<Full<Bytes>>, BoxError> {
        let (mut parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        parts.uri = format!("{}{}{path}", self.origin, self.base).parse()?;
        let host = parts.uri.authority().map_or("", |authority| authority.as_str());
        parts.headers.insert(header::HOST, HeaderValue::from_str(host)?);
        parts.headers.entry(header::USER_AGENT).or_insert_with(|| self.agent.clone());
        if let Some(token) = &self.token {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))?;
            value.set_sensitive(true);
            parts.headers.insert(header::AUTHORIZATION, value);
        }
        Ok(Request::from_parts(parts, Full::new(body)))
    }
}

fn opened(response: Response<hyper::body::Incoming>) -> Response<ResponseBody> {
    response.map(|body| body.map_err(|error| Box::new(error) as BoxError).boxed_unsync())
}

impl Transport for Remote {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        Box::pin(self.carry(request))
    }
}
