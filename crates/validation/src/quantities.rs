//! Amounts of resources.

use atoll_meta::quantity::Quantity;

use crate::at::{At, Errors};

pub(crate) const NEGATIVE: &str = "must be greater than or equal to 0";

/// The amount, none if it is absent. Decoding has refused what cannot be read.
pub(crate) fn of(at: &At<'_>) -> Option<Quantity> {
    at.value.as_str().and_then(|text| Quantity::parse(text).ok())
}

/// The amount must be whole and not less than nothing, in the words for capacities.
pub(crate) fn basic(errors: &mut Errors, at: &At<'_>) {
    if let Some(units) = of(at).map(|amount| amount.units()).filter(|units| *units < 0) {
        errors.push(at.invalid_as(units, "must be a valid resource quantity"));
    }
}

pub(crate) fn positive(errors: &mut Errors, at: &At<'_>) {
    if of(at).is_some_and(|amount| amount.is_negative() || amount.is_zero()) {
        errors.push(at.invalid("must be greater than zero"));
    }
}

pub(crate) fn not_negative(errors: &mut Errors, at: &At<'_>) {
    if of(at).is_some_and(|amount| amount.is_negative()) {
        errors.push(at.invalid(NEGATIVE));
    }
}

/// A number that must not be less than nothing.
pub(crate) fn not_negative_number(errors: &mut Errors, at: &At<'_>) {
    if at.number().is_some_and(|number| number < 0) {
        errors.push(at.invalid(NEGATIVE));
    }
}
