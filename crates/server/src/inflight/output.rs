//! Memory for text while it is made. A table, indented JSON or YAML may be far longer than the JSON that it is
//! made from, so its length is not known before.

use std::fmt;

use atoll_meta::Status;

use super::memory::Reservation;

/// Text of up to this many bytes is made in one pass, however short the JSON is.
const ONE_PASS: usize = 4 << 20;
/// Longer text is made in one pass if it is at most this many times as long as the JSON, up to a limit.
const USUAL_GROWTH: usize = 2;
const MAX_ONE_PASS: usize = 64 << 20;
/// Bytes that are reserved at a time while text is being counted.
const STEP: usize = 1 << 20;

/// There is no memory for more output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// The memory that may be used for a response while it is being made.
pub struct OutputMemory {
    used: usize,
    granted: usize,
    one_pass: usize,
    /// More is reserved here as needed. `None` if the memory is fixed.
    reserved: Option<Reservation>,
    /// Up to this size, the reservation cannot be refused.
    certain: usize,
    refusal: Option<Status>,
}

impl OutputMemory {
    pub fn fixed(bytes: usize) -> Self {
        OutputMemory {
            used: 0,
            granted: bytes,
            one_pass: MAX_ONE_PASS,
            reserved: None,
            certain: 0,
            refusal: None,
        }
    }

    /// For what the server makes itself and is never long.
    pub fn unlimited() -> Self {
        OutputMemory::fixed(usize::MAX)
    }

    /// For output made from `size` bytes of JSON, for which memory is already reserved.
    pub(super) fn growing(reserved: Reservation, size: usize, certain: usize) -> Self {
        let one_pass = (USUAL_GROWTH * size).clamp(ONE_PASS, MAX_ONE_PASS);
        OutputMemory { used: 0, granted: size, one_pass, reserved: Some(reserved), certain, refusal: None }
    }

    /// Takes memory before it is used.
    pub fn take(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let used = self.used.saturating_add(bytes);
        if used > self.granted {
            let reserved = self.reserved.as_mut().ok_or(NoRoom)?;
            if used <= self.certain {
                reserved.force(used);
            } else if let Err(status) = reserved.grow(used) {
                self.refusal = Some(status);
                return Err(NoRoom);
            }
            self.granted = used;
        }
        self.used = used;
        Ok(())
    }

    /// Gives memory back that is no longer used. It stays reserved.
    pub fn give_back(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
    }

    /// Takes the memory of the values that JSON is parsed into, which for lists of numbers is many times the
    /// text. Returns how much that is.
    pub fn take_parsed(&mut self, json: &[u8]) -> Result<usize, NoRoom> {
        let bytes = parsed_size(json);
        self.take(bytes)?;
        Ok(bytes)
    }

    /// Returns the reservation and the reason why more was refused, if it was.
    pub(super) fn finish(self) -> (Option<Reservation>, Option<Status>) {
        (self.reserved, self.refusal)
    }
}

/// About the memory of the values in JSON: its text, and each value with its place in a list or map.
fn parsed_size(json: &[u8]) -> usize {
    const VALUE: usize = size_of::<serde_json::Value>();
    let (mut values, mut in_string, mut escaped) = (1, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => values += 1,
            // A name is another string.
            b':' if !in_string => values += 1,
            _ => {}
        }
    }
    json.len() + values * VALUE
}

/// Text that is being made.
pub struct TextBuffer<'a> {
    /// The text, unless it is too long to be kept in this pass.
    text: Vec<u8>,
    /// Length of all that was written.
    length: usize,
    /// Bytes of this text that `memory` includes.
    counted: usize,
    /// Longer text is not kept.
    kept: usize,
    memory: &'a mut OutputMemory,
}

/// Makes text within the memory. Long text is made twice: at first it is only counted, so that text that is
/// refused takes no memory, and other text takes no more than its length.
pub fn make_text(
    memory: &mut OutputMemory,
    expected: usize,
    mut write: impl FnMut(&mut TextBuffer<'_>) -> Result<(), NoRoom>,
) -> Result<Vec<u8>, NoRoom> {
    let kept = memory.one_pass;
    let text = if expected <= kept { Vec::with_capacity(expected) } else { Vec::new() };
    let mut buffer = TextBuffer { text, length: 0, counted: 0, kept, memory };
    write(&mut buffer)?;
    let TextBuffer { text, length, counted, memory, .. } = buffer;
    memory.give_back(counted - length);
    if length <= kept {
        return Ok(text);
    }
    // The last byte is for a line break.
    let text = Vec::with_capacity(length + 1);
    let mut buffer = TextBuffer { text, length: 0, counted: length, kept: usize::MAX, memory };
    write(&mut buffer)?;
    debug_assert_eq!(buffer.length, length, "both passes write the same");
    Ok(buffer.text)
}

impl TextBuffer<'_> {
    pub fn memory(&mut self) -> &mut OutputMemory {
        self.memory
    }

    #[inline]
    pub fn push(&mut self, byte: u8) -> Result<(), NoRoom> {
        if self.make_room(1)? {
            self.text.push(byte);
        }
        Ok(())
    }

    #[inline]
    pub fn extend(&mut self, bytes: &[u8]) -> Result<(), NoRoom> {
        if self.make_room(bytes.len())? {
            self.text.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Writes a byte many times.
    pub fn fill(&mut self, byte: u8, count: usize) -> Result<(), NoRoom> {
        if self.make_room(count)? {
            self.text.resize(self.text.len() + count, byte);
        }
        Ok(())
    }

    /// Counts more bytes, and returns whether they are kept.
    #[inline]
    fn make_room(&mut self, more: usize) -> Result<bool, NoRoom> {
        self.length += more;
        if self.length > self.counted {
            self.count()?;
        }
        Ok(self.length <= self.kept)
    }

    #[cold]
    fn count(&mut self) -> Result<(), NoRoom> {
        let missing = self.length - self.counted;
        // Small steps at first, because the memory may be fixed and small.
        let step = missing.max((self.length / 4).min(STEP));
        let taken = match self.memory.take(step) {
            Ok(()) => step,
            Err(NoRoom) => self.memory.take(missing).map(|()| missing)?,
        };
        self.counted += taken;
        if self.length > self.kept {
            self.text = Vec::new();
        }
        Ok(())
    }
}

impl fmt::Write for TextBuffer<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.extend(text.as_bytes()).map_err(|NoRoom| fmt::Error)
    }

    fn write_char(&mut self, character: char) -> fmt::Result {
        match u8::try_from(character) {
            Ok(byte) if byte.is_ascii() => self.push(byte).map_err(|NoRoom| fmt::Error),
            _ => self.write_str(character.encode_utf8(&mut [0; 4])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Sender;
    use super::super::memory::Memory;
    use super::*;

    const MIB: usize = 1 << 20;

    fn growing(limit: usize, size: usize) -> OutputMemory {
        let sender = Sender(["ann"].map(Box::from).into());
        let mut reserved = Memory::new(limit, limit).empty_reservation(Some(sender));
        reserved.resize(size).unwrap();
        OutputMemory::growing(reserved, size, 0)
    }

    /// Writes pieces and returns the text and the number of passes.
    fn make(memory: &mut OutputMemory, pieces: usize, piece: &[u8]) -> (Result<Vec<u8>, NoRoom>, usize) {
        let mut passes = 0;
        let text = make_text(memory, 0, |out| {
            passes += 1;
            (0..pieces).try_for_each(|_| out.extend(piece))
        });
        (text, passes)
    }

    #[test]
    fn long_text_takes_its_length_and_short_text_one_pass() {
        let piece = [b'x'; 1000];
        for (pieces, passes) in [(0, 1), (1, 1), (ONE_PASS / 1000, 1), (ONE_PASS / 1000 + 1, 2), (20_000, 2)]
        {
            let mut memory = growing(64 * MIB, 10);
            let (text, made) = make(&mut memory, pieces, &piece);
            let text = text.unwrap();
            assert_eq!((text.len(), made), (pieces * 1000, passes));
            assert!(text.iter().all(|byte| *byte == b'x'));
            assert!(passes == 1 || text.capacity() <= text.len() + 1, "no more than needed is allocated");
            assert_eq!(memory.used, text.len());
        }
    }

    #[test]
    fn text_that_does_not_fit_is_refused_as_soon_as_it_is_counted() {
        let mut memory = growing(8 * MIB, 10);
        let mut written = 0;
        let refused = make_text(&mut memory, 0, |out| {
            (0..1_000_000).try_for_each(|_| {
                out.fill(b' ', 1000)?;
                written += 1000;
                assert!(out.text.capacity() <= 2 * ONE_PASS);
                Ok(())
            })
        });
        assert_eq!(refused, Err(NoRoom));
        assert!((7 * MIB..=8 * MIB).contains(&written), "{written}");
        let (reserved, refusal) = memory.finish();
        assert_eq!(refusal.unwrap().code(), 413, "it could never fit");
        assert!(reserved.is_some());
    }

    #[test]
    fn fixed_memory_does_not_grow() {
        let mut memory = OutputMemory::fixed(1000);
        assert_eq!(make(&mut memory, 10, &[b'x'; 100]).0.unwrap().len(), 1000);
        assert_eq!(make(&mut memory, 1, b"x").0, Err(NoRoom));
        memory.give_back(1000);
        assert!(make(&mut memory, 1, b"x").0.is_ok());
        assert_eq!(make(&mut OutputMemory::fixed(1000), 11, &[b'x'; 100]).0, Err(NoRoom));
    }

    #[test]
    fn parsed_values_count_by_their_number() {
        let numbers = format!("[{}1]", "1,".repeat(999));
        let size = parsed_size(numbers.as_bytes());
        assert!(size > 1000 * size_of::<serde_json::Value>());
        let text = format!(r#""{}\",[""#, "1,".repeat(999));
        assert!(parsed_size(text.as_bytes()) < text.len() + 100, "text is one value");
        let mut memory = OutputMemory::fixed(size);
        assert_eq!(memory.take_parsed(numbers.as_bytes()), Ok(size));
        assert_eq!(memory.take(1), Err(NoRoom));
    }
}
