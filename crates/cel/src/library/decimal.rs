//! Quantities in Go's two representations, because expressions can distinguish them: only one of them is ever
//! an integer.

// upstream: staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go
// upstream: staging/src/k8s.io/apimachinery/pkg/api/resource/amount.go

use std::cmp::Ordering;

use atoll_meta::quantity::{Number, QuantityError};

/// Maximum number of digits that are spelled out. A number that needs more is too large or too small to
/// affect the other operand of an addition.
const MAX_DIGITS: i64 = 10_000;
/// Decimal places. Smaller fractions are rounded up.
const SCALE: i64 = 9;

/// A resource quantity.
#[derive(Clone, Debug)]
pub enum Amount {
    /// A 64-bit number and a power of ten.
    Small {
        /// The number.
        value: i64,
        /// The power of ten.
        power: i32,
    },
    /// A number of any size.
    Large(Decimal),
}

/// A number of any size: its digits and the number of decimal places.
#[derive(Clone, Debug)]
pub struct Decimal {
    negative: bool,
    /// Digits, most significant first. Empty for zero.
    digits: Vec<u8>,
    scale: i64,
}

impl Amount {
    /// Parses a quantity as upstream does.
    pub fn parse(text: &str) -> Result<Amount, QuantityError> {
        Ok(match Number::parse(text)? {
            Number::Short { value, scale } => Amount::Small { value, power: scale },
            Number::Long { negative, digits, exponent, is_capped } => {
                let decimal = Decimal::new(negative, digits, -i64::from(exponent));
                // Upstream neither rounds zero nor the maximum.
                let is_rounded = !decimal.digits.is_empty() && !is_capped;
                Amount::Large(if is_rounded { decimal.rounded() } else { decimal })
            }
        })
    }

    /// Creates an integer.
    pub fn from_integer(value: i64) -> Amount {
        Amount::Small { value, power: 0 }
    }

    /// Returns the quantity as an integer, if upstream considers it one, which depends on its notation.
    pub fn as_integer(&self) -> Option<i64> {
        match *self {
            Amount::Small { value, power } if power >= 0 => raise(value, i64::from(power)),
            _ => None,
        }
    }

    /// Returns the quantity as a floating point number, with upstream's rounding.
    pub fn approximate(&self) -> f64 {
        let (base, exponent) = match self {
            Amount::Small { value, power } => (*value as f64, i64::from(*power)),
            Amount::Large(decimal) => (decimal.unscaled(), -decimal.scale),
        };
        if exponent == 0 { base } else { base * power_of_ten(exponent) }
    }

    /// Returns -1, 0 or 1.
    pub fn sign(&self) -> i64 {
        match self {
            Amount::Small { value, .. } => value.signum(),
            Amount::Large(decimal) if decimal.digits.is_empty() => 0,
            Amount::Large(decimal) if decimal.negative => -1,
            Amount::Large(_) => 1,
        }
    }

    /// Returns the sum.
    pub fn plus(&self, other: &Amount) -> Amount {
        self.add_small(other, false)
            .unwrap_or_else(|| Amount::Large(self.decimal().plus(&other.decimal(), false)))
    }

    /// Returns the difference.
    pub fn minus(&self, other: &Amount) -> Amount {
        self.add_small(other, true)
            .unwrap_or_else(|| Amount::Large(self.decimal().plus(&other.decimal(), true)))
    }

    fn add_small(&self, other: &Amount, negate: bool) -> Option<Amount> {
        let (&Amount::Small { value, power }, &Amount::Small { value: added, power: scale }) = (self, other)
        else {
            return None;
        };
        let added = if negate { added.wrapping_neg() } else { added };
        if added == 0 {
            return Some(self.clone());
        }
        if value == 0 {
            return Some(Amount::Small { value: added, power: scale });
        }
        let least = power.min(scale);
        let value = raise(value, i64::from(power) - i64::from(least))?;
        let added = raise(added, i64::from(scale) - i64::from(least))?;
        Some(Amount::Small { value: value.checked_add(added)?, power: least })
    }

    fn decimal(&self) -> Decimal {
        match self {
            Amount::Small { value, power } => {
                let digits = value.unsigned_abs().to_string().into_bytes();
                let digits = digits.into_iter().map(|digit| digit - b'0').collect();
                Decimal::new(*value < 0, digits, -i64::from(*power))
            }
            Amount::Large(decimal) => decimal.clone(),
        }
    }
}

impl PartialEq for Amount {
    fn eq(&self, other: &Amount) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Amount {}

impl PartialOrd for Amount {
    fn partial_cmp(&self, other: &Amount) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Amount {
    fn cmp(&self, other: &Amount) -> Ordering {
        match (self, other) {
            (Amount::Small { value, power }, Amount::Small { value: second, power: scale })
                if power == scale =>
            {
                value.cmp(second)
            }
            _ => self.decimal().compare(&other.decimal()),
        }
    }
}

impl Decimal {
    fn new(negative: bool, mut digits: Vec<u8>, scale: i64) -> Decimal {
        let zeros = digits.iter().take_while(|&&digit| digit == 0).count();
        digits.drain(..zeros);
        Decimal { negative: negative && !digits.is_empty(), digits, scale }
    }

    fn compare(&self, other: &Decimal) -> Ordering {
        match (self.negative, other.negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => self.compare_size(other),
            (true, true) => other.compare_size(self),
        }
    }

    fn compare_size(&self, other: &Decimal) -> Ordering {
        // Position of the first digit relative to the decimal point; zero has none.
        let magnitude = |decimal: &Decimal| match decimal.digits.len() {
            0 => i64::MIN,
            length => length as i64 - decimal.scale,
        };
        magnitude(self).cmp(&magnitude(other)).then_with(|| {
            let length = self.digits.len().max(other.digits.len());
            let digit = |decimal: &Decimal, index: usize| decimal.digits.get(index).copied().unwrap_or(0);
            (0..length)
                .map(|index| digit(self, index).cmp(&digit(other, index)))
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal)
        })
    }

    /// Returns the digits without the decimal point.
    fn unscaled(&self) -> f64 {
        let text: String = self.digits.iter().map(|digit| char::from(b'0' + digit)).collect();
        let size = if text.is_empty() { 0.0 } else { text.parse().unwrap_or(f64::INFINITY) };
        if self.negative { -size } else { size }
    }

    fn plus(&self, other: &Decimal, negate: bool) -> Decimal {
        let mut other = other.clone();
        other.negative ^= negate && !other.digits.is_empty();
        let scale = self.scale.max(other.scale);
        let (Some(first), Some(second)) = (self.with_scale(scale), other.with_scale(scale)) else {
            // The smaller operand is negligible.
            return if self.compare_size(&other).is_ge() { self.clone() } else { other };
        };
        if first.negative == second.negative {
            return Decimal::new(first.negative, add(&first.digits, &second.digits), scale);
        }
        let (larger, smaller) =
            if first.compare_size(&second).is_ge() { (first, second) } else { (second, first) };
        Decimal::new(larger.negative, subtract(&larger.digits, &smaller.digits), scale)
    }

    /// Returns the same number with more decimal places, if it is not too long.
    fn with_scale(&self, scale: i64) -> Option<Decimal> {
        let zeros = if self.digits.is_empty() { 0 } else { scale - self.scale };
        if zeros > MAX_DIGITS {
            return None;
        }
        let mut digits = self.digits.clone();
        digits.resize(digits.len() + usize::try_from(zeros).ok()?, 0);
        Some(Decimal { negative: self.negative, digits, scale })
    }

    /// Returns the same number with nine decimal places, if it is not too long. It never has more.
    fn rounded(self) -> Decimal {
        self.with_scale(SCALE).unwrap_or(self)
    }
}

fn add(first: &[u8], second: &[u8]) -> Vec<u8> {
    let mut digits = Vec::with_capacity(first.len().max(second.len()) + 1);
    let mut carry = 0;
    let (mut first, mut second) = (first.iter().rev(), second.iter().rev());
    loop {
        let (one, two) = (first.next(), second.next());
        if one.is_none() && two.is_none() && carry == 0 {
            break;
        }
        let sum = one.unwrap_or(&0) + two.unwrap_or(&0) + carry;
        digits.push(sum % 10);
        carry = sum / 10;
    }
    digits.reverse();
    digits
}

/// Subtracts a number that is not larger.
fn subtract(larger: &[u8], smaller: &[u8]) -> Vec<u8> {
    let mut digits = larger.to_vec();
    let mut borrow = 0;
    let mut smaller = smaller.iter().rev();
    for digit in digits.iter_mut().rev() {
        let taken = smaller.next().unwrap_or(&0) + borrow;
        borrow = u8::from(*digit < taken);
        *digit = *digit + 10 * borrow - taken;
    }
    digits
}

/// Multiplies by a non-negative power of ten, if the product fits.
fn raise(value: i64, power: i64) -> Option<i64> {
    if value == 0 {
        return Some(0);
    }
    value.checked_mul(10i64.checked_pow(u32::try_from(power).ok()?)?)
}

/// Returns a power of ten as the product of two factors, as Go does, because the last bit depends on it.
fn power_of_ten(power: i64) -> f64 {
    const LOW: [f64; 32] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17,
        1e18, 1e19, 1e20, 1e21, 1e22, 1e23, 1e24, 1e25, 1e26, 1e27, 1e28, 1e29, 1e30, 1e31,
    ];
    const HIGH: [f64; 10] = [1e0, 1e32, 1e64, 1e96, 1e128, 1e160, 1e192, 1e224, 1e256, 1e288];
    const TINY: [f64; 11] =
        [1e0, 1e-32, 1e-64, 1e-96, 1e-128, 1e-160, 1e-192, 1e-224, 1e-256, 1e-288, 1e-320];
    let size = power.unsigned_abs() as usize;
    match power {
        0..=308 => HIGH[size / 32] * LOW[size % 32],
        -323..=-1 => TINY[size / 32] / LOW[size % 32],
        309.. => f64::INFINITY,
        _ => 0.0,
    }
}
