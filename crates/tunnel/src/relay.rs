//! Copies bytes between two streams.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::protocol::IDLE;

/// Copies bytes in both directions until both have ended. The end of one direction is passed on and leaves the
/// other open. An error, or silence for hours, ends both.
pub async fn relay<A, B>(one: A, other: B)
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    relay_within(IDLE, one, other).await;
}

async fn relay_within<A, B>(limit: Duration, one: A, mut other: B)
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let moved = Arc::new(Mutex::new(Instant::now()));
    let mut one = Observed { stream: one, moved: moved.clone() };
    let last = || *moved.lock().unwrap_or_else(PoisonError::into_inner);
    let idle = async {
        while last().elapsed() < limit {
            tokio::time::sleep_until(last() + limit).await;
        }
    };
    tokio::select! {
        // Neither side learns which error ended the stream.
        _ = tokio::io::copy_bidirectional(&mut one, &mut other) => {}
        () = idle => {}
    }
}

/// A stream with the time of its last byte.
struct Observed<S> {
    stream: S,
    moved: Arc<Mutex<Instant>>,
}

impl<S> Observed<S> {
    fn observe(&self) {
        *self.moved.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Observed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() {
            self.observe();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Observed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if written.is_ready() {
            self.observe();
        }
        written
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

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_direction_ends_by_itself() {
        let (mut client, one) = tokio::io::duplex(16);
        let (mut server, other) = tokio::io::duplex(16);
        let relaying = tokio::spawn(relay(one, other));
        client.write_all(b"question").await.unwrap();
        client.shutdown().await.unwrap();
        let mut question = String::new();
        server.read_to_string(&mut question).await.unwrap();
        assert_eq!(question, "question");
        // The response is longer than any buffer on its way.
        let answer = "answer".repeat(100);
        let sent = answer.clone();
        let answering = tokio::spawn(async move {
            server.write_all(sent.as_bytes()).await.unwrap();
            server.shutdown().await.unwrap();
        });
        let mut read = String::new();
        client.read_to_string(&mut read).await.unwrap();
        assert_eq!(read, answer);
        answering.await.unwrap();
        relaying.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn silent_streams_end() {
        let (mut client, one) = tokio::io::duplex(16);
        let (_server, other) = tokio::io::duplex(16);
        let began = Instant::now();
        let limit = Duration::from_secs(60);
        let relaying = tokio::spawn(relay_within(limit, one, other));
        // The relay has started, and has waited for 50 seconds.
        tokio::task::yield_now().await;
        tokio::time::advance(Duration::from_secs(50)).await;
        client.write_all(b"x").await.unwrap();
        relaying.await.unwrap();
        assert_eq!(began.elapsed().as_secs(), 110);
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0, "the stream is closed");
    }
}
