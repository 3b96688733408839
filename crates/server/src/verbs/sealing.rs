//! Sealed fields of dialects: a value is moved to a Secret before its object is written, and the object refers
//! to that.
//!
//! ```text
//!   value ─► removed from the object ─► new Secret ─► the object is written with a reference to it
//!                           └─ if the write fails, the Secret is deleted; after a crash, the dialect's
//!                              controller deletes Secrets without an object
//! ```

use std::sync::{MutexGuard, PoisonError};

use atoll_admission::AdmissionOptions;
use atoll_fleet::marks::SYSTEM_NAMESPACE;
use atoll_meta::{Status, id, json, object};
use atoll_registry::dialect::SealedField;
use atoll_registry::dialect::sealing::LABEL;
use atoll_registry::{DeleteOptions, LimitsOnly, NoAdmission, ObjectRef, Row, SharedRow};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::admission::RequestAdmission;

/// The Secret to which a value was moved for a request, and the one that it replaces.
pub struct Sealed {
    /// The annotation of the field.
    annotation: &'static str,
    secret: String,
    replaced: Option<String>,
}

fn random<const N: usize>() -> Result<[u8; N], Status> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Status::internal_error(format!("no random numbers: {error}")))?;
    Ok(bytes)
}

fn sealed_fields(row: &Row) -> &[SealedField] {
    row.custom.as_ref().map_or(&[], |custom| &custom.dialect.sealed)
}

/// Returns an object for an error message, without sealed fields.
pub fn quotable_json(row: &Row, object: &Value) -> String {
    let fields = sealed_fields(row);
    if fields.is_empty() {
        return json::to_string(object);
    }
    let mut scrubbed = object.clone();
    for field in fields {
        // Values that are not text are removed as well.
        let _ = field.take(&mut scrubbed);
    }
    json::to_string(&scrubbed)
}

/// Replaces a decoding error that may quote a sealed field.
pub fn quotable_error(row: &Row, status: Status) -> Status {
    // Errors about unknown or duplicate fields contain only their names.
    let is_by_name = status.message().starts_with("strict decoding error");
    if sealed_fields(row).is_empty() || !matches!(status.code(), 400 | 500) || is_by_name {
        return status;
    }
    let (kind, version) = (&row.kind, row.api_version());
    status.with_message(format!(
        "the body cannot be decoded as an object with apiVersion {version} and kind {kind}; it is not quoted because it may be secret"
    ))
}

impl RequestAdmission<'_> {
    /// Moves the sealed fields of an object to Secrets before the object is written.
    pub(super) async fn move_sealed_fields(
        &self,
        new: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        for field in sealed_fields(self.row) {
            self.move_sealed_field(field, new, old).await?;
        }
        Ok(())
    }

    async fn move_sealed_field(
        &self,
        field: &SealedField,
        new: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let given = field.take(new);
        let current = old.and_then(|old| field.secret_name(old)).map(str::to_string);
        field.set_secret_name(new, current.as_deref());
        let given = given.map_err(|error| {
            Status::invalid(&self.row.group, &self.row.kind, object::name(new), vec![error])
        })?;
        let Some(value) = given.filter(|_| self.subresource.is_empty()) else { return Ok(()) };
        let known = current.as_deref().and_then(|name| self.secret(name));
        let replaced = current.filter(|_| known.is_some());
        if known.is_some_and(|secret| (field.is_kept)(&secret, &value, old)) {
            // A Secret of an earlier try of this write is not needed.
            for sealed in self.sealed().iter_mut().filter(|sealed| sealed.annotation == field.annotation) {
                sealed.replaced = Some(sealed.secret.clone());
            }
            return Ok(());
        }
        if matches!(self.options, AdmissionOptions::Write { dry_run: true, .. }) {
            return Ok(());
        }
        let made = self
            .sealed()
            .iter()
            .find(|sealed| sealed.annotation == field.annotation)
            .map(|sealed| sealed.secret.clone());
        let secret = match made {
            Some(secret) => secret,
            None => self.create_secret(field, new, &value).await?,
        };
        field.set_secret_name(new, Some(&secret));
        let mut sealed = self.sealed();
        sealed.retain(|sealed| sealed.annotation != field.annotation);
        sealed.push(Sealed { annotation: field.annotation, secret, replaced });
        Ok(())
    }

    fn dialect(&self) -> &'static str {
        self.row.custom.as_ref().map_or("", |custom| custom.dialect.dialect)
    }

    /// Creates a Secret with a value.
    async fn create_secret(&self, field: &SealedField, owner: &Value, value: &str) -> Result<String, Status> {
        let registry = &self.server.registry;
        let (namespaces, secrets) = (self.core("namespaces")?, self.core("secrets")?);
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": SYSTEM_NAMESPACE } });
        let object_ref =
            ObjectRef { workspace: self.object_ref.workspace, namespace: "", name: SYSTEM_NAMESPACE };
        let manager = Some(field.manager);
        if registry.get(&namespaces, &object_ref).is_err() {
            match registry.create(&namespaces, &object_ref, namespace, manager, false, &NoAdmission).await {
                Err(status) if status.reason() != "AlreadyExists" => return Err(status),
                _ => {}
            }
        }
        let base = match object::name(owner) {
            "" => object::generate_name(owner).trim_end_matches('-'),
            name => name,
        };
        let name = id::generated_name(&format!("{}{base}-", field.secret_prefix), random()?);
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": field.secret_type,
            "metadata": { "name": name, "namespace": SYSTEM_NAMESPACE, "labels": { LABEL: self.dialect() } },
            "data": { field.secret_key: STANDARD.encode(value) },
        });
        let object_ref = self.secret_ref(&name);
        registry.create(&secrets, &object_ref, secret, manager, false, &LimitsOnly).await?;
        Ok(name)
    }

    /// Deletes the Secrets that are no longer needed after a write: the previous ones, or the new ones if the
    /// write failed. If the outcome is unknown, both are kept for now.
    pub async fn delete_unused<T>(&self, outcome: &Result<T, Status>) {
        let made = std::mem::take(&mut *self.sealed());
        for sealed in made {
            let unused = match outcome {
                Ok(_) => sealed.replaced,
                Err(status) if status.code() < 500 => Some(sealed.secret),
                Err(_) => None,
            };
            if let Some(name) = unused {
                self.delete_secret(&name).await;
            }
        }
    }

    async fn delete_secret(&self, name: &str) {
        let Ok(secrets) = self.core("secrets") else { return };
        let registry = &self.server.registry;
        let gone =
            registry.delete(&secrets, &self.secret_ref(name), &DeleteOptions::default(), &NoAdmission).await;
        if let Err(status) = gone
            && status.reason() != "NotFound"
        {
            tracing::warn!(%status, secret = name, "cannot delete the unused Secret of a sealed field; the dialect's controller deletes it later");
        }
    }

    fn sealed(&self) -> MutexGuard<'_, Vec<Sealed>> {
        self.sealed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn secret(&self, name: &str) -> Option<Value> {
        let found = self.server.registry.get(&*self.core("secrets").ok()?, &self.secret_ref(name)).ok()?;
        let secret = json::parse(&found.json()).map(|parsed| parsed.value).ok()?;
        // Only Secrets that were created here are read, because clients can write the reference.
        Some(secret).filter(|secret| secret["metadata"]["labels"][LABEL] == self.dialect())
    }

    fn secret_ref<'n>(&'n self, name: &'n str) -> ObjectRef<'n> {
        ObjectRef { workspace: self.object_ref.workspace, namespace: SYSTEM_NAMESPACE, name }
    }

    fn core(&self, resource: &str) -> Result<SharedRow, Status> {
        let row = self.server.registry.catalog.find("", "v1", resource);
        row.cloned().ok_or_else(Status::not_found_generic)
    }
}
