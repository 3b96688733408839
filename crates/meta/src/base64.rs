//! Standard base64 as Go decodes it: line breaks are skipped, the bits that padding cuts off are ignored, and
//! errors name the offset of the invalid byte.

// Go standard library: src/encoding/base64/base64.go

use std::fmt;

use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD, STANDARD_NO_PAD};
use base64::{Engine as _, engine::DecodePaddingMode};

/// Go's decoder without the line breaks.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// The offset of the byte that Go rejects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CorruptInput(pub usize);

impl fmt::Display for CorruptInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "illegal base64 data at input byte {}", self.0)
    }
}

impl std::error::Error for CorruptInput {}

/// Encodes with padding.
pub fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Decodes a string.
///
/// # Errors
///
/// Returns an error if Go cannot decode the string either.
pub fn decode(text: &str) -> Result<Vec<u8>, CorruptInput> {
    let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let decoded = if text.bytes().any(|byte| is_break(&byte)) {
        LENIENT.decode(text.bytes().filter(|byte| !is_break(byte)).collect::<Vec<u8>>())
    } else {
        LENIENT.decode(text)
    };
    decoded.map_err(|_| CorruptInput(rejected_offset(text.as_bytes())))
}

/// Whether a string is what Go encodes after decoding it. Nothing is allocated, because most strings are.
pub fn is_canonical(text: &str) -> bool {
    const CHUNK: usize = 1024;
    let mut decoded = [0; CHUNK / 4 * 3];
    let mut rest = text.as_bytes();
    // Only the last chunk may have padding.
    while let Some((chunk, after)) = rest.split_first_chunk::<CHUNK>().filter(|(_, after)| !after.is_empty())
    {
        if STANDARD_NO_PAD.decode_slice(chunk, &mut decoded).is_err() {
            return false;
        }
        rest = after;
    }
    STANDARD.decode_slice(rest, &mut decoded).is_ok()
}

/// Returns the offset at which Go stops decoding an invalid string.
fn rejected_offset(text: &[u8]) -> usize {
    let mut at = 0;
    let next = |at: &mut usize| {
        while matches!(text.get(*at), Some(b'\n' | b'\r')) {
            *at += 1;
        }
        let byte = text.get(*at).copied();
        *at += usize::from(byte.is_some());
        byte
    };
    let mut in_group = 0;
    loop {
        match next(&mut at) {
            // Go counts back over the incomplete group, without regard to line breaks in it.
            None => return at - in_group,
            Some(b'+' | b'/' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z') => in_group = (in_group + 1) % 4,
            Some(b'=') if in_group == 2 => {
                return match next(&mut at) {
                    None => text.len(),
                    Some(b'=') => end_of_padding(next(&mut at), at),
                    // Go reports the offset before the missing padding.
                    Some(_) => at - 2,
                };
            }
            Some(b'=') if in_group == 3 => return end_of_padding(next(&mut at), at),
            Some(_) => return at - 1,
        }
    }
}

/// Returns the offset of the byte before `at`, which follows the padding.
fn end_of_padding(byte: Option<u8>, at: usize) -> usize {
    at - usize::from(byte.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_as_go_does() {
        for (text, expected) in CASES {
            let decoded = decode(text).map_err(|CorruptInput(offset)| offset);
            assert_eq!(decoded, expected.map(|bytes| bytes.as_bytes().to_vec()), "{text:?}");
            let is_same = expected.is_ok_and(|bytes| encode(bytes.as_bytes()) == *text);
            assert_eq!(is_canonical(text), is_same, "{text:?}");
        }
    }

    #[test]
    fn long_strings_are_canonical_in_every_chunk() {
        for length in [766, 767, 768, 769, 1536, 1537, 3000] {
            let text = encode(&vec![b'x'; length]);
            assert!(is_canonical(&text), "{length}");
            assert_eq!(decode(&text).map(|bytes| bytes.len()), Ok(length));
            for at in [0, 500, 1000] {
                for other in ["=", "\n", "-"] {
                    let mut changed = text.clone();
                    changed.replace_range(at..=at, other);
                    assert!(!is_canonical(&changed), "{length} bytes, {other:?} at {at}");
                }
            }
        }
        assert_eq!(
            decode("YWJj\nY").map_err(|error| error.to_string()),
            Err("illegal base64 data at input byte 5".to_owned())
        );
    }

    /// Recorded from Go: the bytes, or the offset in the error.
    #[rustfmt::skip]
    const CASES: &[(&str, Result<&str, usize>)] = &[
        ("", Ok("")),
        ("YQ=", Err(3)),
        ("YQ", Err(0)),
        ("Y", Err(0)),
        ("YQ==", Ok("a")),
        ("YR==", Ok("a")),
        ("YQ==\n", Ok("a")),
        ("Y\nQ\r==", Ok("a")),
        ("YQ==YQ==", Err(4)),
        ("YQ=a", Err(2)),
        ("YQ\n=\na", Err(4)),
        ("=", Err(0)),
        ("Y=", Err(1)),
        ("YWI=", Ok("ab")),
        ("YWI=x", Err(4)),
        ("YWI=\nx", Err(5)),
        ("YWJj", Ok("abc")),
        ("YWJjY", Err(4)),
        ("YWJj\nY\n", Err(6)),
        ("YWJj\nYQ", Err(5)),
        ("YWJj\nYQ\n", Err(6)),
        ("YW\nJjYQ\n\n=", Err(10)),
        ("YW\nJjYQ\n\n=\n", Err(11)),
        ("YQ==\n\n", Ok("a")),
        ("Y-Q=", Err(1)),
        ("YWJjé", Err(4)),
        ("YWJj YWJj", Err(4)),
        ("====", Err(0)),
        ("YWJj====", Err(4)),
        ("YWJj=", Err(4)),
        ("YQ=\n=", Ok("a")),
        ("YQ=\r\nx", Err(4)),
        ("\n", Ok("")),
        ("\r\n\r\n", Ok("")),
        ("Y\n", Err(1)),
        ("YWJjYWJ\n\n", Err(6)),
        ("YWJjYWJj*", Err(8)),
        ("YWJjYW=*", Err(6)),
        ("YWJjYW==*", Err(8)),
        ("YWJj\nYW==\n*", Err(10)),
        ("YWJjYWJ=\n=", Err(9)),
        ("YWJjYWJ\n=\n=", Err(10)),
    ];
}
