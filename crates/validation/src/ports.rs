//! Ports and their protocols.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go

use atoll_meta::names;
use serde_json::Value;

use crate::field_value::{Errors, FieldValue};

pub(crate) const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

pub(crate) fn number(errors: &mut Errors, port: &FieldValue<'_>) {
    let number = port.number().unwrap_or_default();
    if !(1..=65535).contains(&number) {
        port.number_rules(errors, names::port_number(number));
    }
}

pub(crate) fn number_or_name(errors: &mut Errors, port: &FieldValue<'_>) {
    match port.value {
        Value::String(name) => port.rules(errors, names::port_name(name)),
        _ => number(errors, port),
    }
}
