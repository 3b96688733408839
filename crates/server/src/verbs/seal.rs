//! The kubeconfig of kcp Clusters. It is moved to a Secret before the Cluster is written, and the Cluster
//! refers to that.
//!
//! ```text
//!   kubeconfig ─► removed from the object ─► new Secret ─► the Cluster is written with a reference to it
//!                                └─ if the write fails, the Secret is deleted; after a crash, the
//!                                   controller of kcp Clusters deletes Secrets without a Cluster
//! ```
//!
//! Once a cluster has joined, its kubeconfig is not needed any more: then the Secret only serves to detect
//! whether another one is the same.

use std::sync::{MutexGuard, PoisonError};

use atoll_admission::AdmissionOptions;
use atoll_fleet::marks::SYSTEM_NAMESPACE;
use atoll_meta::{Status, id, json, object};
use atoll_registry::dialect::{kcp, seal};
use atoll_registry::{DeleteOptions, NoAdmission, ObjectRef, Row, SharedRow};
use aws_lc_rs::{constant_time, hmac};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::admission::RequestAdmission;

/// The field manager of Secrets with kubeconfigs.
const MANAGER: &str = "atoll-kcp";
const KUBECONFIG: &str = "kubeconfig";
const SALT: &str = "salt";
const DIGEST: &str = "digest";

/// Returns the data of a Secret whose kubeconfig is no longer needed, but can still be recognized.
pub fn kubeconfig_digest(kubeconfig: &str) -> Result<Value, Status> {
    let salt: [u8; 32] = random()?;
    let digest = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &salt), kubeconfig.as_bytes());
    Ok(json!({ SALT: STANDARD.encode(salt), DIGEST: STANDARD.encode(digest.as_ref()) }))
}

/// The Secret to which a kubeconfig was moved for a request, and the one that it replaces.
pub struct Sealed {
    secret: String,
    replaced: Option<String>,
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

fn is_ready(cluster: &Value) -> bool {
    let conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn random<const N: usize>() -> Result<[u8; N], Status> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Status::internal_error(format!("no random numbers: {error}")))?;
    Ok(bytes)
}

/// Returns an object for an error message, without sealed fields.
pub fn scrubbed_json(row: &Row, object: &Value) -> String {
    if !seal::is_sealed(row) {
        return json::to_string(object);
    }
    let mut scrubbed = object.clone();
    // Values that are not text are removed as well.
    let _ = seal::scrub(&mut scrubbed);
    json::to_string(&scrubbed)
}

/// Replaces a decoding error that may quote the body.
pub fn without_quoted_body(row: &Row, status: Status) -> Status {
    // Errors about unknown or duplicate fields contain only their names.
    let is_by_name = status.message().starts_with("strict decoding error");
    if !seal::is_sealed(row) || !matches!(status.code(), 400 | 500) || is_by_name {
        return status;
    }
    let (kind, version) = (&row.kind, row.api_version());
    status.with_message(format!(
        "the body cannot be decoded as an object with apiVersion {version} and kind {kind}; it is not quoted because it may be secret"
    ))
}

impl RequestAdmission<'_> {
    /// Moves the kubeconfig of a kcp Cluster to a Secret before the Cluster is written.
    pub async fn seal(&self, new: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        if !seal::is_sealed(self.row)
            || !self.server.registry.dialect_enabled(self.object_ref.workspace, kcp::NAME)
        {
            return Ok(());
        }
        let given = seal::scrub(new);
        let current = old.and_then(seal::secret_name).map(str::to_string);
        seal::set_secret_name(new, current.as_deref());
        let given = given.map_err(|error| {
            Status::invalid(&self.row.group, &self.row.kind, object::name(new), vec![error])
        })?;
        let Some(kubeconfig) = given.filter(|_| self.subresource.is_empty()) else { return Ok(()) };
        let known = current.as_deref().and_then(|name| self.secret(name));
        let replaced = current.filter(|_| known.is_some());
        let is_kept = match known.map_or(KubeconfigMatch::Other, |secret| compare(&secret, &kubeconfig)) {
            KubeconfigMatch::Unused => true,
            // Applying it again to a cluster that is not ready makes the cluster join again.
            KubeconfigMatch::Used => old.is_some_and(is_ready),
            KubeconfigMatch::Other => false,
        };
        if is_kept {
            // A Secret of an earlier try of this write is not needed.
            if let Some(sealed) = &mut *self.sealed() {
                sealed.replaced = Some(sealed.secret.clone());
            }
            return Ok(());
        }
        if matches!(self.options, AdmissionOptions::Write { dry_run: true, .. }) {
            return Ok(());
        }
        let made = self.sealed().as_ref().map(|sealed| sealed.secret.clone());
        let secret = match made {
            Some(secret) => secret,
            None => self.create_secret(new, &kubeconfig).await?,
        };
        seal::set_secret_name(new, Some(&secret));
        *self.sealed() = Some(Sealed { secret, replaced });
        Ok(())
    }

    /// Creates a Secret with a kubeconfig.
    async fn create_secret(&self, cluster: &Value, kubeconfig: &str) -> Result<String, Status> {
        let registry = &self.server.registry;
        let (namespaces, secrets) = (self.core("namespaces")?, self.core("secrets")?);
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": SYSTEM_NAMESPACE } });
        let object_ref =
            ObjectRef { workspace: self.object_ref.workspace, namespace: "", name: SYSTEM_NAMESPACE };
        if registry.get(&namespaces, &object_ref).is_err() {
            match registry
                .create(&namespaces, &object_ref, namespace, Some(MANAGER), false, &NoAdmission)
                .await
            {
                Err(status) if status.reason() != "AlreadyExists" => return Err(status),
                _ => {}
            }
        }
        let base = match object::name(cluster) {
            "" => object::generate_name(cluster).trim_end_matches('-'),
            name => name,
        };
        let name = id::generated_name(&format!("kcp-{base}-"), random()?);
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": { "name": name, "namespace": SYSTEM_NAMESPACE, "labels": { seal::LABEL: kcp::NAME } },
            "data": { KUBECONFIG: STANDARD.encode(kubeconfig) },
        });
        let object_ref = self.secret_ref(&name);
        registry.create(&secrets, &object_ref, secret, Some(MANAGER), false, &NoAdmission).await?;
        Ok(name)
    }

    /// Deletes the Secret that is no longer needed after a write: the previous one, or the new one if the
    /// write failed. If the outcome is unknown, both are kept for now.
    pub async fn delete_unused_secret<T>(&self, outcome: &Result<T, Status>) {
        let Some(sealed) = self.sealed().take() else { return };
        let unused = match outcome {
            Ok(_) => sealed.replaced,
            Err(status) if status.code() < 500 => Some(sealed.secret),
            Err(_) => None,
        };
        let Some(name) = unused else { return };
        let Ok(secrets) = self.core("secrets") else { return };
        let gone = self
            .server
            .registry
            .delete(&secrets, &self.secret_ref(&name), &DeleteOptions::default(), &NoAdmission)
            .await;
        if let Err(status) = gone
            && status.reason() != "NotFound"
        {
            tracing::warn!(%status, "cannot delete an unused Secret of a kubeconfig; it is deleted later");
        }
    }

    fn sealed(&self) -> MutexGuard<'_, Option<Sealed>> {
        self.sealed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn secret(&self, name: &str) -> Option<Value> {
        let found = self.server.registry.get(&*self.core("secrets").ok()?, &self.secret_ref(name)).ok()?;
        let secret = json::parse(&found.json()).map(|parsed| parsed.value).ok()?;
        // Only Secrets that were created here are read, because clients can write the reference.
        Some(secret).filter(|secret| secret["metadata"]["labels"][seal::LABEL] == kcp::NAME)
    }

    fn secret_ref<'n>(&'n self, name: &'n str) -> ObjectRef<'n> {
        ObjectRef { workspace: self.object_ref.workspace, namespace: SYSTEM_NAMESPACE, name }
    }

    fn core(&self, resource: &str) -> Result<SharedRow, Status> {
        let row = self.server.registry.catalog.find("", "v1", resource);
        row.cloned().ok_or_else(Status::not_found_generic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_is_recognized_before_and_after_use() {
        let waiting = json!({ "data": { "kubeconfig": STANDARD.encode("a") } });
        let spent = json!({ "data": kubeconfig_digest("a").unwrap() });
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
