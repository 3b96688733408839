//! One direction of a stream, whichever protocol carries it.

use std::io;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};

use crate::outbox::Outbox;
use crate::spdy;
use crate::websocket::channels;

/// Pieces that may wait for whoever reads a stream.
const WAITING: usize = 16;
/// Most bytes in one piece.
pub(crate) const PIECE: usize = 32 << 10;

/// What comes from the peer, piece by piece. Dropped, the rest is read and thrown away.
#[derive(Debug)]
pub struct Input {
    pieces: mpsc::Receiver<Bytes>,
    /// The way back on the same stream, if nobody uses it: it must not close before this does.
    _back: Option<Output>,
}

pub(crate) fn input(back: Option<Output>) -> (mpsc::Sender<Bytes>, Input) {
    let (sender, pieces) = mpsc::channel(WAITING);
    (sender, Input { pieces, _back: back })
}

impl Input {
    /// What came next; nothing once the peer has closed the stream or is gone.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.pieces.recv().await
    }

    /// Everything up to the end, but no more than `most` bytes of it.
    pub async fn read_to_end(&mut self, most: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(piece) = self.next().await {
            let room = most.saturating_sub(all.len()).min(piece.len());
            all.extend_from_slice(&piece[..room]);
        }
        all
    }

    /// Writes everything that comes to `writer`.
    pub async fn copy_to<W: AsyncWrite + Unpin>(&mut self, writer: &mut W) -> io::Result<()> {
        while let Some(piece) = self.next().await {
            writer.write_all(&piece).await?;
            writer.flush().await?;
        }
        Ok(())
    }

    pub(crate) fn with_back(mut self, back: Output) -> Self {
        self._back = Some(back);
        self
    }
}

/// What goes to the peer. Dropped, it is closed.
#[derive(Debug)]
pub struct Output {
    carrier: Carrier,
    /// Its other end is gone as soon as nobody listens.
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

    /// Waits for room and sends. An error if the peer does not listen any more.
    pub async fn write(&mut self, bytes: impl Into<Bytes>) -> io::Result<()> {
        let mut bytes = bytes.into();
        while !bytes.is_empty() {
            if self.alive.has_changed().is_err() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let piece = bytes.split_to(bytes.len().min(PIECE));
            let length = piece.len();
            match &self.carrier {
                Carrier::Spdy { outbox, stream, .. } => {
                    let frame = spdy::Frame::Data { stream: *stream, fin: false, bytes: piece };
                    outbox.send(frame, length).await?;
                }
                Carrier::Channel { outbox, encoding, channel } => {
                    outbox.send(encoding.message(*channel, &piece), length).await?;
                }
            }
        }
        Ok(())
    }

    /// Sends everything that `reader` has. Ends early if the peer does not listen any more.
    pub async fn copy_from<R: AsyncRead + Unpin>(&mut self, reader: &mut R) -> io::Result<()> {
        let mut alive = self.alive.clone();
        let mut buffer = bytes::BytesMut::new();
        loop {
            buffer.reserve(PIECE);
            tokio::select! {
                read = reader.read_buf(&mut buffer) => if read? == 0 { return Ok(()) },
                _ = alive.changed() => return Err(io::ErrorKind::BrokenPipe.into()),
            }
            self.write(buffer.split().freeze()).await?;
        }
    }

    /// Returns once the peer does not listen to this stream any more.
    pub async fn abandoned(&self) {
        // Nothing is ever sent this way: it changes by ending.
        let _ = self.alive.clone().changed().await;
    }

    /// Nothing more will come.
    pub fn close(mut self) {
        self.finish();
    }

    /// Nothing more will come, and nothing is wanted.
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
