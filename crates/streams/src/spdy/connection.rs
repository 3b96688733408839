//! A connection with streams: one task reads, one writes.

// upstream: github.com/moby/spdystream/connection.go

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::frame::{Frame, HEAD, Head, reset};
use super::headers::{Headers, Packer, Unpacker};
use crate::outbox::Outbox;
use crate::pipe::{CHUNK_BYTES, Carrier, Input, Output, input};

/// Maximum number of open streams of a peer.
const MAX_STREAMS: usize = 1024;
/// Maximum number of streams that a peer has opened and that were not accepted yet.
const MAX_UNACCEPTED: usize = 64;
/// Time that a peer may take to accept a stream, as upstream.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(30);
/// Time that a peer may take to close its end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Client,
    Server,
}

pub struct Connection {
    outbox: Outbox<Frame>,
    streams: Streams,
    opened: mpsc::Receiver<Stream>,
    tasks: Tasks,
}

/// Tasks that are aborted when this is dropped.
struct Tasks {
    reading: JoinHandle<()>,
    writing: JoinHandle<()>,
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.reading.abort();
        self.writing.abort();
    }
}

/// A bidirectional stream and its headers.
#[derive(Debug)]
pub struct Stream {
    pub id: u32,
    pub headers: Headers,
    pub input: Input,
    pub output: Output,
}

impl Connection {
    pub fn new<S>(stream: S, role: Role) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (reader, writer) = tokio::io::split(stream);
        let (outbox, queue) = Outbox::new();
        let (arrived, opened) = mpsc::channel(MAX_UNACCEPTED);
        let streams = Streams::new(role);
        let reading = ConnectionReader { outbox: outbox.clone(), streams: streams.clone(), arrived };
        let reading = tokio::spawn(async move {
            // Errors just end the connection.
            let _ = reading.run(reader).await;
        });
        let mut packer = Packer::default();
        let writing = tokio::spawn(async move {
            let _ = queue.write(writer, |frame: Frame, into| frame.encode(&mut packer, into)).await;
        });
        Connection { outbox, streams, opened, tasks: Tasks { reading, writing } }
    }

    /// Returns the next stream that the peer opens; `None` once it is gone.
    pub async fn next(&mut self) -> Option<Stream> {
        self.opened.recv().await
    }

    /// Opens a stream and waits until the peer has accepted it.
    pub async fn open(&self, headers: Headers) -> io::Result<Stream> {
        let (accepted, acceptance) = oneshot::channel();
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let frame = |stream| Frame::SynStream { stream, fin: false, headers: headers.clone() };
        let opened = self.streams.open(&self.outbox, accepted, frame).ok_or_else(gone)?;
        let (id, input, output) = opened;
        let stream = Stream { id, headers, input, output };
        match tokio::time::timeout(ACCEPT_TIMEOUT, acceptance).await {
            Ok(Ok(())) => Ok(stream),
            Ok(Err(_)) => Err(io::Error::new(io::ErrorKind::ConnectionReset, "Stream reset")),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "Timeout occured")),
        }
    }

    /// Resolves when the peer is gone.
    pub fn closed(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut ended = self.streams.ended.subscribe();
        async move {
            let _ = ended.wait_for(|ended| *ended).await;
        }
    }

    /// Sends pings regularly, as long as the connection exists.
    pub fn keep_alive(&self, every: Duration) {
        let (outbox, closed) = (self.outbox.clone(), self.closed());
        tokio::spawn(async move {
            let mut closed = std::pin::pin!(closed);
            let mut id = 1_u32;
            loop {
                tokio::select! {
                    () = tokio::time::sleep(every) => {}
                    () = &mut closed => return,
                }
                if outbox.send(Frame::Ping(id), HEAD).await.is_err() {
                    return;
                }
                id = id.checked_add(2).unwrap_or(1);
            }
        });
    }

    /// Sends queued frames and GOAWAY, and waits shortly for the peer to close.
    pub async fn close(mut self) {
        let last = self.streams.lock().newest;
        self.outbox.push(Frame::GoAway { last, status: 0 });
        self.outbox.end();
        self.opened.close();
        let closing = async {
            let _ = (&mut self.tasks.writing).await;
            let _ = (&mut self.tasks.reading).await;
        };
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, closing).await;
    }
}

/// The open streams.
#[derive(Clone)]
pub(crate) struct Streams {
    table: Arc<Mutex<Table>>,
    ended: Arc<watch::Sender<bool>>,
}

struct Table {
    role: Role,
    open: HashMap<u32, Entry>,
    /// The ID of the next stream that is opened here.
    next: u32,
    /// The newest stream of the peer.
    newest: u32,
    has_ended: bool,
}

struct Entry {
    /// `None` after the peer has closed its side.
    data: Option<mpsc::Sender<Bytes>>,
    /// `None` after the peer has accepted the stream.
    accepted: Option<oneshot::Sender<()>>,
    /// Whether this side is closed.
    is_finished: bool,
    /// Dropped with the entry, which tells writers that the peer has stopped reading.
    _alive: watch::Sender<()>,
}

impl Streams {
    fn new(role: Role) -> Self {
        let next = if role == Role::Client { 1 } else { 2 };
        let table = Table { role, open: HashMap::new(), next, newest: 0, has_ended: false };
        Streams { table: Arc::new(Mutex::new(table)), ended: Arc::new(watch::channel(false).0) }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn insert(
        &self,
        table: &mut Table,
        outbox: &Outbox<Frame>,
        stream: u32,
        accepted: Option<oneshot::Sender<()>>,
    ) -> (Input, Output) {
        let (data, input) = input(None);
        let (keep, alive) = watch::channel(());
        let entry = Entry { data: Some(data), accepted, is_finished: false, _alive: keep };
        table.open.insert(stream, entry);
        let carrier = Carrier::Spdy { outbox: outbox.clone(), streams: self.clone(), stream };
        (input, Output::new(carrier, alive))
    }

    /// Opens a stream. Its frame is queued while the lock is held, because IDs must increase on the wire.
    fn open(
        &self,
        outbox: &Outbox<Frame>,
        accepted: oneshot::Sender<()>,
        frame: impl FnOnce(u32) -> Frame,
    ) -> Option<(u32, Input, Output)> {
        let mut table = self.lock();
        let stream = table.next;
        if table.has_ended || stream > u32::MAX >> 1 {
            return None;
        }
        table.next += 2;
        outbox.push(frame(stream));
        let (input, output) = self.insert(&mut table, outbox, stream, Some(accepted));
        Some((stream, input, output))
    }

    /// Accepts a stream of the peer, or returns the reset status.
    fn accept(&self, outbox: &Outbox<Frame>, stream: u32) -> Result<(Input, Output), u32> {
        let mut table = self.lock();
        let is_odd = stream % 2 == 1;
        if is_odd != (table.role == Role::Server) || stream <= table.newest {
            return Err(reset::PROTOCOL_ERROR);
        }
        table.newest = stream;
        if table.role == Role::Client || table.open.len() >= MAX_STREAMS {
            return Err(reset::REFUSED_STREAM);
        }
        Ok(self.insert(&mut table, outbox, stream, None))
    }

    /// Closes this side of a stream. Returns whether the stream was open.
    pub fn finish(&self, stream: u32) -> bool {
        let mut table = self.lock();
        let Some(entry) = table.open.get_mut(&stream) else { return false };
        entry.is_finished = true;
        if entry.data.is_none() {
            table.open.remove(&stream);
        }
        true
    }

    /// Handles that the peer has closed its side.
    fn peer_finished(&self, stream: u32) {
        let mut table = self.lock();
        let Some(entry) = table.open.get_mut(&stream) else { return };
        entry.data = None;
        if entry.is_finished {
            table.open.remove(&stream);
        }
    }

    pub fn forget(&self, stream: u32) {
        self.lock().open.remove(&stream);
    }

    fn accepted(&self, stream: u32) {
        let accepted = self.lock().open.get_mut(&stream).and_then(|entry| entry.accepted.take());
        if let Some(accepted) = accepted {
            // The caller may have been cancelled.
            let _ = accepted.send(());
        }
    }

    fn reader_of(&self, stream: u32) -> Option<mpsc::Sender<Bytes>> {
        self.lock().open.get(&stream)?.data.clone()
    }

    /// Ends all streams.
    fn end(&self) {
        let mut table = self.lock();
        table.has_ended = true;
        table.open.clear();
        drop(table);
        self.ended.send_replace(true);
    }
}

struct ConnectionReader {
    outbox: Outbox<Frame>,
    streams: Streams,
    arrived: mpsc::Sender<Stream>,
}

impl Drop for ConnectionReader {
    fn drop(&mut self) {
        self.streams.end();
        // Further frames would not be handled, so end the queue.
        self.outbox.end();
    }
}

impl ConnectionReader {
    async fn run<R: AsyncRead + Unpin>(self, mut reader: R) -> io::Result<()> {
        let mut unpacker = Unpacker::default();
        let mut buffer = BytesMut::new();
        loop {
            let mut head = [0; HEAD];
            reader.read_exact(&mut head).await?;
            match Head::parse(head)? {
                Head::Data { stream, fin, length } => {
                    self.data(&mut reader, &mut buffer, stream, length).await?;
                    if fin {
                        self.streams.peer_finished(stream);
                    }
                }
                Head::Control { kind, flags, length } => {
                    let mut payload = vec![0; length];
                    reader.read_exact(&mut payload).await?;
                    let frame = Frame::control(kind, flags, &payload, &mut unpacker)?;
                    self.control(frame).await?;
                }
            }
        }
    }

    /// Passes data to the reader in chunks. A slow reader blocks the connection.
    async fn data<R: AsyncRead + Unpin>(
        &self,
        reader: &mut R,
        buffer: &mut BytesMut,
        stream: u32,
        length: usize,
    ) -> io::Result<()> {
        let mut wanted = self.streams.reader_of(stream);
        let mut left = length;
        while left > 0 {
            let most = left.min(CHUNK_BYTES);
            buffer.reserve(most);
            let mut chunk = bytes::BufMut::limit(&mut *buffer, most);
            let read = reader.read_buf(&mut chunk).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            left -= read;
            let chunk = buffer.split().freeze();
            if let Some(reader) = &wanted
                && reader.send(chunk).await.is_err()
            {
                wanted = None;
            }
        }
        Ok(())
    }

    async fn control(&self, frame: Frame) -> io::Result<()> {
        match frame {
            Frame::SynStream { stream: id, fin, headers } => match self.streams.accept(&self.outbox, id) {
                Err(status) => self.outbox.reply(Frame::RstStream { stream: id, status }).await?,
                Ok((input, output)) => {
                    let reply = Frame::SynReply { stream: id, fin: false, headers: Headers::default() };
                    self.outbox.reply(reply).await?;
                    if fin {
                        self.streams.peer_finished(id);
                    }
                    let stream = Stream { id, headers, input, output };
                    if let Err(refused) = self.arrived.try_send(stream) {
                        refused.into_inner().output.reset();
                    }
                }
            },
            Frame::SynReply { stream, fin, .. } => {
                self.streams.accepted(stream);
                if fin {
                    self.streams.peer_finished(stream);
                }
            }
            Frame::RstStream { stream, .. } => self.streams.forget(stream),
            Frame::Headers { stream, fin: true, .. } => self.streams.peer_finished(stream),
            // Pings with this side's parity are replies.
            Frame::Ping(id) => {
                let is_reply = (id % 2 == 1) == (self.streams.lock().role == Role::Client);
                if !is_reply {
                    self.outbox.reply(Frame::Ping(id)).await?;
                }
            }
            Frame::GoAway { .. } => return Err(io::ErrorKind::ConnectionAborted.into()),
            Frame::Headers { .. } | Frame::Settings(_) | Frame::WindowUpdate { .. } | Frame::Data { .. } => {}
        }
        Ok(())
    }
}
