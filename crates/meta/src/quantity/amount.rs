//! Amounts of any size and their canonical notation.

// upstream: staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go
// upstream: staging/src/k8s.io/apimachinery/pkg/api/resource/amount.go

use super::{Format, suffix};

/// Decimal digits, most significant first, times a power of ten.
pub(super) struct Amount {
    pub negative: bool,
    pub digits: Vec<u8>,
    pub exponent: i32,
    pub format: Format,
    /// Whether the quantity was too large for its format.
    pub is_capped: bool,
}

impl Amount {
    pub fn new(negative: bool, size: u128, exponent: i32, format: Format) -> Amount {
        let digits = size.to_string().bytes().map(|byte| byte - b'0').collect();
        Amount { negative, digits, exponent, format, is_capped: false }
    }

    /// Limits binary quantities to the largest int64.
    pub fn cap(&mut self) {
        if self.integral_part().is_none_or(|whole| {
            whole > i64::MAX as u128 || (whole == i64::MAX as u128 && self.has_fraction())
        }) {
            self.digits = i64::MAX.to_string().bytes().map(|byte| byte - b'0').collect();
            self.exponent = 0;
            self.is_capped = true;
        }
    }

    /// Changes amounts below one, which cannot be written in powers of 1024, to the decimal format.
    pub fn avoid_binary_fraction(&mut self) {
        if self.integral_part() == Some(0) && self.has_fraction() {
            self.format = Format::DecimalSi;
        }
    }

    /// Returns the size in billionths, saturating.
    pub fn nanos(&self) -> i128 {
        let digits = self.digits.iter();
        let number = digits.fold(0i128, |sum, digit| sum.saturating_mul(10).saturating_add((*digit).into()));
        scaled(number, self.exponent)
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

    /// Returns the canonical notation.
    pub fn write(mut self) -> String {
        if self.digits.iter().all(|digit| *digit == 0) {
            return "0".to_owned();
        }
        let sign = if self.negative { "-" } else { "" };
        if self.format == Format::BinarySi {
            // Small amounts and fractions would be rounded in binary format.
            match self.integral_part() {
                Some(whole) if whole >= 1024 && !self.has_fraction() => {
                    let (mut whole, mut power) = (whole, 0);
                    while whole >= 1024 && whole.is_multiple_of(1024) {
                        whole /= 1024;
                        power += 10;
                    }
                    return format!("{sign}{whole}{}", suffix::binary(power));
                }
                _ => self.format = Format::DecimalSi,
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
        match self.format {
            Format::DecimalExponent if self.exponent != 0 => format!("{sign}{digits}e{}", self.exponent),
            Format::DecimalExponent => format!("{sign}{digits}"),
            _ => format!("{sign}{digits}{}", suffix::decimal(self.exponent)),
        }
    }
}

/// Returns a number times a power of ten in billionths, saturating. The exponent is at least that of nano.
pub(super) fn scaled(number: i128, exponent: i32) -> i128 {
    let power = exponent.checked_add(9).and_then(|power| u32::try_from(power).ok());
    match power.and_then(|power| 10i128.checked_pow(power)) {
        _ if number == 0 => 0,
        Some(factor) => number.saturating_mul(factor),
        None => i128::MAX,
    }
}
