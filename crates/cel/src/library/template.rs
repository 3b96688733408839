//! `"%s is %d".format([...])`: format strings, applied at run time and validated in advance if they are
//! literals.

// upstream: github.com/google/cel-go/ext/formatting.go

mod format;
mod number;

use crate::error::Error;
use crate::value::List;

/// A formatting clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clause {
    /// `%s`
    Text,
    /// `%d`
    Decimal,
    /// `%f` with a precision.
    Fixed(i64),
    /// `%e`
    Scientific(i64),
    /// `%b`
    Binary,
    /// `%x` or `%X`
    Hexadecimal {
        /// Whether to use upper-case digits.
        upper: bool,
    },
    /// `%o`
    Octal,
}

/// Default precision.
const PRECISION: i64 = 6;

impl Clause {
    /// Returns the message about a value that the clause does not accept.
    pub fn error_for(self, type_name: &str) -> String {
        let reason = match self {
            Clause::Text => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, \
                 and timestamps"
            }
            Clause::Decimal => "decimal clause can only be used on integers",
            Clause::Fixed(_) => "fixed-point clause can only be used on doubles",
            Clause::Scientific(_) => "scientific clause can only be used on doubles",
            Clause::Binary => "only integers and bools can be formatted as binary",
            Clause::Hexadecimal { .. } => "only integers, byte buffers, and strings can be formatted as hex",
            Clause::Octal => "octal clause can only be used on integers",
        };
        format!("{reason}, was given {type_name}")
    }
}

/// Formats the arguments.
pub fn format(template: &str, arguments: &List<'_>) -> Result<String, Error> {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    let mut index = 0;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let argument = arguments.get(index).ok_or_else(|| Error::new(out_of_range(index)))??;
        let (clause, length) = read_clause(after).map_err(Error::new)?;
        format::format(&mut out, clause, &argument)
            .map_err(|reason| Error::new(format!("error during formatting: {reason}")))?;
        index += 1;
        rest = &after[length..];
    }
    out.push_str(rest);
    Ok(out)
}

/// Validates a format string for this number of arguments. Returns the number of arguments that it uses, or
/// the error; `check` is called with each clause and the index of its argument.
pub fn check<E: From<String>>(
    template: &str,
    count: usize,
    mut check: impl FnMut(usize, Clause) -> Result<(), E>,
) -> Result<usize, E> {
    let mut rest = template;
    let mut index = 0;
    while let Some((_, after)) = rest.split_once('%') {
        if let Some(after) = after.strip_prefix('%') {
            rest = after;
            continue;
        }
        if after.is_empty() {
            return Err("unexpected end of string".to_owned().into());
        }
        if index >= count {
            return Err(out_of_range(index).into());
        }
        let (clause, length) = read_clause(after)?;
        check(index, clause)?;
        index += 1;
        rest = &after[length..];
    }
    Ok(index)
}

fn out_of_range(index: usize) -> String {
    format!("index {index} out of range")
}

/// Parses the clause after a percent sign. Also returns its length.
fn read_clause(text: &str) -> Result<(Clause, usize), String> {
    if text.is_empty() {
        return Err("unexpected end of string".to_owned());
    }
    let bad = |reason: String| format!("could not parse formatting clause: {reason}");
    let (precision, length) =
        read_precision(text).map_err(|reason| bad(format!("error while parsing precision: {reason}")))?;
    let precision = precision.unwrap_or(PRECISION);
    let clause = match text.as_bytes()[length] {
        b's' => Clause::Text,
        b'd' => Clause::Decimal,
        b'f' => Clause::Fixed(precision),
        b'e' => Clause::Scientific(precision),
        b'b' => Clause::Binary,
        b'x' => Clause::Hexadecimal { upper: false },
        b'X' => Clause::Hexadecimal { upper: true },
        b'o' => Clause::Octal,
        // A byte, even if it is only part of a character.
        other => return Err(bad(format!("unrecognized formatting clause \"{}\"", char::from(other)))),
    };
    Ok((clause, length + 1))
}

/// Parses `.3`. Also returns its length.
fn read_precision(text: &str) -> Result<(Option<i64>, usize), String> {
    let Some(after) = text.strip_prefix('.') else {
        return Ok((None, 0));
    };
    let digits = &after[..after.bytes().take_while(u8::is_ascii_digit).count()];
    if digits.len() == after.len() {
        return Err("could not find end of precision specifier".to_owned());
    }
    match digits.parse::<i64>() {
        Ok(precision) => Ok((Some(precision), digits.len() + 1)),
        Err(_) => {
            let reason = if digits.is_empty() { "invalid syntax" } else { "value out of range" };
            Err(format!(
                "error while converting precision to integer: strconv.Atoi: parsing \"{digits}\": {reason}"
            ))
        }
    }
}
