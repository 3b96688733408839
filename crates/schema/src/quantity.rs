//! Quantities as `resource.Quantity` parses and formats them: `0.5` becomes `500m`, `1024Mi` becomes `1Gi`.
//!
//! Upstream's output depends on how it parsed: quantities that fit an int64 and look canonical keep their
//! notation (even `1.500`), others are computed. This code distinguishes the same two cases.

// upstream: staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go
// upstream: staging/src/k8s.io/apimachinery/pkg/api/resource/amount.go
// upstream: staging/src/k8s.io/apimachinery/pkg/api/resource/suffix.go

use std::fmt;

/// The canonical form of a valid quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CanonicalQuantity {
    Same,
    Changed(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuantityError {
    Format,
    Number,
    Suffix,
}

impl fmt::Display for QuantityError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            QuantityError::Format => {
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            }
            QuantityError::Number => "unable to parse numeric part of quantity",
            QuantityError::Suffix => "unable to parse quantity's suffix",
        })
    }
}

impl std::error::Error for QuantityError {}

/// Returns upstream's output for a quantity with the notation `text`.
pub fn canonical_quantity(text: &str) -> Result<CanonicalQuantity, QuantityError> {
    let trimmed = text.trim();
    let kept = |same: bool| {
        if same { CanonicalQuantity::Same } else { CanonicalQuantity::Changed(trimmed.to_owned()) }
    };
    if trimmed == "0" {
        return Ok(kept(trimmed.len() == text.len()));
    }
    let parts = Parts::split(trimmed)?;
    let suffix = Suffix::parse(parts.suffix).ok_or(QuantityError::Suffix)?;
    let written = match small(&parts, suffix) {
        Some(Small::Canonical) => return Ok(kept(trimmed.len() == text.len())),
        Some(Small::Amount(amount)) => amount.write(),
        None => large(&parts, suffix)?.write(),
    };
    Ok(if written == text { CanonicalQuantity::Same } else { CanonicalQuantity::Changed(written) })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    DecimalExponent,
    Binary,
    Decimal,
}

/// Exponent of the smallest amount that is distinguished from zero.
const NANO: i32 = -9;

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
        let (whole, rest) = digits.split_at(digits.bytes().take_while(u8::is_ascii_digit).count());
        let whole = if whole.is_empty() { "0" } else { whole };
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count()),
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

#[derive(Clone, Copy)]
struct Suffix {
    form: Form,
    /// Exponent of ten, or of two in binary form.
    exponent: i32,
}

const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [(&str, i32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

impl Suffix {
    fn parse(text: &str) -> Option<Suffix> {
        let named = |table: &[(&str, i32)], form| {
            table
                .iter()
                .find(|(name, _)| *name == text)
                .map(|(_, exponent)| Suffix { form, exponent: *exponent })
        };
        named(&DECIMAL, Form::Decimal).or_else(|| named(&BINARY, Form::Binary)).or_else(|| {
            let exponent: i64 = text.strip_prefix(['e', 'E'])?.parse().ok()?;
            // Upstream also truncates it to 32 bits.
            Some(Suffix { form: Form::DecimalExponent, exponent: exponent as i32 })
        })
    }
}

enum Small {
    /// Formatted as parsed.
    Canonical,
    Amount(Amount),
}

/// Parses a quantity that fits an int64 with a decimal scale.
fn small(parts: &Parts<'_>, suffix: Suffix) -> Option<Small> {
    let length = (parts.whole.len() + parts.fraction.len()) as i32;
    let (scale, factor) = match suffix.form {
        Form::Decimal | Form::DecimalExponent if length <= 18 => (suffix.exponent, 1),
        // Ten binary digits count as three decimal digits.
        Form::Binary if parts.fraction.is_empty() && 14 - length - suffix.exponent * 3 / 10 >= 0 => {
            (0, 1i64 << suffix.exponent)
        }
        _ => return None,
    };
    let scale = scale.wrapping_sub(parts.fraction.len() as i32);
    if scale < NANO {
        return None;
    }
    let value = parts.digits().fold(0i64, |value, digit| value * 10 + i64::from(digit));
    let amount = value.checked_mul(factor)?;
    let canonical = match suffix.form {
        // Upstream keeps the notation in the first case; in the second it computes the same one.
        Form::Binary => value & 7 != 0 || (parts.plain && value % 1024 != 0),
        _ => {
            let thousands = length >= 3 && value % 1000 == 0;
            scale % 3 == 0 && !thousands && parts.whole != "0"
        }
    };
    if canonical {
        return Some(Small::Canonical);
    }
    let digits = amount.unsigned_abs().to_string().bytes().map(|byte| byte - b'0').collect();
    Some(Small::Amount(Amount { negative: parts.negative, digits, exponent: scale, form: suffix.form }))
}

/// Parses a quantity of any size, rounded up to nano.
fn large(parts: &Parts<'_>, suffix: Suffix) -> Result<Amount, QuantityError> {
    if !parts.written {
        return Err(QuantityError::Number);
    }
    let mut digits: Vec<u8> = parts.digits().collect();
    let mut exponent = -(parts.fraction.len() as i32);
    match suffix.form {
        Form::Binary => (0..suffix.exponent).for_each(|_| double(&mut digits)),
        Form::Decimal | Form::DecimalExponent => exponent = exponent.wrapping_add(suffix.exponent),
    }
    if exponent < NANO {
        let dropped = (NANO - exponent) as usize;
        let kept = digits.len().saturating_sub(dropped);
        let lost = digits.split_off(kept).into_iter().any(|digit| digit != 0);
        if lost {
            increment(&mut digits);
        }
        exponent = NANO;
    }
    let mut amount = Amount { negative: parts.negative, digits, exponent, form: suffix.form };
    if amount.form == Form::Binary {
        amount.cap();
    }
    Ok(amount)
}

/// Decimal digits, most significant first, times a power of ten.
struct Amount {
    negative: bool,
    digits: Vec<u8>,
    exponent: i32,
    form: Form,
}

impl Amount {
    /// Limits binary quantities to the largest int64.
    fn cap(&mut self) {
        if self.integral_part().is_none_or(|whole| {
            whole > i64::MAX as u128 || (whole == i64::MAX as u128 && self.has_fraction())
        }) {
            self.digits = i64::MAX.to_string().bytes().map(|byte| byte - b'0').collect();
            self.exponent = 0;
        }
    }

    /// Returns the integral part, unless it is too large.
    fn integral_part(&self) -> Option<u128> {
        let dropped = usize::try_from(-self.exponent).unwrap_or(0);
        let kept = self.digits.len().saturating_sub(dropped);
        let whole = self.digits[..kept]
            .iter()
            .try_fold(0u128, |value, digit| value.checked_mul(10)?.checked_add(u128::from(*digit)))?;
        whole.checked_mul(10u128.checked_pow(u32::try_from(self.exponent).unwrap_or(0))?)
    }

    fn has_fraction(&self) -> bool {
        let dropped = usize::try_from(-self.exponent).unwrap_or(0);
        let kept = self.digits.len().saturating_sub(dropped);
        self.digits[kept..].iter().any(|digit| *digit != 0)
    }

    fn write(mut self) -> String {
        if self.digits.iter().all(|digit| *digit == 0) {
            return "0".to_owned();
        }
        let sign = if self.negative { "-" } else { "" };
        if self.form == Form::Binary {
            // Small amounts and fractions would be rounded in binary form.
            match self.integral_part() {
                Some(whole) if whole >= 1024 && !self.has_fraction() => {
                    let (mut whole, mut power) = (whole, 0);
                    while whole >= 1024 && whole.is_multiple_of(1024) {
                        whole /= 1024;
                        power += 10;
                    }
                    return format!("{sign}{whole}{}", name_of(&BINARY, power));
                }
                _ => self.form = Form::Decimal,
            }
        }
        while self.digits.last() == Some(&0) {
            self.digits.pop();
            self.exponent += 1;
        }
        while self.exponent % 3 != 0 {
            self.digits.push(0);
            self.exponent -= 1;
        }
        let digits: String = self
            .digits
            .iter()
            .skip_while(|digit| **digit == 0)
            .map(|digit| char::from(digit + b'0'))
            .collect();
        match self.form {
            Form::DecimalExponent if self.exponent != 0 => format!("{sign}{digits}e{}", self.exponent),
            Form::DecimalExponent => format!("{sign}{digits}"),
            // There is no suffix beyond exa, and upstream then writes none.
            _ => format!("{sign}{digits}{}", name_of(&DECIMAL, self.exponent)),
        }
    }
}

fn name_of(table: &[(&'static str, i32)], exponent: i32) -> &'static str {
    table.iter().find(|(_, other)| *other == exponent).map_or("", |(name, _)| name)
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
