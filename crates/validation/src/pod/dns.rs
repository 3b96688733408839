//! DNS configuration and host aliases of a pod.

// upstream: pkg/apis/core/validation/validation.go

use atoll_meta::{FieldError, FieldPath, names};
use serde_json::Value;

use crate::addresses;
use crate::field_value::FieldValue;
use crate::fields::{Errors, Fields, broken_rules};

const NAME_SERVERS: usize = 3;
const SEARCHES: usize = 32;
const SEARCH_CHARACTERS: usize = 2048;

/// Checks `dnsConfig`.
pub(super) fn check(errors: &mut Errors, spec: &Value, path: &FieldPath) {
    let path = || path.child("dnsConfig");
    let config = spec.field("dnsConfig");
    if spec.text("dnsPolicy") == "None" {
        let Some(config) = config else {
            let detail = "must provide `dnsConfig` when `dnsPolicy` is None";
            errors.push(FieldError::required(&path(), detail));
            return;
        };
        if config.list("nameservers").is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            errors.push(FieldError::required(&path().child("nameservers"), detail));
            return;
        }
    }
    let Some(config) = config else { return };
    let servers = config.list("nameservers");
    if servers.len() > NAME_SERVERS {
        let detail = format!("must not have more than {NAME_SERVERS} nameservers");
        errors.push(FieldError::invalid(&path().child("nameservers"), servers.to_vec(), detail));
    }
    for (index, server) in config.texts("nameservers").enumerate() {
        address(errors, server, &[], || path().child("nameservers").index(index));
    }
    let searches = config.list("searches");
    if searches.len() > SEARCHES {
        let detail = format!("must not have more than {SEARCHES} search paths");
        errors.push(FieldError::invalid(&path().child("searches"), searches.to_vec(), detail));
    }
    let characters: usize = config.texts("searches").map(|search| search.len() + 1).sum();
    if characters > SEARCH_CHARACTERS + 1 {
        let detail = format!(
            "must not have more than {SEARCH_CHARACTERS} characters (including spaces) in the search list"
        );
        errors.push(FieldError::invalid(&path().child("searches"), searches.to_vec(), detail));
    }
    for (index, search) in config.texts("searches").enumerate() {
        if search != "." {
            let search = search.strip_suffix('.').unwrap_or(search);
            let rules = names::dns1123_subdomain_with_underscore(search);
            broken_rules(errors, || path().child("searches").index(index), search, rules);
        }
    }
    for (index, option) in config.list("options").iter().enumerate() {
        if option.text("name").is_empty() {
            errors.push(FieldError::required(&path().child("options").index(index), "must not be empty"));
        }
    }
}

/// Checks `hostAliases`.
pub(super) fn host_aliases(errors: &mut Errors, spec: &Value, path: &FieldPath) {
    for (index, alias) in spec.list("hostAliases").iter().enumerate() {
        let path = || path.child("hostAliases").index(index);
        address(errors, alias.text("ip"), &[], || path().child("ip"));
        for (index, name) in alias.texts("hostnames").enumerate() {
            let rules = names::dns1123_subdomain(name);
            broken_rules(errors, || path().child("hostnames").index(index), name, rules);
        }
    }
}

/// Checks an address. Values of the old object always pass.
pub(super) fn address(errors: &mut Errors, text: &str, old: &[&str], path: impl Fn() -> FieldPath) {
    let value = Value::from(text);
    addresses::legacy(errors, &FieldValue::under(Some(&value), path()), old);
}
