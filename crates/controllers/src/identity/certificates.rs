//! CertificateSigningRequests: approves those of kubelets that are authorized, signs approved ones, deletes
//! old ones.
//!
//! ```text
//!   watch ──┬► approve ─► recognize: the kind of request ─► SubjectAccessReview ─► approval
//!           ├► sign ────► recognize: known signer, valid ─► certificate or failure
//!           └► clean ───► age: when a request is obsolete
//! ```

// upstream: pkg/controller/certificates/certificate_controller.go
// upstream: pkg/controller/certificates/certificate_controller_utils.go

mod age;
pub mod approve;
pub mod clean;
mod recognize;
pub mod sign;

use atoll_authn::request::CertificateRequest;
use atoll_informer::{ApiScope, Key, ListWatch, ListWatchEvent, Next, Queue, list_and_watch, resources};
use atoll_meta::Status;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Number of requests that are handled concurrently.
const WORKERS: usize = 8;

/// Runs `work` for every request that matches `is`, whenever it changes.
async fn work<W, F>(api: &ApiScope, what: &'static str, is: fn(&Value) -> bool, work: W)
where
    W: Fn(Key) -> F + Send,
    F: Future<Output = Result<Next, Status>> + Send + 'static,
{
    let queue = Queue::new();
    let list_watch = ListWatch::all(&resources::CERTIFICATE_SIGNING_REQUESTS);
    let following = list_and_watch(api, list_watch, |event| {
        if let ListWatchEvent::Upserted(request) = event
            && is(&request)
        {
            queue.add(Key::of(&request));
        }
    });
    let working = queue.work(what, WORKERS, |key| {
        let working = work(key);
        async move {
            match working.await {
                Err(status) if status.reason() == "NotFound" => Ok(Next::Done),
                outcome => outcome,
            }
        }
    });
    tokio::join!(following, working);
}

/// Parses the certificate request; `None` if it is invalid.
fn parse_request(request: &Value) -> Option<CertificateRequest> {
    let text = STANDARD.decode(request["spec"]["request"].as_str().unwrap_or_default()).ok()?;
    CertificateRequest::from_pem(&text).ok()
}

fn has_condition(request: &Value, kind: &str) -> bool {
    age::conditions(request).any(|condition| condition["type"] == kind)
}

/// Whether the request is neither approved nor denied.
fn is_undecided(request: &Value) -> bool {
    age::certificate(request).is_empty()
        && !has_condition(request, "Approved")
        && !has_condition(request, "Denied")
}

/// Whether the request is approved and not signed yet.
fn is_waiting(request: &Value) -> bool {
    let has_failed = age::conditions(request).any(|own| own["type"] == "Failed" && own["status"] == "True");
    age::certificate(request).is_empty()
        && has_condition(request, "Approved")
        && !has_condition(request, "Denied")
        && !has_failed
}

fn add_condition(request: &mut Value, condition: Value) {
    match request["status"]["conditions"].as_array_mut() {
        Some(conditions) => conditions.push(condition),
        None => request["status"]["conditions"] = json!([condition]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decided_requests_are_not_decided_again() {
        let request = |conditions: Value, certificate: &str| json!({"status": {"conditions": conditions, "certificate": certificate}});
        let condition = |kind: &str| json!({"type": kind, "status": "True"});
        let cases = [
            (request(json!([]), ""), true, false),
            (request(json!([condition("Approved")]), ""), false, true),
            (request(json!([condition("Denied")]), ""), false, false),
            (request(json!([condition("Approved"), condition("Denied")]), ""), false, false),
            (request(json!([condition("Approved"), condition("Failed")]), ""), false, false),
            (request(json!([condition("Approved")]), "eA=="), false, false),
        ];
        for (request, undecided, waiting) in cases {
            assert_eq!((is_undecided(&request), is_waiting(&request)), (undecided, waiting), "{request}");
        }
    }
}
