//! One direction of a stream, whichever protocol carries it.

use std::io;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};

use crate::outbox::Outbox;
use crate::spdy;
use crate::websocket::channels;

/// Maximum number of queued chunks of a reader.
const MAX_QUEUED_CHUNKS: usize = 16;
/// Maximum size of a chunk.
pub(crate) const CHUNK_BYTES: usize = 32 << 10;

/// Data from the peer, in chunks. After it is dropped, further data is discarded.
#[derive(Debug)]
pub struct Input {
    chunks: mpsc::Receiver<Bytes>,
    /// The unused output of the same stream, which must stay open as long as the input.
    _back: Option<Output>,
}

pub(crate) fn input(back: Option<Output>) -> (mpsc::Sender<Bytes>, Input) {
    let (sender, chunks) = mpsc::channel(MAX_QUEUED_CHUNKS);
    (sender, Input { chunks, _back: back })
}

impl Input {
    /// Returns the next chunk; `None` once the peer has closed the stream or is gone.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.chunks.recv().await
    }

    /// Reads to the end and returns at most `most` bytes.
    pub async fn read_to_end(&mut self, most: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(chunk) = self.next().await {
            let room = most.saturating_sub(all.len()).min(chunk.len());
            all.extend_from_slice(&chunk[..room]);
        }
        all
    }

    /// Copies all data to `writer`.
    pub async fn copy_to<W: AsyncWrite + Unpin>(&mut self, writer: &mut W) -> io::Result<()> {
        while let Some(chunk) = self.next().await {
            writer.write_all(&chunk).await?;
            writer.flush().await?;
        }
        Ok(())
    }

    pub(crate) fn with_back(mut self, back: Output) -> Self {
        self._back = Some(back);
        self
    }
}

/// Data to the peer. It is closed when dropped.
#[derive(Debug)]
pub struct Output {
    carrier: Carrier,
    /// Its sender is dropped when the peer stops reading.
    alive: watch::Receiver<()>,
    is_open: bool,
}

pub(crate) enum Carrier {
    Spdy { outbox: Outbox<spdy::Frame>, streams: spdy::Streams, stream: u32 },
    Channel { outbox: Outbox<crate::websocket::Message>, encoding: channels::Encoding, channel: u8 },
}

impl std::fmt::Debug for Carrier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Carrier::Spdy { stream, .. } => write!(f, "stream {stream}"),
            Carrier::Channel { channel, .. } => write!(f, "channel {channel}"),
        }
    }
}

impl Output {
    pub(crate) fn new(carrier: Carrier, alive: watch::Receiver<()>) -> Self {
        Output { carrier, alive, is_open: true }
    }

    /// Waits for room and sends. Returns an error if the peer has stopped reading.
    pub async fn write(&mut self, bytes: impl Into<Bytes>) -> io::Result<()> {
        let mut bytes = bytes.into();
        while !bytes.is_empty() {
            if self.alive.has_changed().is_err() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let chunk = bytes.split_to(bytes.len().min(CHUNK_BYTES));
            let length = chunk.len();
            match &self.carrier {
                Carrier::Spdy { outbox, stream, .. } => {
                    let frame = spdy::Frame::Data { stream: *stream, fin: false, bytes: chunk };
                    outbox.send(frame, length).await?;
                }
                Carrier::Channel { outbox, encoding, channel } => {
                    outbox.send(encoding.message(*channel, &chunk), length).await?;
                }
            }
        }
        Ok(())
    }

    /// Sends all data of `reader`. Returns an error if the peer has stopped reading.
    pub async fn copy_from<R: AsyncRead + Unpin>(&mut self, reader: &mut R) -> io::Result<()> {
        let mut alive = self.alive.clone();
        let mut buffer = bytes::BytesMut::new();
        loop {
            buffer.reserve(CHUNK_BYTES);
            tokio::select! {
                read = reader.read_buf(&mut buffer) => if read? == 0 { return Ok(()) },
                _ = alive.changed() => return Err(io::ErrorKind::BrokenPipe.into()),
            }
            self.write(buffer.split().freeze()).await?;
        }
    }

    /// Resolves when the peer has stopped reading this stream.
    pub async fn closed_by_peer(&self) {
        // No value is ever sent: it changes when the sender is dropped.
        let _ = self.alive.clone().changed().await;
    }

    /// Closes the stream.
    pub fn close(mut self) {
        self.finish();
    }

    /// Resets the stream in both directions.
    pub fn reset(mut self) {
        if let Carrier::Spdy { outbox, streams, stream } = &self.carrier
            && self.is_open
        {
            self.is_open = false;
            streams.forget(*stream);
            outbox.push(spdy::Frame::RstStream { stream: *stream, status: spdy::reset::CANCEL });
        }
    }

    fn finish(&mut self) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        match &self.carrier {
            Carrier::Spdy { outbox, streams, stream } => {
                if streams.finish(*stream) {
                    outbox.push(spdy::Frame::Data { stream: *stream, fin: true, bytes: Bytes::new() });
                }
            }
            // Only clients can close a channel.
            Carrier::Channel { .. } => {}
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.finish();
    }
}
