//! Update: computes the new object from the existing one, and retries after concurrent changes.

// upstream: staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go
// upstream: staging/src/k8s.io/apiserver/pkg/registry/rest/update.go

use std::sync::Arc;

use atoll_merge::apply::Author;
use atoll_meta::json::splice_resource_version;
use atoll_meta::quote::quote;
use atoll_meta::{FieldError, FieldPath, Status, object};
use atoll_store::Key;
use atoll_watch::{ORIGIN, Object, Snapshot};
use serde_json::Value;

use crate::allocation::Allocation;
use crate::blocking::{Stage, run_in_place, size_of};
use crate::object_size::{check_memory, check_size};
use crate::row::{ObjectRef, Row};
use crate::strategy::{Context, Part, raise_generation};
use crate::usage::{charged_bytes, has_limits};
use crate::{
    Admission, Registry, RenderedObject, WriteFailure, WriteOutcome, parse, placement, reset_fields,
};

const STALE: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// Computes the new object from the existing one, `None` if there is none.
pub type Transform<'a> = dyn Fn(Option<&Value>) -> Result<Value, Status> + Sync + 'a;

/// The parameters of an update.
pub struct Update<'a, A> {
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// The field manager; `None` if `transform` updates the managed fields.
    pub manager: Option<&'a str>,
    /// Number of bytes of the request's body from which `transform` computes the object.
    pub size: usize,
    /// Called for each attempt.
    pub transform: &'a Transform<'a>,
    /// Called for each attempt.
    pub admission: &'a A,
    /// The uid precondition of the request, if there is one.
    pub uid: Option<&'a str>,
    /// Whether to create a missing object even where a PUT would not.
    pub create_missing: bool,
    pub dry_run: bool,
}

/// The result of one attempt.
enum UpdateStep {
    Unchanged,
    /// The new object and its approximate size.
    Put(Value, usize),
    Delete(Value),
}

impl Registry {
    /// Returns the updated object, and whether it was created.
    pub async fn update<A: Admission>(
        &self,
        row: &Row,
        object_ref: &ObjectRef<'_>,
        update: &Update<'_, A>,
    ) -> Result<(RenderedObject, bool), Status> {
        let key = row.key(object_ref);
        loop {
            let snapshot = self.snapshot();
            let Some(existing) = snapshot.get(&key) else {
                match self.create_missing(row, object_ref, update).await {
                    // Another writer has created it concurrently.
                    Err(status)
                        if status.reason() == "AlreadyExists" && self.snapshot().get(&key).is_some() => {}
                    outcome => return outcome,
                }
                continue;
            };
            let size = update.size.max(existing.size());
            let prepare = || self.prepare_update(row, object_ref, update, &existing);
            let PreparedUpdate { old, view, mut new } =
                self.run_sized(object_ref.workspace, size, Stage::Started, prepare).await??;
            let existing_view = view.as_ref().unwrap_or(&*old);
            update.admission.mutate(&mut new, Some(existing_view)).await?;
            check_revision(row, object_ref, &new, &existing)?;
            if let Some(check) = row.strategy.effects.check {
                check(self, row, object_ref, &new, Some(&old))?;
            }
            row.to_stored(&mut new);
            let taken = match row.strategy.effects.allocate {
                Some(allocate) if update.subresource.is_empty() => {
                    allocate(self, *object_ref, &mut new, Some(&old), update.dry_run).await?
                }
                _ => Allocation::default(),
            };
            let existing = Existing {
                workspace: object_ref.workspace,
                key: &key,
                old: &old,
                object: &existing,
                snapshot: &snapshot,
            };
            match self.attempt(row, update, &existing, new).await {
                Ok(Some(answer)) => {
                    self.commit_allocation(taken).await;
                    if let Some(after_write) = row.strategy.effects.after_write
                        && !update.dry_run
                    {
                        after_write(self, *object_ref).await;
                    }
                    return Ok((RenderedObject { json: row.served_json(answer.json) }, false));
                }
                Ok(None) => self.undo_allocation(taken).await,
                Err(status) => {
                    self.undo_allocation(taken).await;
                    return Err(status);
                }
            }
        }
    }

    /// Computes the new object from the existing one, with defaults and managed fields.
    fn prepare_update<A: Admission>(
        &self,
        row: &Row,
        object_ref: &ObjectRef<'_>,
        update: &Update<'_, A>,
        existing: &Arc<Object>,
    ) -> Result<PreparedUpdate, Status> {
        let old = match row.custom {
            Some(_) => Arc::new(parse(&row.to_served(existing.clone()).json())?),
            None => match self.placements.parsed.get(existing) {
                Some(parsed) => parsed,
                None => Arc::new(parse(&existing.json())?),
            },
        };
        check_uid(row, object_ref, update.uid, &old)?;
        let view = row.view.is_some().then(|| {
            let mut view = (*old).clone();
            row.to_view(&mut view);
            view
        });
        let existing_view = view.as_ref().unwrap_or(&old);
        let mut new = (update.transform)(Some(existing_view))?;
        if object::annotation(&new, ORIGIN).is_some() {
            update.admission.annotation_ignored(ORIGIN);
        }
        object::remove_annotation(&mut new, ORIGIN);
        if update.subresource != placement::SUBRESOURCE && placement::keep(&mut new, Some(existing_view)) {
            update.admission.placement_ignored(&new);
        }
        if !is_stored_form(row, update.subresource) {
            row.fill_defaults(&mut new)?;
        }
        check_size(&new, Some(existing_view))?;
        if let Some(manager) = update.manager {
            let (time, resets) = (self.now(), reset_fields::of(row, update.subresource));
            let author = Author { manager, subresource: update.subresource, time: &time, resets };
            self.record(row, existing_view, &mut new, &author);
        }
        if !is_stored_form(row, update.subresource) {
            check_memory(&new, Some(existing_view))?;
        }
        Ok(PreparedUpdate { old, view, new })
    }

    /// Attempts one write; `None` if another writer was faster.
    async fn attempt<A: Admission>(
        &self,
        row: &Row,
        update: &Update<'_, A>,
        existing: &Existing<'_>,
        new: Value,
    ) -> Result<Option<RenderedObject>, Status> {
        if update.subresource.is_empty() {
            self.check_template(row, existing.workspace, &new, existing.old)?;
        }
        let step = self.step(row, update, existing, new).await?;
        let limited = update.admission.is_limited();
        let (outcome, written) =
            self.execute(row, update.subresource, existing, step, limited, update.dry_run).await;
        update.admission.write_finished(written).await;
        outcome
    }

    /// Executes the result of one attempt.
    async fn execute(
        &self,
        row: &Row,
        subresource: &str,
        existing: &Existing<'_>,
        step: UpdateStep,
        limited: bool,
        dry_run: bool,
    ) -> (Result<Option<RenderedObject>, Status>, WriteOutcome) {
        let revision = existing.object.revision;
        let render = |encoded: &[u8], revision| RenderedObject {
            json: splice_resource_version(encoded, revision).into(),
        };
        let unwritten = |answer| (Ok(Some(answer)), WriteOutcome::NotWritten);
        let mut _reserved = (None, None);
        let (value, answer) = match step {
            UpdateStep::Unchanged => return unwritten(RenderedObject { json: existing.object.json() }),
            UpdateStep::Put(mut new, size) => {
                let compiled = self.compile_ahead(row, existing.workspace, &new).await;
                let (encoded, facts) = run_in_place(size, || match is_stored_form(row, subresource) {
                    true => self.encode(row, &new),
                    false => self.encode_stored(row, &mut new),
                });
                let same = render(&encoded, revision);
                if same.json == existing.object.json() {
                    return unwritten(same);
                }
                if limited && has_limits(existing.workspace) {
                    let name = object::name(&new);
                    let object_ref = ObjectRef { workspace: existing.workspace, namespace: "", name };
                    let stored = existing.snapshot.stored_revision(existing.key);
                    let before = stored.map(|_| charged_bytes(existing.object.slices()));
                    let after = charged_bytes([&*same.json]);
                    match self.reserve(row, &object_ref, existing.key, before, after, compiled.as_deref()) {
                        Ok(reserved) => _reserved = reserved,
                        Err(status) => return (Err(status), WriteOutcome::NotWritten),
                    }
                }
                if dry_run {
                    return unwritten(same);
                }
                (Some((encoded.clone(), facts)), encoded)
            }
            UpdateStep::Delete(last) => (None, self.encode(row, &last).0),
        };
        if dry_run {
            return unwritten(render(&answer, revision));
        }
        let deleted = value.is_none();
        if deleted
            && let Some(before_removal) = row.strategy.effects.before_removal
            && let Err(status) = before_removal(self, existing.key).await
        {
            return (Err(status), WriteOutcome::NotWritten);
        }
        match self.write(existing.snapshot, existing.key, value).await {
            // A deleted object is returned in its last state.
            Ok(at) if deleted => {
                self.after_removal(row, existing.workspace, existing.old).await;
                (Ok(Some(render(&answer, revision))), WriteOutcome::At(at))
            }
            Ok(revision) => (Ok(Some(render(&answer, revision))), WriteOutcome::At(revision)),
            Err(WriteFailure::Conflict) => (Ok(None), WriteOutcome::NotWritten),
            Err(WriteFailure::Status(status)) => (Err(status), WriteOutcome::Unknown),
        }
    }

    async fn create_missing<A: Admission>(
        &self,
        row: &Row,
        object_ref: &ObjectRef<'_>,
        update: &Update<'_, A>,
    ) -> Result<(RenderedObject, bool), Status> {
        let allowed =
            update.create_missing || (row.strategy.create_on_update && update.subresource.is_empty());
        if !allowed {
            return Err(Status::not_found(&row.group, &row.resource, object_ref.name));
        }
        if let Some(uid) = update.uid {
            return Err(uid_conflict(row, object_ref, uid, ""));
        }
        let transform = || (update.transform)(None);
        let mut new = self.run_sized(object_ref.workspace, update.size, Stage::Started, transform).await??;
        object::metadata_mut(&mut new).remove("resourceVersion");
        self.create(row, object_ref, new, update.manager, update.dry_run, update.admission)
            .await
            .map(|answer| (answer, true))
    }

    async fn step<A: Admission>(
        &self,
        row: &Row,
        update: &Update<'_, A>,
        existing: &Existing<'_>,
        mut new: Value,
    ) -> Result<UpdateStep, Status> {
        let Existing { workspace, old, .. } = *existing;
        restore_immutable(row, update.subresource, &mut new, old, &self.now());
        let size = size_of(&new);
        // The form of an unchanged custom object may have changed.
        if row.custom.is_none() && (new == **old || differs_in_times_only(&new, old)) {
            update.admission.validate(Some(&new), Some(old), size).await?;
            return Ok(UpdateStep::Unchanged);
        }
        if update.subresource == placement::SUBRESOURCE {
            return Ok(if is_finished(row, &new) {
                UpdateStep::Delete(new)
            } else {
                UpdateStep::Put(new, size)
            });
        }
        let size_of_both = size.max(existing.object.size());
        let (mut new, errors) =
            self.validate_update(row, workspace, update.subresource, new, old, size_of_both).await?;
        if row.custom.is_some() && differs_in_times_only(&new, old) {
            new.clone_from(&**old);
        }
        if !errors.is_empty() {
            return Err(Status::invalid(
                row.storage_group(),
                row.error_kind(&new),
                object::name(&new),
                errors,
            ));
        }
        update.admission.validate(Some(&new), Some(old), size).await?;
        if update.subresource.is_empty() {
            placement::hold_rollout(row, &mut new, old);
        }
        Ok(if is_finished(row, &new) { UpdateStep::Delete(new) } else { UpdateStep::Put(new, size) })
    }
}

/// Whether an updated object is in its stored form, because only its placement differs from the stored object.
fn is_stored_form(row: &Row, subresource: &str) -> bool {
    subresource == placement::SUBRESOURCE && row.custom.is_none() && row.view.is_none()
}

/// An update before admission.
struct PreparedUpdate {
    /// The existing object.
    old: Arc<Value>,
    /// The existing object as it is served, if that differs.
    view: Option<Value>,
    new: Value,
}

/// The existing object of an update.
struct Existing<'a> {
    workspace: &'a str,
    key: &'a Key,
    old: &'a Arc<Value>,
    object: &'a Object,
    snapshot: &'a Snapshot,
}

/// An update with a resource version applies only to that version.
fn check_revision(
    row: &Row,
    object_ref: &ObjectRef<'_>,
    new: &Value,
    existing: &Object,
) -> Result<(), Status> {
    match object::resource_version(new) {
        "" | "0" if row.strategy.unconditional_update => Ok(()),
        "" | "0" => {
            let path = FieldPath::new("metadata").child("resourceVersion");
            let error = FieldError::invalid(&path, 0, "must be specified for an update");
            Err(Status::invalid(&row.group, &row.resource, object_ref.name, vec![error]))
        }
        wanted => match wanted.parse::<u64>() {
            Ok(revision) if revision == existing.revision => Ok(()),
            Ok(_) => Err(Status::conflict(&row.group, &row.resource, object_ref.name, STALE)),
            Err(_) => Err(Status::plain_internal(format!(
                "strconv.ParseUint: parsing {}: invalid syntax",
                quote(wanted)
            ))),
        },
    }
}

/// Restores the fields that an update of this part of the object cannot change.
fn restore_immutable(row: &Row, subresource: &str, new: &mut Value, old: &Value, now: &str) {
    let context = Context { random: [0; 16], now, labelled: true };
    keep(new, old, "generation");
    let part = row.strategy.part(subresource);
    match part {
        Part::Status => {
            keep_all_but(new, old, "status");
            if subresource == "status" {
                row.strategy.status_keeps.iter().for_each(|field| keep(new, old, field));
            }
            (row.strategy.prepare_subresource)(subresource, new, old, &context);
        }
        Part::Own => (row.strategy.prepare_subresource)(subresource, new, old, &context),
        Part::Spec => keep_all_but(new, old, "spec"),
        // The new object was computed from the old one.
        Part::Object if subresource == placement::SUBRESOURCE => {}
        Part::Object => {
            if row.has_status() {
                match old.get("status") {
                    Some(status) => new["status"] = status.clone(),
                    None => drop(new.as_object_mut().and_then(|fields| fields.remove("status"))),
                }
            }
            (row.strategy.prepare_update)(new, old, &context);
        }
    }
    let fields = object::metadata_mut(new);
    fields.insert("resourceVersion".into(), object::resource_version(old).into());
    fields.remove("selfLink");
    if fields.get("uid").and_then(Value::as_str).unwrap_or_default().is_empty() {
        fields.insert("uid".into(), object::uid(old).into());
    }
    for kept in ["namespace", "creationTimestamp"] {
        keep(new, old, kept);
    }
    // Clients may omit these fields but not change them.
    for kept in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        if new["metadata"].get(kept).is_none_or(Value::is_null) {
            keep(new, old, kept);
        }
    }
    let has_spec = subresource.is_empty() || part == Part::Own;
    if has_spec && (row.strategy.raises_generation)(new, old) {
        raise_generation(new, old);
    }
}

/// Whether the objects differ only in the times of managed fields, which does not count as a change.
fn differs_in_times_only(new: &Value, old: &Value) -> bool {
    let entries = |object: &Value| object["metadata"]["managedFields"].as_array().map_or(0, Vec::len);
    let same_entry = |index: usize| {
        let (new, old) = (&new["metadata"]["managedFields"], &old["metadata"]["managedFields"]);
        same_but(&new[index], &old[index], "time")
    };
    entries(new) == entries(old)
        && same_but(new, old, "metadata")
        && same_but(&new["metadata"], &old["metadata"], "managedFields")
        && (0..entries(new)).all(same_entry)
}

/// Whether two objects have the same members, except `aside`.
fn same_but(left: &Value, right: &Value, aside: &str) -> bool {
    fn members<'v>(value: &'v Value, aside: &str) -> impl Iterator<Item = (&'v String, &'v Value)> {
        value.as_object().into_iter().flatten().filter(move |(name, _)| *name != aside)
    }
    members(left, aside).eq(members(right, aside))
}

/// Restores `metadata.<field>`, or its absence.
fn keep(new: &mut Value, old: &Value, field: &str) {
    let fields = object::metadata_mut(new);
    match old["metadata"].get(field) {
        Some(value) => fields.insert(field.into(), value.clone()),
        None => fields.remove(field),
    };
}

/// Restores everything but `part` and the metadata.
fn keep_all_but(new: &mut Value, old: &Value, part: &str) {
    let (Some(new), Some(old)) = (new.as_object_mut(), old.as_object()) else { return };
    let own = |name: &str| name == part || name == "metadata";
    new.retain(|name, _| own(name));
    for (name, value) in old.iter().filter(|(name, _)| !own(name)) {
        new.insert(name.clone(), value.clone());
    }
}

/// Whether the object is being deleted and nothing prevents its removal.
pub(crate) fn is_finished(row: &Row, object: &Value) -> bool {
    let fields = &object["metadata"];
    let held = fields["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty());
    let graceful = fields["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) != 0;
    fields["deletionTimestamp"].is_string()
        && !held
        && !graceful
        && !(row.strategy.blocks_removal)(object)
        && !placement::is_on_clusters(object)
}

fn check_uid(row: &Row, object_ref: &ObjectRef<'_>, wanted: Option<&str>, old: &Value) -> Result<(), Status> {
    match wanted {
        Some(wanted) if wanted != object::uid(old) => {
            Err(uid_conflict(row, object_ref, wanted, object::uid(old)))
        }
        _ => Ok(()),
    }
}

pub(crate) fn uid_conflict(row: &Row, object_ref: &ObjectRef<'_>, wanted: &str, actual: &str) -> Status {
    let path = match object_ref.namespace {
        "" => format!("/registry/{}/{}", row.resource, object_ref.name),
        namespace => format!("/registry/{}/{namespace}/{}", row.resource, object_ref.name),
    };
    let message = format!(
        "StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {wanted}, UID in object meta: {actual}"
    );
    Status::conflict(&row.group, &row.resource, object_ref.name, message)
}
