//! Reads messages in chunks, so that their size is not limited by memory.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::frame::{FrameError, Head, LARGEST_HEAD, Opcode, Role, mask};
use crate::pipe::CHUNK_BYTES;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A chunk of a message. Every message has a first and a last chunk, which may be the same and may be
    /// empty.
    Data {
        bytes: Bytes,
        is_text: bool,
        is_first: bool,
        is_last: bool,
    },
    Ping(Bytes),
    Pong,
    /// A close frame with its code.
    Close(Option<u16>),
}

pub struct Reader<R> {
    reader: R,
    role: Role,
    buffer: BytesMut,
    /// The frame whose payload is being read.
    frame: Option<Frame>,
    /// Whether the current message is text, if there is one.
    message: Option<bool>,
    /// Whether no chunk of that message was returned yet.
    is_first: bool,
}

#[derive(Clone, Copy)]
struct Frame {
    head: Head,
    /// Number of payload bytes that were read.
    position: u64,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    /// `role` is that of this side.
    pub fn new(reader: R, role: Role) -> Self {
        Reader { reader, role, buffer: BytesMut::new(), frame: None, message: None, is_first: false }
    }

    /// Returns the next event. Cancel safe. The end of the connection without a close frame is an error.
    pub async fn next(&mut self) -> io::Result<Event> {
        loop {
            if let Some(event) = self.parse()? {
                return Ok(event);
            }
            self.buffer.reserve(CHUNK_BYTES);
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn parse(&mut self) -> Result<Option<Event>, FrameError> {
        let frame = match self.frame {
            Some(frame) => frame,
            None => {
                let start = &self.buffer[..self.buffer.len().min(LARGEST_HEAD)];
                let Some((head, length)) = Head::parse(start, self.role)? else { return Ok(None) };
                self.start_frame(head)?;
                let _ = self.buffer.split_to(length);
                Frame { head, position: 0 }
            }
        };
        self.frame = Some(frame);
        let Head { opcode, fin, mask: key, length } = frame.head;
        let left = length - frame.position;
        let here = left.min(self.buffer.len() as u64);
        if (opcode.is_control() && here < left) || (here == 0 && left > 0) {
            return Ok(None);
        }
        let mut chunk = self.buffer.split_to(here as usize);
        if let Some(key) = key {
            mask(&mut chunk, key, frame.position);
        }
        let is_done = here == left;
        self.frame = (!is_done).then_some(Frame { position: frame.position + here, ..frame });
        let bytes = chunk.freeze();
        Ok(Some(match opcode {
            Opcode::Ping => Event::Ping(bytes),
            Opcode::Pong => Event::Pong,
            Opcode::Close => {
                let code = bytes.first_chunk().map(|code| u16::from_be_bytes(*code));
                if bytes.len() == 1 {
                    return Err(FrameError::Length);
                }
                Event::Close(code)
            }
            Opcode::Text | Opcode::Binary | Opcode::Continuation => {
                let is_text = self.message.unwrap_or_default();
                let is_first = std::mem::take(&mut self.is_first);
                let is_last = is_done && fin;
                if is_last {
                    self.message = None;
                }
                Event::Data { bytes, is_text, is_first, is_last }
            }
        }))
    }

    fn start_frame(&mut self, head: Head) -> Result<(), FrameError> {
        match (head.opcode, self.message) {
            (Opcode::Text | Opcode::Binary, None) => {
                self.message = Some(head.opcode == Opcode::Text);
                self.is_first = true;
                Ok(())
            }
            (Opcode::Text | Opcode::Binary, Some(_)) | (Opcode::Continuation, None) => Err(FrameError::Order),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn events(bytes: &[u8]) -> (Vec<Event>, io::ErrorKind) {
        let mut reader = Reader::new(bytes, Role::Client);
        let mut events = Vec::new();
        loop {
            match reader.next().await {
                Ok(event) => events.push(event),
                Err(error) => return (events, error.kind()),
            }
        }
    }

    fn data(bytes: &'static [u8], is_text: bool, is_first: bool, is_last: bool) -> Event {
        Event::Data { bytes: Bytes::from_static(bytes), is_text, is_first, is_last }
    }

    #[tokio::test]
    async fn fragmented_messages_are_interleaved_with_control_frames() {
        let bytes = b"\x02\x02ab\x89\x01p\x00\x00\x80\x01c\x81\x01t\x82\x00\x8a\x00\x88\x02\x03\xe8";
        let (events, end) = events(bytes).await;
        let expected = [
            data(b"ab", false, true, false),
            Event::Ping(Bytes::from_static(b"p")),
            data(b"", false, false, false),
            data(b"c", false, false, true),
            data(b"t", true, true, true),
            data(b"", false, true, true),
            Event::Pong,
            Event::Close(Some(1000)),
        ];
        assert_eq!(events, expected);
        assert_eq!(end, io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test]
    async fn frames_out_of_order_are_rejected() {
        for bytes in [&b"\x80\x01a"[..], b"\x02\x01a\x02\x01b", b"\x88\x01a", b"\x02\x01a\x81\x00"] {
            assert_eq!(events(bytes).await.1, io::ErrorKind::InvalidData, "{bytes:x?}");
        }
    }

    #[tokio::test]
    async fn a_message_is_reassembled_from_any_chunks() {
        let mut bytes = Vec::new();
        let sent: Vec<u8> = (0..100_000_u32).map(|number| number as u8).collect();
        super::super::Message::binary(sent.clone()).encode_masked(Some([9, 8, 7, 6]), &mut bytes);
        let (mut client, server) = tokio::io::duplex(1000);
        let writing = tokio::spawn(async move {
            for chunk in bytes.chunks(777) {
                tokio::io::AsyncWriteExt::write_all(&mut client, chunk).await.unwrap();
            }
        });
        let mut reader = Reader::new(server, Role::Server);
        let mut seen = Vec::new();
        loop {
            match reader.next().await.unwrap() {
                Event::Data { bytes, is_first, is_last, .. } => {
                    assert_eq!(is_first, seen.is_empty());
                    seen.extend_from_slice(&bytes);
                    if is_last {
                        break;
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(seen, sent);
        writing.await.unwrap();
    }
}
