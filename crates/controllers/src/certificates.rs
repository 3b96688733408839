//! CertificateSigningRequests: those of kubelets are approved if they may ask, approved ones are signed, old ones go.
//!
//! ```text
//!   follow ─┬► approve ─► recognize: what is asked for ─► SubjectAccessReview: may they ─► approval
//!           ├► sign ────► recognize: is it ours, and well-formed ─► certificate or failure
//!           └► clean ───► age: from when on nobody needs it
//! ```

mod age;
pub mod approve;
pub mod clean;
mod recognize;
pub mod sign;

use atoll_authn::request::CertificateRequest;
use atoll_informer::{Key, Look, Next, Queue, Sight, World, follow, resources};
use atoll_meta::Status;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Requests that are worked on together.
const AT_ONCE: usize = 8;

/// Works on those requests whose turn it `is`, whenever they change.
async fn work<W, F>(world: &World, what: &'static str, is: fn(&Value) -> bool, work: W)
where
    W: Fn(Key) -> F + Send,
    F: Future<Output = Result<Next, Status>> + Send + 'static,
{
    let queue = Queue::new();
    let look = Look::everywhere(&resources::CERTIFICATE_SIGNING_REQUESTS);
    let following = follow(world, look, |sight| {
        if let Sight::There(request) = sight
            && is(&request)
        {
            queue.add(Key::of(&request));
        }
    });
    let working = queue.work(what, AT_ONCE, |key| {
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

/// What somebody asks for; `None` if it is not understood.
fn asked(request: &Value) -> Option<CertificateRequest> {
    let text = STANDARD.decode(request["spec"]["request"].as_str().unwrap_or_default()).ok()?;
    CertificateRequest::from_pem(&text).ok()
}

fn has(request: &Value, kind: &str) -> bool {
    age::conditions(request).any(|condition| condition["type"] == kind)
}

/// Whether nobody has decided yet.
fn is_undecided(request: &Value) -> bool {
    age::certificate(request).is_empty() && !has(request, "Approved") && !has(request, "Denied")
}

/// Whether it is approved and waits for its certificate.
fn is_waiting(request: &Value) -> bool {
    let has_failed = age::conditions(request).any(|own| own["type"] == "Failed" && own["status"] == "True");
    age::certificate(request).is_empty() && has(request, "Approved") && !has(request, "Denied") && !has_failed
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
    fn requests_are_decided_once_and_signed_once() {
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
