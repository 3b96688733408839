//! Clusters of kcp come with a kubeconfig. It goes into a Secret before anything is written, and the Cluster names that.
//!
//! ```text
//!   kubeconfig ─► scrubbed ─► new Secret ─► the Cluster, which names it: from here on it counts
//!                                └─ the write failed? the Secret goes again; if nobody was left to do that, whoever
//!                                   looks after Clusters of kcp finds that no Cluster names it
//! ```
//!
//! Once a cluster has joined, its kubeconfig is not needed any more: then the Secret only tells whether another one is the same.

use std::sync::{MutexGuard, PoisonError};

use atoll_admission::Options;
use atoll_fleet::marks::SYSTEM_NAMESPACE;
use atoll_meta::{Status, id, json, object};
use atoll_registry::dialect::{kcp, seal};
use atoll_registry::{DeleteOptions, Place, Row, SharedRow, Unasked};
use aws_lc_rs::{constant_time, hmac};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::gate::Gate;

/// Who makes Secrets of kubeconfigs.
const MANAGER: &str = "atoll-kcp";
const KUBECONFIG: &str = "kubeconfig";
const SALT: &str = "salt";
const DIGEST: &str = "digest";

/// The data of a Secret whose kubeconfig is no longer needed: it can still be recognized.
pub fn spent(kubeconfig: &str) -> Result<Value, Status> {
    let salt: [u8; 32] = random()?;
    let digest = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &salt), kubeconfig.as_bytes());
    Ok(json!({ SALT: STANDARD.encode(salt), DIGEST: STANDARD.encode(digest.as_ref()) }))
}

/// The Secret that a kubeconfig was put into for a request, and the one that it takes the place of.
pub struct Sealed {
    secret: String,
    replaced: Option<String>,
}

/// What a Secret says about a kubeconfig.
#[derive(Debug, PartialEq, Eq)]
enum Known {
    /// It has this one, and somebody is yet to use it.
    Waiting,
    /// It had this one, which was used.
    Spent,
    Other,
}

fn compare(secret: &Value, kubeconfig: &str) -> Known {
    let data = |name: &str| secret["data"][name].as_str().and_then(|text| STANDARD.decode(text).ok());
    let same = |held: &[u8]| constant_time::verify_slices_are_equal(held, kubeconfig.as_bytes()).is_ok();
    if data(KUBECONFIG).is_some_and(|held| same(&held)) {
        return Known::Waiting;
    }
    match (data(SALT), data(DIGEST)) {
        (Some(salt), Some(digest)) => {
            let key = hmac::Key::new(hmac::HMAC_SHA256, &salt);
            match hmac::verify(&key, kubeconfig.as_bytes(), &digest) {
                Ok(()) => Known::Spent,
                Err(_) => Known::Other,
            }
        }
        _ => Known::Other,
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

/// What can be told of an object that was refused.
pub fn told(row: &Row, object: &Value) -> String {
    if !seal::is_sealed(row) {
        return json::to_string(object);
    }
    let mut scrubbed = object.clone();
    // Of what is no text nothing is left either.
    let _ = seal::scrub(&mut scrubbed);
    json::to_string(&scrubbed)
}

/// Why a body cannot be read, without a word of what stands in it.
pub fn unquoted(row: &Row, status: Status) -> Status {
    // Which fields are unknown, or there twice, is told by their names alone.
    let is_by_name = status.message().starts_with("strict decoding error");
    if !seal::is_sealed(row) || !matches!(status.code(), 400 | 500) || is_by_name {
        return status;
    }
    let (kind, version) = (&row.kind, row.api_version());
    status.with_message(format!(
        "the body cannot be read as an object with apiVersion {version} and kind {kind}; it is not quoted, for it may be secret"
    ))
}

impl Gate<'_> {
    /// Takes the kubeconfig out of what is about to be written, if it is a Cluster of kcp, and puts it where it belongs.
    pub async fn seal(&self, new: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        if !seal::is_sealed(self.row) || !self.server.registry.speaks(self.place.workspace, kcp::NAME) {
            return Ok(());
        }
        let given = seal::scrub(new);
        let current = old.and_then(seal::secret).map(str::to_string);
        seal::point(new, current.as_deref());
        let given = given.map_err(|error| {
            Status::invalid(&self.row.group, &self.row.kind, object::name(new), vec![error])
        })?;
        let Some(kubeconfig) = given.filter(|_| self.subresource.is_empty()) else { return Ok(()) };
        let known = current.as_deref().and_then(|name| self.secret(name));
        let replaced = current.filter(|_| known.is_some());
        let is_kept = match known.map_or(Known::Other, |secret| compare(&secret, &kubeconfig)) {
            Known::Waiting => true,
            // Whoever applies it again to a cluster that is not well wants it to join anew.
            Known::Spent => old.is_some_and(is_ready),
            Known::Other => false,
        };
        if is_kept {
            // What an earlier try of this write has made is for nothing.
            if let Some(sealed) = &mut *self.sealed() {
                sealed.replaced = Some(sealed.secret.clone());
            }
            return Ok(());
        }
        if matches!(self.options, Options::Write { dry_run: true, .. }) {
            return Ok(());
        }
        let made = self.sealed().as_ref().map(|sealed| sealed.secret.clone());
        let secret = match made {
            Some(secret) => secret,
            None => self.keep(new, &kubeconfig).await?,
        };
        seal::point(new, Some(&secret));
        *self.sealed() = Some(Sealed { secret, replaced });
        Ok(())
    }

    /// Makes a Secret of a kubeconfig.
    async fn keep(&self, cluster: &Value, kubeconfig: &str) -> Result<String, Status> {
        let registry = &self.server.registry;
        let (namespaces, secrets) = (self.core("namespaces")?, self.core("secrets")?);
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": SYSTEM_NAMESPACE } });
        let place = Place { workspace: self.place.workspace, namespace: "", name: SYSTEM_NAMESPACE };
        if registry.get(&namespaces, &place).is_err() {
            match registry.create(&namespaces, &place, namespace, Some(MANAGER), false, &Unasked).await {
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
        let place = self.at(&name);
        registry.create(&secrets, &place, secret, Some(MANAGER), false, &Unasked).await?;
        Ok(name)
    }

    /// Deletes the Secret that no Cluster names after a write: the one before, or the new one if it was for nothing. Of a
    /// write that nobody knows the end of, both stay for now.
    pub async fn unseal<T>(&self, outcome: &Result<T, Status>) {
        let Some(sealed) = self.sealed().take() else { return };
        let superfluous = match outcome {
            Ok(_) => sealed.replaced,
            Err(status) if status.code() < 500 => Some(sealed.secret),
            Err(_) => None,
        };
        let Some(name) = superfluous else { return };
        let Ok(secrets) = self.core("secrets") else { return };
        let gone =
            self.server.registry.delete(&secrets, &self.at(&name), &DeleteOptions::default(), &Unasked).await;
        if let Err(status) = gone
            && status.reason() != "NotFound"
        {
            tracing::warn!(%status, "a Secret that nobody needs could not be deleted; it goes later");
        }
    }

    fn sealed(&self) -> MutexGuard<'_, Option<Sealed>> {
        self.sealed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn secret(&self, name: &str) -> Option<Value> {
        let found = self.server.registry.get(&*self.core("secrets").ok()?, &self.at(name)).ok()?;
        let secret = json::parse(&found.json()).map(|parsed| parsed.value).ok()?;
        // Whoever can name others' Secrets gets nothing from that.
        Some(secret).filter(|secret| secret["metadata"]["labels"][seal::LABEL] == kcp::NAME)
    }

    fn at<'n>(&'n self, name: &'n str) -> Place<'n> {
        Place { workspace: self.place.workspace, namespace: SYSTEM_NAMESPACE, name }
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
    fn a_kubeconfig_is_recognized_before_and_after_it_was_used() {
        let waiting = json!({ "data": { "kubeconfig": STANDARD.encode("a") } });
        let spent = json!({ "data": spent("a").unwrap() });
        assert!(!spent.to_string().contains(&STANDARD.encode("a")));
        for (secret, text, expected) in [
            (&waiting, "a", Known::Waiting),
            (&waiting, "b", Known::Other),
            (&spent, "a", Known::Spent),
            (&spent, "b", Known::Other),
            (&json!({}), "a", Known::Other),
        ] {
            assert_eq!(compare(secret, text), expected);
        }
    }
}
