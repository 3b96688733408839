//! Quantities in objects.

// upstream: pkg/apis/core/validation/validation.go

use atoll_meta::quantity::Quantity;

use crate::field_value::{Errors, FieldValue};

pub(crate) const NEGATIVE: &str = "must be greater than or equal to 0";

/// Returns the quantity, or `None` if it is absent. Decoding has rejected malformed quantities.
pub(crate) fn of(at: &FieldValue<'_>) -> Option<Quantity> {
    at.value.as_str().and_then(|text| Quantity::parse(text).ok())
}

/// Checks that a quantity is a non-negative integer, with upstream's message for capacities.
pub(crate) fn basic(errors: &mut Errors, at: &FieldValue<'_>) {
    if let Some(units) = of(at).map(|amount| amount.units()).filter(|units| *units < 0) {
        errors.push(at.invalid_as(units, "must be a valid resource quantity"));
    }
}

pub(crate) fn positive(errors: &mut Errors, at: &FieldValue<'_>) {
    if of(at).is_some_and(|amount| amount.is_negative() || amount.is_zero()) {
        errors.push(at.invalid("must be greater than zero"));
    }
}

pub(crate) fn not_negative(errors: &mut Errors, at: &FieldValue<'_>) {
    if of(at).is_some_and(|amount| amount.is_negative()) {
        errors.push(at.invalid(NEGATIVE));
    }
}

/// Checks that a number is not negative.
pub(crate) fn not_negative_number(errors: &mut Errors, at: &FieldValue<'_>) {
    if at.number().is_some_and(|number| number < 0) {
        errors.push(at.invalid(NEGATIVE));
    }
}
