//! The kubeconfig of kcp clusters, a sealed field. Once a cluster has joined, the kubeconfig is not needed any
//! more: then the Secret only serves to detect whether another one is the same.

use atoll_meta::Status;
use atoll_registry::dialect::SealedField;
use aws_lc_rs::{constant_time, hmac};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{GROUP, KINDS};

/// Annotation of a kcp Cluster: the Secret that contains its kubeconfig. Only the server writes it.
const ANNOTATION: &str = "atoll.dev/kubeconfig-secret";
/// The key in the Secret.
pub const KUBECONFIG: &str = "kubeconfig";
const SALT: &str = "salt";
const DIGEST: &str = "digest";

/// The sealed fields of both kinds.
pub fn sealed_fields() -> Vec<SealedField> {
    KINDS.iter().map(|(plural, _)| SealedField { resource: plural, ..FIELD }).collect()
}

/// The sealed field; the kinds differ only in their plural.
pub const FIELD: SealedField = SealedField {
    group: GROUP,
    resource: KINDS[0].0,
    path: &["spec", KUBECONFIG],
    annotation: ANNOTATION,
    secret_type: "Opaque",
    secret_key: KUBECONFIG,
    secret_prefix: "kcp-",
    manager: "atoll-kcp",
    description: "a kubeconfig as YAML, with all credentials inline",
    // A wrong kubeconfig is reported in the status.
    check: |_| Ok(()),
    looks_like: |text| ["clusters", "users", "\n"].iter().any(|sign| text.contains(sign)),
    is_kept,
};

/// Whether the Secret stays in use. Applying a used kubeconfig again to a cluster that is not ready makes the
/// cluster join again.
fn is_kept(secret: &Value, kubeconfig: &str, old: Option<&Value>) -> bool {
    match compare(secret, kubeconfig) {
        KubeconfigMatch::Unused => true,
        KubeconfigMatch::Used => old.is_some_and(is_ready),
        KubeconfigMatch::Other => false,
    }
}

fn is_ready(cluster: &Value) -> bool {
    let conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// The relation of a Secret to a kubeconfig.
#[derive(Debug, PartialEq, Eq)]
enum KubeconfigMatch {
    /// The Secret contains this kubeconfig, which has not been used yet.
    Unused,
    /// The Secret contained this kubeconfig, which has been used.
    Used,
    Other,
}

fn compare(secret: &Value, kubeconfig: &str) -> KubeconfigMatch {
    let data = |name: &str| secret["data"][name].as_str().and_then(|text| STANDARD.decode(text).ok());
    let same = |held: &[u8]| constant_time::verify_slices_are_equal(held, kubeconfig.as_bytes()).is_ok();
    if data(KUBECONFIG).is_some_and(|held| same(&held)) {
        return KubeconfigMatch::Unused;
    }
    match (data(SALT), data(DIGEST)) {
        (Some(salt), Some(digest)) => {
            let key = hmac::Key::new(hmac::HMAC_SHA256, &salt);
            match hmac::verify(&key, kubeconfig.as_bytes(), &digest) {
                Ok(()) => KubeconfigMatch::Used,
                Err(_) => KubeconfigMatch::Other,
            }
        }
        _ => KubeconfigMatch::Other,
    }
}

/// Returns the data of a Secret whose kubeconfig is no longer needed, but can still be recognized.
pub fn digest(kubeconfig: &str) -> Result<Value, Status> {
    let mut salt = [0; 32];
    getrandom::fill(&mut salt)
        .map_err(|error| Status::internal_error(format!("no random numbers: {error}")))?;
    let digest = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &salt), kubeconfig.as_bytes());
    Ok(json!({ SALT: STANDARD.encode(salt), DIGEST: STANDARD.encode(digest.as_ref()) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_is_recognized_before_and_after_use() {
        let waiting = json!({ "data": { "kubeconfig": STANDARD.encode("a") } });
        let spent = json!({ "data": digest("a").unwrap() });
        assert!(!spent.to_string().contains(&STANDARD.encode("a")));
        for (secret, text, expected) in [
            (&waiting, "a", KubeconfigMatch::Unused),
            (&waiting, "b", KubeconfigMatch::Other),
            (&spent, "a", KubeconfigMatch::Used),
            (&spent, "b", KubeconfigMatch::Other),
            (&json!({}), "a", KubeconfigMatch::Other),
        ] {
            assert_eq!(compare(secret, text), expected);
        }
    }
}
