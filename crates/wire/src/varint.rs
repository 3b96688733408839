//! Varints and length-delimited fields.

// upstream: staging/src/k8s.io/api/core/v1/generated.pb.go

use crate::WireError;

pub const VARINT: u64 = 0;
pub const FIXED64: u64 = 1;
pub const BYTES: u64 = 2;
pub const FIXED32: u64 = 5;

/// Reads a message from start to end.
pub struct Reader<'a> {
    bytes: &'a [u8],
}

/// The contents of a field.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32,
}

impl Payload<'_> {
    pub fn wire(&self) -> u64 {
        match self {
            Payload::Varint(_) => VARINT,
            Payload::Fixed64(_) => FIXED64,
            Payload::Bytes(_) => BYTES,
            Payload::Fixed32 => FIXED32,
        }
    }
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes }
    }

    /// Reads the next field: its number and contents. `None` at the end.
    pub fn field(&mut self) -> Result<Option<(u64, Payload<'a>)>, WireError> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = tag >> 3;
        if number == 0 || number > u64::from(u32::MAX >> 3) {
            return Err(WireError::IllegalTag(number));
        }
        let payload = match tag & 7 {
            VARINT => Payload::Varint(self.varint()?),
            FIXED64 => Payload::Fixed64(u64::from_le_bytes(self.array()?)),
            BYTES => {
                let length = self.varint()?;
                let length = usize::try_from(length).map_err(|_| WireError::UnexpectedEnd)?;
                Payload::Bytes(self.take(length)?)
            }
            FIXED32 => {
                // No known field has this wire type; unknown fields are skipped.
                self.array::<4>()?;
                Payload::Fixed32
            }
            _ => return Err(WireError::IllegalTag(tag)),
        };
        Ok(Some((number, payload)))
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn varint(&mut self) -> Result<u64, WireError> {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let [byte] = self.array::<1>()?;
            if shift == 63 && byte > 1 {
                return Err(WireError::Overflow);
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(WireError::Overflow)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or(WireError::UnexpectedEnd)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (taken, rest) = self.bytes.split_first_chunk::<N>().ok_or(WireError::UnexpectedEnd)?;
        self.bytes = rest;
        Ok(*taken)
    }
}

pub fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub fn write_tag(number: u32, wire: u64, out: &mut Vec<u8>) {
    write_varint(u64::from(number) << 3 | wire, out);
}

/// Writes a varint field.
pub fn write_number(number: u32, value: u64, out: &mut Vec<u8>) {
    write_tag(number, VARINT, out);
    write_varint(value, out);
}

/// Writes a field of bytes or a string.
pub fn write_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    write_tag(number, BYTES, out);
    write_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Writes a nested message whose length is known only afterwards.
pub fn write_message(number: u32, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    write_tag(number, BYTES, out);
    // Most messages are short, so one byte is reserved for the length, and longer messages are moved.
    let start = out.len();
    out.push(0);
    body(out);
    let mut length = out.len() - start - 1;
    let width = varint_len(length as u64);
    if width > 1 {
        let end = out.len();
        out.resize(end + width - 1, 0);
        out.copy_within(start + 1..end, start + width);
    }
    for byte in &mut out[start..start + width - 1] {
        *byte = (length as u8) | 0x80;
        length >>= 7;
    }
    out[start + width - 1] = length as u8;
}

fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_precede_messages_of_any_size() {
        for length in [0, 1, 127, 128, 300, 16_383, 16_384, 3_000_000] {
            let body = vec![7; length];
            let (mut one, mut other) = (Vec::new(), Vec::new());
            write_bytes(3, &body, &mut one);
            write_message(3, &mut other, |out| out.extend_from_slice(&body));
            assert!(one == other, "{length}");
        }
    }
}
