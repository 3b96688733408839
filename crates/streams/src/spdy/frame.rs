//! Frames of SPDY/3.1.

// upstream: github.com/moby/spdystream/spdy/types.go

use std::fmt;

use bytes::Bytes;

use super::headers::{Headers, Packer, Unpacker};

pub const HEAD: usize = 8;
/// Maximum size of control frames, against malicious peers.
pub const LARGEST_CONTROL: usize = 64 << 10;
const VERSION: u16 = 3;
const FIN: u8 = 1;
/// Stream IDs have 31 bits.
const ID: u32 = 0x7fff_ffff;

/// The reason why bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    Version,
    Length,
    /// Stream 0 does not exist.
    Stream,
    Headers,
    Kind,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FrameError::Version => "unsupported SPDY version",
            FrameError::Length => "invalid frame length",
            FrameError::Stream => "frame without a stream",
            FrameError::Headers => "invalid compressed headers",
            FrameError::Kind => "unknown frame type",
        })
    }
}

impl std::error::Error for FrameError {}

impl From<FrameError> for std::io::Error {
    fn from(malformed: FrameError) -> Self {
        std::io::Error::new(std::io::ErrorKind::InvalidData, malformed)
    }
}

/// The first eight bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    Control { kind: u16, flags: u8, length: usize },
    Data { stream: u32, fin: bool, length: usize },
}

impl Head {
    pub fn parse(bytes: [u8; HEAD]) -> Result<Head, FrameError> {
        let [first, second, third, fourth, flags, rest @ ..] = bytes;
        let length = u32::from_be_bytes([0, rest[0], rest[1], rest[2]]) as usize;
        if first & 0x80 == 0 {
            let stream = u32::from_be_bytes([first, second, third, fourth]);
            return match stream {
                0 => Err(FrameError::Stream),
                stream => Ok(Head::Data { stream, fin: flags & FIN != 0, length }),
            };
        }
        if u16::from_be_bytes([first & 0x7f, second]) != VERSION {
            return Err(FrameError::Version);
        }
        if length > LARGEST_CONTROL {
            return Err(FrameError::Length);
        }
        Ok(Head::Control { kind: u16::from_be_bytes([third, fourth]), flags, length })
    }
}

/// Reset status codes.
pub mod reset {
    pub const PROTOCOL_ERROR: u32 = 1;
    pub const INVALID_STREAM: u32 = 2;
    pub const REFUSED_STREAM: u32 = 3;
    pub const CANCEL: u32 = 5;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    SynStream {
        stream: u32,
        fin: bool,
        headers: Headers,
    },
    SynReply {
        stream: u32,
        fin: bool,
        headers: Headers,
    },
    RstStream {
        stream: u32,
        status: u32,
    },
    /// Settings of the peer, which are ignored.
    Settings(Vec<(u32, u32)>),
    Ping(u32),
    GoAway {
        last: u32,
        status: u32,
    },
    Headers {
        stream: u32,
        fin: bool,
        headers: Headers,
    },
    WindowUpdate {
        stream: u32,
        delta: u32,
    },
    Data {
        stream: u32,
        fin: bool,
        bytes: Bytes,
    },
}

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const SETTINGS: u16 = 4;
const PING: u16 = 6;
const GO_AWAY: u16 = 7;
const HEADERS: u16 = 8;
const WINDOW_UPDATE: u16 = 9;

impl Frame {
    /// Parses the payload of a control frame.
    pub fn control(
        kind: u16,
        flags: u8,
        payload: &[u8],
        unpacker: &mut Unpacker,
    ) -> Result<Frame, FrameError> {
        let fin = flags & FIN != 0;
        Ok(match kind {
            SYN_STREAM => {
                let (stream, rest) = stream(payload)?;
                // The associated stream, the priority and the slot are ignored.
                let block = rest.get(6..).ok_or(FrameError::Length)?;
                Frame::SynStream { stream, fin, headers: unpacker.unpack(block)? }
            }
            SYN_REPLY => {
                let (stream, block) = stream(payload)?;
                Frame::SynReply { stream, fin, headers: unpacker.unpack(block)? }
            }
            HEADERS => {
                let (stream, block) = stream(payload)?;
                Frame::Headers { stream, fin, headers: unpacker.unpack(block)? }
            }
            RST_STREAM => {
                let (stream, rest) = stream(payload)?;
                Frame::RstStream { stream, status: only(rest)? }
            }
            SETTINGS => Frame::Settings(settings(payload)?),
            PING => Frame::Ping(only(payload)?),
            GO_AWAY => {
                let (last, rest) = word(payload)?;
                Frame::GoAway { last: last & ID, status: only(rest)? }
            }
            WINDOW_UPDATE => {
                let (stream, rest) = word(payload)?;
                Frame::WindowUpdate { stream: stream & ID, delta: only(rest)? & ID }
            }
            _ => return Err(FrameError::Kind),
        })
    }

    pub fn encode(self, packer: &mut Packer, into: &mut Vec<u8>) {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
        let with_block = |first: Vec<u8>, block: Vec<u8>| [first, block].concat();
        let (kind, flags, payload) = match self {
            Frame::Data { stream, fin, bytes } => {
                into.extend_from_slice(&(stream & ID).to_be_bytes());
                into.extend_from_slice(&flags_and_length(fin.into(), bytes.len()));
                into.extend_from_slice(&bytes);
                return;
            }
            Frame::SynStream { stream, fin, headers } => {
                let first = [words(&[stream, 0]), vec![0, 0]].concat();
                (SYN_STREAM, fin.into(), with_block(first, packer.pack(&headers)))
            }
            Frame::SynReply { stream, fin, headers } => {
                (SYN_REPLY, fin.into(), with_block(words(&[stream]), packer.pack(&headers)))
            }
            Frame::Headers { stream, fin, headers } => {
                (HEADERS, fin.into(), with_block(words(&[stream]), packer.pack(&headers)))
            }
            Frame::RstStream { stream, status } => (RST_STREAM, 0, words(&[stream, status])),
            Frame::Settings(settings) => {
                let pairs: Vec<u32> = settings.iter().flat_map(|(id, value)| [*id, *value]).collect();
                (SETTINGS, 0, [words(&[settings.len() as u32]), words(&pairs)].concat())
            }
            Frame::Ping(id) => (PING, 0, words(&[id])),
            Frame::GoAway { last, status } => (GO_AWAY, 0, words(&[last, status])),
            Frame::WindowUpdate { stream, delta } => (WINDOW_UPDATE, 0, words(&[stream, delta])),
        };
        into.extend_from_slice(&(0x8000 | VERSION).to_be_bytes());
        into.extend_from_slice(&kind.to_be_bytes());
        into.extend_from_slice(&flags_and_length(flags, payload.len()));
        into.extend_from_slice(&payload);
    }
}

fn flags_and_length(flags: u8, length: usize) -> [u8; 4] {
    (u32::from(flags) << 24 | (length as u32 & 0xff_ffff)).to_be_bytes()
}

fn word(payload: &[u8]) -> Result<(u32, &[u8]), FrameError> {
    let (word, rest) = payload.split_first_chunk::<4>().ok_or(FrameError::Length)?;
    Ok((u32::from_be_bytes(*word), rest))
}

/// Parses a word without further data.
fn only(payload: &[u8]) -> Result<u32, FrameError> {
    match word(payload)? {
        (word, []) => Ok(word),
        _ => Err(FrameError::Length),
    }
}

fn stream(payload: &[u8]) -> Result<(u32, &[u8]), FrameError> {
    match word(payload)? {
        (id, rest) if id & ID != 0 => Ok((id & ID, rest)),
        _ => Err(FrameError::Stream),
    }
}

fn settings(payload: &[u8]) -> Result<Vec<(u32, u32)>, FrameError> {
    let (count, rest) = word(payload)?;
    let (pairs, left) = rest.as_chunks::<8>();
    if pairs.len() != count as usize || !left.is_empty() {
        return Err(FrameError::Length);
    }
    let half = |pair: &[u8; 8], from: usize| {
        u32::from_be_bytes([pair[from], pair[from + 1], pair[from + 2], pair[from + 3]])
    };
    Ok(pairs.iter().map(|pair| (half(pair, 0), half(pair, 4))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Frame, FrameError> {
        let (head, payload) = bytes.split_first_chunk::<HEAD>().ok_or(FrameError::Length)?;
        match Head::parse(*head)? {
            Head::Control { kind, flags, length } if length == payload.len() => {
                Frame::control(kind, flags, payload, &mut Unpacker::default())
            }
            Head::Data { stream, fin, length } if length == payload.len() => {
                Ok(Frame::Data { stream, fin, bytes: Bytes::copy_from_slice(payload) })
            }
            _ => Err(FrameError::Length),
        }
    }

    #[test]
    fn frames_round_trip() {
        let headers = Headers::new([("streamType", "error")]);
        let frames = [
            Frame::SynStream { stream: 1, fin: false, headers: headers.clone() },
            Frame::SynReply { stream: 1, fin: true, headers: Headers::default() },
            Frame::Headers { stream: 3, fin: false, headers },
            Frame::RstStream { stream: 5, status: reset::CANCEL },
            Frame::Settings(vec![(4, 100), (7, 65536)]),
            Frame::Ping(7),
            Frame::GoAway { last: 9, status: 0 },
            Frame::WindowUpdate { stream: 0, delta: 1000 },
            Frame::Data { stream: ID, fin: true, bytes: Bytes::from_static(b"bytes") },
        ];
        for frame in frames {
            let mut bytes = Vec::new();
            frame.clone().encode(&mut Packer::default(), &mut bytes);
            assert_eq!(read(&bytes), Ok(frame));
        }
    }

    #[test]
    fn known_frames_are_encoded_and_parsed() {
        let cases: [(&[u8], Frame); 4] = [
            (b"\x80\x03\0\x06\0\0\0\x04\0\0\0\x01", Frame::Ping(1)),
            (b"\x80\x03\0\x03\0\0\0\x08\0\0\0\x03\0\0\0\x05", Frame::RstStream { stream: 3, status: 5 }),
            (b"\x80\x03\0\x07\0\0\0\x08\0\0\0\x05\0\0\0\0", Frame::GoAway { last: 5, status: 0 }),
            (
                b"\0\0\0\x05\x01\0\0\x02ok",
                Frame::Data { stream: 5, fin: true, bytes: Bytes::from_static(b"ok") },
            ),
        ];
        for (bytes, frame) in cases {
            assert_eq!(read(bytes), Ok(frame.clone()));
            let mut written = Vec::new();
            frame.encode(&mut Packer::default(), &mut written);
            assert_eq!(written, bytes);
        }
    }

    #[test]
    fn malformed_frames_are_rejected() {
        let cases: [(&[u8], FrameError); 11] = [
            (b"\0\0\0\0\0\0\0\0", FrameError::Stream),
            (b"\x80\x02\0\x06\0\0\0\x04\0\0\0\x01", FrameError::Version),
            (b"\x80\x03\0\x06\0\xff\xff\xff", FrameError::Length),
            (b"\x80\x03\0\x06\0\0\0\x05\0\0\0\x01\0", FrameError::Length),
            (b"\x80\x03\0\x06\0\0\0\x03\0\0\x01", FrameError::Length),
            (b"\x80\x03\0\x63\0\0\0\0", FrameError::Kind),
            (b"\x80\x03\0\x03\0\0\0\x08\0\0\0\0\0\0\0\x05", FrameError::Stream),
            (b"\x80\x03\0\x01\0\0\0\x04\0\0\0\x01", FrameError::Length),
            (b"\x80\x03\0\x01\0\0\0\x0a\0\0\0\x01\0\0\0\0\0\0", FrameError::Headers),
            (b"\x80\x03\0\x02\0\0\0\x06\0\0\0\x01zz", FrameError::Headers),
            (b"\x80\x03\0\x04\0\0\0\x04\xff\xff\xff\xff", FrameError::Length),
        ];
        for (bytes, expected) in cases {
            assert_eq!(read(bytes), Err(expected), "{bytes:x?}");
        }
    }
}
