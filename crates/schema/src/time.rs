//! Timestamps as `metav1.Time` and `metav1.MicroTime` parse and format them: RFC 3339, formatted in UTC with
//! seconds or with six decimal places. Errors are those of Go's `time.Parse`.

// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/time.go
// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/micro_time.go
// Go standard library: src/time/format.go

use std::fmt::Write as _;

const SECONDS: &str = "2006-01-02T15:04:05Z07:00";
const MICROSECONDS: &str = "2006-01-02T15:04:05.000000Z07:00";

/// The canonical form of a valid timestamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CanonicalTime {
    Same,
    Changed(String),
    /// Go's zero time, which is encoded as `null`.
    Zero,
}

/// Returns the form that `metav1.Time` gives a string.
pub fn canonical_time(text: &str) -> Result<CanonicalTime, String> {
    canonical(text, SECONDS)
}

/// Returns the form that `metav1.MicroTime` gives a string.
pub fn canonical_micro_time(text: &str) -> Result<CanonicalTime, String> {
    canonical(text, MICROSECONDS)
}

fn canonical(text: &str, layout: &'static str) -> Result<CanonicalTime, String> {
    let moment = parse(text, layout)?;
    if moment.is_zero() {
        return Ok(CanonicalTime::Zero);
    }
    // Most timestamps are already canonical, so nothing is allocated.
    let micro = layout == MICROSECONDS;
    let length = if micro { "2006-01-02T15:04:05.000000Z".len() } else { "2006-01-02T15:04:05Z".len() };
    if text.len() == length && text.ends_with('Z') && !text.contains([',', '+']) {
        return Ok(CanonicalTime::Same);
    }
    Ok(CanonicalTime::Changed(moment.format(micro)))
}

struct Moment {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    nanosecond: i64,
    /// Offset in seconds east of UTC.
    offset: i64,
}

impl Moment {
    /// Returns the seconds since January 1 of year 1, in UTC.
    fn seconds(&self) -> i64 {
        days_before(self.year, self.month, self.day) * 86_400
            + self.hour * 3_600
            + self.minute * 60
            + self.second
            - self.offset
    }

    fn is_zero(&self) -> bool {
        self.nanosecond == 0 && self.seconds() == 0
    }

    fn format(&self, micro: bool) -> String {
        let seconds = self.seconds();
        let (year, month, day) = date(seconds.div_euclid(86_400));
        let rest = seconds.rem_euclid(86_400);
        let mut text = String::with_capacity(27);
        if year < 0 {
            text.push('-');
        }
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "{:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}",
            year.abs(),
            rest / 3_600,
            rest / 60 % 60,
            rest % 60
        );
        if micro {
            let _ = write!(text, ".{:06}", self.nanosecond / 1_000);
        }
        text.push('Z');
        text
    }
}

/// Returns the days from January 1 of year 1 to a day of the Gregorian calendar.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    // Years that start in March have the leap day at the end.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year - 306
}

/// The inverse of [`days_before`].
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 306;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let year = year + era * 400;
    if month < 10 { (year, month + 3, day) } else { (year + 1, month - 9, day) }
}

fn days_in(month: i64, year: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The reason why an element of the layout does not match.
enum ElementError {
    /// The text does not have the form of the element.
    Form,
    /// A number is out of range.
    Range(&'static str),
}

struct Parser<'t> {
    layout: &'static str,
    whole: &'t str,
    rest: &'t str,
}

fn parse(text: &str, layout: &'static str) -> Result<Moment, String> {
    let micro = layout == MICROSECONDS;
    let mut parser = Parser { layout, whole: text, rest: text };
    let year = parser.element("2006", Parser::year)?;
    parser.literal("-")?;
    let month = parser.element("01", |parser| match parser.number(true)? {
        month @ 1..=12 => Ok(month),
        _ => Err(ElementError::Range("month")),
    })?;
    parser.literal("-")?;
    let day = parser.element("02", |parser| parser.number(true))?;
    parser.literal("T")?;
    let hour = parser.element("15", |parser| parser.below(24, false, "hour"))?;
    parser.literal(":")?;
    let minute = parser.element("04", |parser| parser.below(60, true, "minute"))?;
    parser.literal(":")?;
    let mut nanosecond = 0;
    let second = parser.element("05", |parser| {
        let second = parser.below(60, true, "second")?;
        // A fraction is accepted even if the layout has none.
        let bytes = parser.rest.as_bytes();
        if !micro && bytes.len() >= 2 && matches!(bytes[0], b'.' | b',') && bytes[1].is_ascii_digit() {
            let digits = bytes[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            nanosecond = parser.fraction(digits)?;
        }
        Ok(second)
    })?;
    if micro {
        nanosecond = parser.element(".000000", |parser| parser.fraction(6))?;
    }
    let offset = parser.element("Z07:00", Parser::zone)?;
    if !parser.rest.is_empty() {
        return Err(format!("parsing time {}: extra text: {}", quote(text), quote(parser.rest)));
    }
    if day < 1 || day > days_in(month, year) {
        return Err(format!("parsing time {}: day out of range", quote(text)));
    }
    Ok(Moment { year, month, day, hour, minute, second, nanosecond, offset })
}

impl<'t> Parser<'t> {
    fn cannot(&self, rest: &str, element: &str) -> String {
        format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quote(self.whole),
            quote(self.layout),
            quote(rest),
            quote(element)
        )
    }

    fn element<T>(
        &mut self,
        element: &'static str,
        read: impl FnOnce(&mut Parser<'t>) -> Result<T, ElementError>,
    ) -> Result<T, String> {
        let before = self.rest;
        read(self).map_err(|bad| match bad {
            ElementError::Form => self.cannot(before, element),
            ElementError::Range(what) => format!("parsing time {}: {what} out of range", quote(self.whole)),
        })
    }

    fn literal(&mut self, text: &'static str) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(text).ok_or_else(|| self.cannot(self.rest, text))?;
        Ok(())
    }

    fn year(&mut self) -> Result<i64, ElementError> {
        let digits = self.rest.as_bytes().get(..4).ok_or(ElementError::Form)?;
        let year = decimal(digits).ok_or(ElementError::Form)?;
        self.rest = &self.rest[4..];
        Ok(year)
    }

    /// Parses one or two digits.
    fn number(&mut self, two: bool) -> Result<i64, ElementError> {
        let bytes = self.rest.as_bytes();
        let digits = bytes.iter().take(2).take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 || (two && digits < 2) {
            return Err(ElementError::Form);
        }
        let number = decimal(&bytes[..digits]).ok_or(ElementError::Form)?;
        self.rest = &self.rest[digits..];
        Ok(number)
    }

    fn below(&mut self, limit: i64, two: bool, what: &'static str) -> Result<i64, ElementError> {
        let number = self.number(two)?;
        if number < limit { Ok(number) } else { Err(ElementError::Range(what)) }
    }

    /// Parses a decimal point and digits as nanoseconds; excess digits are dropped.
    fn fraction(&mut self, digits: usize) -> Result<i64, ElementError> {
        let bytes = self.rest.as_bytes().get(..digits + 1).ok_or(ElementError::Form)?;
        if !matches!(bytes[0], b'.' | b',') {
            return Err(ElementError::Form);
        }
        let kept = &bytes[1..=digits.min(9)];
        // Go parses the digits as any number, which may have a sign.
        let number = match kept[0] {
            b'+' => decimal(&kept[1..]),
            b'-' => decimal(&kept[1..]).map(|number| -number),
            _ => decimal(kept),
        };
        let number = number.ok_or(ElementError::Form)?;
        if number < 0 {
            return Err(ElementError::Range("fractional second"));
        }
        self.rest = &self.rest[digits + 1..];
        Ok(number * 10_i64.pow(9 - kept.len() as u32))
    }

    fn zone(&mut self) -> Result<i64, ElementError> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let bytes = self.rest.as_bytes().get(..6).ok_or(ElementError::Form)?;
        if bytes[3] != b':' {
            return Err(ElementError::Form);
        }
        let hours = decimal(&bytes[1..3]).ok_or(ElementError::Form)?;
        let minutes = decimal(&bytes[4..6]);
        // Go allows 24 hours and 60 minutes here.
        if minutes.is_some_and(|minutes| minutes > 60) {
            return Err(ElementError::Range("time zone offset minute"));
        }
        if hours > 24 {
            return Err(ElementError::Range("time zone offset hour"));
        }
        let offset = (hours * 60 + minutes.ok_or(ElementError::Form)?) * 60;
        let offset = match bytes[0] {
            b'+' => offset,
            b'-' => -offset,
            _ => return Err(ElementError::Form),
        };
        self.rest = &self.rest[6..];
        Ok(offset)
    }
}

fn decimal(digits: &[u8]) -> Option<i64> {
    digits
        .iter()
        .try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0')))
}

/// Quotes as Go's time package does, which differs from the rest of Go.
fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(character);
            }
            ' '..='\x7f' => quoted.push(character),
            _ => {
                for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                    let _ = write!(quoted, "\\x{byte:02x}");
                }
            }
        }
    }
    quoted.push('"');
    quoted
}
