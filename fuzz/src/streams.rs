//! Protocols of exec, attach and port-forward.

use std::pin::Pin;
use std::task::{Context, Poll};

use atoll_streams::remote_command::{self, ExecStatus, StatusFormat, StreamOptions};
use atoll_streams::spdy::{Frame, HEAD, Head, LARGEST_CONTROL, Packer, Unpacker};
use atoll_streams::websocket::{Event, Message, Opcode, Reader, Role};
use atoll_streams::{port_forward, websocket as socket};
use bytes::Bytes;
use flate2::{Compress, Compression, FlushCompress};
use http::{HeaderName, HeaderValue, Request};
use tokio::io::{AsyncRead, ReadBuf};

use crate::{Accepted, server, text};

/// Decoded frames that are encoded and decoded again are equal.
pub fn spdy(bytes: &[u8]) -> Accepted {
    let (mut unpacker, mut accepted) = (Unpacker::default(), None);
    let (mut packer, mut reader) = (Packer::default(), Unpacker::default());
    let mut rest = bytes;
    while let Some((head, after)) = rest.split_first_chunk::<HEAD>() {
        let (frame, length) = match Head::parse(*head).ok()? {
            Head::Control { kind, flags, length } => {
                assert!(length <= LARGEST_CONTROL);
                (Frame::control(kind, flags, after.get(..length)?, &mut unpacker).ok()?, length)
            }
            Head::Data { stream, fin, length } => {
                let bytes = Bytes::copy_from_slice(after.get(..length)?);
                (Frame::Data { stream, fin, bytes }, length)
            }
        };
        assert_eq!(written(frame.clone(), &mut packer, &mut reader), frame);
        accepted = Some(());
        rest = &after[length..];
    }
    accepted
}

/// Encodes a frame and decodes it as a peer does.
fn written(frame: Frame, packer: &mut Packer, unpacker: &mut Unpacker) -> Frame {
    let mut bytes = Vec::new();
    frame.encode(packer, &mut bytes);
    let (head, payload) = bytes.split_first_chunk::<HEAD>().expect("every frame has a head");
    match Head::parse(*head).expect("encoded heads can be parsed") {
        Head::Control { kind, flags, length } => {
            assert_eq!(length, payload.len());
            Frame::control(kind, flags, payload, unpacker).expect("encoded frames can be decoded")
        }
        Head::Data { stream, fin, length } => {
            assert_eq!(length, payload.len());
            Frame::Data { stream, fin, bytes: Bytes::copy_from_slice(payload) }
        }
    }
}

/// Decoded headers that are encoded and decoded again are equal. The input is uncompressed, because random
/// bytes are rarely valid compressed data.
pub fn spdy_headers(bytes: &[u8]) -> Accepted {
    let mut packed = Vec::with_capacity(bytes.len() + bytes.len() / 8 + 64);
    let mut compress = Compress::new(Compression::fast(), true);
    compress.compress_vec(bytes, &mut packed, FlushCompress::Sync).ok()?;
    let headers = Unpacker::default().unpack(&packed).ok()?;
    let (mut packer, mut unpacker) = (Packer::default(), Unpacker::default());
    // Each block uses the compression state of the previous ones.
    for _ in 0..2 {
        assert_eq!(unpacker.unpack(&packer.pack(&headers)).as_ref(), Ok(&headers));
    }
    let _ = (headers.get("streamType"), headers.get("port"), headers.get("requestID"));
    Some(())
}

/// Bytes that arrive in pieces, without waiting.
struct Pieces<'a> {
    rest: &'a [u8],
    size: usize,
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let length = self.size.min(self.rest.len()).min(into.remaining());
        let (piece, rest) = self.rest.split_at(length);
        into.put_slice(piece);
        self.rest = rest;
        Poll::Ready(Ok(()))
    }
}

/// Messages received on a WebSocket, independent of fragmentation.
#[derive(Debug, Default, PartialEq, Eq)]
struct Received {
    messages: Vec<(Opcode, Vec<u8>)>,
    /// Data of an incomplete message.
    rest: Vec<u8>,
    end: Option<std::io::ErrorKind>,
}

fn received(bytes: &[u8], role: Role, size: usize) -> Received {
    let mut reader = Reader::new(Pieces { rest: bytes, size }, role);
    let mut received = Received::default();
    loop {
        let next = server::poll_ready(reader.next());
        match next {
            Ok(Event::Data { bytes, is_text, is_first, is_last }) => {
                assert!(!is_first || received.rest.is_empty());
                received.rest.extend_from_slice(&bytes);
                if is_last {
                    let opcode = if is_text { Opcode::Text } else { Opcode::Binary };
                    received.messages.push((opcode, std::mem::take(&mut received.rest)));
                }
            }
            Ok(Event::Ping(bytes)) => received.messages.push((Opcode::Ping, bytes.to_vec())),
            Ok(Event::Pong) => received.messages.push((Opcode::Pong, Vec::new())),
            Ok(Event::Close(code)) => {
                let code = code.map(u16::to_be_bytes);
                received.messages.push((Opcode::Close, code.map(Vec::from).unwrap_or_default()));
            }
            Err(error) => {
                received.end = Some(error.kind());
                return received;
            }
        }
    }
}

/// Fragmentation makes no difference, and messages that are encoded and decoded again are equal. The first
/// byte selects the reader's role and the size of pieces.
pub fn websocket(bytes: &[u8]) -> Accepted {
    let (choice, bytes) = bytes.split_first()?;
    let role = if choice & 1 == 0 { Role::Server } else { Role::Client };
    let whole = received(bytes, role, bytes.len().max(1));
    assert_eq!(received(bytes, role, usize::from(choice >> 1) + 1), whole);
    let key = (role == Role::Server).then_some([1, 2, 3, *choice]);
    let mut sent = Vec::new();
    for (opcode, payload) in &whole.messages {
        Message { opcode: *opcode, payload: payload.clone().into() }.encode_masked(key, &mut sent);
    }
    assert_eq!(received(&sent, role, 1000).messages, whole.messages);
    (!whole.messages.is_empty()).then_some(())
}

/// Any upgrade request is accepted or rejected. The first line is its path, the others are headers.
pub fn handshake(bytes: &[u8]) -> Accepted {
    let mut lines = text(bytes)?.lines();
    let mut request = Request::builder().uri(lines.next()?).body(()).ok()?;
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        request.headers_mut().append(name, HeaderValue::from_str(value).ok()?);
    }
    let headers = request.headers();
    let is_tunneled = !port_forward::tunneled(headers).is_empty();
    assert!(!is_tunneled || socket::is_websocket(headers));
    let forwarding = port_forward::accept(&mut request).is_ok();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let is_session = match StreamOptions::from_query(&query) {
        Ok(options) => remote_command::accept(&mut request, options).is_ok(),
        Err(_) => false,
    };
    (forwarding || is_session).then_some(())
}

/// The result of a session that is encoded and decoded again is equal.
pub fn outcome(bytes: &[u8]) -> Accepted {
    let _ = ExecStatus::decode(bytes, StatusFormat::Text);
    let outcome = ExecStatus::decode(bytes, StatusFormat::Json);
    let again = ExecStatus::decode(&outcome.encode(StatusFormat::Json), StatusFormat::Json);
    match (&outcome, again) {
        (ExecStatus::Exit { code, .. }, ExecStatus::Exit { code: again, .. }) => assert_eq!(*code, again),
        (ExecStatus::Success, ExecStatus::Success) | (ExecStatus::Failure(_), ExecStatus::Failure(_)) => {}
        (before, after) => panic!("{before:?} was decoded as {after:?}"),
    }
    matches!(outcome, ExecStatus::Success | ExecStatus::Exit { .. }).then_some(())
}

/// Terminal sizes that are encoded and decoded again are equal.
pub fn terminal_size(bytes: &[u8]) -> Accepted {
    let sizes = remote_command::sizes(bytes);
    let written: String = sizes.iter().map(|size| size.encode()).collect();
    assert_eq!(remote_command::sizes(written.as_bytes()), sizes);
    (!sizes.is_empty()).then_some(())
}
