//! Parsing of quantities.

// upstream: staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go

use super::{Format, NANO, Quantity, QuantityError};

/// Number of digits that always fit an `i64`; upstream keeps the notation only of such numbers.
const SHORT_DIGITS: usize = 18;
/// Maximum of binary quantities.
const MAX_BINARY: i128 = i64::MAX as i128 * NANO;

pub(super) fn parse(text: &str) -> Result<Quantity, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Format);
    }
    let parts = Parts::split(text)?;
    let (format, exponent) = suffix(parts.suffix).ok_or(QuantityError::Suffix)?;
    let is_short = parts.is_short(format, exponent);
    let number = &text[..text.len() - parts.suffix.len()];
    if !is_short && !number.contains(|c: char| c.is_ascii_digit()) {
        return Err(QuantityError::Number);
    }
    let size = match format {
        Format::BinarySi => parts.binary_nanos(exponent).min(MAX_BINARY),
        _ => parts.decimal_nanos(exponent),
    };
    // Amounts below one cannot be written in powers of 1024.
    let format = if format == Format::BinarySi && !is_short && size > 0 && size < NANO {
        Format::DecimalSi
    } else {
        format
    };
    let nanos = if parts.negative { -size } else { size };
    let is_kept = is_short && parts.is_canonical(format, exponent);
    Ok(Quantity { nanos, format, text: is_kept.then(|| text.to_owned()) })
}

struct Parts<'a> {
    negative: bool,
    /// Digits before the decimal point without leading zeros, at least one.
    whole: &'a str,
    /// Digits after the decimal point.
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Result<Parts<'a>, QuantityError> {
        let negative = text.starts_with('-');
        let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
        let rest = rest.trim_start_matches('0');
        let (whole, rest) = split_digits(rest);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        let after_letters = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let after_sign = after_letters.strip_prefix(['-', '+']).unwrap_or(after_letters);
        if !split_digits(after_sign).1.is_empty() {
            return Err(QuantityError::Format);
        }
        Ok(Parts { negative, whole: if whole.is_empty() { "0" } else { whole }, fraction, suffix })
    }

    /// Whether upstream parses the number with 64-bit integers. Only then may it keep the notation.
    fn is_short(&self, format: Format, exponent: i64) -> bool {
        let digits = self.whole.len() + self.fraction.len();
        match format {
            Format::BinarySi => {
                // Ten binary digits count as three decimal digits.
                let budget = 14 - i64::try_from(self.whole.len()).unwrap_or(i64::MAX) - exponent * 3 / 10;
                self.fraction.is_empty() && budget >= 0
            }
            _ => digits <= SHORT_DIGITS && exponent - self.fraction.len() as i64 >= -9,
        }
    }

    fn is_canonical(&self, format: Format, exponent: i64) -> bool {
        match format {
            // Not a multiple of eight, so not of 1024 either.
            Format::BinarySi => self.whole.parse::<i64>().is_ok_and(|number| number & 7 != 0),
            _ => {
                let digits = format!("{}{}", self.whole, self.fraction);
                (exponent - self.fraction.len() as i64) % 3 == 0
                    && !digits.ends_with("000")
                    && !digits.starts_with('0')
            }
        }
    }

    /// Returns all digits as one number, the number of decimal places, and whether digits were dropped
    /// because there are too many.
    fn digits(&self, limit: usize) -> (i128, i64, bool) {
        let mut number: i128 = 0;
        for digit in self.whole.bytes() {
            number = number.saturating_mul(10).saturating_add(i128::from(digit - b'0'));
        }
        let kept = self.fraction.len().min(limit.saturating_sub(self.whole.len()));
        let (kept, dropped) = self.fraction.split_at(kept);
        for digit in kept.bytes() {
            number = number.saturating_mul(10).saturating_add(i128::from(digit - b'0'));
        }
        (number, kept.len() as i64, dropped.bytes().any(|digit| digit != b'0'))
    }

    fn decimal_nanos(&self, exponent: i64) -> i128 {
        let (number, places, has_more) = self.digits(38);
        let power = exponent.saturating_sub(places).saturating_add(9);
        if power >= 0 {
            let factor = u32::try_from(power).ok().and_then(|power| 10i128.checked_pow(power));
            let product = match factor {
                _ if number == 0 => 0,
                Some(factor) => number.saturating_mul(factor),
                None => i128::MAX,
            };
            return product.saturating_add(i128::from(has_more));
        }
        let divisor = u32::try_from(-power).ok().and_then(|power| 10i128.checked_pow(power));
        round_up(number, divisor, has_more)
    }

    fn binary_nanos(&self, exponent: i64) -> i128 {
        let whole = Parts { fraction: "", ..*self }.digits(0).0;
        // Eighteen decimal places leave room for the largest suffix.
        let (fraction, places, has_more) = Parts { whole: "", ..*self }.digits(18);
        let scale = 10i128.pow(u32::try_from(places).unwrap_or_default());
        let shifted = fraction << exponent;
        let rest = round_up((shifted % scale) * NANO, Some(scale), has_more);
        whole
            .saturating_mul(1 << exponent)
            .saturating_add(shifted / scale)
            .saturating_mul(NANO)
            .saturating_add(rest)
    }
}

/// Divides, rounding up. `None` is a divisor that is too large to be represented.
fn round_up(number: i128, divisor: Option<i128>, has_more: bool) -> i128 {
    match divisor {
        Some(divisor) => number / divisor + i128::from(number % divisor != 0 || has_more),
        None => i128::from(number != 0 || has_more),
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at(end)
}

/// Returns the format of a suffix, and its power of ten or two.
fn suffix(suffix: &str) -> Option<(Format, i64)> {
    let decimal = |power: i64| Some((Format::DecimalSi, power));
    let binary = |power: i64| Some((Format::BinarySi, power));
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            // Upstream keeps 32 bits of the exponent; beyond some thousand there is no difference here.
            let power = exponent.parse::<i64>().ok()?.clamp(-1_000_000, 1_000_000);
            Some((Format::DecimalExponent, power))
        }
    }
}
