//! Capacities of devices and the request policies for them.

// upstream: pkg/apis/resource/validation/validation.go

use atoll_meta::FieldError;
use atoll_meta::field::BadValue;
use atoll_meta::quantity::Quantity;

use super::{listed, unique};
use crate::field_value::{Errors, FieldValue};

const MAX_VALUES: usize = 10;

/// Checks a capacity. Only a device that allows multiple allocations may have a request policy.
pub(super) fn check(errors: &mut Errors, capacity: &FieldValue<'_>, is_shared: bool) {
    let policy = capacity.get("requestPolicy");
    if !policy.is_set() {
        return;
    }
    if !is_shared {
        errors.push(policy.forbidden("allowMultipleAllocations must be true"));
        return;
    }
    let Some(capacity) = capacity.get("value").quantity() else { return };
    let (values, range, default) =
        (policy.get("validValues"), policy.get("validRange"), policy.get("default"));
    let default_quantity = default.quantity();
    match (!values.is_empty(), range.is_set(), default_quantity) {
        (true, true, _) => errors.push(policy.forbidden(
            "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time",
        )),
        (true, false, None) => errors.push(default.required("required when validValues is defined")),
        (false, true, None) => errors.push(default.required("required when validRange is defined")),
        (true, false, Some(default)) => check_values(errors, &values, &default, &capacity),
        (false, true, Some(default)) => check_range(errors, &range, &default, &capacity),
        (false, false, _) => {}
    }
}

fn check_values(errors: &mut Errors, values: &FieldValue<'_>, default: &Quantity, capacity: &Quantity) {
    let amounts: Vec<Quantity> = values.items().filter_map(|value| value.quantity()).collect();
    for (index, pair) in amounts.windows(2).enumerate() {
        if pair[0] > pair[1] {
            let path = values.path.index(index + 1);
            let detail = "values must be sorted in ascending order";
            errors.push(FieldError::invalid(&path, pair[1].canonical(), detail));
        }
    }
    let mut is_default_found = false;
    let all = listed(errors, values, MAX_VALUES, |errors, value| {
        let Some(amount) = value.quantity() else { return };
        if amount > *capacity {
            let detail = format!("option is larger than capacity value: {}", capacity.canonical());
            errors.push(value.invalid_as(amount.canonical(), detail));
        }
        is_default_found |= amount == *default;
    });
    if all {
        let units = |value: &FieldValue<'_>| value.quantity().map_or(0, |amount| amount.units());
        unique(errors, values, units, |units| BadValue::from(units.to_string()));
    }
    if !is_default_found {
        let detail = "default value is not valid according to the requestPolicy";
        errors.push(values.invalid_as(default.canonical(), detail));
    }
}

fn check_range(errors: &mut Errors, range: &FieldValue<'_>, default: &Quantity, capacity: &Quantity) {
    let (least, most, step) = (range.get("min"), range.get("max"), range.get("step"));
    let Some(minimum) = least.quantity() else {
        errors.push(least.required("required when validRange is defined"));
        return;
    };
    let mut fault = |is: bool, field: &FieldValue<'_>, value: &Quantity, message: &str, than: &Quantity| {
        if is {
            errors.push(field.invalid_as(value.canonical(), format!("{message}: {}", than.canonical())));
        }
    };
    fault(minimum > *capacity, &least, &minimum, "min is larger than capacity value", capacity);
    fault(*default < minimum, &least, default, "default is less than min", &minimum);
    let maximum = most.quantity();
    if let Some(maximum) = &maximum {
        fault(minimum > *maximum, &most, &minimum, "min is larger than max", maximum);
        fault(*maximum > *capacity, &most, maximum, "max is larger than capacity value", capacity);
        fault(*default > *maximum, &most, default, "default is more than max", maximum);
    }
    let Some(size) = step.quantity() else { return };
    let mut next = minimum.clone();
    next.add(&size);
    let message = format!("one step {} is larger than capacity value", next.canonical());
    fault(next > *capacity, &step, &size, &message, capacity);
    for value in std::iter::once(default).chain(&maximum) {
        // Upstream panics on a step of zero. No value is a multiple of it.
        let beyond = value.units().wrapping_sub(minimum.units()).checked_rem(size.units());
        if beyond != Some(0) {
            let detail = format!(
                "value is not a multiple of a given step ({}) from ({})",
                size.canonical(),
                minimum.canonical()
            );
            errors.push(step.invalid_as(value.canonical(), detail));
        }
    }
}
