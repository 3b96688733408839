//! `"%s is %d".format([...])`: templates, filled in at run time and checked before where they are written down.

mod number;
mod show;

use crate::error::Error;
use crate::value::List;

/// What a `%` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clause {
    /// `%s`
    Text,
    /// `%d`
    Decimal,
    /// `%f`, with as many digits after the point.
    Fixed(i64),
    /// `%e`
    Scientific(i64),
    /// `%b`
    Binary,
    /// `%x` or `%X`
    Hexadecimal {
        /// With capital letters.
        upper: bool,
    },
    /// `%o`
    Octal,
}

/// Digits after the point if nothing else is said.
const PRECISION: i64 = 6;

impl Clause {
    /// What to say of a value that the clause is not for.
    pub fn refusal(self, type_name: &str) -> String {
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

/// Fills in a template.
pub fn fill(template: &str, arguments: &List<'_>) -> Result<String, Error> {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    let mut place = 0;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let argument = arguments.get(place).ok_or_else(|| Error::new(out_of_range(place)))??;
        let (clause, length) = read_clause(after).map_err(Error::new)?;
        show::show(&mut out, clause, &argument)
            .map_err(|reason| Error::new(format!("error during formatting: {reason}")))?;
        place += 1;
        rest = &after[length..];
    }
    out.push_str(rest);
    Ok(out)
}

/// Goes through the clauses of a template for so many arguments before there are any. Gives how many arguments it takes, or
/// what is wrong with it; `check` gets each clause with the place of its argument.
pub fn check<E: From<String>>(
    template: &str,
    count: usize,
    mut check: impl FnMut(usize, Clause) -> Result<(), E>,
) -> Result<usize, E> {
    let mut rest = template;
    let mut place = 0;
    while let Some((_, after)) = rest.split_once('%') {
        if let Some(after) = after.strip_prefix('%') {
            rest = after;
            continue;
        }
        if after.is_empty() {
            return Err("unexpected end of string".to_owned().into());
        }
        if place >= count {
            return Err(out_of_range(place).into());
        }
        let (clause, length) = read_clause(after)?;
        check(place, clause)?;
        place += 1;
        rest = &after[length..];
    }
    Ok(place)
}

fn out_of_range(place: usize) -> String {
    format!("index {place} out of range")
}

/// The clause after a percent sign, and how long it is.
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
        // A byte, even if it is only a part of a character.
        other => return Err(bad(format!("unrecognized formatting clause \"{}\"", char::from(other)))),
    };
    Ok((clause, length + 1))
}

/// `.3`, and how long it is.
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
