//! Translation of Go's regular expressions to the syntax of the `regex` crate.
//!
//! Both derive from RE2 and mostly agree. Differences are translated: `\d`, `\s`, `\w` and `\b` are
//! ASCII-only in Go, a brace that is not a repetition is a literal, and sets have no operators. Patterns that
//! Go rejects are rejected with Go's message.

// Go standard library: src/regexp/syntax/parse.go

use std::fmt;
use std::fmt::Write;
use std::iter::Peekable;
use std::str::CharIndices;

use super::size;

/// Go's error about a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError {
    code: &'static str,
    part: String,
}

impl PatternError {
    fn new(code: &'static str, part: &str) -> PatternError {
        PatternError { code, part: part.to_owned() }
    }

    /// Returns the error for a pattern that is too large, or that the crate does not support.
    pub(super) fn too_large(source: &str) -> PatternError {
        PatternError::new("expression too large", source)
    }
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error parsing regexp: {}: `{}`", self.code, self.part)
    }
}

impl std::error::Error for PatternError {}

const INVALID_ESCAPE: &str = "invalid escape sequence";
const INVALID_RANGE: &str = "invalid character class range";
const INVALID_CAPTURE: &str = "invalid named capture";
const INVALID_PERL: &str = "invalid or unsupported Perl syntax";
const INVALID_NESTING: &str = "invalid nested repetition operator";
const INVALID_COUNT: &str = "invalid repeat count";
const MISSING_BRACKET: &str = "missing closing ]";
const MISSING_PAREN: &str = "missing closing )";
const MISSING_ARGUMENT: &str = "missing argument to repetition operator";
const TRAILING: &str = "trailing backslash at end of expression";
const UNEXPECTED_PAREN: &str = "unexpected )";
/// Maximum number of repetitions of a part, including enclosing repetitions.
const MAX_REPEATS: u64 = 1000;

/// A translated pattern.
pub(super) struct Translated {
    pub text: String,
    /// Estimated size in bytes when compiled.
    pub size: u64,
}

/// Translates a pattern. The work is proportional to the length of `source`, not to its compiled size.
pub(super) fn translate(source: &str) -> Result<Translated, PatternError> {
    let mut translator = Translator::new(source);
    translator.run()?;
    Ok(Translated { size: translator.size, text: translator.out })
}

struct Translator<'s> {
    source: &'s str,
    rest: &'s str,
    out: String,
    /// Weight and size of the enclosing group so far, for each open group.
    groups: Vec<(u64, u64)>,
    /// Weight (number of repetitions inside) and size of the part that a following repetition applies to.
    last: Option<(u64, u64)>,
    /// Maximum weight in the open group.
    weight: u64,
    /// Estimated compiled size of the open group.
    size: u64,
    /// Whether matching is case-insensitive from here on.
    ignores_case: bool,
    /// Pending flags: a repetition after them applies to the part before them.
    flags: String,
}

impl<'s> Translator<'s> {
    fn new(source: &'s str) -> Translator<'s> {
        let (out, flags) = (String::new(), String::new());
        Translator {
            source,
            rest: source,
            out,
            groups: Vec::new(),
            last: None,
            weight: 1,
            size: 0,
            ignores_case: false,
            flags,
        }
    }

    fn run(&mut self) -> Result<(), PatternError> {
        let mut repeated: Option<&'s str> = None;
        while let Some(character) = self.rest.chars().next() {
            let before = self.rest;
            let mut repeats = None;
            if !matches!(character, '*' | '+' | '?') && (character != '{' || count(before).is_none()) {
                self.out.push_str(&std::mem::take(&mut self.flags));
            }
            match character {
                '(' if self.rest.starts_with("(?") => self.group()?,
                '(' => self.open("(?:", 1),
                ')' => self.close()?,
                '|' => {
                    self.copy(1);
                    self.last = None;
                }
                '^' | '$' | '.' => {
                    self.copy(1);
                    self.atom(if character == '.' { size::ANY } else { size::STATE });
                }
                '[' => self.class()?,
                '*' | '+' | '?' => {
                    self.rest = &self.rest[1..];
                    self.repeat(before, repeated, None)?;
                    repeats = Some(before);
                }
                '{' => match count(self.rest) {
                    None => self.literal('{', 1),
                    Some((bounds, length)) => {
                        self.rest = &self.rest[length..];
                        let (least, most) = bounds
                            .filter(|(least, most)| {
                                *least <= MAX_REPEATS
                                    && most.is_none_or(|most| most <= MAX_REPEATS && *least <= most)
                            })
                            .ok_or_else(|| PatternError::new(INVALID_COUNT, &before[..length]))?;
                        self.repeat(before, repeated, Some((least, most)))?;
                        repeats = Some(before);
                    }
                },
                '\\' => self.escape()?,
                _ => self.literal(character, character.len_utf8()),
            }
            repeated = repeats;
        }
        if self.groups.is_empty() { Ok(()) } else { Err(PatternError::new(MISSING_PAREN, self.source)) }
    }

    fn copy(&mut self, length: usize) {
        self.out.push_str(&self.rest[..length]);
        self.rest = &self.rest[length..];
    }

    /// Adds a part of this size without repetitions inside.
    fn atom(&mut self, size: u64) {
        self.size = self.size.saturating_add(size);
        self.repeatable(1, size);
    }

    fn repeatable(&mut self, weight: u64, size: u64) {
        self.last = Some((weight, size));
        self.weight = self.weight.max(weight);
    }

    fn literal(&mut self, character: char, length: usize) {
        push_literal(&mut self.out, character);
        self.rest = &self.rest[length..];
        self.atom(size::character(character, self.ignores_case));
    }

    fn open(&mut self, text: &str, length: usize) {
        self.out.push_str(text);
        self.rest = &self.rest[length..];
        self.groups.push((self.weight, self.size));
        (self.weight, self.size) = (1, size::STATE);
        self.last = None;
    }

    fn close(&mut self) -> Result<(), PatternError> {
        let Some((outer, before)) = self.groups.pop() else {
            return Err(PatternError::new(UNEXPECTED_PAREN, self.source));
        };
        self.copy(1);
        let (weight, size) = (self.weight, self.size);
        self.weight = outer;
        self.size = before.saturating_add(size);
        self.repeatable(weight, size);
        Ok(())
    }

    fn repeat(
        &mut self,
        before: &'s str,
        repeated: Option<&'s str>,
        bounds: Option<(u64, Option<u64>)>,
    ) -> Result<(), PatternError> {
        let lazy = self.rest.starts_with('?');
        if lazy {
            self.rest = &self.rest[1..];
        }
        let text = &before[..before.len() - self.rest.len()];
        if let Some(repeated) = repeated {
            return Err(PatternError::new(INVALID_NESTING, &repeated[..repeated.len() - self.rest.len()]));
        }
        let Some((weight, size)) = self.last else { return Err(PatternError::new(MISSING_ARGUMENT, text)) };
        self.out.push_str(text);
        let Some((least, most)) = bounds else {
            self.size = self.size.saturating_add(size::STATE);
            self.repeatable(weight, size.saturating_add(size::STATE));
            return Ok(());
        };
        let times = most.unwrap_or(least);
        let copies = size.saturating_add(size::STATE).saturating_mul(times.max(1));
        self.size = self.size.saturating_sub(size).saturating_add(copies);
        let weight = if times == 0 { 1 } else { weight.saturating_mul(times) };
        if (least >= 2 || most.is_some_and(|most| most >= 2)) && weight > MAX_REPEATS {
            return Err(PatternError::new(INVALID_COUNT, text));
        }
        self.repeatable(weight, copies);
        Ok(())
    }

    /// Parses a group that starts with `(?`.
    fn group(&mut self) -> Result<(), PatternError> {
        let text = self.rest;
        for begin in ["(?P<", "(?<"] {
            if text.len() <= begin.len() || !text.starts_with(begin) {
                continue;
            }
            let end = text.find('>').ok_or_else(|| PatternError::new(INVALID_CAPTURE, text))?;
            let name = &text[begin.len()..end];
            if name.is_empty() || !name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric()) {
                return Err(PatternError::new(INVALID_CAPTURE, &text[..=end]));
            }
            self.open("(?:", end + 1);
            return Ok(());
        }
        let (mut negative, mut saw, mut flags) = (false, false, String::new());
        for (index, character) in text.char_indices().skip(2) {
            match character {
                'i' | 'm' | 's' | 'U' => {
                    saw = true;
                    self.ignores_case |= character == 'i';
                    if !flags.rsplit('-').next().is_some_and(|now| now.contains(character)) {
                        flags.push(character);
                    }
                }
                '-' if !negative => {
                    (negative, saw) = (true, false);
                    flags.push('-');
                }
                ':' | ')' if !negative || saw => {
                    if character == ':' {
                        self.open(&format!("(?{flags}:"), index + 1);
                    } else {
                        if !flags.is_empty() {
                            let _ = write!(self.flags, "(?{flags})");
                        }
                        self.rest = &text[index + 1..];
                    }
                    return Ok(());
                }
                _ => return Err(PatternError::new(INVALID_PERL, &text[..index + character.len_utf8()])),
            }
        }
        Err(PatternError::new(INVALID_PERL, text))
    }

    fn escape(&mut self) -> Result<(), PatternError> {
        let text = self.rest;
        let written = match text[1..].chars().next() {
            Some('A') => "\\A",
            Some('z') => "\\z",
            Some('b') => "(?-u:\\b)",
            Some('B') => "(?-u:\\B)",
            Some('C') => return Err(PatternError::new(INVALID_ESCAPE, &text[..2])),
            Some('Q') => {
                let (quoted, rest) = text[2..].split_once("\\E").unwrap_or((&text[2..], ""));
                for character in quoted.chars() {
                    push_literal(&mut self.out, character);
                    self.atom(size::character(character, self.ignores_case));
                }
                self.rest = rest;
                return Ok(());
            }
            Some(name @ ('d' | 'D' | 's' | 'S' | 'w' | 'W')) => perl(name),
            Some('p' | 'P') => {
                let class = unicode(text)?;
                self.out.push_str(&class.written);
                self.rest = &text[class.length..];
                self.atom(class.size);
                return Ok(());
            }
            _ => {
                let (character, length) = escaped(text)?;
                self.literal(character, length);
                return Ok(());
            }
        };
        self.out.push_str(written);
        self.rest = &text[2..];
        self.atom(if written.starts_with("[^") { size::ANY } else { size::CLASS });
        Ok(())
    }

    fn class(&mut self) -> Result<(), PatternError> {
        let whole = self.rest;
        let mut rest = &whole[1..];
        self.out.push('[');
        let (mut first, mut size) = (true, size::CLASS);
        if let Some(after) = rest.strip_prefix('^') {
            self.out.push('^');
            rest = after;
            size = size::ANY;
        }
        while first || !rest.starts_with(']') {
            first = false;
            if rest.len() > 2
                && rest.starts_with("[:")
                && let Some(end) = rest[2..].find(":]")
            {
                let name = &rest[..end + 4];
                if !POSIX.contains(&name[2..end + 2].trim_start_matches('^')) {
                    return Err(PatternError::new(INVALID_RANGE, name));
                }
                self.out.push_str(name);
                rest = &rest[end + 4..];
                size = size.saturating_add(size::STATE);
                continue;
            }
            if rest.starts_with("\\p") || rest.starts_with("\\P") {
                let class = unicode(rest)?;
                self.out.push_str(&class.written);
                rest = &rest[class.length..];
                size = size.saturating_add(class.size);
                continue;
            }
            if let Some(name @ ('d' | 'D' | 's' | 'S' | 'w' | 'W')) =
                rest.strip_prefix('\\').and_then(|rest| rest.chars().next())
            {
                self.out.push_str(perl(name));
                rest = &rest[2..];
                size = size.saturating_add(if name.is_ascii_uppercase() { size::ANY } else { size::CLASS });
                continue;
            }
            let begin = rest;
            let low = one(&mut rest, whole)?;
            let mut high = low;
            if rest.len() >= 2 && rest.starts_with('-') && !rest.starts_with("-]") {
                rest = &rest[1..];
                high = one(&mut rest, whole)?;
                if high < low {
                    return Err(PatternError::new(INVALID_RANGE, &begin[..begin.len() - rest.len()]));
                }
            }
            // Writing to a String cannot fail.
            let _ = write!(self.out, "\\x{{{:x}}}-\\x{{{:x}}}", u32::from(low), u32::from(high));
            size = size.saturating_add(size::range(low, high, self.ignores_case));
        }
        self.out.push(']');
        self.rest = &rest[1..];
        self.atom(size);
        Ok(())
    }
}

const POSIX: &[&str] = &[
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

/// Parses one character of a set.
fn one(rest: &mut &str, whole: &str) -> Result<char, PatternError> {
    match rest.chars().next() {
        None => Err(PatternError::new(MISSING_BRACKET, whole)),
        Some('\\') => {
            let (character, length) = escaped(rest)?;
            *rest = &rest[length..];
            Ok(character)
        }
        Some(character) => {
            *rest = &rest[character.len_utf8()..];
            Ok(character)
        }
    }
}

fn push_literal(out: &mut String, character: char) {
    if character.is_ascii_alphanumeric() || !character.is_ascii() {
        out.push(character);
    } else {
        let _ = write!(out, "\\x{{{:x}}}", u32::from(character));
    }
}

fn perl(name: char) -> &'static str {
    match name {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        's' => "[\\t\\n\\f\\r ]",
        'S' => "[^\\t\\n\\f\\r ]",
        'w' => "[0-9A-Za-z_]",
        _ => "[^0-9A-Za-z_]",
    }
}

/// A class by the name of a script or a category.
struct UnicodeClass {
    written: String,
    /// Length in the source.
    length: usize,
    size: u64,
}

/// Parses `\pL`, `\p{Greek}` or `\P{^Greek}`.
fn unicode(text: &str) -> Result<UnicodeClass, PatternError> {
    let mut negative = text.starts_with("\\P");
    let Some(first) = text[2..].chars().next() else {
        return Err(PatternError::new(INVALID_RANGE, text));
    };
    let (mut name, length) = if first == '{' {
        let end = text.find('}').ok_or_else(|| PatternError::new(INVALID_RANGE, text))?;
        (&text[3..end], end + 1)
    } else {
        (&text[2..2 + first.len_utf8()], 2 + first.len_utf8())
    };
    if let Some(rest) = name.strip_prefix('^') {
        negative = !negative;
        name = rest;
    }
    let plain =
        !name.is_empty() && name.chars().all(|character| character == '_' || character.is_ascii_alphabetic());
    let written = format!("\\{}{{{name}}}", if negative { 'P' } else { 'p' });
    match size::class(&written).filter(|_| plain) {
        Some(size) => Ok(UnicodeClass { written, length, size }),
        None => Err(PatternError::new(INVALID_RANGE, &text[..length])),
    }
}

/// Parses an escaped character. Also returns its length.
fn escaped(text: &str) -> Result<(char, usize), PatternError> {
    let mut characters = text.char_indices().peekable();
    characters.next();
    let Some((at, character)) = characters.next() else { return Err(PatternError::new(TRAILING, "")) };
    let mut end = at + character.len_utf8();
    let fail = |end: usize| Err(PatternError::new(INVALID_ESCAPE, &text[..end]));
    let octal = |characters: &mut Peekable<CharIndices<'_>>| {
        characters.next_if(|(_, digit)| digit.is_digit(8)).and_then(|(_, digit)| digit.to_digit(8))
    };
    let code = match character {
        'a' => 7,
        'f' => 12,
        'n' => 10,
        'r' => 13,
        't' => 9,
        'v' => 11,
        '0'..='7' => {
            if character != '0' && !characters.peek().is_some_and(|(_, digit)| digit.is_digit(8)) {
                return fail(end);
            }
            let mut code = character.to_digit(8).unwrap_or_default();
            for _ in 1..3 {
                let Some(digit) = octal(&mut characters) else { break };
                code = code * 8 + digit;
                end += 1;
            }
            code
        }
        'x' => {
            let mut code: u32 = 0;
            let Some((_, first)) = characters.next() else { return fail(end) };
            end += first.len_utf8();
            if first == '{' {
                let mut digits = 0;
                loop {
                    let Some((_, digit)) = characters.next() else { return fail(end) };
                    end += digit.len_utf8();
                    if digit == '}' {
                        break;
                    }
                    let Some(value) = digit.to_digit(16) else { return fail(end) };
                    code = code * 16 + value;
                    digits += 1;
                    if code > 0x10_ffff {
                        return fail(end);
                    }
                }
                if digits == 0 {
                    return fail(end);
                }
            } else {
                let second = characters.next().map(|(_, second)| second);
                end += second.map_or(0, char::len_utf8);
                match (first.to_digit(16), second.and_then(|second| second.to_digit(16))) {
                    (Some(first), Some(second)) => code = first * 16 + second,
                    _ => return fail(end),
                }
            }
            code
        }
        _ if character.is_ascii() && !character.is_ascii_alphanumeric() => return Ok((character, end)),
        _ => return fail(end),
    };
    char::from_u32(code).map_or_else(|| fail(end), |character| Ok((character, end)))
}

type Bounds = (u64, Option<u64>);

/// Parses `{2}`, `{2,}` or `{2,3}`. Also returns the length. Numbers that are too large are `None`.
fn count(text: &str) -> Option<(Option<Bounds>, usize)> {
    let end = text.find('}')?;
    let inner = &text[1..end];
    // Go does not accept a number with a leading zero.
    let number = |text: &str| -> Option<Option<u64>> {
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let zero = text.len() > 1 && text.starts_with('0');
        (plain && !zero).then(|| text.parse().ok().filter(|number| *number < 100_000_000))
    };
    let bounds = match inner.split_once(',') {
        None => number(inner)?.map(|least| (least, Some(least))),
        Some((least, "")) => number(least)?.map(|least| (least, None)),
        Some((least, most)) => match (number(least)?, number(most)?) {
            (Some(least), Some(most)) => Some((least, Some(most))),
            _ => None,
        },
    };
    Some((bounds, end + 1))
}
