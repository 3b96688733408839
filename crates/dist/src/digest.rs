//! SHA-256 in lower-case hexadecimal, as used by OCI images and `sha256sum`.

use std::fmt::Write;

use aws_lc_rs::digest::{SHA256, digest};

/// Returns the digest of `bytes` as 64 lower-case hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in digest(&SHA256, bytes).as_ref() {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_match_known_values() {
        for (text, expected) in [
            ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ] {
            assert_eq!(sha256(text.as_bytes()), expected, "{text:?}");
        }
    }
}
