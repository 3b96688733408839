//! Random objects of built-in kinds for tests, as text: members in any order, with a given rate of mistakes.
//!
//! ```text
//! Generator ─┬ object ── a whole object of a type
//!            ├ anything_of, time, micro_time, quantity ── one value
//!            └ damage ── malformed text
//! ```

use std::fmt::Write as _;

use atoll_schema::{Slot, TypeId, TypeRef, Types};
use atoll_upstream::SeededRandom;

pub struct Generator {
    random: SeededRandom,
    /// Mistakes per thousand values.
    mistakes: usize,
}

const STRINGS: [&str; 12] = [
    r#""""#,
    r#""a""#,
    r#""web""#,
    r#""Always""#,
    r#""10%""#,
    r#""é\u00e9""#,
    r#""a b""#,
    r#""\ud800x""#,
    r#""\ud83d\ude00""#,
    r#""<&>""#,
    r#""1""#,
    r#""\"quoted\"\n""#,
];
const NUMBERS: [&str; 14] = [
    "0",
    "1",
    "-1",
    "80",
    "-0",
    "1.5",
    "1.0",
    "1e3",
    "2147483647",
    "2147483648",
    "99999999999",
    "9223372036854775808",
    "0.5E-7",
    "-2147483648",
];
const ANYTHING: [&str; 9] = ["null", "true", "false", "[]", "{}", r#"{"a":1}"#, "[1]", r#""x""#, "12"];
const BASE64: [&str; 12] = [
    r#""""#,
    r#""YQ==""#,
    r#""YWI=""#,
    r#""YWJj""#,
    r#""YR==""#,
    r#""Y\nQ=\n=""#,
    r#""YQ=""#,
    r#""YQ""#,
    r#""Y===""#,
    r#""YQ==YQ==""#,
    r#""?Q==""#,
    r#""YQ=x""#,
];
const TIMES: [&str; 22] = [
    "2026-11-15T08:07:21Z",
    "2026-11-15T08:07:21.123456Z",
    "2026-11-15T08:07:21.123456789+01:30",
    "0001-01-01T00:00:00Z",
    "2026-11-15T08:07:21-23:59",
    "2024-02-29T00:00:00Z",
    "2023-02-29T00:00:00Z",
    "2026-13-01T00:00:00Z",
    "2026-11-15T24:00:00Z",
    "2026-11-15T08:60:00Z",
    "2026-11-15T08:07:60Z",
    "2026-11-15T8:07:21Z",
    "2026-11-15 08:07:21Z",
    "2026-11-15T08:07:21",
    "2026-11-15T08:07:21,5Z",
    "2026-11-15T08:07:21Zx",
    "202x-11-15T08:07:21Z",
    "",
    "2026-11-15T08:07:21+24:60",
    "2026-11-15T08:07:21+25:00",
    "2026-11-15T08:07:21.123456\\\"é",
    "0000-01-01T00:30:00.000000+01:00",
];
const QUANTITIES: [&str; 34] = [
    "0",
    "1",
    "100m",
    "0.5",
    "1.5Gi",
    "1024Mi",
    "1000",
    "1e3",
    "1E",
    "1e",
    "12e6",
    "1.500",
    "+1",
    "-1.5k",
    "1n",
    "0.1n",
    "1u",
    "1024",
    "8Ki",
    "1023Ki",
    "1.",
    ".5",
    "1000E",
    "9Ei",
    "0.00000000001Gi",
    "1e-20",
    "123456789012345678901234567890",
    "1Xi",
    "1 Gi",
    " 1 ",
    "abc",
    "",
    "1e+3",
    "0.0001Ki",
];

impl Generator {
    pub fn new(seed: u64) -> Generator {
        Generator { random: SeededRandom::new(seed), mistakes: 0 }
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.random.below(limit)
    }

    fn pick<'s>(&mut self, choices: &[&'s str]) -> &'s str {
        self.random.pick(choices)
    }

    /// Returns true once in `many` calls on average.
    pub fn one_in(&mut self, many: usize) -> bool {
        self.random.one_in(many)
    }

    fn mistaken(&mut self) -> bool {
        self.below(1000) < self.mistakes
    }

    pub fn object(&mut self, types: &Types, id: TypeId, mistakes: usize) -> String {
        self.mistakes = mistakes;
        let mut out = String::new();
        self.structure(types, id, 0, &mut out);
        out
    }

    /// Generates a value of any type, with the rate of mistakes of the last object.
    pub fn anything_of(&mut self, types: &Types, kind: TypeRef) -> String {
        let mut out = String::new();
        self.value(types, kind, 4, &mut out);
        out
    }

    /// Changes one byte of the text, or truncates it.
    pub fn damage(&mut self, text: &str) -> String {
        let mut at = self.below(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        if self.one_in(4) {
            return text[..at].to_owned();
        }
        let rest: String = text[at..].chars().skip(1).collect();
        let insert = self
            .pick(&["", "}", "]", "\"", ",", ":", "x", "'", "1", "-", ".", "\u{1}", "\\", "é", "tru", " "]);
        format!("{}{insert}{rest}", &text[..at])
    }

    fn structure(&mut self, types: &Types, id: TypeId, depth: usize, out: &mut String) {
        let owner = &types[id];
        let mut slots: Vec<&Slot> = owner.slots.iter().collect();
        for last in (1..slots.len()).rev() {
            slots.swap(last, self.below(last + 1));
        }
        // Deeply nested structs have only few fields, so that objects stay finite.
        let max_fields = if depth > 4 { 2 } else { 12 };
        slots.truncate(max_fields);
        out.push('{');
        let mut first = true;
        for slot in slots {
            if self.one_in(3) {
                continue;
            }
            self.comma(&mut first, out);
            // Only scalars may be duplicated, and with valid values: see the known differences.
            let twice =
                matches!(slot.kind, TypeRef::String | TypeRef::Bool | TypeRef::Named(_)) && self.mistaken();
            if twice {
                let _ = write!(out, "\"{}\":", slot.name);
                self.set(types, slot.kind, depth, out);
                out.push(',');
            }
            if self.mistaken() {
                let _ = write!(out, "\"unknown{}\":{},", self.below(3), self.pick(&ANYTHING));
            }
            let _ = write!(out, "\"{}\":", slot.name);
            if twice {
                self.set(types, slot.kind, depth, out);
            } else {
                self.value(types, slot.kind, depth + 1, out);
            }
        }
        out.push('}');
    }

    fn comma(&mut self, first: &mut bool, out: &mut String) {
        if !std::mem::take(first) {
            out.push(',');
        }
        if self.one_in(20) {
            out.push_str(" \n");
        }
    }

    fn value(&mut self, types: &Types, kind: TypeRef, depth: usize, out: &mut String) {
        if self.mistaken() {
            return out.push_str(self.pick(&ANYTHING));
        }
        if self.one_in(25) {
            return out.push_str("null");
        }
        self.set(types, kind, depth, out);
    }

    fn set(&mut self, types: &Types, kind: TypeRef, depth: usize, out: &mut String) {
        let text = match kind {
            TypeRef::String | TypeRef::Named(_) => self.pick(&STRINGS).to_owned(),
            TypeRef::Bool => self.pick(&["true", "false"]).to_owned(),
            TypeRef::Int32 | TypeRef::Int64 => self.integer(),
            TypeRef::Float64 => self.pick(&NUMBERS).to_owned(),
            TypeRef::Bytes => {
                let bytes = if self.mistaken() { &BASE64[..] } else { &BASE64[..6] };
                self.pick(bytes).to_owned()
            }
            TypeRef::Time => self.sometimes_wrong(&TIMES[..6], Generator::time),
            TypeRef::MicroTime => self.sometimes_wrong(&TIMES[1..2], Generator::micro_time),
            TypeRef::Quantity => self.sometimes_wrong(&QUANTITIES[..9], Generator::quantity),
            TypeRef::IntOrString => {
                let string = self.one_in(2);
                if string { self.pick(&STRINGS).to_owned() } else { self.integer() }
            }
            TypeRef::RawExtension | TypeRef::FieldsV1 | TypeRef::Json | TypeRef::Any => {
                self.pick(&[r#"{"a":{"b":[1,null,"c"]}}"#, "[1,2]", r#""x""#, "true", "{}", "7"]).to_owned()
            }
            TypeRef::JsonSchemaOrBool => return self.schema_or(types, &["true", "false"], depth, out),
            TypeRef::JsonSchemaOrArray => {
                return self.schema_or(types, &["[]", "[{},null]", r#"[{"type":"a"}]"#, "1"], depth, out);
            }
            TypeRef::JsonSchemaOrStringArray => {
                return self.schema_or(types, &["[]", r#"["a",null]"#, r#""x""#, "1", "[1]"], depth, out);
            }
            TypeRef::Struct(id) => return self.structure(types, id, depth, out),
            TypeRef::List(list) => {
                out.push('[');
                for index in 0..self.length(depth) {
                    if index > 0 {
                        out.push(',');
                    }
                    self.value(types, list.element, depth + 1, out);
                }
                out.push(']');
                return;
            }
            TypeRef::Map(map) => {
                out.push('{');
                for index in 0..self.length(depth) {
                    let comma = if index > 0 { "," } else { "" };
                    let _ = write!(out, "{comma}\"key.io/{index}\":");
                    self.value(types, map.value, depth + 1, out);
                }
                out.push('}');
                return;
            }
        };
        out.push_str(&text);
    }

    fn length(&mut self, depth: usize) -> usize {
        if depth > 5 { self.below(2) } else { self.below(3) }
    }

    fn integer(&mut self) -> String {
        let numbers = if self.mistaken() { &NUMBERS[..] } else { &NUMBERS[..5] };
        self.pick(numbers).to_owned()
    }

    fn schema_or(&mut self, types: &Types, others: &[&str], depth: usize, out: &mut String) {
        if depth > 12 || self.one_in(2) {
            out.push_str(self.pick(others));
        } else {
            self.structure(types, types.json_schema(), depth + 2, out);
        }
    }

    fn sometimes_wrong(&mut self, right: &[&str], wrong: fn(&mut Generator) -> String) -> String {
        if self.mistaken() { wrong(self) } else { format!("\"{}\"", self.pick(right)) }
    }

    pub fn time(&mut self) -> String {
        self.change(&TIMES)
    }

    pub fn micro_time(&mut self) -> String {
        if self.one_in(2) { self.change(&TIMES[1..3]) } else { self.change(&TIMES) }
    }

    /// Generates a quantity from the list or from digits and a suffix, with or without quotes.
    pub fn quantity(&mut self) -> String {
        if self.one_in(6) {
            return self
                .pick(&[
                    "1",
                    "1.5",
                    "1e3",
                    "1.50",
                    "-2",
                    "0",
                    "1E2",
                    "true",
                    "{}",
                    "[]",
                    "100000000000000000000",
                ])
                .to_owned();
        }
        if self.one_in(3) {
            return self.change(&QUANTITIES);
        }
        let mut digits = self.pick(&["", "-", "+", "0"]).to_owned();
        for _ in 0..self.below(22) {
            digits.push_str(self.pick(&["0", "0", "0", "1", "2", "5", "9", "4", "8"]));
        }
        if self.one_in(2) {
            digits.push('.');
            for _ in 0..self.below(14) {
                digits.push_str(self.pick(&["0", "0", "1", "5", "9"]));
            }
        }
        let suffix = self.pick(&[
            "", "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3",
            "E-4", "e10", "K",
        ]);
        format!("\"{digits}{suffix}\"")
    }

    /// Picks a quoted string of the list, sometimes with a character replaced.
    fn change(&mut self, list: &[&str]) -> String {
        let text = self.pick(list);
        if self.one_in(3) && text.is_ascii() && !text.is_empty() && !text.contains('\\') {
            let at = self.below(text.len());
            let with = self.pick(&["", "0", "9", "x", ":", "-", "+", "Z", "."]);
            return format!("\"{}{with}{}\"", &text[..at], &text[at + 1..]);
        }
        format!("\"{text}\"")
    }
}
