//! Sets of completion indexes, written `1,3-5,7`.

// upstream: pkg/apis/batch/validation/validation.go

use atoll_meta::quote::quote;

/// Counts the indexes.
///
/// # Errors
///
/// Returns upstream's message about the first mistake.
pub(super) fn count(text: &str, completions: i64) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let mut total = 0;
    let mut previous: Option<i64> = None;
    for part in text.split(',') {
        let (first, last) = interval(part, completions)?;
        if let Some(previous) = previous.filter(|previous| *previous >= first) {
            return Err(not_increasing(previous, first));
        }
        total += last - first + 1;
        previous = Some(last);
    }
    Ok(total)
}

/// Returns the first index that is in both sets. Malformed parts are skipped.
pub(super) fn overlap(one: &str, other: &str, completions: i64) -> Option<i64> {
    if one.is_empty() || other.is_empty() {
        return None;
    }
    let parse = |text: &str| -> Vec<(i64, i64)> {
        text.split(',').filter_map(|part| interval(part, completions).ok()).collect()
    };
    let (one, other) = (parse(one), parse(other));
    let (mut left, mut right) = (one.iter().peekable(), other.iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        if a.0 <= b.1 && b.0 <= a.1 {
            return Some(a.0.max(b.0));
        }
        if a.0 <= b.0 {
            left.next();
        } else {
            right.next();
        }
    }
    None
}

fn not_increasing(previous: i64, current: i64) -> String {
    format!("non-increasing order, previous: {previous}, current: {current}")
}

fn interval(part: &str, completions: i64) -> Result<(i64, i64), String> {
    if part.matches('-').count() > 1 {
        return Err(format!(
            "the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'",
            quote(part)
        ));
    }
    let index = |text: &str| match text.parse::<i64>() {
        Err(_) => Err(format!("cannot convert string to integer for index: {}", quote(text))),
        Ok(index) if index >= completions => Err(format!("too large index: {}", quote(text))),
        Ok(index) => Ok(index),
    };
    let Some((first, last)) = part.split_once('-') else {
        let only = index(part)?;
        return Ok((only, only));
    };
    let (first, last) = (index(first)?, index(last)?);
    if first >= last {
        return Err(not_increasing(first, last));
    }
    Ok((first, last))
}
