//! Parsing of quantities.

// upstream: staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go

use atoll_meta::quantity::QuantityError;

use super::{Amount, Decimal, times};

pub(super) fn parse(text: &str) -> Result<Amount, QuantityError> {
    let parts = Parts::split(text)?;
    let (base, exponent) = suffix(parts.suffix).ok_or(QuantityError::Suffix)?;
    match parts.small(base, exponent) {
        Some(small) => Ok(small),
        None => parts.large(base, exponent).map(Amount::Large),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Base {
    Two,
    Ten,
}

struct Parts<'a> {
    negative: bool,
    /// Sign, digits and decimal point as written.
    number: &'a str,
    /// Digits before the decimal point without leading zeros, at least one.
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Result<Parts<'a>, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let negative = text.starts_with('-');
        let rest = text.strip_prefix(['-', '+']).unwrap_or(text).trim_start_matches('0');
        let (whole, rest) = split_digits(rest);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        let after_letters = suffix.trim_start_matches(|letter| "eEinumkKMGTP".contains(letter));
        let after_sign = after_letters.strip_prefix(['-', '+']).unwrap_or(after_letters);
        if !split_digits(after_sign).1.is_empty() {
            return Err(QuantityError::Format);
        }
        let number = &text[..text.len() - suffix.len()];
        let whole = if whole.is_empty() { "0" } else { whole };
        Ok(Parts { negative, number, whole, fraction, suffix })
    }

    /// Returns the quantity if upstream parses it with 64-bit integers.
    fn small(&self, base: Base, exponent: i32) -> Option<Amount> {
        let digits = self.whole.len() + self.fraction.len();
        let (factor, power) = match base {
            Base::Ten => {
                let power = exponent.wrapping_sub(self.fraction.len() as i32);
                (1, (digits <= 18 && power >= -9).then_some(power)?)
            }
            Base::Two => {
                // Ten binary digits count as three decimal digits.
                let room = 14 - self.whole.len() as i64 - i64::from(exponent) * 3 / 10;
                (1 << exponent, (self.fraction.is_empty() && room >= 0).then_some(0)?)
            }
        };
        let value = format!("{}{}", self.whole, self.fraction).parse::<i64>().ok()?.checked_mul(factor)?;
        Some(Amount::Small { value: if self.negative { -value } else { value }, power })
    }

    fn large(&self, base: Base, exponent: i32) -> Result<Decimal, QuantityError> {
        if !self.number.contains(|digit: char| digit.is_ascii_digit()) {
            return Err(QuantityError::Number);
        }
        let digits: Vec<u8> =
            self.whole.bytes().chain(self.fraction.bytes()).map(|digit| digit - b'0').collect();
        let scale = self.fraction.len() as i64;
        let decimal = match base {
            Base::Ten => Decimal::new(self.negative, digits, scale - i64::from(exponent)),
            Base::Two => Decimal::new(self.negative, times(&digits, 1 << exponent), scale),
        };
        if decimal.digits.is_empty() {
            return Ok(decimal);
        }
        let decimal = decimal.rounded();
        let most = Amount::from_integer(i64::MAX).decimal();
        if base == Base::Two && decimal.compare_size(&most).is_gt() {
            return Ok(Decimal { negative: decimal.negative, ..most });
        }
        Ok(decimal)
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

fn suffix(suffix: &str) -> Option<(Base, i32)> {
    let ten = |power| Some((Base::Ten, power));
    let two = |power| Some((Base::Two, power));
    match suffix {
        "n" => ten(-9),
        "u" => ten(-6),
        "m" => ten(-3),
        "" => ten(0),
        "k" => ten(3),
        "M" => ten(6),
        "G" => ten(9),
        "T" => ten(12),
        "P" => ten(15),
        "E" => ten(18),
        "Ki" => two(10),
        "Mi" => two(20),
        "Gi" => two(30),
        "Ti" => two(40),
        "Pi" => two(50),
        "Ei" => two(60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            // Upstream parses 64 bits and keeps 32 of them.
            Some((Base::Ten, exponent.parse::<i64>().ok()? as i32))
        }
    }
}
