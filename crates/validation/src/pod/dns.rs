//! DNS configuration and host aliases of a pod.

// upstream: pkg/apis/core/validation/validation.go

use atoll_meta::names;

use crate::addresses;
use crate::field_value::{Errors, FieldValue};

const NAME_SERVERS: usize = 3;
const SEARCHES: usize = 32;
const SEARCH_CHARACTERS: usize = 2048;

/// Checks `dnsConfig`.
pub(super) fn check(errors: &mut Errors, spec: &FieldValue<'_>) {
    let config = spec.get("dnsConfig");
    let (servers, searches) = (config.get("nameservers"), config.get("searches"));
    if spec.text_of("dnsPolicy") == "None" {
        if !config.is_set() {
            errors.push(config.required("must provide `dnsConfig` when `dnsPolicy` is None"));
            return;
        }
        if servers.is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            errors.push(servers.required(detail));
            return;
        }
    }
    if servers.len() > NAME_SERVERS {
        errors.push(servers.invalid(format!("must not have more than {NAME_SERVERS} nameservers")));
    }
    for server in servers.items() {
        addresses::legacy(errors, &server, &[]);
    }
    if searches.len() > SEARCHES {
        errors.push(searches.invalid(format!("must not have more than {SEARCHES} search paths")));
    }
    let characters: usize = searches.texts().map(|search| search.len() + 1).sum();
    if characters > SEARCH_CHARACTERS + 1 {
        errors.push(searches.invalid(format!(
            "must not have more than {SEARCH_CHARACTERS} characters (including spaces) in the search list"
        )));
    }
    for search in searches.items() {
        if search.text() != "." {
            let name = search.text().strip_suffix('.').unwrap_or(search.text());
            search.part_rules(errors, name, names::dns1123_subdomain_with_underscore(name));
        }
    }
    for option in config.get("options").items() {
        if option.text_of("name").is_empty() {
            errors.push(option.required("must not be empty"));
        }
    }
}

/// Checks `hostAliases`.
pub(super) fn host_aliases(errors: &mut Errors, spec: &FieldValue<'_>) {
    for alias in spec.get("hostAliases").items() {
        addresses::legacy(errors, &alias.get("ip"), &[]);
        for name in alias.get("hostnames").items() {
            name.rules(errors, names::dns1123_subdomain(name.text()));
        }
    }
}
