//! Resource quantities: `100m`, `1.5Gi`, `2e3`.
//!
//! Stored in billionths, exact up to more than 10²⁹; larger amounts saturate. Like upstream's, a quantity
//! keeps its notation if that was canonical enough, so that objects are returned as they were sent.

// upstream: staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go

mod amount;
mod parse;
mod suffix;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use amount::Amount;
use parse::{Parsed, parse};

/// Billionths in one.
const NANO: i128 = 1_000_000_000;

/// The notation of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// With an exponent: `12e6`.
    DecimalExponent,
    /// With powers of 1024: `12Mi`.
    BinarySi,
    /// With powers of 1000: `12M`.
    DecimalSi,
}

/// A quantity. Quantities are equal if their amounts are, regardless of notation.
#[derive(Clone, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
    text: Option<String>,
}

/// The reason why a string is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuantityError {
    /// The format does not match.
    Format,
    /// Unknown suffix.
    Suffix,
    /// Malformed number.
    Number,
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QuantityError::Format => {
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            }
            QuantityError::Suffix => "unable to parse quantity's suffix",
            QuantityError::Number => "unable to parse numeric part of quantity",
        })
    }
}

impl std::error::Error for QuantityError {}

impl Quantity {
    /// Parses a quantity. Fractions smaller than a billionth are rounded up.
    ///
    /// # Errors
    ///
    /// Returns an error if upstream cannot parse the string either.
    pub fn parse(text: &str) -> Result<Quantity, QuantityError> {
        let (negative, size, format, canonical) = match parse(text)? {
            Parsed::Short(short) => {
                let size = amount::scaled(short.value.into(), short.scale);
                (short.negative, size, short.format, short.canonical)
            }
            Parsed::Long(long) => (long.negative, long.nanos(), long.format, false),
        };
        let nanos = if negative { -size } else { size };
        Ok(Quantity { nanos, format, text: canonical.then(|| text.to_owned()) })
    }

    /// Creates a quantity of whole units.
    pub fn new(units: i64, format: Format) -> Quantity {
        Quantity { nanos: i128::from(units) * NANO, format, text: None }
    }

    /// Creates a quantity of thousandths.
    pub fn from_millis(millis: i64, format: Format) -> Quantity {
        Quantity { nanos: i128::from(millis) * (NANO / 1000), format, text: None }
    }

    /// Returns the notation.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether the amount is zero.
    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// Whether the amount is negative.
    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// Returns the amount in whole units, rounded away from zero.
    pub fn units(&self) -> i64 {
        self.scaled(NANO)
    }

    /// Returns the amount in thousandths, rounded away from zero.
    pub fn millis(&self) -> i64 {
        self.scaled(NANO / 1000)
    }

    /// Rounds away from zero to thousandths.
    pub fn round_up_to_millis(&mut self) {
        self.round_up_to(NANO / 1000);
        self.text = None;
    }

    /// Rounds away from zero to whole units. Integers keep their notation.
    pub fn round_up_to_units(&mut self) {
        if self.nanos % NANO != 0 {
            self.round_up_to(NANO);
            self.text = None;
        }
    }

    fn round_up_to(&mut self, unit: i128) {
        let rest = self.nanos % unit;
        if rest != 0 {
            self.nanos += self.nanos.signum() * unit - rest;
        }
    }

    fn scaled(&self, unit: i128) -> i64 {
        let whole = self.nanos / unit;
        let rounded = if self.nanos % unit == 0 { whole } else { whole + self.nanos.signum() };
        i64::try_from(rounded).unwrap_or(if rounded < 0 { i64::MIN } else { i64::MAX })
    }

    /// Adds another quantity. Zero takes on the other's format.
    pub fn add(&mut self, other: &Quantity) {
        self.combine(other, i128::saturating_add);
    }

    /// Subtracts another quantity. Zero takes on the other's format.
    pub fn subtract(&mut self, other: &Quantity) {
        self.combine(other, i128::saturating_sub);
    }

    fn combine(&mut self, other: &Quantity, operation: fn(i128, i128) -> i128) {
        if self.is_zero() {
            self.format = other.format;
        }
        self.nanos = operation(self.nanos, other.nanos);
        self.text = None;
    }

    /// Returns the canonical notation, which upstream uses for computed quantities.
    pub fn canonical(&self) -> String {
        Amount::new(self.is_negative(), self.nanos.unsigned_abs(), -9, self.format).write()
    }
}

/// The number of a quantity, in the two representations that upstream has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Number {
    /// `value` times ten to the power of `scale`.
    Short { value: i64, scale: i32 },
    /// Decimal digits, most significant first, times a power of ten, rounded up to billionths.
    Long {
        negative: bool,
        digits: Vec<u8>,
        exponent: i32,
        /// Whether this is the maximum of binary quantities instead of a larger number.
        is_capped: bool,
    },
}

impl Number {
    /// Parses a quantity.
    ///
    /// # Errors
    ///
    /// Returns an error if upstream cannot parse the string either.
    pub fn parse(text: &str) -> Result<Number, QuantityError> {
        Ok(match parse(text)? {
            // The size of a short number fits.
            Parsed::Short(short) => {
                let size = short.value.cast_signed();
                Number::Short { value: if short.negative { -size } else { size }, scale: short.scale }
            }
            Parsed::Long(Amount { negative, digits, exponent, is_capped, .. }) => {
                Number::Long { negative, digits, exponent, is_capped }
            }
        })
    }
}

/// Returns the notation that upstream gives a quantity in an object. It may be surrounded by whitespace.
/// Borrowed if that is all that changes, because most quantities are already canonical.
///
/// # Errors
///
/// Returns an error if upstream cannot parse the string either.
pub fn canonical(text: &str) -> Result<Cow<'_, str>, QuantityError> {
    let text = text.trim();
    let amount = match parse(text)? {
        Parsed::Short(short) if short.canonical => return Ok(Cow::Borrowed(text)),
        Parsed::Short(short) => Amount::new(short.negative, short.value.into(), short.scale, short.format),
        Parsed::Long(long) => long,
    };
    Ok(Cow::Owned(amount.write()))
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.write_str(text),
            None => f.write_str(&self.canonical()),
        }
    }
}

impl std::str::FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Quantity, QuantityError> {
        Quantity::parse(text)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Quantity) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Quantity) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Quantity) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

#[cfg(test)]
mod tests;
