//! CertificateSigningRequests. The contents of requests and certificates are not parsed.

// upstream: pkg/apis/certificates/validation/validation.go

use std::collections::HashSet;

use atoll_meta::quote::quote;
use atoll_meta::{FieldError, names};
use serde_json::Value;

use crate::Checks;
use crate::field_value::{Errors, FieldValue};
use crate::go_json;
use crate::internal::unified;

pub(crate) static REQUESTS: Checks = Checks {
    create: |request| validate(request, &ValidationOptions::default()),
    update: |new, old| check_update(new, old, ""),
    subresource: |name, new, old| check_update(new, old, name),
};

const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
const MAX_DOMAIN_LENGTH: usize = 253;
const MAX_SIGNER_LENGTH: usize = MAX_DOMAIN_LENGTH + (253 + 63 + 1) + 1;
const FINAL: [&str; 3] = ["Approved", "Denied", "Failed"];

/// Validation that is relaxed because the old object already violates it.
#[derive(Default)]
struct ValidationOptions {
    both_verdicts: bool,
    legacy_signer: bool,
    repeated_conditions: bool,
    nameless_conditions: bool,
    any_certificate: bool,
    unknown_usages: bool,
    repeated_usages: bool,
}

fn repeats<'a>(mut texts: impl Iterator<Item = &'a str>) -> bool {
    let mut seen = HashSet::new();
    !texts.all(|text| seen.insert(text))
}

fn kinds(request: &Value) -> Vec<&str> {
    let conditions = FieldValue::field(request, "status").get("conditions");
    conditions.items().map(|one| one.text_of("type")).collect()
}

impl ValidationOptions {
    fn for_update(new: &Value, old: &Value) -> ValidationOptions {
        let (spec, status) = (FieldValue::field(old, "spec"), FieldValue::field(old, "status"));
        let (kinds, usages) = (kinds(old), spec.get("usages"));
        let same = FieldValue::field(new, "status").text_of("certificate") == status.text_of("certificate");
        ValidationOptions {
            both_verdicts: kinds.contains(&"Approved") && kinds.contains(&"Denied"),
            legacy_signer: spec.text_of("signerName") == LEGACY_SIGNER,
            repeated_conditions: repeats(kinds.iter().copied()),
            nameless_conditions: kinds.contains(&""),
            any_certificate: same,
            unknown_usages: usages.texts().any(|usage| !USAGES.contains(&usage)),
            repeated_usages: repeats(usages.texts()),
        }
    }
}

fn validate(request: &Value, options: &ValidationOptions) -> Errors {
    let mut errors = Errors::new();
    let spec = FieldValue::field(request, "spec");
    let (body, usages, signer) = (spec.get("request"), spec.get("usages"), spec.get("signerName"));
    if !is_pem(body.text(), "CERTIFICATE REQUEST") {
        errors.push(body.invalid("PEM block type must be CERTIFICATE REQUEST"));
    }
    if usages.is_empty() {
        errors.push(usages.required(""));
    }
    if !options.unknown_usages {
        let unknown = usages.items().filter(|usage| !USAGES.contains(&usage.text()));
        errors.extend(unknown.map(|usage| usage.unsupported(USAGES)));
    }
    if !options.repeated_usages {
        let mut seen = HashSet::new();
        let repeated = usages.items().filter(|usage| !seen.insert(usage.text()));
        errors.extend(repeated.map(|usage| usage.duplicate()));
    }
    if signer.text() == LEGACY_SIGNER && !options.legacy_signer {
        errors.push(signer.invalid("the legacy signerName is not allowed via this API version"));
    } else {
        signer_name(&mut errors, &signer);
    }
    let expiration = spec.get("expirationSeconds");
    if expiration.number().is_some_and(|seconds| seconds < 600) {
        errors.push(expiration.invalid("may not specify a duration less than 600 seconds (10 minutes)"));
    }
    let status = FieldValue::field(request, "status");
    conditions(&mut errors, &status.get("conditions"), options);
    let certificate = status.get("certificate");
    if !options.any_certificate && !certificate.is_empty() && !is_pem(certificate.text(), "CERTIFICATE") {
        let detail = "must contain at least one CERTIFICATE PEM block";
        errors.push(certificate.invalid_as("<certificate data>", detail));
    }
    errors
}

/// Decodes a field of bytes. It was normalised, so it is base64.
pub(crate) fn from_base64(encoded: &str) -> Vec<u8> {
    atoll_meta::base64::decode(encoded).unwrap_or_default()
}

/// Whether a base64 string contains a PEM block of this type.
fn is_pem(encoded: &str, kind: &str) -> bool {
    let text = from_base64(encoded);
    let text = String::from_utf8_lossy(&text);
    let begin = format!("-----BEGIN {kind}-----");
    let start = text.find("-----BEGIN ").filter(|start| *start == 0 || text[..*start].ends_with('\n'));
    start.is_some_and(|start| {
        text[start..].starts_with(&begin) && text[start..].contains(&format!("-----END {kind}-----"))
    })
}

fn signer_name(errors: &mut Errors, field: &FieldValue<'_>) {
    let name = field.text();
    if name.is_empty() {
        errors.push(field.required(""));
        return;
    }
    let (Some((domain, path)), 1) = (name.split_once('/'), name.matches('/').count()) else {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.push(field.invalid(detail));
        return;
    };
    if domain.len() > MAX_DOMAIN_LENGTH {
        errors.push(FieldError::too_long(&field.path, MAX_DOMAIN_LENGTH));
    }
    labels(errors, field, domain, names::dns1123_label);
    if !domain.contains('.') {
        errors.push(
            field.invalid_as(domain, "should be a domain with at least two segments separated by dots"),
        );
    }
    labels(errors, field, path, names::dns1123_subdomain);
    if name.len() > MAX_SIGNER_LENGTH {
        errors.push(FieldError::too_long(&field.path, MAX_SIGNER_LENGTH));
    }
}

/// Reports the first label that breaks the rule.
fn labels(errors: &mut Errors, field: &FieldValue<'_>, part: &str, rule: fn(&str) -> Vec<String>) {
    let mut labels = part.split('.').map(|label| (label, rule(label)));
    if let Some((label, broken)) = labels.find(|(_, broken)| !broken.is_empty()) {
        let details = broken.into_iter().map(|rule| format!("validating label {}: {rule}", quote(label)));
        errors.extend(details.map(|detail| field.invalid_as(part, detail)));
    }
}

fn conditions(errors: &mut Errors, conditions: &FieldValue<'_>, options: &ValidationOptions) {
    let mut seen = HashSet::new();
    for condition in conditions.items() {
        let (kind, status) = (condition.get("type"), condition.get("status"));
        if kind.is_empty() && !options.nameless_conditions {
            errors.push(kind.required(""));
        }
        let known: &[&str] =
            if FINAL.contains(&kind.text()) { &["True"] } else { &["False", "True", "Unknown"] };
        status.one_of(errors, known);
        let opposite = match kind.text() {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if !options.both_verdicts && !opposite.is_empty() && seen.contains(opposite) {
            let detail = "Approved and Denied conditions are mutually exclusive";
            errors.push(conditions.invalid_as(kind.named(), detail));
        }
        if !seen.insert(kind.text()) && !options.repeated_conditions {
            errors.push(FieldError::duplicate(&kind.path, kind.named()));
        }
    }
}

fn check_update(new: &Value, old: &Value, subresource: &str) -> Errors {
    let mut errors = validate(new, &ValidationOptions::for_update(new, old));
    let status = FieldValue::field(new, "status");
    let conditions = status.get("conditions");
    let of = |request: &Value, kind: &str| -> Vec<Value> {
        let conditions = FieldValue::field(request, "status").get("conditions");
        conditions
            .list()
            .iter()
            .filter(|one| one.get("type").is_some_and(|name| name == kind))
            .cloned()
            .collect()
    };
    for kind in FINAL {
        if of(new, kind).len() < of(old, kind).len() {
            errors.push(
                conditions.forbidden(format!("updates may not remove a condition of type {}", quote(kind))),
            );
        }
    }
    for kind in ["Approved", "Denied"].into_iter().filter(|_| subresource != "approval") {
        let (now, before) = (of(new, kind), of(old, kind));
        if now.len() > before.len() {
            errors.push(
                conditions.forbidden(format!("updates may not add a condition of type {}", quote(kind))),
            );
        } else if now.len() == before.len() && now != before {
            let lines = |conditions: &[Value]| {
                let key = "certificates/v1.CertificateSigningRequestCondition";
                let all: Vec<String> = conditions.iter().map(|one| go_json::text(key, one)).collect();
                go_json::lines(&format!("[{}]", all.join(",")))
            };
            let difference = unified::difference(&lines(&before), &lines(&now));
            let detail = format!("updates may not modify a condition of type {}\n{difference}", quote(kind));
            errors.push(conditions.forbidden(detail));
        }
    }
    let (certificate, before) =
        (status.get("certificate"), FieldValue::field(old, "status").get("certificate"));
    if certificate.text() != before.text() {
        if subresource != "status" {
            errors.push(certificate.forbidden("updates may not set certificate content"));
        } else if !before.is_empty() {
            errors.push(certificate.forbidden("updates may not modify existing certificate content"));
        }
    }
    errors
}
