//! Nodes.

// upstream: pkg/apis/core/validation/validation.go

use std::collections::HashSet;

use atoll_meta::field::BadValue;
use atoll_meta::{FieldError, FieldPath, names};
use serde_json::Value;

use crate::Checks;
use crate::addresses::{legacy_range, parse_range};
use crate::field_value::{Errors, FieldValue, StringRule};
use crate::resources;

pub(crate) static NODES: Checks = Checks {
    create: validate,
    update: check_update,
    subresource: |name, new, old| if name == "status" { validate_update(new, old) } else { Errors::new() },
};

const CIDR_KEEPS: &str = "node updates may not change podCIDR except from \"\" to valid";
const PROVIDER_KEEPS: &str = "node updates may not change providerID except from \"\" to valid";
const MAX_FEATURE_LENGTH: usize = 253;
const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

fn validate(node: &Value) -> Errors {
    let mut errors = Errors::new();
    let (spec, status) = (FieldValue::field(node, "spec"), FieldValue::field(node, "status"));
    taints(&mut errors, &spec);
    amounts(&mut errors, &status);
    let capacity = status.get("nodeInfo").get("swap").get("capacity");
    if capacity.number().is_some_and(|bytes| bytes <= 0) {
        // Upstream uses this path, although the field is elsewhere.
        let path = FieldPath::new("metadata").child("nodeSwapStatus").child("capacity");
        errors.push(capacity.with_path(path).invalid("must be greater than zero"));
    }
    features(&mut errors, &status.get("declaredFeatures"));
    let ranges = spec.get("podCIDRs");
    for range in ranges.items() {
        legacy_range(&mut errors, &range, range.text(), &[]);
    }
    if ranges.len() > 1 {
        one_range_a_family(&mut errors, &ranges);
    }
    errors
}

fn one_range_a_family(errors: &mut Errors, ranges: &FieldValue<'_>) {
    let mut families = HashSet::new();
    for (index, text) in ranges.texts().enumerate() {
        match parse_range(text) {
            Some(range) => drop(families.insert(range.network.is_ipv4())),
            None => {
                let detail = format!(
                    "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{index}]: <nil> (invalid CIDR address: {text})"
                );
                errors.push(FieldError::internal(&ranges.path, detail));
                families.clear();
                break;
            }
        }
    }
    if families.len() != 2 || ranges.len() > 2 {
        errors.push(ranges.invalid("may specify no more than one CIDR for each IP family"));
    }
}

fn check_update(new: &Value, old: &Value) -> Errors {
    let mut errors = validate(new);
    errors.extend(validate_update(new, old));
    errors
}

fn validate_update(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let (spec, status, before) =
        (FieldValue::field(new, "spec"), FieldValue::field(new, "status"), FieldValue::field(old, "spec"));
    amounts(&mut errors, &status);
    features(&mut errors, &status.get("declaredFeatures"));
    let mut seen = HashSet::new();
    for address in status.get("addresses").items() {
        let key = (address.text_of("type"), address.text_of("address"));
        if !seen.insert(key) {
            let [kind, text] = [key.0, key.1].map(BadValue::named_text);
            let rendered = BadValue::Rendered(format!("{{\"Type\":{kind},\"Address\":{text}}}"));
            errors.push(FieldError::duplicate(&address.path, rendered));
        }
    }
    let (ranges, old_ranges) = (spec.get("podCIDRs"), before.get("podCIDRs"));
    if !old_ranges.is_empty() {
        let changes = match ranges.len() == old_ranges.len() {
            true => ranges.list().iter().zip(old_ranges.list()).filter(|(new, old)| new != old).count(),
            false => 1,
        };
        errors.extend((0..changes).map(|_| ranges.forbidden(CIDR_KEEPS)));
    }
    let provider = spec.get("providerID");
    if !before.text_of("providerID").is_empty() && provider.text() != before.text_of("providerID") {
        errors.push(provider.forbidden(PROVIDER_KEEPS));
    }
    let source = spec.get("configSource");
    if source.is_set() {
        config_source(&mut errors, &source, true);
    }
    for field in ["assigned", "active", "lastKnownGood"] {
        let source = status.get("config").get(field);
        if source.is_set() {
            config_source(&mut errors, &source, false);
        }
    }
    taints(&mut errors, &spec);
    if spec.text_of("externalID") != before.text_of("externalID") {
        errors.push(spec.get("externalID").forbidden("may not be updated"));
    }
    errors
}

fn amounts(errors: &mut Errors, status: &FieldValue<'_>) {
    for field in ["capacity", "allocatable"] {
        let amounts = status.get(field);
        for (name, amount) in amounts.entries() {
            if let Some(found) = amount.quantity() {
                resources::check_amount(errors, name, &found, &amounts.path.child(name.to_owned()));
            }
        }
    }
}

fn taints(errors: &mut Errors, spec: &FieldValue<'_>) {
    let taints = spec.get("taints").with_path(FieldPath::new("metadata").child("taints"));
    let mut seen = HashSet::new();
    for taint in taints.items() {
        let (key, value, effect) = (taint.get("key"), taint.get("value"), taint.get("effect"));
        key.rules(errors, names::qualified_name(key.text()));
        let broken = names::label_value(value.text());
        if !broken.is_empty() {
            errors.push(value.invalid_as(value.text(), broken.join(";")));
        }
        effect.one_of(errors, EFFECTS);
        if !seen.insert((key.text(), effect.text())) {
            let [key, value, effect] = [&key, &value, &effect].map(FieldValue::named);
            let added = atoll_meta::json::to_string(taint.get("timeAdded").value);
            let rendered =
                format!("{{\"Key\":{key},\"Value\":{value},\"Effect\":{effect},\"TimeAdded\":{added}}}");
            let error = FieldError::duplicate(&taint.path, BadValue::Rendered(rendered));
            errors.push(error.with_detail("taints must be unique by key and effect pair"));
        }
    }
}

fn features(errors: &mut Errors, features: &FieldValue<'_>) {
    let mut before: Option<&str> = None;
    let mut late = Errors::new();
    for feature in features.items() {
        let name = feature.text();
        // Upstream reports a wrong order right after the name of the preceding element.
        if let Some(before) = before {
            if before == name {
                late.push(feature.duplicate());
            } else if before > name {
                late.push(feature.invalid("list must be sorted alphabetically"));
            }
        }
        errors.append(&mut late);
        let quoted = atoll_meta::quote::quote(name);
        if name.len() > MAX_FEATURE_LENGTH {
            let detail = format!(
                "invalid feature name {quoted}: must be no more than {MAX_FEATURE_LENGTH} characters"
            );
            errors.push(feature.invalid_as(name, detail));
        } else if !is_feature(name) {
            let detail = format!(
                "invalid feature name {quoted}: must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
            );
            errors.push(feature.invalid_as(name, detail));
        }
        before = Some(name);
    }
}

fn is_feature(name: &str) -> bool {
    name.bytes().next().is_some_and(|first| first.is_ascii_uppercase())
        && name.split('/').all(|segment| {
            segment.bytes().next().is_some_and(|first| first.is_ascii_alphabetic())
                && segment.bytes().all(|byte| byte.is_ascii_alphanumeric())
        })
}

fn config_source(errors: &mut Errors, source: &FieldValue<'_>, in_spec: bool) {
    let map = source.get("configMap");
    if !map.is_set() {
        let rendered = BadValue::Rendered("{\"ConfigMap\":null}".to_owned());
        errors.push(source.invalid_as(rendered, "exactly one reference subfield must be non-nil"));
        return;
    }
    for field in ["uid", "resourceVersion"] {
        let part = map.get(field);
        match (in_spec, part.is_empty()) {
            (true, false) => errors.push(part.forbidden(format!("{field} must not be set in spec"))),
            (false, true) => errors.push(part.required("")),
            _ => {}
        }
    }
    let rules: [(_, StringRule); 3] = [
        ("namespace", names::dns1123_label),
        ("name", names::dns1123_subdomain),
        ("kubeletConfigKey", names::config_map_key),
    ];
    for (part, rule) in rules.map(|(part, rule)| (map.get(part), rule)) {
        if part.is_empty() {
            errors.push(part.required(""));
        } else {
            part.rules(errors, rule(part.text()));
        }
    }
}
