//! The seam of a listener: the program around the server may wrap the listener, its connections and the
//! handler of their requests, for example to simulate a network. A listener without a wrapper pays for one
//! branch per read and write.
//!
//! ```text
//!   ListenerWrapper ─ accept ─► TcpStream ─ wrap ─┬─► WrappedStream: every byte
//!                                                 └─► ConnectionWrapper: every request and response
//! ```

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use atoll_client::BoxFuture;
use http::Response;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

use crate::body::Body;
use crate::hidden_api::HiddenApi;

/// A listener, perhaps wrapped.
pub enum Listener {
    Tcp(TcpListener),
    Wrapped(Box<dyn ListenerWrapper>),
}

impl Listener {
    /// Accepts the next connection. Cancel safe.
    pub(super) async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        match self {
            Listener::Tcp(listener) => listener.accept().await,
            Listener::Wrapped(wrapper) => wrapper.accept().await,
        }
    }

    /// Wraps a connection that it has accepted.
    pub(super) fn wrap(&self, stream: TcpStream) -> (ClientStream, Option<Arc<dyn ConnectionWrapper>>) {
        match self {
            Listener::Tcp(_) => (ClientStream::Tcp(stream), None),
            Listener::Wrapped(wrapper) => {
                let (stream, connection) = wrapper.wrap(stream);
                (ClientStream::Wrapped(stream), Some(connection))
            }
        }
    }
}

/// Accepts connections instead of the listener, and wraps them.
pub trait ListenerWrapper: Send + Sync + 'static {
    /// Accepts the next connection. It must be cancel safe.
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(TcpStream, SocketAddr)>>;

    fn wrap(&self, stream: TcpStream) -> (Box<dyn WrappedStream>, Arc<dyn ConnectionWrapper>);
}

/// The bytes of a wrapped connection, below TLS.
pub trait WrappedStream: AsyncRead + AsyncWrite + Unpin + Send + Sync + 'static {
    /// Reads bytes that the next read returns again.
    fn poll_peek(&self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<usize>>;
}

/// Wraps the handler of a connection.
pub trait ConnectionWrapper: Send + Sync + 'static {
    /// Returns the parts of the API that the next request does not see.
    fn hidden_api(&self) -> Option<Arc<HiddenApi>>;

    /// Wraps the response to a request that has been carried out.
    fn wrap_response(self: Arc<Self>, response: Response<Body>) -> BoxFuture<'static, Response<Body>>;

    /// Resolves when the connection is to be ended at once.
    fn ended(&self) -> BoxFuture<'_, ()>;
}

/// The stream of a connection, perhaps wrapped.
pub(super) enum ClientStream {
    Tcp(TcpStream),
    Wrapped(Box<dyn WrappedStream>),
}

impl ClientStream {
    pub async fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            ClientStream::Tcp(stream) => stream.peek(buffer).await,
            ClientStream::Wrapped(stream) => {
                let mut buffer = ReadBuf::new(buffer);
                std::future::poll_fn(|context| stream.poll_peek(context, &mut buffer)).await
            }
        }
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            ClientStream::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            ClientStream::Wrapped(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            ClientStream::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            ClientStream::Wrapped(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            ClientStream::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            ClientStream::Wrapped(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            ClientStream::Tcp(stream) => stream.is_write_vectored(),
            ClientStream::Wrapped(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            ClientStream::Tcp(stream) => Pin::new(stream).poll_flush(context),
            ClientStream::Wrapped(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            ClientStream::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            ClientStream::Wrapped(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
