//! HTTP/1.1, for servers and proxies without HTTP/2. A connection carries one request at a time, so there are
//! as many as requests under way, and a few are kept for later requests.

use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio::time::Sleep;

use crate::{BoxError, ResponseBody};

/// Maximum number of connections that are kept for later requests.
const MAX_KEPT: usize = 8;
/// Maximum duration of a watch. There are no pings that detect a dead connection, and watches are resumed
/// where they ended.
const MAX_WATCH: Duration = Duration::from_secs(600);

pub(super) type Http1Sender = SendRequest<Full<Bytes>>;

/// Connections that have been used. They are ready when the last response has been read.
#[derive(Default)]
pub(super) struct KeptConnections(Mutex<Vec<Http1Sender>>);

impl KeptConnections {
    /// Returns a connection that is ready for a request.
    pub fn take(&self) -> Option<Http1Sender> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|connection| !connection.is_closed());
        let ready = kept.iter().position(SendRequest::is_ready)?;
        Some(kept.swap_remove(ready))
    }

    fn keep(&self, connection: Http1Sender) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A connection that is not kept is closed when its response has been read.
        if kept.len() < MAX_KEPT {
            kept.push(connection);
        }
    }
}

/// Starts a connection, which may be upgraded to another protocol. The returned task drives it and ends with
/// it.
pub async fn handshake<S, B>(stream: S) -> Result<(SendRequest<B>, JoinHandle<()>), hyper::Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let driving = tokio::spawn(async move {
        // Errors are reported by the response or its body.
        let _ = connection.with_upgrades().await;
    });
    Ok((sender, driving))
}

/// Sends a request with a complete URI. The connection is used again, except for a watch.
pub(super) async fn send(
    mut connection: Http1Sender,
    mut request: Request<Full<Bytes>>,
    kept: Option<&KeptConnections>,
) -> Result<Response<ResponseBody>, BoxError> {
    if let Some(authority) = request.uri().authority() {
        let host = HeaderValue::from_str(authority.as_str())?;
        request.headers_mut().insert(header::HOST, host);
    }
    if let Some(path) = request.uri().path_and_query() {
        *request.uri_mut() = path.clone().into();
    }
    connection.ready().await?;
    let response = connection.send_request(request).await?;
    Ok(match kept {
        Some(kept) => {
            kept.keep(connection);
            response.map(|body| body.map_err(BoxError::from).boxed_unsync())
        }
        None => response.map(|body| {
            let timeout = Box::pin(tokio::time::sleep(MAX_WATCH));
            LimitedWatch { body, timeout }.boxed_unsync()
        }),
    })
}

/// The body of a watch, which ends with an error after some time.
struct LimitedWatch {
    body: Incoming,
    timeout: Pin<Box<Sleep>>,
}

impl Body for LimitedWatch {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)));
        }
        ready!(self.timeout.as_mut().poll(context));
        Poll::Ready(Some(Err("the watch was open for too long without HTTP/2".into())))
    }
}
