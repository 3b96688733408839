//! JSON as a flat list of values, parsed once and traversed as often as needed, without maps and copies.
//!
//! Only for output of this program: compact and valid JSON. Other input is treated as absent.

use std::borrow::Cow;

use atoll_meta::json::{string_end, unescape};

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Null,
    Bool,
    Number,
    Text,
    Array,
    Object,
}

/// The position of a value in the text and on the tape.
#[derive(Clone, Copy, Debug)]
struct Node {
    kind: Kind,
    /// Whether the string contains escapes.
    escaped: bool,
    start: u32,
    end: u32,
    /// Index after this value and its children.
    next: u32,
}

/// The list of values. Reused for several texts to save allocations.
#[derive(Default)]
pub struct Tape {
    nodes: Vec<Node>,
}

/// A value on the tape.
#[derive(Clone, Copy)]
pub struct TapeValue<'t> {
    tape: &'t Tape,
    text: &'t [u8],
    index: u32,
}

impl Tape {
    /// Parses a text.
    pub fn read<'t>(&'t mut self, text: &'t [u8]) -> Option<TapeValue<'t>> {
        self.nodes.clear();
        u32::try_from(text.len()).ok()?;
        Reader { text, nodes: &mut self.nodes }.value(0)?;
        Some(TapeValue { tape: self, text, index: 0 })
    }
}

struct Reader<'t> {
    text: &'t [u8],
    nodes: &'t mut Vec<Node>,
}

impl Reader<'_> {
    /// Parses the value at a position and returns its end.
    fn value(&mut self, start: usize) -> Option<usize> {
        let kind = match *self.text.get(start)? {
            b'"' => return self.string(start),
            b'{' => return self.collection(start, Kind::Object, b'}'),
            b'[' => return self.collection(start, Kind::Array, b']'),
            b'n' => Kind::Null,
            b't' | b'f' => Kind::Bool,
            _ => Kind::Number,
        };
        let length = self.text[start..].iter().position(|byte| matches!(byte, b',' | b'}' | b']'));
        let end = length.map_or(self.text.len(), |length| start + length);
        if end == start {
            return None;
        }
        self.push(kind, false, start, end);
        Some(end)
    }

    fn string(&mut self, start: usize) -> Option<usize> {
        let end = string_end(self.text, start + 1)?;
        self.push(Kind::Text, end.escaped, start + 1, end.quote);
        Some(end.quote + 1)
    }

    fn collection(&mut self, start: usize, kind: Kind, close: u8) -> Option<usize> {
        let own = self.nodes.len();
        self.push(kind, false, start, start);
        let mut position = start + 1;
        if *self.text.get(position)? != close {
            loop {
                if kind == Kind::Object {
                    position = self.string(position).filter(|_| self.text[position] == b'"')?;
                    position = self.text.get(position).filter(|byte| **byte == b':').map(|_| position + 1)?;
                }
                position = match self.is_field_set(position) {
                    true => self.skip(position)?,
                    false => self.value(position)?,
                };
                match *self.text.get(position)? {
                    b',' => position += 1,
                    byte if byte == close => break,
                    _ => return None,
                }
            }
        }
        self.nodes[own].end = position as u32 + 1;
        self.nodes[own].next = self.nodes.len() as u32;
        Some(position + 1)
    }

    /// Whether a set of field paths starts here. They are long, there are several in an object, and they are
    /// copied unchanged, so their contents are skipped. Nothing else starts with such a key.
    fn is_field_set(&self, start: usize) -> bool {
        matches!(self.text.get(start..), Some([b'{', b'"', b'f' | b'k' | b'v' | b'i', b':', ..]))
            && self.text[..start].ends_with(b"\"fieldsV1\":")
    }

    /// Skips the contents of an object.
    fn skip(&mut self, start: usize) -> Option<usize> {
        let mut depth = 0;
        let mut position = start;
        loop {
            match *self.text.get(position)? {
                b'"' => position = string_end(self.text, position + 1)?.quote,
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            position += 1;
            if depth == 0 {
                self.push(Kind::Object, false, start, position);
                return Some(position);
            }
        }
    }

    fn push(&mut self, kind: Kind, escaped: bool, start: usize, end: usize) {
        let next = self.nodes.len() as u32 + 1;
        self.nodes.push(Node { kind, escaped, start: start as u32, end: end as u32, next });
    }
}

impl<'t> TapeValue<'t> {
    /// Returns the index of the value, for [`TapeValue::at`]. No nested value has index 0.
    pub fn index(self) -> u32 {
        self.index
    }

    /// Returns the value at this index of the same tape.
    pub fn at(self, index: u32) -> TapeValue<'t> {
        TapeValue { index, ..self }
    }

    fn node(self) -> Node {
        self.tape.nodes[self.index as usize]
    }

    pub fn kind(self) -> Kind {
        self.node().kind
    }

    /// Returns the value as written; a string without its quotes.
    pub fn raw(self) -> &'t [u8] {
        let node = self.node();
        &self.text[node.start as usize..node.end as usize]
    }

    /// Returns the contents of a string; empty for other values.
    pub fn text(self) -> Cow<'t, [u8]> {
        let node = self.node();
        match (node.kind, node.escaped) {
            (Kind::Text, false) => Cow::Borrowed(self.raw()),
            (Kind::Text, true) => Cow::Owned(unescape(self.raw())),
            _ => Cow::Borrowed(b""),
        }
    }

    /// Returns an integer; 0 for other values.
    pub fn integer(self) -> i64 {
        if self.kind() != Kind::Number {
            return 0;
        }
        let text = std::str::from_utf8(self.raw()).unwrap_or_default();
        text.parse().unwrap_or_else(|_| self.float() as i64)
    }

    /// Returns a float; 0 for other values.
    pub fn float(self) -> f64 {
        if self.kind() != Kind::Number {
            return 0.0;
        }
        std::str::from_utf8(self.raw()).ok().and_then(|text| text.parse().ok()).unwrap_or(0.0)
    }

    pub fn is_true(self) -> bool {
        self.kind() == Kind::Bool && self.raw().starts_with(b"t")
    }

    /// Iterates over the elements of an array; empty for other values.
    pub fn elements(self) -> impl Iterator<Item = TapeValue<'t>> {
        let array = self.kind() == Kind::Array;
        self.inside(array)
    }

    /// Iterates over the keys and values of an object in the order of the text; empty for other values.
    pub fn members(self) -> impl Iterator<Item = (TapeValue<'t>, TapeValue<'t>)> {
        let object = self.kind() == Kind::Object;
        let mut inside = self.inside(object);
        std::iter::from_fn(move || Some((inside.next()?, inside.next()?)))
    }

    fn inside(self, any: bool) -> impl Iterator<Item = TapeValue<'t>> {
        let end = if any { self.node().next } else { 0 };
        let mut index = self.index + 1;
        std::iter::from_fn(move || {
            let value = (index < end).then_some(TapeValue { index, ..self })?;
            index = value.node().next;
            Some(value)
        })
    }
}

#[cfg(test)]
mod tests {
    use atoll_meta::json;
    use serde_json::{Map, Value, json};

    use super::*;

    fn to_json(value: TapeValue<'_>) -> Value {
        let text = |value: TapeValue<'_>| String::from_utf8(value.text().into_owned()).unwrap();
        match value.kind() {
            Kind::Null => Value::Null,
            Kind::Bool => value.is_true().into(),
            Kind::Number if value.raw().contains(&b'.') => value.float().into(),
            Kind::Number => value.integer().into(),
            Kind::Text => text(value).into(),
            Kind::Array => value.elements().map(to_json).collect(),
            Kind::Object => {
                let members = value.members().map(|(key, inner)| (text(key), to_json(inner)));
                Value::Object(members.collect::<Map<_, _>>())
            }
        }
    }

    #[test]
    fn written_json_is_parsed() {
        let values = [
            json!({}),
            json!([]),
            json!("plain"),
            json!({ "a": [1, -2, 3.5, true, false, null, {}, [[]]], "b": { "c": {} }, "d": "" }),
            json!({ "<k>\"\\": "line\nbreak\ttab \u{1} é \u{2028} 😀 &", "end": "\\" }),
        ];
        let mut tape = Tape::default();
        for expected in values {
            let text = json::to_vec(&expected);
            assert_eq!(to_json(tape.read(&text).unwrap()), expected);
        }
        let text = br#""\ud83d\ude00\ud83d x\/""#;
        assert_eq!(to_json(tape.read(text).unwrap()), json!("😀\u{fffd} x/"));
    }

    #[test]
    fn field_sets_are_copied_as_they_are() {
        let set = json!({ "f:a": { "f:b\"}": {}, ".": {}, "v:[1]": {} } });
        let text =
            json::to_vec(&json!({ "fieldsV1": set, "other": { "fieldsV1": { "type": "x" } }, "z": 1 }));
        let mut tape = Tape::default();
        let read = tape.read(&text).unwrap();
        let members: Vec<_> = read.members().map(|(_, value)| value).collect();
        assert_eq!(members[0].raw(), json::to_vec(&set));
        assert_eq!(members[0].members().count(), 0);
        assert_eq!(to_json(members[1]), json!({ "fieldsV1": { "type": "x" } }));
        assert_eq!(to_json(members[2]), json!(1));
    }

    #[test]
    fn invalid_json_is_absent() {
        let mut tape = Tape::default();
        for text in ["", "{", "[1", "{\"a\"", "{\"a\":}", "\"x", "{1:2}", "[,]"] {
            assert!(tape.read(text.as_bytes()).is_none(), "{text}");
        }
    }
}
