//! Records of TLS 1.3 once the handshake is done, sealed and opened where they lie: rustls, which does the handshake, copies
//! each into memory of its own before it shows it.

use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use rustls::{ConnectionTrafficSecrets, ExtractedSecrets};

/// Bytes before what a record carries: its type, its version, its length.
const HEADER: usize = 5;
/// Bytes behind it by which it is known to be genuine.
const TAG: usize = 16;
/// What a record carries at most, without the byte that says what that is.
const MOST: usize = 16 << 10;
/// What all records of these look like from outside.
const OUTER: [u8; 3] = [DATA, 3, 3];

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;
/// The alert by which the other side says that it has nothing more to say.
const CLOSE_NOTIFY: u8 = 0;
/// What is offered for the next connection.
const TICKET: u8 = 4;

/// Both directions of a connection.
pub struct Records {
    sending: Direction,
    receiving: Direction,
}

struct Direction {
    key: LessSafeKey,
    /// What the number of a record is mixed with.
    start: [u8; 12],
    /// Of the next record.
    number: u64,
}

/// What became of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// So many are done with; those behind are the beginning of a record.
    pub done: usize,
    /// The other side will not send any more.
    pub is_closed: bool,
}

impl Records {
    pub fn new(secrets: ExtractedSecrets) -> Result<Self, String> {
        Ok(Records { sending: Direction::new(secrets.tx)?, receiving: Direction::new(secrets.rx)? })
    }

    /// Appends `plain` to `outgoing`, in as many records as it takes.
    pub fn seal(&mut self, plain: &[u8], outgoing: &mut Vec<u8>) -> Result<(), String> {
        for part in plain.chunks(MOST) {
            self.sending.seal(DATA, part, outgoing)?;
        }
        Ok(())
    }

    /// Opens the records in `incoming` that are whole, and shows what they carry.
    pub fn open(&mut self, incoming: &mut [u8], mut show: impl FnMut(&[u8])) -> Result<Opened, String> {
        let mut done = 0;
        while let Some((header, behind)) = incoming[done..].split_first_chunk_mut::<HEADER>() {
            let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
            if !header.starts_with(&OUTER) || length > MOST + 256 {
                return Err("what comes is no record of TLS 1.3".into());
            }
            let Some(body) = behind.get_mut(..length) else { break };
            let (kind, carried) = self.receiving.open(*header, body)?;
            done += HEADER + length;
            match (kind, carried) {
                (DATA, data) => show(data),
                (ALERT, [_, CLOSE_NOTIFY]) => return Ok(Opened { done, is_closed: true }),
                (ALERT, alert) => return Err(format!("the server sent an alert: {alert:?}")),
                // There will be no next connection.
                (HANDSHAKE, [TICKET, ..]) => {}
                _ => return Err("the server wants something that is not known here".into()),
            }
        }
        Ok(Opened { done, is_closed: false })
    }
}

impl Direction {
    fn new((number, secrets): (u64, ConnectionTrafficSecrets)) -> Result<Self, String> {
        let (algorithm, key, start) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&aead::AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&aead::AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&aead::CHACHA20_POLY1305, key, iv),
            _ => return Err("the server chose a cipher that is not known here".into()),
        };
        Direction::with(algorithm, key.as_ref(), start.as_ref(), number)
            .ok_or_else(|| "the keys of the connection do not fit its cipher".into())
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

    fn seal(&mut self, kind: u8, plain: &[u8], outgoing: &mut Vec<u8>) -> Result<(), String> {
        let length = u16::try_from(plain.len() + 1 + TAG).map_err(|_| "a record is too long")?;
        let [high, low] = length.to_be_bytes();
        let header = [OUTER[0], OUTER[1], OUTER[2], high, low];
        outgoing.extend_from_slice(&header);
        let start = outgoing.len();
        outgoing.extend_from_slice(plain);
        outgoing.push(kind);
        let nonce = self.nonce();
        let tag = self.key.seal_in_place_separate_tag(nonce, Aad::from(header), &mut outgoing[start..]);
        outgoing.extend_from_slice(tag.map_err(|_| "a record could not be sealed")?.as_ref());
        Ok(())
    }

    /// What a record carries, and of which kind that is.
    fn open<'a>(&mut self, header: [u8; HEADER], body: &'a mut [u8]) -> Result<(u8, &'a [u8]), String> {
        let nonce = self.nonce();
        let opened = self.key.open_in_place(nonce, Aad::from(header), body);
        let opened = opened.map_err(|_| "a record is not genuine")?;
        // Behind the kind there may be zeros, so that nobody sees how much it is.
        let kind = opened.iter().rposition(|byte| *byte != 0).ok_or("a record carries nothing")?;
        Ok((opened[kind], &opened[..kind]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two ends of a connection, of which the first sends.
    fn ends() -> [Records; 2] {
        [(1, 2), (2, 1)].map(|(sending, receiving)| {
            let direction =
                |seed: u8| Direction::with(&aead::AES_128_GCM, &[seed; 16], &[seed; 12], 7).unwrap();
            Records { sending: direction(sending), receiving: direction(receiving) }
        })
    }

    #[test]
    fn what_is_sealed_is_opened_however_it_arrives() {
        let [mut sender, mut receiver] = ends();
        let plain: Vec<u8> = (0..40_000_u32).map(|number| number as u8).collect();
        let mut wire = Vec::new();
        sender.seal(b"first", &mut wire).unwrap();
        sender.seal(&plain, &mut wire).unwrap();
        assert_eq!(wire.len(), 4 * (HEADER + 1 + TAG) + 5 + plain.len());
        let (mut held, mut shown) = (Vec::new(), Vec::new());
        for piece in wire.chunks(1000) {
            held.extend_from_slice(piece);
            let opened = receiver.open(&mut held, |bytes| shown.extend_from_slice(bytes)).unwrap();
            assert!(!opened.is_closed);
            held.drain(..opened.done);
        }
        assert!(held.is_empty());
        assert_eq!(shown, [b"first", plain.as_slice()].concat());
    }

    #[test]
    fn what_is_not_data_is_not_shown() {
        for (kind, plain, expected) in [
            (HANDSHAKE, &[TICKET, 0, 0][..], Ok(false)),
            (ALERT, &[1, CLOSE_NOTIFY], Ok(true)),
            (ALERT, &[2, 40], Err("the server sent an alert: [2, 40]")),
            (HANDSHAKE, &[24, 0, 0, 1, 0], Err("the server wants something that is not known here")),
            // Nothing but padding.
            (0, &[0, 0], Err("a record carries nothing")),
        ] {
            let [mut sender, mut receiver] = ends();
            let mut wire = Vec::new();
            sender.sending.seal(kind, plain, &mut wire).unwrap();
            let opened = receiver.open(&mut wire, |_| panic!("{kind} is shown"));
            assert_eq!(opened.map(|opened| opened.is_closed), expected.map_err(String::from));
        }
    }

    #[test]
    fn padding_is_no_data() {
        let [mut sender, mut receiver] = ends();
        let mut wire = Vec::new();
        sender.sending.seal(0, &[b'a', b'b', DATA, 0, 0], &mut wire).unwrap();
        let mut shown = Vec::new();
        receiver.open(&mut wire, |bytes| shown.extend_from_slice(bytes)).unwrap();
        assert_eq!(shown, b"ab");
    }

    #[test]
    fn what_was_tampered_with_is_refused() {
        let mut wire = Vec::new();
        ends()[0].seal(b"hello", &mut wire).unwrap();
        for position in 0..wire.len() {
            let mut wire = wire.clone();
            wire[position] ^= 1;
            let opened = ends()[1].open(&mut wire, |_| panic!("byte {position} does not matter"));
            // A greater length is that of a record that is not whole yet.
            assert!(opened.is_err() || opened == Ok(Opened { done: 0, is_closed: false }), "{position}");
        }
        let opened = ends()[0].open(&mut wire, |_| panic!("this is for the other side"));
        assert!(opened.is_err());
    }
}
