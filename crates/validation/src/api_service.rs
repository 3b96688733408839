//! APIServices.

// upstream: staging/src/k8s.io/kube-aggregator/pkg/apis/apiregistration/validation/validation.go

use atoll_meta::quote::quote;
use atoll_meta::{FieldError, FieldPath, names, object};
use serde_json::Value;

use crate::Checks;
use crate::field_value::{Errors, FieldValue};

pub(crate) static API_SERVICES: Checks = Checks {
    create: validate,
    update: |new, _| validate(new),
    subresource: |name, new, _| {
        let mut errors = Errors::new();
        let known = &["True", "False", "Unknown"];
        let conditions = FieldValue::field(new, "status").get("conditions");
        for status in conditions.items().map(|condition| condition.get("status")).filter(|_| name == "status")
        {
            if !known.contains(&status.text()) {
                errors.push(status.unsupported(known));
            }
        }
        errors
    },
};

/// Checks that the name consists of the version and the group.
fn check_name(errors: &mut Errors, service: &Value, version: &str, group: &str) {
    let (name, expected) = (object::name(service), format!("{version}.{group}"));
    let is_segment = names::path_segment_name(name).is_empty();
    if !name.is_empty() && is_segment && name != expected {
        let path = FieldPath::new("metadata").child("name");
        let detail = format!("must be `spec.version+\".\"+spec.group`: {}", quote(&expected));
        errors.push(FieldError::invalid(&path, name, detail));
    }
}

fn validate(service: &Value) -> Errors {
    let mut errors = Errors::new();
    let spec = FieldValue::field(service, "spec");
    let (group, version) = (spec.get("group"), spec.get("version"));
    check_name(&mut errors, service, version.text(), group.text());
    if !group.is_empty() {
        group.rules(&mut errors, names::dns1123_subdomain(group.text()));
    } else if version.text() != "v1" {
        errors.push(group.required("only v1 may have an empty group and it better be legacy kube"));
    }
    version.rules(&mut errors, names::dns1035_label(version.text()));
    for (field, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1_000)] {
        let priority = spec.get(field);
        let number = priority.number().unwrap_or_default();
        if !(1..=most).contains(&number) {
            errors.push(priority.invalid_as(number, format!("must be positive and less than {most}")));
        }
    }
    let (target, bundle, insecure) =
        (spec.get("service"), spec.get("caBundle"), spec.get("insecureSkipTLSVerify"));
    if !target.is_set() {
        if !bundle.is_empty() {
            let size = bundle.text().trim_end_matches('=').len() * 3 / 4;
            errors.push(
                bundle.invalid_as(format!("{size} bytes"), "local APIServices may not have a caBundle"),
            );
        }
        if insecure.flag() {
            errors.push(insecure.invalid("local APIServices may not have insecureSkipTLSVerify"));
        }
        return errors;
    }
    let missing =
        ["namespace", "name"].into_iter().map(|field| target.get(field)).filter(FieldValue::is_empty);
    errors.extend(missing.map(|field| field.required("")));
    let port = target.get("port");
    let number = port.number().unwrap_or_default();
    let broken = names::port_number(number);
    if !broken.is_empty() {
        errors.push(port.invalid_as(number, format!("port is not valid: {}", broken.join(", "))));
    }
    if insecure.flag() && !bundle.is_empty() {
        errors.push(insecure.invalid("may not be true if caBundle is present"));
    }
    errors
}
