//! Parsing of quantities.
//!
//! Upstream's result depends on how it parsed: quantities that fit an int64 and look canonical keep their
//! notation (even `1.500`), others are computed. This code distinguishes the same two cases.

// upstream: staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go
// upstream: staging/src/k8s.io/apimachinery/pkg/api/resource/amount.go
// upstream: staging/src/k8s.io/apimachinery/pkg/api/resource/suffix.go

use super::amount::Amount;
use super::suffix::Suffix;
use super::{Format, QuantityError};

/// Exponent of the smallest amount that is distinguished from zero.
const NANO: i32 = -9;

/// A parsed quantity.
pub(super) enum Parsed {
    /// The amount fits an int64 with a decimal scale.
    Short(Short),
    Long(Amount),
}

/// `value` times ten to the power of `scale`.
pub(super) struct Short {
    pub negative: bool,
    pub value: u64,
    pub scale: i32,
    pub format: Format,
    /// Whether upstream writes the quantity as it was parsed.
    pub canonical: bool,
}

pub(super) fn parse(text: &str) -> Result<Parsed, QuantityError> {
    if text == "0" {
        let format = Format::DecimalSi;
        return Ok(Parsed::Short(Short { negative: false, value: 0, scale: 0, format, canonical: true }));
    }
    let parts = Parts::split(text)?;
    let suffix = Suffix::parse(parts.suffix).ok_or(QuantityError::Suffix)?;
    match short(&parts, suffix) {
        Some(short) => Ok(Parsed::Short(short)),
        None => long(&parts, suffix).map(Parsed::Long),
    }
}

/// The digits of a quantity.
struct Parts<'t> {
    negative: bool,
    /// Digits before the decimal point without leading zeros; `0` if there are none.
    whole: &'t str,
    /// Digits after the decimal point.
    fraction: &'t str,
    suffix: &'t str,
    /// Whether there is any digit.
    written: bool,
    /// Whether there are only digits, an optional minus and a suffix: no leading zeros, no decimal point.
    plain: bool,
}

impl<'t> Parts<'t> {
    fn split(text: &'t str) -> Result<Parts<'t>, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let (negative, unsigned) = match text.as_bytes()[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let digits = unsigned.trim_start_matches('0');
        let (whole, rest) = split_digits(digits);
        let whole = if whole.is_empty() { "0" } else { whole };
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        let letters = suffix.trim_start_matches(|letter: char| "eEinumkKMGTP".contains(letter));
        let exponent = letters.strip_prefix(['+', '-']).unwrap_or(letters);
        if exponent.bytes().any(|byte| !byte.is_ascii_digit()) {
            return Err(QuantityError::Format);
        }
        let written = unsigned.starts_with(|first: char| first.is_ascii_digit()) || !fraction.is_empty();
        let plain = text.len() == usize::from(negative) + whole.len() + suffix.len();
        Ok(Parts { negative, whole, fraction, suffix, written, plain })
    }

    fn digits(&self) -> impl Iterator<Item = u8> {
        self.whole.bytes().chain(self.fraction.bytes()).map(|byte| byte - b'0')
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// Parses a quantity that fits an int64 with a decimal scale.
fn short(parts: &Parts<'_>, suffix: Suffix) -> Option<Short> {
    let length = (parts.whole.len() + parts.fraction.len()) as i32;
    let (scale, factor) = match suffix.format {
        Format::DecimalSi | Format::DecimalExponent if length <= 18 => (suffix.exponent, 1),
        // Ten binary digits count as three decimal digits.
        Format::BinarySi if parts.fraction.is_empty() && 14 - length - suffix.exponent * 3 / 10 >= 0 => {
            (0, 1i64 << suffix.exponent)
        }
        _ => return None,
    };
    let scale = scale.wrapping_sub(parts.fraction.len() as i32);
    if scale < NANO {
        return None;
    }
    let number = parts.digits().fold(0i64, |number, digit| number * 10 + i64::from(digit));
    let value = number.checked_mul(factor)?.unsigned_abs();
    let canonical = match suffix.format {
        // Upstream keeps the notation in the first case; in the second it computes the same one.
        Format::BinarySi => number & 7 != 0 || (parts.plain && number % 1024 != 0),
        _ => {
            let thousands = length >= 3 && number % 1000 == 0;
            scale % 3 == 0 && !thousands && parts.whole != "0"
        }
    };
    Some(Short { negative: parts.negative, value, scale, format: suffix.format, canonical })
}

/// Parses a quantity of any size, rounded up to nano.
fn long(parts: &Parts<'_>, suffix: Suffix) -> Result<Amount, QuantityError> {
    if !parts.written {
        return Err(QuantityError::Number);
    }
    let mut digits: Vec<u8> = parts.digits().collect();
    let mut exponent = -(parts.fraction.len() as i32);
    match suffix.format {
        Format::BinarySi => (0..suffix.exponent).for_each(|_| double(&mut digits)),
        Format::DecimalSi | Format::DecimalExponent => exponent = exponent.wrapping_add(suffix.exponent),
    }
    // Zero keeps its scale, as upstream.
    if exponent < NANO && digits.iter().any(|digit| *digit != 0) {
        let dropped = (NANO - exponent) as usize;
        let kept = digits.len().saturating_sub(dropped);
        let lost = digits.split_off(kept).into_iter().any(|digit| digit != 0);
        if lost {
            increment(&mut digits);
        }
        exponent = NANO;
    }
    let mut amount =
        Amount { negative: parts.negative, digits, exponent, format: suffix.format, is_capped: false };
    if amount.format == Format::BinarySi {
        amount.cap();
        amount.avoid_binary_fraction();
    }
    Ok(amount)
}

fn double(digits: &mut Vec<u8>) {
    let mut carry = 0;
    for digit in digits.iter_mut().rev() {
        let doubled = *digit * 2 + carry;
        (*digit, carry) = (doubled % 10, doubled / 10);
    }
    if carry > 0 {
        digits.insert(0, carry);
    }
}

fn increment(digits: &mut Vec<u8>) {
    for digit in digits.iter_mut().rev() {
        if *digit < 9 {
            *digit += 1;
            return;
        }
        *digit = 0;
    }
    digits.insert(0, 1);
}
