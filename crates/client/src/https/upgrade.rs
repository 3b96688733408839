//! Requests that change the protocol of their connection, and requests of other clients that are forwarded. Each has an
//! HTTP/1.1 connection of its own: it can be upgraded, and what is not read stays in the cluster.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;

use super::{Https, http1, tls};
use crate::cluster_api::{ClusterApi, Upgrade};
use crate::connect_error::Cause;
use crate::{BoxError, BoxFuture, ResponseBody};

/// Timeout for the headers of the response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// Limit of the buffers of a connection: those of hyper (about 400 KiB) and of TLS.
const UNREAD: usize = 512 << 10;

/// Returns a configuration that negotiates HTTP/1.1 only, because other versions have no upgrades.
pub(super) fn http1_only(config: &ClientConfig) -> Arc<ClientConfig> {
    let mut config = config.clone();
    config.alpn_protocols = vec![tls::HTTP1.to_vec()];
    Arc::new(config)
}

impl Https {
    async fn send_upgrade(&self, request: Request<()>) -> Result<Upgrade, BoxError> {
        let mut response = self.exchange(request.map(|()| Bytes::new())).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Ok(Upgrade::Refused(boxed(response)));
        }
        let upgraded = hyper::upgrade::on(&mut response).await?;
        Ok(Upgrade::Switched(response.map(drop), Box::new(TokioIo::new(upgraded))))
    }

    /// Sends a request over a connection of its own, which ends with the response.
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Incoming>, BoxError> {
        let stream = self.secured(&self.tls().http1).await?;
        let (mut parts, body) = request.into_parts();
        parts.uri = format!("{}{}", self.base, parts.uri).parse()?;
        let host = HeaderValue::from_str(self.origin.trim_start_matches("https://"))?;
        parts.headers.insert(header::HOST, host);
        if let Some(authorization) = self.authorization() {
            parts.headers.insert(header::AUTHORIZATION, authorization);
        }
        let request = Request::from_parts(parts, Full::new(body));
        let (mut sender, _driving) = http1::handshake(stream).await?;
        let answered = tokio::time::timeout(RESPONSE_TIMEOUT, sender.send_request(request)).await;
        let response = answered.map_err(|_| {
            let what = format!("the server does not respond within {} s", RESPONSE_TIMEOUT.as_secs());
            let error = std::io::Error::new(ErrorKind::TimedOut, what);
            self.connect_error(Cause::TimedOut, &error)
        })??;
        Ok(response)
    }
}

fn boxed(response: Response<Incoming>) -> Response<ResponseBody> {
    response.map(|body| body.map_err(BoxError::from).boxed_unsync())
}

impl ClusterApi for Https {
    fn upgrade(&self, request: Request<()>) -> BoxFuture<'_, Result<Upgrade, BoxError>> {
        Box::pin(self.send_upgrade(request))
    }

    fn forward(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        Box::pin(async move { Ok(boxed(self.exchange(request).await?)) })
    }

    fn unread_limit(&self) -> usize {
        UNREAD
    }
}
