//! Several streams on one WebSocket: each message starts with its channel number.

// upstream: staging/src/k8s.io/streaming/pkg/httpstream/wsstream/conn.go

use std::io;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::frame::{Message, Opcode, Role};
use super::reader::{Event, Reader};
use super::{CLOSE_NORMAL, CLOSE_PROTOCOL_ERROR};
use crate::outbox::Outbox;
use crate::pipe::{Carrier, Input, Output, input};

/// Marks a message whose next byte is the channel to close.
const CLOSE_CHANNEL: u8 = 255;
/// Time that a client may take to close its end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The encoding of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Binary,
    /// A digit and base64, as text.
    Base64,
}

impl Encoding {
    pub(crate) fn message(self, channel: u8, bytes: &[u8]) -> Message {
        match self {
            Encoding::Binary => Message::binary([&[channel], bytes].concat()),
            Encoding::Base64 => {
                let mut text = String::with_capacity(1 + bytes.len() * 4 / 3 + 4);
                text.push(char::from(b'0' + channel));
                STANDARD.encode_string(bytes, &mut text);
                Message { opcode: Opcode::Text, payload: text.into() }
            }
        }
    }
}

/// The server side of such a connection.
pub struct Channels {
    outbox: Outbox<Message>,
    encoding: Encoding,
    inputs: Vec<Option<Input>>,
    alive: watch::Receiver<()>,
    tasks: Tasks,
}

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

impl Channels {
    /// Creates one channel for each of `reads`, which says whether it is readable. `can_close` says whether
    /// clients may close channels individually.
    pub fn new<S>(stream: S, encoding: Encoding, can_close: bool, reads: &[bool]) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (reader, writer) = tokio::io::split(stream);
        let (outbox, queue) = Outbox::new();
        let (keep, alive) = watch::channel(());
        let (senders, inputs) = reads.iter().map(|read| read.then(|| input(None)).unzip()).unzip();
        let reading = ChannelReader {
            outbox: outbox.clone(),
            encoding,
            can_close,
            channels: senders,
            current: CurrentMessage::Ignored,
            _alive: keep,
        };
        let reading = tokio::spawn(reading.run(Reader::new(reader, Role::Server)));
        let writing = tokio::spawn(async move {
            // Errors just end the connection.
            let _ = queue.write(writer, |message: Message, into| message.encode(into)).await;
        });
        Channels { outbox, encoding, inputs, alive, tasks: Tasks { reading, writing } }
    }

    /// Returns the input of a channel, once.
    pub fn input(&mut self, channel: u8) -> Option<Input> {
        self.inputs.get_mut(usize::from(channel))?.take()
    }

    pub fn output(&self, channel: u8) -> Output {
        let carrier = Carrier::Channel { outbox: self.outbox.clone(), encoding: self.encoding, channel };
        Output::new(carrier, self.alive.clone())
    }

    /// Sends an empty message, which tells clients that the connection is established.
    pub fn greet(&self, channel: u8) {
        self.outbox.push(self.encoding.message(channel, &[]));
    }

    /// Resolves when the client is gone.
    pub fn closed(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut alive = self.alive.clone();
        async move {
            let _ = alive.changed().await;
        }
    }

    /// Sends queued messages and the close frame, and waits shortly for the client to close.
    pub async fn close(mut self) {
        self.outbox.push(Message::close(CLOSE_NORMAL));
        self.outbox.end();
        self.inputs.clear();
        let closing = async {
            let _ = (&mut self.tasks.writing).await;
            let _ = (&mut self.tasks.reading).await;
        };
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, closing).await;
    }
}

struct ChannelReader {
    outbox: Outbox<Message>,
    encoding: Encoding,
    can_close: bool,
    channels: Vec<Option<mpsc::Sender<Bytes>>>,
    current: CurrentMessage,
    /// Dropped at the end, which tells writers that the client is gone.
    _alive: watch::Sender<()>,
}

/// The rest of the current message.
enum CurrentMessage {
    Ignored,
    /// The number of a channel to close.
    Closing,
    /// Data of a channel, and the incomplete base64 group at its end.
    Data {
        channel: usize,
        left: Vec<u8>,
    },
}

impl Drop for ChannelReader {
    fn drop(&mut self) {
        // Further messages would not be handled, so end the queue.
        self.outbox.end();
    }
}

impl ChannelReader {
    async fn run<R: AsyncRead + Unpin>(mut self, mut reader: Reader<R>) {
        loop {
            let outcome = match reader.next().await {
                Ok(event) => self.handle(event).await,
                Err(error) => Err(error),
            };
            match outcome {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    if error.kind() == io::ErrorKind::InvalidData {
                        self.outbox.push(Message::close(CLOSE_PROTOCOL_ERROR));
                    }
                    return;
                }
            }
        }
    }

    /// Handles an event. Returns whether the connection continues.
    async fn handle(&mut self, event: Event) -> io::Result<bool> {
        match event {
            Event::Ping(payload) => self.outbox.reply(Message { opcode: Opcode::Pong, payload }).await?,
            Event::Pong => {}
            Event::Close(_) => {
                self.outbox.push(Message::close(CLOSE_NORMAL));
                return Ok(false);
            }
            Event::Data { mut bytes, is_first, is_last, .. } => {
                if is_first && bytes.is_empty() && !is_last {
                    // A channel number in a later frame is not supported; no client sends that.
                    self.current = CurrentMessage::Ignored;
                } else if is_first && !bytes.is_empty() {
                    self.current = self.start_message(bytes[0]);
                    bytes = bytes.slice(1..);
                }
                self.continue_message(bytes, is_last).await?;
            }
        }
        Ok(true)
    }

    fn start_message(&self, first: u8) -> CurrentMessage {
        if first == CLOSE_CHANNEL && self.can_close {
            return CurrentMessage::Closing;
        }
        let channel = match self.encoding {
            Encoding::Binary => first,
            Encoding::Base64 => first.wrapping_sub(b'0'),
        };
        match self.channels.get(usize::from(channel)) {
            Some(Some(_)) => CurrentMessage::Data { channel: channel.into(), left: Vec::new() },
            _ => CurrentMessage::Ignored,
        }
    }

    async fn continue_message(&mut self, bytes: Bytes, is_last: bool) -> io::Result<()> {
        match &mut self.current {
            CurrentMessage::Ignored => {}
            CurrentMessage::Closing => match bytes[..] {
                [] if !is_last => return Ok(()),
                [channel] if is_last && usize::from(channel) < self.channels.len() => {
                    self.channels[usize::from(channel)] = None;
                }
                _ => return Err(io::ErrorKind::InvalidData.into()),
            },
            CurrentMessage::Data { channel, left } => {
                let channel = *channel;
                let data = match self.encoding {
                    Encoding::Binary => bytes,
                    Encoding::Base64 => {
                        let mut text = std::mem::take(left);
                        text.extend_from_slice(&bytes);
                        let even = if is_last { text.len() } else { text.len() / 4 * 4 };
                        *left = text.split_off(even);
                        match STANDARD.decode(&text) {
                            Ok(data) => data.into(),
                            // As upstream, invalid base64 is ignored.
                            Err(_) => Bytes::new(),
                        }
                    }
                };
                if !data.is_empty()
                    && let Some(reader) = &self.channels[channel]
                    && reader.send(data).await.is_err()
                {
                    self.channels[channel] = None;
                    self.current = CurrentMessage::Ignored;
                }
            }
        }
        if is_last {
            self.current = CurrentMessage::Ignored;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn send(stream: &mut tokio::io::DuplexStream, opcode: Opcode, payload: &[u8]) {
        let mut bytes = Vec::new();
        Message { opcode, payload: Bytes::copy_from_slice(payload) }
            .encode_masked(Some([1, 2, 3, 4]), &mut bytes);
        stream.write_all(&bytes).await.unwrap();
    }

    #[tokio::test]
    async fn messages_are_dispatched_to_channels() {
        let (mut client, server) = tokio::io::duplex(1 << 20);
        let mut channels = Channels::new(server, Encoding::Binary, true, &[true, false, false, false, true]);
        let (mut stdin, mut resize) = (channels.input(0).unwrap(), channels.input(4).unwrap());
        assert!(channels.input(1).is_none() && channels.input(0).is_none());
        send(&mut client, Opcode::Binary, b"\0hello").await;
        send(&mut client, Opcode::Binary, b"").await;
        send(&mut client, Opcode::Binary, b"\x01ignored").await;
        send(&mut client, Opcode::Binary, b"\x09ignored").await;
        send(&mut client, Opcode::Binary, b"\x04size").await;
        send(&mut client, Opcode::Binary, b"\xff\0").await;
        send(&mut client, Opcode::Binary, b"\0late").await;
        send(&mut client, Opcode::Ping, b"p").await;
        assert_eq!(stdin.read_to_end(100).await, b"hello");
        assert_eq!(resize.next().await.unwrap(), "size");
        let mut pong = [0; 3];
        client.read_exact(&mut pong).await.unwrap();
        assert_eq!(&pong, b"\x8a\x01p");
        let mut stdout = channels.output(1);
        stdout.write("out").await.unwrap();
        let closing = tokio::spawn(channels.close());
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"\x82\x04\x01out\x88\x02\x03\xe8");
        drop(client);
        closing.await.unwrap();
        assert!(stdout.write("more").await.is_err());
        assert_eq!(resize.next().await, None);
    }

    #[tokio::test]
    async fn base64_messages_have_a_digit_prefix() {
        let (mut client, server) = tokio::io::duplex(1 << 20);
        let mut channels = Channels::new(server, Encoding::Base64, false, &[true]);
        let mut stdin = channels.input(0).unwrap();
        send(&mut client, Opcode::Text, b"0Zm9v").await;
        send(&mut client, Opcode::Text, b"0???").await;
        send(&mut client, Opcode::Text, b"0YmFyIQ==").await;
        send(&mut client, Opcode::Close, b"").await;
        assert_eq!(stdin.read_to_end(100).await, b"foobar!");
        channels.closed().await;
        let mut answer = [0; 4];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"\x88\x02\x03\xe8");
        assert_eq!(Encoding::Base64.message(1, b"hi").payload, "1aGk=");
    }

    #[tokio::test]
    async fn protocol_errors_close_the_connection() {
        for bytes in [&b"\x83\x80\0\0\0\0"[..], b"\x82\x01\0", b"\x82\x82\0\0\0\0\xff\x09"] {
            let (mut client, server) = tokio::io::duplex(1 << 20);
            let channels = Channels::new(server, Encoding::Binary, true, &[true]);
            client.write_all(bytes).await.unwrap();
            channels.closed().await;
            let mut answer = [0; 4];
            client.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"\x88\x02\x03\xea", "{bytes:x?}");
        }
    }
}
