//! Quantities in objects.

// upstream: pkg/apis/core/validation/validation.go

use atoll_meta::quantity::Quantity;

use crate::field_value::{Errors, FieldValue};

pub(crate) const NEGATIVE: &str = "must be greater than or equal to 0";

/// Returns the quantity, or `None` if it is absent. Decoding has rejected malformed quantities.
pub(crate) fn of(field: &FieldValue<'_>) -> Option<Quantity> {
    field.value.as_str().and_then(|text| Quantity::parse(text).ok())
}

/// Checks that a quantity is a non-negative integer, with upstream's message for capacities.
pub(crate) fn basic(errors: &mut Errors, field: &FieldValue<'_>) {
    if let Some(units) = of(field).map(|amount| amount.units()).filter(|units| *units < 0) {
        errors.push(field.invalid_as(units, "must be a valid resource quantity"));
    }
}

pub(crate) fn positive(errors: &mut Errors, field: &FieldValue<'_>) {
    if of(field).is_some_and(|amount| amount.is_negative() || amount.is_zero()) {
        errors.push(field.invalid("must be greater than zero"));
    }
}

pub(crate) fn not_negative(errors: &mut Errors, field: &FieldValue<'_>) {
    if of(field).is_some_and(|amount| amount.is_negative()) {
        errors.push(field.invalid(NEGATIVE));
    }
}

/// Checks that a number is not negative.
pub(crate) fn not_negative_number(errors: &mut Errors, field: &FieldValue<'_>) {
    if field.number().is_some_and(|number| number < 0) {
        errors.push(field.invalid(NEGATIVE));
    }
}
