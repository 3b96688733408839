//! Quantities in objects.

// upstream: pkg/apis/core/validation/validation.go

use crate::field_value::{Errors, FieldValue, NOT_NEGATIVE, POSITIVE};

/// Checks that a quantity is a non-negative integer, with upstream's message for capacities.
pub(crate) fn basic(errors: &mut Errors, field: &FieldValue<'_>) {
    if let Some(units) = field.quantity().map(|amount| amount.units()).filter(|units| *units < 0) {
        errors.push(field.invalid_as(units, "must be a valid resource quantity"));
    }
}

pub(crate) fn positive(errors: &mut Errors, field: &FieldValue<'_>) {
    if field.quantity().is_some_and(|amount| amount.is_negative() || amount.is_zero()) {
        errors.push(field.invalid(POSITIVE));
    }
}

pub(crate) fn not_negative(errors: &mut Errors, field: &FieldValue<'_>) {
    if field.quantity().is_some_and(|amount| amount.is_negative()) {
        errors.push(field.invalid(NOT_NEGATIVE));
    }
}
