//! How long a client may take to say what it wants.
//!
//! The time runs from the moment a connection is there, and again from the first byte of each later request,
//! until that request's headers are complete. While a client says nothing between requests no time runs: that
//! is a connection at rest, for which there is a longer limit.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// What is known of the headers that are on their way.
pub struct Patience {
    limit: Duration,
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    /// When patience ends; `None` while nothing is awaited.
    deadline: Option<Instant>,
    /// Requests whose answers are being made: what arrives meanwhile belongs to them.
    answering: usize,
}

impl Patience {
    /// Awaits the first request from now on.
    pub fn new(limit: Duration) -> Arc<Self> {
        let state = State { deadline: Some(Instant::now() + limit), answering: 0 };
        Arc::new(Patience { limit, state: Mutex::new(state), changed: Notify::new() })
    }

    /// The headers are here.
    pub fn answering(self: &Arc<Self>) -> Answering {
        let mut state = self.state();
        state.deadline = None;
        state.answering += 1;
        Answering(self.clone())
    }

    /// From here on, clients may take their time.
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

    /// Returns when a client has taken too long.
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

/// A request is being answered for as long as this lives.
pub struct Answering(Arc<Patience>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.state().answering -= 1;
    }
}

/// A connection that reports when something arrives.
pub struct Heard<S> {
    stream: S,
    patience: Arc<Patience>,
    /// How many bytes are enough to be patient ever after; `None` if every request is awaited anew.
    enough: Option<usize>,
}

impl<S> Heard<S> {
    /// For HTTP/1.1: every request's headers have to come in time.
    pub fn every_request(stream: S, patience: Arc<Patience>) -> Self {
        Heard { stream, patience, enough: None }
    }

    /// For HTTP/2: once its opening is here, pings tell whether the client lives.
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
    async fn time_runs_from_the_connection_and_from_each_first_byte() {
        let patience = Patience::new(LIMIT);
        assert!(!ends_within(&patience, LIMIT / 2).await);
        let (mut client, server) = tokio::io::duplex(64);
        let mut server = Heard::every_request(server, patience.clone());
        let mut byte = [0];
        client.write_all(b"abcd").await.unwrap();
        server.read_exact(&mut byte).await.unwrap();
        assert!(ends_within(&patience, LIMIT / 2).await, "a byte does not buy time");

        let patience = Patience::new(LIMIT);
        server.patience = patience.clone();
        let answering = patience.answering();
        server.read_exact(&mut byte).await.unwrap();
        assert!(!ends_within(&patience, LIMIT * 10).await, "a body may take longer");
        drop(answering);
        assert!(!ends_within(&patience, LIMIT * 10).await, "a connection may rest");
        server.read_exact(&mut byte).await.unwrap();
        assert!(!ends_within(&patience, LIMIT / 2).await);
        assert!(ends_within(&patience, LIMIT).await);
    }

    #[tokio::test(start_paused = true)]
    async fn an_opening_is_awaited_once() {
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
