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

/// The timeout of the headers that are being received.
pub struct Patience {
    limit: Duration,
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    /// End of the timeout, `None` while no headers are awaited.
    deadline: Option<Instant>,
    /// Requests that are being handled: data that arrives meanwhile belongs to them.
    answering: usize,
}

impl Patience {
    /// Starts the timeout of the first request.
    pub fn new(limit: Duration) -> Arc<Self> {
        let state = State { deadline: Some(Instant::now() + limit), answering: 0 };
        Arc::new(Patience { limit, state: Mutex::new(state), changed: Notify::new() })
    }

    /// Ends the timeout: the headers are complete.
    pub fn answering(self: &Arc<Self>) -> Answering {
        let mut state = self.state();
        state.deadline = None;
        state.answering += 1;
        Answering(self.clone())
    }

    /// Ends the timeout for good.
    fn satisfied(&self) {
        self.state().deadline = None;
    }

    fn heard(&self) {
        let mut state = self.state();
        if state.deadline.is_none() && state.answering == 0 {
            state.deadline = Some(Instant::now() + self.limit);
            self.changed.notify_one();
        }
    }

    /// Resolves when a client has taken too long.
    pub async fn ended(&self) {
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

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request is being handled while this exists.
pub struct Answering(Arc<Patience>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.state().answering -= 1;
    }
}

/// A connection that reports received data to the timeout.
pub struct Heard<S> {
    stream: S,
    patience: Arc<Patience>,
    /// Bytes after which the timeout ends for good; `None` if it applies to every request.
    enough: Option<usize>,
}

impl<S> Heard<S> {
    /// For HTTP/1.1: the timeout applies to every request's headers.
    pub fn every_request(stream: S, patience: Arc<Patience>) -> Self {
        Heard { stream, patience, enough: None }
    }

    /// For HTTP/2: the timeout ends with the connection preface, because pings detect dead clients.
    pub fn opening(stream: S, patience: Arc<Patience>, bytes: usize) -> Self {
        Heard { stream, patience, enough: Some(bytes) }
    }

    fn count(&mut self, bytes: usize) {
        match &mut self.enough {
            None => self.patience.heard(),
            Some(0) => {}
            Some(missing) => {
                *missing = missing.saturating_sub(bytes);
                if *missing == 0 {
                    self.patience.satisfied();
                }
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heard<S> {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for Heard<S> {
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

    async fn ends_within(patience: &Patience, time: Duration) -> bool {
        timeout(time, patience.ended()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn timeout_starts_with_connection_and_each_request() {
        let patience = Patience::new(LIMIT);
        assert!(!ends_within(&patience, LIMIT / 2).await);
        let (mut client, server) = tokio::io::duplex(64);
        let mut server = Heard::every_request(server, patience.clone());
        let mut byte = [0];
        client.write_all(b"abcd").await.unwrap();
        server.read_exact(&mut byte).await.unwrap();
        assert!(ends_within(&patience, LIMIT / 2).await, "a byte does not extend the timeout");

        let patience = Patience::new(LIMIT);
        server.patience = patience.clone();
        let answering = patience.answering();
        server.read_exact(&mut byte).await.unwrap();
        assert!(!ends_within(&patience, LIMIT * 10).await, "a body may take longer");
        drop(answering);
        assert!(!ends_within(&patience, LIMIT * 10).await, "a connection may be idle");
        server.read_exact(&mut byte).await.unwrap();
        assert!(!ends_within(&patience, LIMIT / 2).await);
        assert!(ends_within(&patience, LIMIT).await);
    }

    #[tokio::test(start_paused = true)]
    async fn preface_is_awaited_once() {
        let patience = Patience::new(LIMIT);
        let (mut client, server) = tokio::io::duplex(64);
        let mut server = Heard::opening(server, patience.clone(), 3);
        let mut two = [0; 2];
        client.write_all(b"abcdef").await.unwrap();
        server.read_exact(&mut two).await.unwrap();
        assert!(!ends_within(&patience, LIMIT / 2).await);
        server.read_exact(&mut two).await.unwrap();
        server.read_exact(&mut two).await.unwrap();
        assert!(!ends_within(&patience, LIMIT * 10).await);
    }
}
