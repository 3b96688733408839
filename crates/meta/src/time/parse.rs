//! Parsing of timestamps, as lenient as Go's and with its messages.

// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/time.go
// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/micro_time.go
// Go standard library: src/time/format.go

use std::fmt;

use super::{DAY, Timestamp, day_of, days_in};

const TIME_LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
const MICRO_LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Go's error about a timestamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeError {
    text: String,
    layout: &'static str,
    cause: Cause,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Cause {
    /// The rest of the text does not match this part of the layout.
    Unreadable { rest: String, part: &'static str },
    /// A part is out of range.
    OutOfRange(&'static str),
    /// The timestamp is followed by other text.
    ExtraText(String),
}

impl fmt::Display for TimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "parsing time {}", self.text)?;
        match &self.cause {
            Cause::Unreadable { rest, part } => {
                write!(
                    f,
                    " as {}: cannot parse {rest} as {}",
                    quote(self.layout.as_bytes()),
                    quote(part.as_bytes())
                )
            }
            Cause::OutOfRange(part) => write!(f, ": {part} out of range"),
            Cause::ExtraText(text) => write!(f, ": extra text: {text}"),
        }
    }
}

impl std::error::Error for TimeError {}

/// Quotes as Go's time package does, byte by byte.
pub(super) fn quote(text: &[u8]) -> String {
    let mut out = String::from("\"");
    for byte in text {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(*byte));
            }
            b' '..=0x7f => out.push(char::from(*byte)),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push('"');
    out
}

/// Parses a `metav1.Time`. A fraction of a second is allowed, any zone is converted to UTC.
///
/// # Errors
///
/// Returns an error if Go cannot parse the string either.
pub fn parse(text: &str) -> Result<Timestamp, TimeError> {
    Reader::new(text, TIME_LAYOUT).read(false)
}

/// Parses a `metav1.MicroTime`, which must have exactly six decimal places.
///
/// # Errors
///
/// Returns an error if Go cannot parse the string either.
pub fn parse_micro(text: &str) -> Result<Timestamp, TimeError> {
    Reader::new(text, MICRO_LAYOUT).read(true)
}

struct Reader<'a> {
    text: &'a [u8],
    rest: &'a [u8],
    layout: &'static str,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, layout: &'static str) -> Reader<'a> {
        Reader { text: text.as_bytes(), rest: text.as_bytes(), layout }
    }

    fn fail(&self, cause: Cause) -> TimeError {
        TimeError { text: quote(self.text), layout: self.layout, cause }
    }

    fn unreadable(&self, rest: &[u8], part: &'static str) -> TimeError {
        self.fail(Cause::Unreadable { rest: quote(rest), part })
    }

    fn read(mut self, micro: bool) -> Result<Timestamp, TimeError> {
        let year = self.year()?;
        self.separator(b'-', "-")?;
        let month = self.number("01", true)?;
        if !(1..=12).contains(&month) {
            return Err(self.fail(Cause::OutOfRange("month")));
        }
        self.separator(b'-', "-")?;
        let day = self.number("02", true)?;
        self.separator(b'T', "T")?;
        // Hours may have one digit, because the layout cannot require two.
        let hour = self.number("15", false)?;
        if hour > 23 {
            return Err(self.fail(Cause::OutOfRange("hour")));
        }
        self.separator(b':', ":")?;
        let minute = self.number("04", true)?;
        if minute > 59 {
            return Err(self.fail(Cause::OutOfRange("minute")));
        }
        self.separator(b':', ":")?;
        let second = self.number("05", true)?;
        if second > 59 {
            return Err(self.fail(Cause::OutOfRange("second")));
        }
        let nanos = if micro { self.microseconds()? } else { self.fraction() };
        let offset = self.zone()?;
        if !self.rest.is_empty() {
            return Err(self.fail(Cause::ExtraText(quote(self.rest))));
        }
        if day < 1 || day > days_in(year, month) {
            return Err(self.fail(Cause::OutOfRange("day")));
        }
        let seconds = day_of(year, month, day) * DAY + hour * 3600 + minute * 60 + second - offset;
        Ok(Timestamp { seconds, nanos })
    }

    fn year(&mut self) -> Result<i64, TimeError> {
        match self.rest.split_first_chunk::<4>() {
            Some((digits, rest)) if digits.iter().all(u8::is_ascii_digit) => {
                self.rest = rest;
                Ok(value_of(digits))
            }
            _ => Err(self.unreadable(self.rest, "2006")),
        }
    }

    fn separator(&mut self, byte: u8, part: &'static str) -> Result<(), TimeError> {
        match self.rest.split_first() {
            Some((first, rest)) if *first == byte => {
                self.rest = rest;
                Ok(())
            }
            _ => Err(self.unreadable(self.rest, part)),
        }
    }

    /// Parses two digits, or one if `two` is not set.
    fn number(&mut self, part: &'static str, two: bool) -> Result<i64, TimeError> {
        let digits = self.rest.iter().take(2).take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 || (two && digits < 2) {
            return Err(self.unreadable(self.rest, part));
        }
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        Ok(value_of(number))
    }

    /// Parses a period or comma and digits, of which nine count.
    fn fraction(&mut self) -> u32 {
        if !matches!(self.rest, [b'.' | b',', b'0'..=b'9', ..]) {
            return 0;
        }
        let digits = self.rest[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (fraction, rest) = self.rest.split_at(1 + digits);
        self.rest = rest;
        nanoseconds(&fraction[1..])
    }

    /// Parses a period or comma and six characters. Go parses these as any number, which may have a sign.
    fn microseconds(&mut self) -> Result<u32, TimeError> {
        const PART: &str = ".000000";
        let Some(([b'.' | b',', number @ ..], rest)) = self.rest.split_first_chunk::<7>() else {
            return Err(self.unreadable(self.rest, PART));
        };
        let digits = number.strip_prefix(b"+").or(number.strip_prefix(b"-")).unwrap_or(number);
        if !digits.iter().all(u8::is_ascii_digit) {
            return Err(self.unreadable(self.rest, PART));
        }
        let microseconds = value_of(digits);
        if number[0] == b'-' && microseconds > 0 {
            return Err(self.fail(Cause::OutOfRange("fractional second")));
        }
        self.rest = rest;
        // Six digits fit.
        Ok(microseconds as u32 * 1000)
    }

    /// Parses `Z` or an offset such as `+01:00`. Returns the offset in seconds.
    ///
    /// Go checks the range of each part that is a number before it complains about the other parts, and
    /// allows 24 hours and 60 minutes.
    fn zone(&mut self) -> Result<i64, TimeError> {
        const PART: &str = "Z07:00";
        if let Some(rest) = self.rest.strip_prefix(b"Z") {
            self.rest = rest;
            return Ok(0);
        }
        let Some(([sign, h1, h2, b':', m1, m2], rest)) = self.rest.split_first_chunk::<6>() else {
            return Err(self.unreadable(self.rest, PART));
        };
        let (hour, minute) = (two_digits(*h1, *h2), two_digits(*m1, *m2));
        let Some(hour) = hour else { return Err(self.unreadable(self.rest, PART)) };
        if minute.is_some_and(|minute| minute > 60) {
            return Err(self.fail(Cause::OutOfRange("time zone offset minute")));
        }
        if hour > 24 {
            return Err(self.fail(Cause::OutOfRange("time zone offset hour")));
        }
        let offset = match (sign, minute) {
            (b'+', Some(minute)) => hour * 3600 + minute * 60,
            (b'-', Some(minute)) => -hour * 3600 - minute * 60,
            _ => return Err(self.unreadable(self.rest, PART)),
        };
        self.rest = rest;
        Ok(offset)
    }
}

fn two_digits(first: u8, second: u8) -> Option<i64> {
    [first, second].iter().all(u8::is_ascii_digit).then(|| value_of(&[first, second]))
}

fn value_of(digits: &[u8]) -> i64 {
    digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'))
}

fn nanoseconds(digits: &[u8]) -> u32 {
    let padded = digits.iter().copied().chain(std::iter::repeat(b'0'));
    padded.take(9).fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'))
}
