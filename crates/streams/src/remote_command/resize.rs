//! Changes of the client's terminal size.

// upstream: staging/src/k8s.io/client-go/tools/remotecommand/resize.go

use serde_json::Value;

use crate::pipe::Input;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    pub width: u16,
    pub height: u16,
}

impl TerminalSize {
    /// Returns a line as clients send it.
    pub fn encode(self) -> String {
        format!("{{\"Width\":{},\"Height\":{}}}\n", self.width, self.height)
    }
}

/// A stream of sizes as JSON objects.
#[derive(Debug)]
pub struct Resizes {
    input: Input,
    left: Vec<u8>,
}

/// Maximum size of one JSON object.
const MAX_BYTES: usize = 4096;

impl Resizes {
    pub(crate) fn new(input: Input) -> Self {
        Resizes { input, left: Vec::new() }
    }

    /// Returns the next size; `None` once the client is gone or sends invalid data.
    pub async fn next(&mut self) -> Option<TerminalSize> {
        loop {
            match take(&mut self.left) {
                ParsedSize::Size(size) => return Some(size),
                ParsedSize::Incomplete => {}
                ParsedSize::Invalid => return None,
            }
            self.left.extend_from_slice(&self.input.next().await?);
            if self.left.len() > MAX_BYTES + crate::pipe::CHUNK_BYTES {
                return None;
            }
        }
    }
}

/// Returns all sizes at the start of `bytes`.
#[doc(hidden)]
pub fn sizes(bytes: &[u8]) -> Vec<TerminalSize> {
    let mut left = bytes.to_vec();
    let next = || match take(&mut left) {
        ParsedSize::Size(size) => Some(size),
        ParsedSize::Incomplete | ParsedSize::Invalid => None,
    };
    std::iter::from_fn(next).collect()
}

#[derive(Debug, PartialEq, Eq)]
enum ParsedSize {
    Size(TerminalSize),
    Incomplete,
    Invalid,
}

/// Removes and returns the first size of `bytes`.
fn take(bytes: &mut Vec<u8>) -> ParsedSize {
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    let next = values.next();
    let used = values.byte_offset();
    match next {
        None => ParsedSize::Incomplete,
        Some(Err(error)) if error.is_eof() && bytes.len() <= MAX_BYTES => ParsedSize::Incomplete,
        Some(Err(_)) => ParsedSize::Invalid,
        Some(Ok(value)) => {
            bytes.drain(..used);
            let field = |name: &str| {
                let fields = value.as_object()?;
                let found = fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
                found.map_or(Some(0), |(_, value)| value.as_u64().and_then(|size| size.try_into().ok()))
            };
            match (field("width"), field("height")) {
                (Some(width), Some(height)) => ParsedSize::Size(TerminalSize { width, height }),
                _ => ParsedSize::Invalid,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_one_by_one() {
        let mut bytes = br#"{"Width":80,"Height":24}
{"width":1}{"Wid"#
            .to_vec();
        assert_eq!(take(&mut bytes), ParsedSize::Size(TerminalSize { width: 80, height: 24 }));
        assert_eq!(take(&mut bytes), ParsedSize::Size(TerminalSize { width: 1, height: 0 }));
        assert_eq!(take(&mut bytes), ParsedSize::Incomplete);
        bytes.extend_from_slice(br#"th":2,"Height":3}"#);
        assert_eq!(take(&mut bytes), ParsedSize::Size(TerminalSize { width: 2, height: 3 }));
        assert_eq!(take(&mut bytes), ParsedSize::Incomplete);
        for garbage in [&b"x"[..], b"[]", b"1 ", br#"{"Width":"a"}"#, br#"{"Width":70000}"#] {
            assert_eq!(take(&mut garbage.to_vec()), ParsedSize::Invalid, "{garbage:?}");
        }
        let size = TerminalSize { width: 80, height: 24 };
        assert_eq!(take(&mut size.encode().into_bytes()), ParsedSize::Size(size));
    }
}
