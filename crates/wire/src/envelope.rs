//! The envelope of a message with its version and kind, and the frames of a watch.

// upstream: staging/src/k8s.io/apimachinery/pkg/runtime/serializer/protobuf/protobuf.go
// upstream: staging/src/k8s.io/apimachinery/pkg/util/framer/framer.go

use crate::WireError;
use crate::varint::{Payload, Reader, write_bytes, write_message};

pub const MAGIC: &[u8; 4] = b"k8s\0";

/// An object on the wire: its version and kind, and its message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'a> {
    pub api_version: String,
    pub kind: String,
    pub raw: &'a [u8],
    pub content_encoding: String,
    pub content_type: String,
}

/// Parses an envelope.
pub fn open(bytes: &[u8]) -> Result<Envelope<'_>, WireError> {
    let message = bytes.strip_prefix(MAGIC).ok_or(WireError::NoMagic)?;
    let mut envelope = Envelope::default();
    let mut reader = Reader::new(message);
    while let Some((number, payload)) = reader.field()? {
        match (number, payload) {
            (1, Payload::Bytes(type_meta)) => {
                let mut reader = Reader::new(type_meta);
                while let Some((number, payload)) = reader.field()? {
                    match (number, payload) {
                        (1, Payload::Bytes(text)) => envelope.api_version = lossy(text),
                        (2, Payload::Bytes(text)) => envelope.kind = lossy(text),
                        _ => {}
                    }
                }
            }
            (2, Payload::Bytes(raw)) => envelope.raw = raw,
            (3, Payload::Bytes(text)) => envelope.content_encoding = lossy(text),
            (4, Payload::Bytes(text)) => envelope.content_type = lossy(text),
            _ => {}
        }
    }
    Ok(envelope)
}

/// Wraps a message in an envelope.
pub fn wrap(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + api_version.len() + kind.len() + 32);
    write_envelope(api_version, kind, &mut out, |out| out.extend_from_slice(message));
    out
}

/// Writes an envelope around a message that `message` writes.
pub fn write_envelope(api_version: &str, kind: &str, out: &mut Vec<u8>, message: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(MAGIC);
    write_message(1, out, |out| {
        write_bytes(1, api_version.as_bytes(), out);
        write_bytes(2, kind.as_bytes(), out);
    });
    write_message(2, out, message);
    write_bytes(3, b"", out);
    write_bytes(4, b"", out);
}

/// Encodes one event of a watch with its length prefix; `object` has its own envelope.
pub fn frame(event_type: &str, object: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 4];
    write_bytes(1, event_type.as_bytes(), &mut out);
    write_message(2, &mut out, |out| write_bytes(1, object, out));
    let length = u32::try_from(out.len() - 4).unwrap_or(u32::MAX);
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envelopes_round_trip() {
        let wrapped = wrap("v1", "Pod", b"\x01\x02");
        assert_eq!(&wrapped[..4], MAGIC);
        assert!(wrapped.ends_with(&[0x1a, 0, 0x22, 0]));
        let envelope = open(&wrapped).unwrap();
        assert_eq!(
            (envelope.api_version.as_str(), envelope.kind.as_str(), envelope.raw),
            ("v1", "Pod", &b"\x01\x02"[..])
        );
        assert_eq!(open(b"{}"), Err(WireError::NoMagic));
        assert_eq!(open(&wrapped[..wrapped.len() - 5]), Err(WireError::UnexpectedEnd));
    }

    #[test]
    fn frames_have_a_length_prefix() {
        let frame = frame("ADDED", b"xyz");
        assert_eq!(frame[..4], 14_u32.to_be_bytes());
        assert_eq!(frame.len(), 18);
    }
}
