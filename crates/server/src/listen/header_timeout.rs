//! Timeout for request headers.
//!
//! It starts when the connection is established, and again with the first byte of each later request, and
//! ends when that request's headers are complete. It does not run while a connection is idle between
//! requests; a longer idle timeout applies then.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::connections::OpenConnection;

/// The timeout of the headers that are being received.
pub struct HeaderTimeout {
    limit: Duration,
    state: Mutex<TimeoutState>,
    changed: Notify,
}

struct TimeoutState {
    /// End of the timeout, `None` while no headers are awaited.
    deadline: Option<Instant>,
    /// Requests that are being handled: data that arrives meanwhile belongs to them.
    in_progress: usize,
}

impl HeaderTimeout {
    /// Starts the timeout of the first request.
    pub fn new(limit: Duration) -> Arc<Self> {
        let state = TimeoutState { deadline: Some(Instant::now() + limit), in_progress: 0 };
        Arc::new(HeaderTimeout { limit, state: Mutex::new(state), changed: Notify::new() })
    }

    /// Ends the timeout: the headers are complete.
    pub fn headers_received(self: &Arc<Self>) -> RequestGuard {
        let mut state = self.state();
        state.deadline = None;
        state.in_progress += 1;
        RequestGuard(self.clone())
    }

    /// Ends the timeout for good.
    fn disable(&self) {
        self.state().deadline = None;
    }

    fn data_received(&self) {
        let mut state = self.state();
        if state.deadline.is_none() && state.in_progress == 0 {
            state.deadline = Some(Instant::now() + self.limit);
            self.changed.notify_one();
        }
    }

    /// Resolves when a client has taken too long.
    pub async fn expired(&self) {
        loop {
            let deadline = self.state().deadline;
            match deadline {
                None => self.changed.notified().await,
                Some(deadline) => {
                    sleep_until(deadline).await;
                    if self.state().deadline.is_some_and(|now| now <= Instant::now()) {
                        return;
                    }
                }
            }
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, TimeoutState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request is being handled while this exists.
pub struct RequestGuard(Arc<HeaderTimeout>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.state().in_progress -= 1;
    }
}

/// A connection that reports received data to the timeout.
pub struct TimedStream<S> {
    stream: S,
    header_timeout: Arc<HeaderTimeout>,
    /// Bytes after which the timeout ends for good; `None` if it applies to every request.
    preface_left: Option<usize>,
    /// Dropped after the stream, which is closed then: an upgraded stream outlives its connection's task.
    _open: Option<Arc<OpenConnection>>,
}

impl<S> TimedStream<S> {
    /// For HTTP/1.1: the timeout applies to every request's headers.
    pub fn every_request(stream: S, header_timeout: Arc<HeaderTimeout>) -> Self {
        TimedStream { stream, header_timeout, preface_left: None, _open: None }
    }

    /// For HTTP/2: the timeout ends with the connection preface, because pings detect dead clients.
    pub fn preface(stream: S, header_timeout: Arc<HeaderTimeout>, bytes: usize) -> Self {
        TimedStream { stream, header_timeout, preface_left: Some(bytes), _open: None }
    }

    /// Counts the connection as open until the stream is closed.
    pub fn holding(mut self, open: Arc<OpenConnection>) -> Self {
        self._open = Some(open);
        self
    }

    fn count(&mut self, bytes: usize) {
        match &mut self.preface_left {
            None => self.header_timeout.data_received(),
            Some(0) => {}
            Some(missing) => {
                *missing = missing.saturating_sub(bytes);
                if *missing == 0 {
                    self.header_timeout.disable();
                }
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(context, buffer);
        let bytes = buffer.filled().len() - before;
        if bytes > 0 {
            self.count(bytes);
        }
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::timeout;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    async fn ends_within(header_timeout: &HeaderTimeout, time: Duration) -> bool {
        timeout(time, header_timeout.expired()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn timeout_starts_with_connection_and_each_request() {
        let header_timeout = HeaderTimeout::new(LIMIT);
        assert!(!ends_within(&header_timeout, LIMIT / 2).await);
        let (mut client, server) = tokio::io::duplex(64);
        let mut server = TimedStream::every_request(server, header_timeout.clone());
        let mut byte = [0];
        client.write_all(b"abcd").await.unwrap();
        server.read_exact(&mut byte).await.unwrap();
        assert!(ends_within(&header_timeout, LIMIT / 2).await, "a byte does not extend the timeout");

        let header_timeout = HeaderTimeout::new(LIMIT);
        server.header_timeout = header_timeout.clone();
        let guard = header_timeout.headers_received();
        server.read_exact(&mut byte).await.unwrap();
        assert!(!ends_within(&header_timeout, LIMIT * 10).await, "a body may take longer");
        drop(guard);
        assert!(!ends_within(&header_timeout, LIMIT * 10).await, "a connection may be idle");
        server.read_exact(&mut byte).await.unwrap();
        assert!(!ends_within(&header_timeout, LIMIT / 2).await);
        assert!(ends_within(&header_timeout, LIMIT).await);
    }

    #[tokio::test(start_paused = true)]
    async fn preface_is_awaited_once() {
        let header_timeout = HeaderTimeout::new(LIMIT);
        let (mut client, server) = tokio::io::duplex(64);
        let mut server = TimedStream::preface(server, header_timeout.clone(), 3);
        let mut two = [0; 2];
        client.write_all(b"abcdef").await.unwrap();
        server.read_exact(&mut two).await.unwrap();
        assert!(!ends_within(&header_timeout, LIMIT / 2).await);
        server.read_exact(&mut two).await.unwrap();
        server.read_exact(&mut two).await.unwrap();
        assert!(!ends_within(&header_timeout, LIMIT * 10).await);
    }
}
