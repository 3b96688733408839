//! What waits to be written to a connection, in order, and how much of it there may be.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Bytes that may wait for a peer that reads slowly.
const ROOM: usize = 256 << 10;
/// Answers to what a peer asks that may wait: they have room of their own, or a peer that is slow to read one stream could not
/// be heard on another.
const ANSWERS: usize = 1024;
/// Written in one piece, if so much is waiting.
const PIECE: usize = 64 << 10;

/// Puts messages in line. Clones share the line.
pub struct Outbox<M> {
    line: mpsc::UnboundedSender<Waiting<M>>,
    room: Arc<Semaphore>,
    answers: Arc<Semaphore>,
}

enum Waiting<M> {
    /// The permit gives the room back once it is written.
    Message(M, Option<OwnedSemaphorePermit>),
    End,
}

/// The other end of the line.
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

    /// At once, for what is small and cannot be many. Whether anybody will still write it.
    pub fn push(&self, message: M) -> bool {
        self.line.send(Waiting::Message(message, None)).is_ok()
    }

    /// As soon as there is room for `bytes`. Given up before that, nothing was sent.
    pub async fn send(&self, message: M, bytes: usize) -> io::Result<()> {
        self.send_within(&self.room, message, bytes.clamp(1, ROOM)).await
    }

    /// An answer to something that a peer may ask as often as it likes.
    pub async fn answer(&self, message: M) -> io::Result<()> {
        self.send_within(&self.answers, message, 1).await
    }

    async fn send_within(&self, room: &Arc<Semaphore>, message: M, wanted: usize) -> io::Result<()> {
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let permit = room.clone().acquire_many_owned(wanted as u32).await.map_err(|_| gone())?;
        self.line.send(Waiting::Message(message, Some(permit))).map_err(|_| gone())
    }

    /// Nothing is written after what is in line now.
    pub fn end(&self) {
        // Where nobody writes any more, it has ended.
        let _ = self.line.send(Waiting::End);
    }
}

impl<M> Line<M> {
    /// Writes what comes until the end is asked for, then says so to the peer.
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
        // Whoever waits for room waits in vain.
        self.room.close();
        self.answers.close();
    }
}
