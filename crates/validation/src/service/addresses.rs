//! The addresses and address families of a Service.

// upstream: pkg/apis/core/validation/validation.go
// upstream: pkg/registry/core/service/storage/alloc.go

use std::collections::HashSet;

use atoll_meta::field::BadValue;
use serde_json::Value;

use super::{is_headless, render_pointer};
use crate::addresses::{endpoint, is_v6, legacy};
use crate::field_value::{Errors, FieldValue};

/// Checks that allocated addresses and families are kept.
pub(super) fn changed(errors: &mut Errors, spec: &FieldValue<'_>, old: &FieldValue<'_>) {
    if [spec, old].iter().any(|spec| spec.text_of("type") == "ExternalName") {
        return;
    }
    let (headless, was_headless) = (is_headless(spec), is_headless(old));
    if !(headless && was_headless) {
        changed_ips(errors, spec, old);
    }
    if !headless && !was_headless {
        changed_families(errors, spec, old);
    }
}

const KEEPS: &str = "may not change once set";

fn changed_ips(errors: &mut Errors, spec: &FieldValue<'_>, old: &FieldValue<'_>) {
    let (ips, before) = (spec.get("clusterIPs"), old.get("clusterIPs"));
    let field = |index: usize| FieldValue { value: ips.value, path: ips.path.index(index) };
    let first_changed = !ips.is_empty() && !before.is_empty() && ips.list()[0] != before.list()[0];
    if ips.len() == before.len() {
        let pairs = ips.list().iter().zip(before.list()).enumerate();
        let changed = pairs.filter(|(_, (new, old))| new != old);
        errors.extend(changed.map(|(index, _)| field(index).invalid(KEEPS)));
        return;
    }
    if ips.is_empty() {
        errors.push(field(0).invalid("primary clusterIP can not be unset"));
    }
    if first_changed {
        errors.push(field(0).invalid(KEEPS));
    }
    if before.len() > ips.len() && ips.len() == 1 {
        single_stack(errors, spec, "clusterIP");
    }
}

fn single_stack(errors: &mut Errors, spec: &FieldValue<'_>, released: &str) {
    let policy = spec.get("ipFamilyPolicy");
    if policy.text() != "SingleStack" {
        let detail = format!("must be set to 'SingleStack' when releasing the secondary {released}");
        errors.push(policy.invalid_as(render_pointer(&policy), detail));
    }
}

fn changed_families(errors: &mut Errors, spec: &FieldValue<'_>, old: &FieldValue<'_>) {
    let (families, before) = (spec.get("ipFamilies"), old.get("ipFamilies"));
    let field =
        |value: &'static str| FieldValue { value: spec.get(value).value, path: families.path.index(0) };
    let first_changed = !families.is_empty() && !before.is_empty() && families.list()[0] != before.list()[0];
    if families.len() == before.len() {
        let changed = families.list().iter().zip(before.list()).filter(|(new, old)| new != old);
        errors.extend(changed.map(|_| field("ipFamilies").invalid(KEEPS)));
        return;
    }
    if before.len() > families.len() && spec.get("clusterIPs").is_empty() {
        errors.push(field("ipFamilies").invalid("primary ipFamily can not be unset"));
    }
    if first_changed {
        // Upstream shows the addresses here.
        errors.push(field("clusterIPs").invalid(KEEPS));
    }
    if before.len() > families.len() && families.len() == 1 {
        single_stack(errors, spec, "ipFamily");
    }
}

/// Returns the errors that prevent the allocation of addresses. Upstream validates the rest only after
/// allocation.
pub(super) fn allocation_errors(service: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let spec = FieldValue::field(service, "spec");
    if spec.text_of("type") == "ExternalName" {
        return errors;
    }
    let before = FieldValue::under(old.and_then(|old| old.get("spec")), spec.path.clone());
    cluster_ips(&mut errors, &spec, &before);
    if !errors.is_empty() {
        return errors;
    }
    let (ips, families) = (spec.get("clusterIPs"), spec.get("ipFamilies"));
    let policy = match spec.text_of("ipFamilyPolicy") {
        "" => before.text_of("ipFamilyPolicy"),
        policy => policy,
    };
    let bare = spec.text_of("clusterIP") == "None" && spec.get("selector").is_empty();
    let policy = match policy {
        "" if bare => "RequireDualStack",
        "" => "SingleStack",
        policy => policy,
    };
    let mut wrong = |detail: &str| {
        errors.push(spec.get("ipFamilyPolicy").invalid_as(BadValue::named_text(policy), detail));
    };
    let kept = |field: &'static str| spec.get(field).value == before.get(field).value;
    if policy == "SingleStack" {
        if ips.len() == 2 && !(kept("clusterIPs") && kept("clusterIP")) {
            wrong("must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified");
        }
        if families.len() == 2 && !kept("ipFamilies") {
            wrong("must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified");
        }
    } else {
        let reduced = |field: &'static str| {
            let (new, old) = (spec.get(field), before.get(field));
            new.len() == 1 && old.len() > 1 && new.list()[0] == old.list()[0]
        };
        if reduced("clusterIPs") {
            wrong("must be 'SingleStack' to release the secondary cluster IP");
        }
        if reduced("ipFamilies") {
            wrong("must be 'SingleStack' to release the secondary IP family");
        }
    }
    errors
}

fn cluster_ips(errors: &mut Errors, spec: &FieldValue<'_>, old: &FieldValue<'_>) {
    let (ip, ips, families) = (spec.text_of("clusterIP"), spec.get("clusterIPs"), spec.get("ipFamilies"));
    if ip.is_empty() {
        if !ips.is_empty() {
            errors.push(ips.invalid("must be empty when `clusterIP` is not specified"));
        }
    } else if ips.is_empty() {
        errors.push(ips.required(""));
    } else if ips.list()[0] != ip {
        errors.push(ips.invalid("first value must match `clusterIP`"));
    }
    let mut seen = HashSet::new();
    for family in families.items() {
        if !matches!(family.text(), "IPv4" | "IPv6") {
            errors.push(family.unsupported(&["IPv4", "IPv6"]));
        }
        if !seen.insert(family.text()) {
            errors.push(family.duplicate());
        }
    }
    let policy = spec.get("ipFamilyPolicy");
    let policies = &["PreferDualStack", "RequireDualStack", "SingleStack"];
    if policy.is_set() && !policies.contains(&policy.text()) {
        errors.push(policy.unsupported(policies));
    }
    let known: Vec<&str> = old.get("clusterIPs").texts().collect();
    let before = errors.len();
    for (index, ip) in ips.items().enumerate() {
        if index > 0 || ip.text() != "None" {
            legacy(errors, &ip, &known);
        } else if ips.len() > 1 {
            errors.push(ips.invalid("'None' must be the first and only value"));
        }
    }
    let invalid = errors.len() > before;
    if ips.len() > 2 {
        errors.push(ips.invalid("may only hold up to 2 values"));
    }
    if invalid {
        return;
    }
    if ips.len() > 1 {
        let six = ips.texts().filter(|ip| is_v6(ip)).count();
        if six == 0 || six == ips.len() {
            errors.push(ips.invalid("may specify no more than one IP for each IP family"));
        }
    }
    if is_headless(spec) {
        return;
    }
    for (index, (ip, family)) in ips.items().zip(families.list()).enumerate() {
        let family = family.as_str().unwrap_or_default();
        if matches!((family, is_v6(ip.text())), ("IPv4", true) | ("IPv6", false)) {
            errors.push(
                ip.invalid(format!("expected an {family} value as indicated by `ipFamilies[{index}]`")),
            );
        }
    }
}

pub(super) fn external_ips(errors: &mut Errors, spec: &FieldValue<'_>, old: &FieldValue<'_>) {
    let known: Vec<&str> = old.get("externalIPs").list().iter().filter_map(Value::as_str).collect();
    for ip in spec.get("externalIPs").items() {
        let before = errors.len();
        legacy(errors, &ip, &known);
        if errors.len() == before {
            endpoint(errors, &ip);
        }
    }
}
