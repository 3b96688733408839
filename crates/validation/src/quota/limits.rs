//! LimitRanges.

// upstream: pkg/apis/core/validation/validation.go

use std::collections::{BTreeSet, HashSet};

use atoll_meta::field::BadValue;
use atoll_meta::quantity::{Format, Quantity};
use atoll_meta::{FieldError, names};
use serde_json::Value;

use crate::Checks;
use crate::field_value::{Errors, FieldValue};
use crate::resources;

pub(crate) static LIMIT_RANGES: Checks =
    Checks { create: limits, update: |new, _| limits(new), ..Checks::NONE };

/// Resource lists, in upstream's order.
const LISTS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];

/// Quantities below this are compared in thousandths.
const LARGEST_IN_MILLIS: i64 = i64::MAX / 1000;

fn limits(range: &Value) -> Errors {
    let mut errors = Errors::new();
    let mut seen = HashSet::new();
    for limit in FieldValue::field(range, "spec").get("limits").items() {
        let kind = limit.get("type");
        type_name(&mut errors, &kind);
        if !seen.insert(kind.text()) {
            errors.push(FieldError::duplicate(&kind.path, kind.named()));
        }
        let of_pods = kind.text() == "Pod";
        let mut keys = BTreeSet::new();
        for list in LISTS {
            let amounts = limit.get(list);
            if of_pods && list.starts_with("default") {
                if !amounts.is_empty() {
                    errors.push(amounts.forbidden("may not be specified when `type` is 'Pod'"));
                }
                continue;
            }
            if list == "maxLimitRequestRatio" && kind.text() == "PersistentVolumeClaim" {
                storage(&mut errors, &limit);
            }
            for (name, amount) in amounts.entries() {
                match kind.text() {
                    "Pod" | "Container" => resources::check_container_name(&mut errors, name, &amount.path),
                    _ => resources::check_name(&mut errors, name, &amount.path),
                }
                keys.insert(name);
            }
        }
        for key in keys {
            compare(&mut errors, &limit, key, of_pods);
        }
    }
    errors
}

fn type_name(errors: &mut Errors, kind: &FieldValue<'_>) {
    let broken = names::qualified_name(kind.text());
    if broken.is_empty()
        && !kind.text().contains('/')
        && !matches!(kind.text(), "Pod" | "Container" | "PersistentVolumeClaim")
    {
        errors.push(kind.invalid_as(kind.named(), "must be a standard limit type or fully qualified"));
    }
    errors.extend(broken.into_iter().map(|rule| kind.invalid_as(kind.named(), rule)));
}

fn storage(errors: &mut Errors, limit: &FieldValue<'_>) {
    if !limit.get("min").has("storage") && !limit.get("max").has("storage") {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        errors.push(limit.get("limits").required(detail));
    }
}

fn compare(errors: &mut Errors, limit: &FieldValue<'_>, key: &str, of_pods: bool) {
    let amount = |list: &'static str| {
        let list = limit.get(list);
        list.quantity_of(key)
    };
    let [most, least, default, request, ratio] =
        LISTS.map(|list| match of_pods && list.starts_with("default") {
            true => None,
            false => amount(list),
        });
    let mut wrong = |list: &'static str, rendered: &Quantity, detail: String| {
        let rendered = BadValue::from(rendered.to_string());
        errors.push(FieldError::invalid(&limit.get(list).path.key(key), rendered, detail));
    };
    if let (Some(least), Some(most)) = (&least, &most)
        && least > most
    {
        wrong("min", least, format!("min value {least} is greater than max value {most}"));
    }
    if let Some(request) = &request {
        if let Some(least) = least.as_ref().filter(|least| *least > request) {
            let detail = format!("min value {least} is greater than default request value {request}");
            wrong("defaultRequest", request, detail);
        }
        if let Some(most) = most.as_ref().filter(|most| request > *most) {
            let detail = format!("default request value {request} is greater than max value {most}");
            wrong("defaultRequest", request, detail);
        }
        if let Some(default) = default.as_ref().filter(|default| request > *default) {
            let detail =
                format!("default request value {request} is greater than default limit value {default}");
            wrong("defaultRequest", request, detail);
        }
    }
    if let Some(default) = &default {
        if let Some(least) = least.as_ref().filter(|least| *least > default) {
            wrong("default", least, format!("min value {least} is greater than default value {default}"));
        }
        if let Some(most) = most.as_ref().filter(|most| default > *most) {
            wrong("default", most, format!("default value {default} is greater than max value {most}"));
        }
    }
    if let Some(ratio) = &ratio {
        if *ratio < Quantity::new(1, Format::DecimalSi) {
            wrong("maxLimitRequestRatio", ratio, format!("ratio {ratio} is less than 1"));
        }
        if let (Some(least), Some(most)) = (&least, &most) {
            let limit = largest_ratio(ratio, least, most);
            if limit.0 > limit.1 {
                let rendered = go_float(limit.1);
                wrong(
                    "maxLimitRequestRatio",
                    ratio,
                    format!("ratio {ratio} is greater than max/min = {rendered}"),
                );
            }
        }
    }
    if let (Some(default), Some(request)) = (&default, &request)
        && !resources::is_overcommit_allowed(key)
        && default != request
    {
        let detail = format!("default value {default} must equal to defaultRequest value {request} in {key}");
        wrong("defaultRequest", request, detail);
    }
}

/// Returns the requested ratio and the largest possible ratio.
#[allow(clippy::cast_precision_loss)]
fn largest_ratio(ratio: &Quantity, least: &Quantity, most: &Quantity) -> (f64, f64) {
    if [ratio, least, most].iter().all(|amount| amount.units() < LARGEST_IN_MILLIS) {
        (ratio.millis() as f64 / 1000.0, most.millis() as f64 / least.millis() as f64)
    } else {
        (ratio.units() as f64, most.units() as f64 / least.units() as f64)
    }
}

/// Formats a number with six decimal places, as Go's `%f`.
fn go_float(number: f64) -> String {
    if number.is_nan() {
        "NaN".to_owned()
    } else if number.is_infinite() {
        if number > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() }
    } else {
        format!("{number:.6}")
    }
}
