//! NetworkPolicies, IPAddresses and ServiceCIDRs.

// upstream: pkg/apis/networking/validation/validation.go

use atoll_meta::field::BadValue;
use atoll_meta::{FieldError, names, object};
use serde_json::Value;

use crate::Checks;
use crate::addresses::{legacy_range, parse_range, range};
use crate::field_value::{Errors, FieldValue, equal};
use crate::{ports, selectors};

pub(crate) static POLICIES: Checks = Checks {
    create: |policy| self::policy(policy, &ValidationOptions::default()),
    update: |new, old| policy(new, &ValidationOptions::for_update(old)),
    ..Checks::NONE
};

/// Validation that is relaxed because the old object already violates it.
#[derive(Default)]
struct ValidationOptions<'a> {
    selectors: bool,
    ranges: Vec<&'a str>,
}

impl<'a> ValidationOptions<'a> {
    fn for_update(old: &'a Value) -> ValidationOptions<'a> {
        let spec = FieldValue::field(old, "spec");
        let selector = spec.get("podSelector");
        let mut ranges = Vec::new();
        for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
            for rule in spec.get(rules).items() {
                for block in
                    rule.get(peers).items().map(|peer| peer.get("ipBlock")).filter(FieldValue::is_set)
                {
                    ranges.push(block.text_of("cidr"));
                    ranges.extend(block.get("except").texts());
                }
            }
        }
        let selectors = !object::validate_label_selector(selector.value, &selector.path).is_empty();
        ValidationOptions { selectors, ranges }
    }
}

fn policy(policy: &Value, options: &ValidationOptions<'_>) -> Errors {
    let mut errors = Errors::new();
    let spec = FieldValue::field(policy, "spec");
    selectors::check(&mut errors, &spec.get("podSelector"), options.selectors);
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.get(rules).items() {
            for port in rule.get("ports").items() {
                policy_port(&mut errors, &port);
            }
            for peer in rule.get(peers).items() {
                self::peer(&mut errors, &peer, options);
            }
        }
    }
    let kinds = spec.get("policyTypes");
    if kinds.len() > 2 {
        errors.push(kinds.invalid("may not specify more than two policyTypes"));
        return errors;
    }
    let unknown = kinds.items().filter(|kind| !matches!(kind.text(), "Ingress" | "Egress"));
    errors.extend(unknown.map(|kind| kind.unsupported(&["Ingress", "Egress"])));
    errors
}

fn policy_port(errors: &mut Errors, field: &FieldValue<'_>) {
    let (protocol, port, end) = (field.get("protocol"), field.get("port"), field.get("endPort"));
    if protocol.is_set() && !ports::PROTOCOLS.contains(&protocol.text()) {
        errors.push(protocol.unsupported(&["TCP", "UDP", "SCTP"]));
    }
    match (port.value, end.number()) {
        (Value::Null, Some(_)) => {
            errors.push(end.invalid("may not be specified when `port` is not specified"));
        }
        (Value::Null, None) => {}
        (Value::String(name), _) => {
            if end.is_set() {
                errors.push(end.invalid("may not be specified when `port` is non-numeric"));
            }
            port.rules(errors, names::port_name(name));
        }
        (_, last) => {
            ports::number(errors, &port);
            if let Some(last) = last {
                let first = port.number().unwrap_or_default();
                if last < first {
                    errors.push(end.invalid_as(first, "must be greater than or equal to `port`"));
                }
                end.number_rules(errors, names::port_number(last));
            }
        }
    }
}

fn peer(errors: &mut Errors, field: &FieldValue<'_>, options: &ValidationOptions<'_>) {
    let mut found = 0;
    for selector in
        [field.get("podSelector"), field.get("namespaceSelector")].iter().filter(|part| part.is_set())
    {
        found += 1;
        selectors::check(errors, selector, options.selectors);
    }
    let block = field.get("ipBlock");
    if block.is_set() {
        found += 1;
        ip_block(errors, &block, options);
    }
    if found == 0 {
        errors.push(field.required("must specify a peer"));
    } else if found > 1 && block.is_set() {
        errors.push(field.forbidden("may not specify both ipBlock and another peer"));
    }
}

fn ip_block(errors: &mut Errors, block: &FieldValue<'_>, options: &ValidationOptions<'_>) {
    let cidr = block.get("cidr");
    if cidr.is_empty() {
        errors.push(cidr.required(""));
        return;
    }
    legacy_range(errors, &cidr, cidr.text(), &options.ranges);
    let Some(range) = parse_range(cidr.text()) else { return };
    for except in block.get("except").items() {
        legacy_range(errors, &except, except.text(), &options.ranges);
        let Some(part) = parse_range(except.text()) else { continue };
        if !range.contains(part.network) || range.bits >= part.bits {
            errors.push(except.invalid("must be a strict subset of `cidr`"));
        }
    }
}

pub(crate) static ADDRESSES: Checks = Checks {
    create: address,
    update: |new, old| {
        let mut errors = address(new);
        let parent = FieldValue::field(new, "spec").get("parentRef");
        if !equal(parent.value, FieldValue::field(old, "spec").get("parentRef").value) {
            let [group, resource, namespace, name] = ["group", "resource", "namespace", "name"]
                .map(|part| BadValue::named_text(parent.text_of(part)));
            let rendered = match parent.is_set() {
                true => format!(
                    "{{\"Group\":{group},\"Resource\":{resource},\"Namespace\":{namespace},\"Name\":{name}}}"
                ),
                false => "null".to_owned(),
            };
            errors.push(parent.invalid_as(BadValue::Rendered(rendered), "field is immutable"));
        }
        errors
    },
    ..Checks::NONE
};

fn address(address: &Value) -> Errors {
    let mut errors = Errors::new();
    let parent = FieldValue::field(address, "spec").get("parentRef");
    if !parent.is_set() {
        errors.push(parent.required(""));
        return errors;
    }
    let group = parent.get("group");
    if !group.is_empty() {
        group.rules(&mut errors, names::dns1123_subdomain(group.text()));
    }
    for (part, needed) in [("resource", true), ("name", true), ("namespace", false)] {
        let part = parent.get(part);
        if !part.is_empty() {
            part.rules(&mut errors, names::path_segment_name(part.text()));
        } else if needed {
            errors.push(part.required(""));
        }
    }
    errors
}

pub(crate) static SERVICE_RANGES: Checks = Checks {
    create: |ranges| {
        let mut errors = Errors::new();
        service_ranges(&mut errors, &FieldValue::field(ranges, "spec").get("cidrs"));
        errors
    },
    update: |new, old| {
        let mut errors = Errors::new();
        let ranges = FieldValue::field(new, "spec").get("cidrs");
        let before = FieldValue::field(old, "spec").get("cidrs");
        let changed = |range: &FieldValue<'_>| range.invalid("field is immutable");
        if ranges.len() == before.len() {
            let pairs = ranges.items().zip(before.list());
            errors.extend(pairs.filter(|(new, old)| new.value != *old).map(|(new, _)| changed(&new)));
        } else if before.len() == 1 && ranges.len() == 2 {
            let first = ranges.items().next().filter(|first| *first.value != before.list()[0]);
            errors.extend(first.map(|first| changed(&first)));
            service_ranges(&mut errors, &ranges);
        } else {
            errors.push(changed(&ranges));
        }
        errors
    },
    ..Checks::NONE
};

fn service_ranges(errors: &mut Errors, ranges: &FieldValue<'_>) {
    if ranges.is_empty() {
        errors.push(ranges.required("at least one CIDR required"));
        return;
    }
    if ranges.len() > 2 {
        let list = atoll_meta::json::to_string(ranges.value);
        let rendered = BadValue::Rendered(format!("{{\"CIDRs\":{list}}}"));
        errors.push(FieldError::invalid(&ranges.path, rendered, "may only hold up to 2 values"));
        return;
    }
    for field in ranges.items() {
        range(errors, &field);
    }
    let families: Vec<bool> =
        ranges.texts().filter_map(parse_range).map(|range| range.network.is_ipv4()).collect();
    if let [one, other] = families[..]
        && one == other
    {
        let detail =
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.push(ranges.invalid(detail));
    }
}
