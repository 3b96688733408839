//! String functions. Positions count characters.

// upstream: github.com/google/cel-go/ext/strings.go

use std::ops::Range;

/// Returns the character at a position, or an empty string at the end.
pub fn char_at(text: &str, index: i64) -> Result<&str, String> {
    let start = offset(text, index).ok_or_else(|| out_of_range(index))?;
    let end = start + text[start..].chars().next().map_or(0, char::len_utf8);
    Ok(&text[start..end])
}

/// Returns the rest from a position on.
pub fn substring_from(text: &str, start: i64) -> Result<&str, String> {
    offset(text, start).map(|start| &text[start..]).ok_or_else(|| out_of_range(start))
}

/// Returns the part between two positions.
pub fn substring(text: &str, range: Range<i64>) -> Result<&str, String> {
    if range.start > range.end {
        return Err(format!("invalid substring range. start: {}, end: {}", range.start, range.end));
    }
    let start = offset(text, range.start).ok_or_else(|| out_of_range(range.start))?;
    let end = offset(text, range.end).ok_or_else(|| out_of_range(range.end))?;
    Ok(&text[start..end])
}

/// Returns the first occurrence from a position on, or -1.
pub fn index_of(text: &str, sought: &str, from: i64) -> Result<i64, String> {
    if sought.is_empty() {
        return Ok(from);
    }
    if from < 0 {
        return Err(out_of_range(from));
    }
    let Some(start) = offset(text, from) else {
        return Ok(-1);
    };
    Ok(text[start..].find(sought).map_or(-1, |found| from + length(&text[start..start + found])))
}

/// Returns the last occurrence, or -1.
pub fn last_index_of(text: &str, sought: &str) -> i64 {
    if sought.is_empty() {
        return length(text);
    }
    text.rfind(sought).map_or(-1, |found| length(&text[..found]))
}

/// Returns the last occurrence that starts no later than at a position, or -1.
pub fn last_index_of_from(text: &str, sought: &str, from: i64) -> Result<i64, String> {
    if sought.is_empty() {
        return Ok(from);
    }
    if from < 0 {
        return Err(out_of_range(from));
    }
    match offset(text, from) {
        Some(start) if start < text.len() => {
            let end = text.len().min(start + sought.len());
            // A match must end at a character boundary.
            let found =
                text.as_bytes()[..end].windows(sought.len()).rposition(|part| part == sought.as_bytes());
            Ok(found.map_or(-1, |found| length(&text[..found])))
        }
        _ => Ok(-1),
    }
}

/// Replaces up to a number of occurrences. A negative limit means all.
pub fn replace(text: &str, old: &str, new: &str, limit: i64) -> String {
    match usize::try_from(limit) {
        Ok(limit) => text.replacen(old, new, limit),
        Err(_) => text.replace(old, new),
    }
}

/// Splits a string into up to a number of parts. A negative limit means all. An empty separator splits
/// between characters.
pub fn split<'a>(text: &'a str, separator: &str, limit: i64) -> Vec<&'a str> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if limit == 0 {
        return Vec::new();
    }
    if !separator.is_empty() {
        return text.splitn(limit, separator).collect();
    }
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if parts.len() == limit - 1 {
            parts.push(rest);
            break;
        }
        let (part, after) = rest.split_at(first.len_utf8());
        parts.push(part);
        rest = after;
    }
    parts
}

/// Quotes a string, with escapes for control characters.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

fn out_of_range(index: i64) -> String {
    format!("index out of range: {index}")
}

fn length(text: &str) -> i64 {
    text.chars().count() as i64
}

/// Returns the byte offset of a character. The end is a valid position.
fn offset(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    if text.is_ascii() {
        return (index <= text.len()).then_some(index);
    }
    let ends = text.char_indices().map(|(offset, _)| offset).chain([text.len()]);
    ends.into_iter().nth(index)
}
