//! Changes by the server itself, without the restrictions on updates by clients.

use atoll_meta::{Status, object};
use serde_json::{Value, json};

use crate::object_size::check_size;
use crate::row::{ObjectRef, Row};
use crate::update::uid_conflict;
use crate::usage::charged_bytes;
use crate::{Registry, WriteFailure, parse};

/// Preconditions of the change; empty strings are ignored.
#[derive(Clone, Copy, Default)]
pub(crate) struct Preconditions<'a> {
    pub uid: &'a str,
    pub resource_version: &'a str,
}

/// Whether a change is refused if the object, or the workspace with it, becomes too large.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limits {
    /// For changes that contain data of a client.
    Apply,
    /// For changes whose size the server determines: they are counted, but not refused.
    Count,
}

impl Registry {
    /// Changes the existing object, and retries after concurrent changes. Returns the new object.
    pub(crate) async fn modify(
        &self,
        row: &Row,
        object_ref: &ObjectRef<'_>,
        expected: Preconditions<'_>,
        limits: Limits,
        dry_run: bool,
        change: &(dyn Fn(&mut Value) -> Result<(), Status> + Sync),
    ) -> Result<Value, Status> {
        let key = row.key(object_ref);
        loop {
            let snapshot = self.snapshot();
            let existing = snapshot
                .get(&key)
                .ok_or_else(|| Status::not_found(&row.group, &row.resource, object_ref.name))?;
            let old = parse(&existing.json())?;
            if !expected.uid.is_empty() && expected.uid != object::uid(&old) {
                return Err(uid_conflict(row, object_ref, expected.uid, object::uid(&old)));
            }
            let revision = existing.revision.to_string();
            if !expected.resource_version.is_empty() && expected.resource_version != revision {
                return Err(revision_conflict(row, object_ref, expected.resource_version, &revision));
            }
            let mut new = old.clone();
            change(&mut new)?;
            if new == old {
                return Ok(new);
            }
            let value = self.encode_stored(row, &mut new);
            let mut _reserved = (None, None);
            if limits == Limits::Apply {
                check_size(&new, Some(&old))?;
                let before = snapshot.stored_revision(&key).map(|_| charged_bytes(existing.slices()));
                _reserved = self.reserve(row, object_ref, &key, before, charged_bytes([&*value.0]), None)?;
            }
            if dry_run {
                return Ok(new);
            }
            match self.write(&snapshot, &key, Some(value)).await {
                Ok(revision) => {
                    object::set_resource_version(&mut new, &revision.to_string());
                    return Ok(new);
                }
                Err(WriteFailure::Conflict) => {}
                Err(WriteFailure::Status(status)) => return Err(status),
            }
        }
    }
}

fn revision_conflict(row: &Row, object_ref: &ObjectRef<'_>, wanted: &str, actual: &str) -> Status {
    let message = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{}/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {actual}",
        row.resource, object_ref.namespace, object_ref.name
    );
    Status::conflict(&row.group, &row.resource, object_ref.name, message)
}

/// Sets a condition in `status.conditions` by its `type`. The transition time is kept if the status is
/// unchanged.
/// Sets a condition in the status of an object. Its time changes with its status.
pub fn set_condition(object: &mut Value, mut condition: Value, now: &str) {
    let conditions = &mut object["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else { return };
    condition["lastTransitionTime"] = now.into();
    match conditions.iter_mut().find(|own| own["type"] == condition["type"]) {
        None => conditions.push(condition),
        Some(own) => {
            if own["status"] == condition["status"] {
                condition["lastTransitionTime"] = own["lastTransitionTime"].take();
            }
            *own = condition;
        }
    }
}
