//! Number checks: upstream compares numbers in the type in which they are written, and bounds with the range
//! of the type.

// upstream: k8s.io/kube-openapi/pkg/validation/validate/values.go

use crate::formats::Format;
use crate::node::{Check, Node, Types};
use crate::validate_value::Numeric;

const LARGEST_SAFE: f64 = 9_007_199_254_740_991.0;
const EPSILON: f64 = 1e-9;

/// Whether a float counts as an integer.
pub(crate) fn is_json_integer(float: f64) -> bool {
    if !float.is_finite() || float.abs() > LARGEST_SAFE {
        return false;
    }
    let near = float.trunc();
    // Upstream converts to an unsigned integer, so that no negative number is near an integer.
    float == near || (near > 0.0 && (float - near) / (float + near) < EPSILON)
}

/// The result of Go's conversion on its usual platforms.
pub(crate) fn go_integer(float: f64) -> i64 {
    // The bounds are powers of two and therefore exact.
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&float) {
        float as i64
    } else {
        i64::MIN
    }
}

/// The number format that upstream accepts for a type.
pub(crate) fn format(node: &Node) -> Option<Format> {
    let found = node.checks.iter().find_map(|check| match check {
        Check::Format(format, _) => Some(*format),
        _ => None,
    })?;
    let fits = match found {
        Format::Int32 | Format::Int64 => node.types == Types::INTEGER,
        Format::Float | Format::Double => node.types == Types::NUMBER,
        _ => false,
    };
    fits.then_some(found)
}

/// Whether the number is in the range of the node's type.
pub(crate) fn in_range(node: &Node, number: Numeric) -> bool {
    match (node.types, format(node)) {
        (Types::INTEGER, Some(Format::Int32)) => {
            to_integer(number).is_some_and(|integer| i32::try_from(integer).is_ok())
        }
        (Types::INTEGER, _) => to_integer(number).is_some(),
        (Types::NUMBER, Some(Format::Float)) => (number.float() as f32).is_finite(),
        _ => true,
    }
}

/// Parses the decimal digits as Go does; `None` if there is a fraction or an overflow.
fn to_integer(number: Numeric) -> Option<i64> {
    match number {
        Numeric::Integer(integer) => Some(integer),
        Numeric::Float(float) => {
            let integer = go_integer(float);
            (float == float.trunc() && integer as f64 == float).then_some(integer)
        }
    }
}

pub(crate) fn is_multiple(node: &Node, number: Numeric, factor: f64) -> bool {
    if !in_range(node, Numeric::Float(factor)) {
        return false;
    }
    match number {
        Numeric::Integer(integer) => {
            let factor = go_integer(factor);
            factor > 0 && integer % factor == 0
        }
        Numeric::Float(float) => is_float_multiple(float, factor),
    }
}

pub(crate) fn is_float_multiple(float: f64, factor: f64) -> bool {
    factor > 0.0 && is_json_integer(if factor < 1.0 { 1.0 / factor * float } else { float / factor })
}

pub(crate) fn is_at_least(node: &Node, number: Numeric, bound: f64, exclusive: bool) -> bool {
    in_range(node, Numeric::Float(bound)) && is_above(number, bound, exclusive)
}

pub(crate) fn is_at_most(node: &Node, number: Numeric, bound: f64, exclusive: bool) -> bool {
    in_range(node, Numeric::Float(bound)) && is_below(number, bound, exclusive)
}

pub(crate) fn is_above(number: Numeric, bound: f64, exclusive: bool) -> bool {
    match number {
        Numeric::Integer(integer) => {
            let bound = go_integer(bound);
            integer > bound || (!exclusive && integer == bound)
        }
        Numeric::Float(float) => float > bound || (!exclusive && float == bound),
    }
}

pub(crate) fn is_below(number: Numeric, bound: f64, exclusive: bool) -> bool {
    match number {
        Numeric::Integer(integer) => {
            let bound = go_integer(bound);
            integer < bound || (!exclusive && integer == bound)
        }
        Numeric::Float(float) => float < bound || (!exclusive && float == bound),
    }
}
