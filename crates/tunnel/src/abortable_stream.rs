//! A stream that another task can abort.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

/// A stream that fails once its [`AbortOnDrop`] is dropped.
pub struct AbortableStream<S> {
    stream: S,
    hold: oneshot::Receiver<()>,
    is_aborted: bool,
}

/// Keeps a stream open.
pub struct AbortOnDrop {
    _open: oneshot::Sender<()>,
}

impl<S> AbortableStream<S> {
    pub fn new(stream: S) -> (AbortableStream<S>, AbortOnDrop) {
        let (open, hold) = oneshot::channel();
        (AbortableStream { stream, hold, is_aborted: false }, AbortOnDrop { _open: open })
    }

    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        // A receiver must not be polled again once it is ready.
        self.is_aborted = self.is_aborted || Pin::new(&mut self.hold).poll(context).is_ready();
        match self.is_aborted {
            true => Err(io::ErrorKind::ConnectionAborted.into()),
            false => Ok(()),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for AbortableStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for AbortableStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn streams_fail_when_they_are_cut() {
        let (mut other, stream) = tokio::io::duplex(16);
        let (mut stream, hold) = AbortableStream::new(stream);
        other.write_all(b"a").await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'a');
        let reading = tokio::spawn(async move {
            let read = stream.read_u8().await;
            (read.map_err(|error| error.kind()), stream.write_u8(1).await.is_err())
        });
        tokio::task::yield_now().await;
        drop(hold);
        assert_eq!(reading.await.unwrap(), (Err(io::ErrorKind::ConnectionAborted), true));
    }
}
