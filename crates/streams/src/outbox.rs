//! The bounded queue of messages that are written to a connection.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Maximum number of queued bytes for a slow peer.
const ROOM: usize = 256 << 10;
/// Maximum number of queued replies. They are limited separately, so that a peer that reads one stream slowly
/// can still use others.
const ANSWERS: usize = 1024;
/// Bytes that are written at once, if enough are queued.
const PIECE: usize = 64 << 10;

/// The sending end of the queue. Clones share it.
pub struct Outbox<M> {
    line: mpsc::UnboundedSender<Waiting<M>>,
    room: Arc<Semaphore>,
    answers: Arc<Semaphore>,
}

enum Waiting<M> {
    /// The permit is released after the message was written.
    Message(M, Option<OwnedSemaphorePermit>),
    End,
}

/// The receiving end of the queue.
pub struct Line<M> {
    waiting: mpsc::UnboundedReceiver<Waiting<M>>,
    room: Arc<Semaphore>,
    answers: Arc<Semaphore>,
}

impl<M> Clone for Outbox<M> {
    fn clone(&self) -> Self {
        Outbox { line: self.line.clone(), room: self.room.clone(), answers: self.answers.clone() }
    }
}

impl<M> Outbox<M> {
    pub fn new() -> (Self, Line<M>) {
        let (line, waiting) = mpsc::unbounded_channel();
        let (room, answers) = (Arc::new(Semaphore::new(ROOM)), Arc::new(Semaphore::new(ANSWERS)));
        (Outbox { line, room: room.clone(), answers: answers.clone() }, Line { waiting, room, answers })
    }

    /// Queues a small message without a limit. Returns false if the connection is gone.
    pub fn push(&self, message: M) -> bool {
        self.line.send(Waiting::Message(message, None)).is_ok()
    }

    /// Queues a message when there is room for `bytes`. Cancel safe: nothing is sent if cancelled.
    pub async fn send(&self, message: M, bytes: usize) -> io::Result<()> {
        self.send_within(&self.room, message, bytes.clamp(1, ROOM)).await
    }

    /// Queues a reply to a request that a peer may repeat.
    pub async fn answer(&self, message: M) -> io::Result<()> {
        self.send_within(&self.answers, message, 1).await
    }

    async fn send_within(&self, room: &Arc<Semaphore>, message: M, wanted: usize) -> io::Result<()> {
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let permit = room.clone().acquire_many_owned(wanted as u32).await.map_err(|_| gone())?;
        self.line.send(Waiting::Message(message, Some(permit))).map_err(|_| gone())
    }

    /// Ends the queue after the messages that are queued now.
    pub fn end(&self) {
        // If the receiver is gone, the queue has ended.
        let _ = self.line.send(Waiting::End);
    }
}

impl<M> Line<M> {
    /// Writes messages until the end of the queue, then shuts down the writer.
    pub async fn write<W: AsyncWrite + Unpin>(
        mut self,
        mut writer: W,
        mut encode: impl FnMut(M, &mut Vec<u8>),
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        let mut permits = Vec::new();
        let mut ended = false;
        while !ended {
            let mut next = self.waiting.recv().await;
            loop {
                match next {
                    Some(Waiting::Message(message, permit)) => {
                        encode(message, &mut bytes);
                        permits.extend(permit);
                    }
                    Some(Waiting::End) | None => {
                        ended = true;
                        break;
                    }
                }
                if bytes.len() >= PIECE {
                    break;
                }
                match self.waiting.try_recv() {
                    Ok(more) => next = Some(more),
                    Err(_) => break,
                }
            }
            writer.write_all(&bytes).await?;
            writer.flush().await?;
            bytes.clear();
            permits.clear();
        }
        writer.shutdown().await
    }
}

impl<M> Drop for Line<M> {
    fn drop(&mut self) {
        // Wake senders that wait for room.
        self.room.close();
        self.answers.close();
    }
}
