//! TLS 1.3 records after the handshake, encrypted and decrypted in place. rustls, which does the handshake,
//! would copy each record.

use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use rustls::{ConnectionTrafficSecrets, ExtractedSecrets};

/// Size of the record header: type, version, length.
const HEADER: usize = 5;
/// Size of the authentication tag.
const TAG: usize = 16;
/// Maximum size of a record's content, without the content type byte.
const MOST: usize = 16 << 10;
/// Type and version in the header of every encrypted record.
const OUTER: [u8; 3] = [DATA, 3, 3];

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;
/// The alert with which the peer closes the connection.
const CLOSE_NOTIFY: u8 = 0;
/// Handshake message with a session ticket for resumption.
const TICKET: u8 = 4;

/// Keys of both directions of a connection.
pub struct Records {
    sending: Direction,
    receiving: Direction,
}

struct Direction {
    key: LessSafeKey,
    /// The initialization vector, which is combined with the record number.
    start: [u8; 12],
    /// Number of the next record.
    number: u64,
}

/// Result of decrypting a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecryptResult {
    /// Number of bytes processed. The remaining bytes are the beginning of a record.
    pub done: usize,
    /// Whether the peer closed the connection.
    pub is_closed: bool,
}

impl Records {
    pub fn new(secrets: ExtractedSecrets) -> Result<Self, String> {
        Ok(Records { sending: Direction::new(secrets.tx)?, receiving: Direction::new(secrets.rx)? })
    }

    /// Encrypts `plain` into one or more records and appends them to `outgoing`.
    pub fn encrypt(&mut self, plain: &[u8], outgoing: &mut Vec<u8>) -> Result<(), String> {
        for part in plain.chunks(MOST) {
            self.sending.encrypt(DATA, part, outgoing)?;
        }
        Ok(())
    }

    /// Decrypts the complete records in `incoming` in place and passes their content to `show`.
    pub fn decrypt(
        &mut self,
        incoming: &mut [u8],
        mut show: impl FnMut(&[u8]),
    ) -> Result<DecryptResult, String> {
        let mut done = 0;
        while let Some((header, behind)) = incoming[done..].split_first_chunk_mut::<HEADER>() {
            let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
            if !header.starts_with(&OUTER) || length > MOST + 256 {
                return Err("received data is not a TLS 1.3 record".into());
            }
            let Some(body) = behind.get_mut(..length) else { break };
            let (kind, carried) = self.receiving.decrypt(*header, body)?;
            done += HEADER + length;
            match (kind, carried) {
                (DATA, data) => show(data),
                (ALERT, [_, CLOSE_NOTIFY]) => return Ok(DecryptResult { done, is_closed: true }),
                (ALERT, alert) => return Err(format!("the server sent an alert: {alert:?}")),
                // Session tickets are not used.
                (HANDSHAKE, [TICKET, ..]) => {}
                _ => return Err("received an unexpected handshake message".into()),
            }
        }
        Ok(DecryptResult { done, is_closed: false })
    }
}

impl Direction {
    fn new((number, secrets): (u64, ConnectionTrafficSecrets)) -> Result<Self, String> {
        let (algorithm, key, start) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&aead::AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&aead::AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&aead::CHACHA20_POLY1305, key, iv),
            _ => return Err("the server chose an unsupported cipher suite".into()),
        };
        Direction::with(algorithm, key.as_ref(), start.as_ref(), number)
            .ok_or_else(|| "the connection's keys do not match its cipher suite".into())
    }

    fn with(algorithm: &'static aead::Algorithm, key: &[u8], start: &[u8], number: u64) -> Option<Self> {
        let key = LessSafeKey::new(UnboundKey::new(algorithm, key).ok()?);
        Some(Direction { key, start: start.try_into().ok()?, number })
    }

    fn nonce(&mut self) -> Nonce {
        let mut nonce = self.start;
        for (byte, digit) in nonce[4..].iter_mut().zip(self.number.to_be_bytes()) {
            *byte ^= digit;
        }
        self.number += 1;
        Nonce::assume_unique_for_key(nonce)
    }

    fn encrypt(&mut self, kind: u8, plain: &[u8], outgoing: &mut Vec<u8>) -> Result<(), String> {
        let length = u16::try_from(plain.len() + 1 + TAG).map_err(|_| "a record is too long")?;
        let [high, low] = length.to_be_bytes();
        let header = [OUTER[0], OUTER[1], OUTER[2], high, low];
        outgoing.extend_from_slice(&header);
        let start = outgoing.len();
        outgoing.extend_from_slice(plain);
        outgoing.push(kind);
        let nonce = self.nonce();
        let tag = self.key.seal_in_place_separate_tag(nonce, Aad::from(header), &mut outgoing[start..]);
        outgoing.extend_from_slice(tag.map_err(|_| "cannot encrypt a record")?.as_ref());
        Ok(())
    }

    /// Decrypts a record and returns its content type and content.
    fn decrypt<'a>(&mut self, header: [u8; HEADER], body: &'a mut [u8]) -> Result<(u8, &'a [u8]), String> {
        let nonce = self.nonce();
        let opened = self.key.open_in_place(nonce, Aad::from(header), body);
        let opened = opened.map_err(|_| "a record failed authentication")?;
        // Zero padding may follow the content type, to hide the length of the content.
        let kind = opened.iter().rposition(|byte| *byte != 0).ok_or("a record is empty")?;
        Ok((opened[kind], &opened[..kind]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns both ends of a connection.
    fn ends() -> [Records; 2] {
        [(1, 2), (2, 1)].map(|(sending, receiving)| {
            let direction =
                |seed: u8| Direction::with(&aead::AES_128_GCM, &[seed; 16], &[seed; 12], 7).unwrap();
            Records { sending: direction(sending), receiving: direction(receiving) }
        })
    }

    #[test]
    fn encrypted_records_are_decrypted_at_any_piece_size() {
        let [mut sender, mut receiver] = ends();
        let plain: Vec<u8> = (0..40_000_u32).map(|number| number as u8).collect();
        let mut wire = Vec::new();
        sender.encrypt(b"first", &mut wire).unwrap();
        sender.encrypt(&plain, &mut wire).unwrap();
        assert_eq!(wire.len(), 4 * (HEADER + 1 + TAG) + 5 + plain.len());
        let (mut held, mut shown) = (Vec::new(), Vec::new());
        for piece in wire.chunks(1000) {
            held.extend_from_slice(piece);
            let opened = receiver.decrypt(&mut held, |bytes| shown.extend_from_slice(bytes)).unwrap();
            assert!(!opened.is_closed);
            held.drain(..opened.done);
        }
        assert!(held.is_empty());
        assert_eq!(shown, [b"first", plain.as_slice()].concat());
    }

    #[test]
    fn only_application_data_is_passed_on() {
        for (kind, plain, expected) in [
            (HANDSHAKE, &[TICKET, 0, 0][..], Ok(false)),
            (ALERT, &[1, CLOSE_NOTIFY], Ok(true)),
            (ALERT, &[2, 40], Err("the server sent an alert: [2, 40]")),
            (HANDSHAKE, &[24, 0, 0, 1, 0], Err("received an unexpected handshake message")),
            // Only padding.
            (0, &[0, 0], Err("a record is empty")),
        ] {
            let [mut sender, mut receiver] = ends();
            let mut wire = Vec::new();
            sender.sending.encrypt(kind, plain, &mut wire).unwrap();
            let opened = receiver.decrypt(&mut wire, |_| panic!("content of type {kind} was passed on"));
            assert_eq!(opened.map(|opened| opened.is_closed), expected.map_err(String::from));
        }
    }

    #[test]
    fn padding_is_removed() {
        let [mut sender, mut receiver] = ends();
        let mut wire = Vec::new();
        sender.sending.encrypt(0, &[b'a', b'b', DATA, 0, 0], &mut wire).unwrap();
        let mut shown = Vec::new();
        receiver.decrypt(&mut wire, |bytes| shown.extend_from_slice(bytes)).unwrap();
        assert_eq!(shown, b"ab");
    }

    #[test]
    fn modified_records_are_rejected() {
        let mut wire = Vec::new();
        ends()[0].encrypt(b"hello", &mut wire).unwrap();
        for position in 0..wire.len() {
            let mut wire = wire.clone();
            wire[position] ^= 1;
            let opened = ends()[1].decrypt(&mut wire, |_| panic!("byte {position} is not authenticated"));
            // A larger length makes the record incomplete.
            assert!(
                opened.is_err() || opened == Ok(DecryptResult { done: 0, is_closed: false }),
                "{position}"
            );
        }
        let opened = ends()[0].decrypt(&mut wire, |_| panic!("the wrong direction was accepted"));
        assert!(opened.is_err());
    }
}
