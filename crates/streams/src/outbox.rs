//! The bounded queue of messages that are written to a connection.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Maximum number of queued bytes for a slow peer.
const MAX_BYTES: usize = 256 << 10;
/// Maximum number of queued replies. They are limited separately, so that a peer that reads one stream slowly
/// can still use others.
const MAX_REPLIES: usize = 1024;
/// Bytes that are written at once, if enough are queued.
const WRITE_BYTES: usize = 64 << 10;

/// The sending end of the queue. Clones share it.
pub struct Outbox<M> {
    sender: mpsc::UnboundedSender<Queued<M>>,
    room: Arc<Semaphore>,
    replies: Arc<Semaphore>,
}

enum Queued<M> {
    /// The permit is released after the message was written.
    Message(M, Option<OwnedSemaphorePermit>),
    End,
}

/// The receiving end of the queue.
pub struct OutboxReceiver<M> {
    messages: mpsc::UnboundedReceiver<Queued<M>>,
    room: Arc<Semaphore>,
    replies: Arc<Semaphore>,
}

impl<M> Clone for Outbox<M> {
    fn clone(&self) -> Self {
        Outbox { sender: self.sender.clone(), room: self.room.clone(), replies: self.replies.clone() }
    }
}

impl<M> Outbox<M> {
    pub fn new() -> (Self, OutboxReceiver<M>) {
        let (sender, messages) = mpsc::unbounded_channel();
        let (room, replies) = (Arc::new(Semaphore::new(MAX_BYTES)), Arc::new(Semaphore::new(MAX_REPLIES)));
        (
            Outbox { sender, room: room.clone(), replies: replies.clone() },
            OutboxReceiver { messages, room, replies },
        )
    }

    /// Queues a small message without a limit. Returns false if the connection is gone.
    pub fn push(&self, message: M) -> bool {
        self.sender.send(Queued::Message(message, None)).is_ok()
    }

    /// Queues a message when there is room for `bytes`. Cancel safe: nothing is sent if cancelled.
    pub async fn send(&self, message: M, bytes: usize) -> io::Result<()> {
        self.send_within(&self.room, message, bytes.clamp(1, MAX_BYTES)).await
    }

    /// Queues a reply to a request that a peer may repeat.
    pub async fn reply(&self, message: M) -> io::Result<()> {
        self.send_within(&self.replies, message, 1).await
    }

    async fn send_within(&self, room: &Arc<Semaphore>, message: M, wanted: usize) -> io::Result<()> {
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let permit = room.clone().acquire_many_owned(wanted as u32).await.map_err(|_| gone())?;
        self.sender.send(Queued::Message(message, Some(permit))).map_err(|_| gone())
    }

    /// Ends the queue after the messages that are queued now.
    pub fn end(&self) {
        // If the receiver is gone, the queue has ended.
        let _ = self.sender.send(Queued::End);
    }
}

impl<M> OutboxReceiver<M> {
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
            let mut next = self.messages.recv().await;
            loop {
                match next {
                    Some(Queued::Message(message, permit)) => {
                        encode(message, &mut bytes);
                        permits.extend(permit);
                    }
                    Some(Queued::End) | None => {
                        ended = true;
                        break;
                    }
                }
                if bytes.len() >= WRITE_BYTES {
                    break;
                }
                match self.messages.try_recv() {
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

impl<M> Drop for OutboxReceiver<M> {
    fn drop(&mut self) {
        // Wake senders that wait for room.
        self.room.close();
        self.replies.close();
    }
}
