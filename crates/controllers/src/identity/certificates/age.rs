//! Decides when a certificate signing request is obsolete.

// upstream: pkg/controller/certificates/cleaner/cleaner.go

use atoll_authn::certificate;
use atoll_meta::{object, time};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

pub fn conditions(request: &Value) -> impl Iterator<Item = &Value> {
    request["status"]["conditions"].as_array().into_iter().flatten()
}

/// Returns the issued certificate, base64 encoded.
pub fn certificate(request: &Value) -> &str {
    request["status"]["certificate"].as_str().unwrap_or_default()
}

/// Whether the request was decided or failed an hour ago, is undecided or unsigned for a day, or its
/// certificate has expired.
pub fn is_obsolete(request: &Value, now: i64) -> bool {
    let is_older = |text: Option<&str>, age: i64| {
        let since = text.and_then(|text| time::parse(text).ok()).filter(|since| !since.is_zero());
        since.is_some_and(|since| now - since.seconds > age)
    };
    let is_issued = !certificate(request).is_empty();
    let mut undecided = true;
    for condition in conditions(request) {
        undecided = false;
        let since = condition["lastUpdateTime"].as_str();
        let past = match condition["type"].as_str().unwrap_or_default() {
            "Approved" if is_issued => is_older(since, HOUR) || has_expired(request, now),
            "Approved" => is_older(since, DAY),
            "Denied" | "Failed" => is_older(since, HOUR),
            _ => false,
        };
        if past {
            return true;
        }
    }
    undecided && is_older(object::creation_timestamp(request), DAY)
}

fn has_expired(request: &Value, now: i64) -> bool {
    let pem = STANDARD.decode(certificate(request)).unwrap_or_default();
    certificate::expiry(&pem).is_some_and(|expires| now > expires)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_state_has_its_expiry() {
        let request = |conditions: &[(&str, i64)], certificate: &str| {
            let conditions: Vec<Value> = conditions
                .iter()
                .map(|(kind, since)| json!({ "type": kind, "lastUpdateTime": time::format(*since) }))
                .collect();
            json!({
                "metadata": { "creationTimestamp": time::format(0) },
                "status": { "conditions": conditions, "certificate": certificate },
            })
        };
        let cases = [
            (request(&[], ""), DAY),
            (request(&[("Approved", 5)], ""), DAY + 5),
            (request(&[("Approved", 5)], "eA=="), HOUR + 5),
            (request(&[("Denied", 5)], ""), HOUR + 5),
            (request(&[("Approved", 5), ("Failed", 9)], ""), HOUR + 9),
        ];
        for (request, last) in cases {
            assert!(!is_obsolete(&request, last), "{request}");
            assert!(is_obsolete(&request, last + 1), "{request}");
        }
        assert!(!is_obsolete(&request(&[("Other", 5)], ""), 10 * DAY));
    }
}
