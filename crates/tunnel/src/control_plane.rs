//! The end of a tunnel in the control plane: an HTTP/2 client.

use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use atoll_client::cluster_api::{
    ByteStream, ClusterApi, Upgrade, request_headers, response_headers, set_upgrade, upgrade_protocol,
};
use atoll_client::connect_error::{Cause, ConnectError};
use atoll_client::{BoxError, BoxFuture, ResponseBody, Transport};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::ext::Protocol;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::abortable_stream::AbortableStream;
use crate::permitted_stream::PermittedStream;
use crate::protocol::{
    AUTHORITY, CONNECTION_WINDOW, KeepAlive, MAX_HEADERS, MAX_STREAMS, METHOD, STREAM_WINDOW, UNREAD,
};

/// Time until the headers of a response: longer than any API server lets a request take.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(75);

/// Sends requests to the cluster of an agent.
pub struct Tunnel {
    sender: SendRequest<Full<Bytes>>,
    /// Permits of requests: the control plane does not rely on the limit of the agent.
    streams: Arc<Semaphore>,
    /// Name of the cluster, for errors.
    cluster: String,
}

impl Tunnel {
    /// Starts a tunnel over the stream that an agent has opened. The returned future resolves when either end
    /// has closed it, or it broke. If it is dropped, the tunnel is aborted.
    pub async fn start(
        stream: impl ByteStream + 'static,
        cluster: &str,
        keep_alive: KeepAlive,
    ) -> Result<(Tunnel, impl Future<Output = Result<(), BoxError>> + Send), BoxError> {
        // The connection runs in a task of its own, which ends with its stream.
        let (stream, hold) = AbortableStream::new(stream);
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(keep_alive.interval)
            .keep_alive_timeout(keep_alive.timeout)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(MAX_HEADERS)
            .handshake(TokioIo::new(stream))
            .await?;
        let streams = Arc::new(Semaphore::new(MAX_STREAMS as usize));
        let tunnel = Tunnel { sender, streams, cluster: cluster.to_string() };
        let driving = async move {
            let _hold = hold;
            connection.await.map_err(BoxError::from)
        };
        Ok((tunnel, driving))
    }

    async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, OwnedSemaphorePermit), BoxError> {
        let mut sender = self.sender.clone();
        let exchange = async {
            // The semaphore is never closed.
            let permit = self.streams.clone().acquire_owned().await?;
            sender.ready().await?;
            Ok::<_, BoxError>((sender.send_request(request).await?, permit))
        };
        match tokio::time::timeout(RESPONSE_TIMEOUT, exchange).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(self.failure(Cause::Unreachable, &format!("the tunnel broke: {error}"))),
            Err(_) => {
                let seconds = RESPONSE_TIMEOUT.as_secs();
                let what = format!("the server does not respond within {seconds} s through its tunnel");
                Err(self.failure(Cause::TimedOut, &what))
            }
        }
    }

    fn failure(&self, cause: Cause, what: &str) -> BoxError {
        let address = format!("cluster {}", self.cluster);
        ConnectError { cause, address, what: what.to_string() }.into()
    }

    async fn request(&self, request: Request<Bytes>) -> Result<Response<ResponseBody>, BoxError> {
        let (parts, body) = request.into_parts();
        let mut outgoing = Request::new(Full::new(body));
        *outgoing.method_mut() = parts.method;
        *outgoing.uri_mut() = format!("https://{AUTHORITY}{}", parts.uri).parse()?;
        *outgoing.headers_mut() = request_headers(&parts.headers);
        let (response, permit) = self.exchange(outgoing).await?;
        Ok(received(response, permit))
    }

    async fn connect(&self, request: Request<()>) -> Result<Upgrade, BoxError> {
        let (parts, ()) = request.into_parts();
        let protocol = upgrade_protocol(&parts.headers).ok_or("the request asks for no other protocol")?;
        let confirmed = HeaderValue::from_str(protocol)?;
        let mut outgoing = Request::new(Full::default());
        *outgoing.method_mut() = Method::CONNECT;
        *outgoing.uri_mut() = format!("https://{AUTHORITY}{}", parts.uri).parse()?;
        outgoing.extensions_mut().insert(Protocol::from(protocol));
        *outgoing.headers_mut() = request_headers(&parts.headers);
        outgoing.headers_mut().insert(METHOD, HeaderValue::from_str(parts.method.as_str())?);
        let (mut response, permit) = self.exchange(outgoing).await?;
        if response.status() != StatusCode::OK {
            return Ok(Upgrade::Refused(received(response, permit)));
        }
        let stream = TokioIo::new(hyper::upgrade::on(&mut response).await?);
        let mut switched = Response::new(());
        *switched.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *switched.headers_mut() = response_headers(response.headers());
        set_upgrade(switched.headers_mut(), confirmed);
        Ok(Upgrade::Switched(switched, Box::new(PermittedStream::new(stream, permit))))
    }
}

impl Transport for Tunnel {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        Box::pin(self.request(request))
    }
}

impl ClusterApi for Tunnel {
    fn upgrade(&self, request: Request<()>) -> BoxFuture<'_, Result<Upgrade, BoxError>> {
        Box::pin(self.connect(request))
    }

    fn forward(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        self.send(request)
    }

    fn unread_limit(&self) -> usize {
        UNREAD
    }
}

/// Returns a response whose body holds the permit of its request.
fn received(response: Response<Incoming>, permit: OwnedSemaphorePermit) -> Response<ResponseBody> {
    let (mut parts, body) = response.into_parts();
    parts.headers = response_headers(&parts.headers);
    Response::from_parts(parts, ReceivedBody { body, is_cut_off: false, _permit: permit }.boxed_unsync())
}

struct ReceivedBody {
    body: Incoming,
    /// Whether the error about a response without its end was returned.
    is_cut_off: bool,
    _permit: OwnedSemaphorePermit,
}

impl http_body::Body for ReceivedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, BoxError>>> {
        let cut_off = |error: BoxError| BoxError::from(std::io::Error::new(ErrorKind::UnexpectedEof, error));
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else { return Poll::Pending };
        Poll::Ready(match frame {
            // Hyper takes a reset without an error for the end of a response.
            None if !self.body.is_end_stream() && !self.is_cut_off => {
                self.is_cut_off = true;
                Some(Err(cut_off("the response was cut off".into())))
            }
            frame => frame.map(|frame| frame.map_err(|error| cut_off(error.into()))),
        })
    }
}
