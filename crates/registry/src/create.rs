//! Create: fill in system fields, validate, and write to an absent key.

// upstream: staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go
// upstream: staging/src/k8s.io/apiserver/pkg/registry/rest/create.go

use atoll_merge::apply::Author;
use atoll_meta::json::splice_resource_version;
use atoll_meta::{Status, id, object};
use atoll_watch::ORIGIN;
use bytes::Bytes;
use serde_json::Value;

use crate::blocking::{Stage, run_in_place, size_of};
use crate::object_size::{check_memory, check_size};
use crate::row::{ObjectRef, Row};
use crate::strategy::Context;
use crate::usage::{charged_bytes, has_limits};
use crate::{
    Admission, Registry, RenderedObject, WriteFailure, WriteOutcome, parse, placement, random, reset_fields,
};

/// Number of attempts to find an unused generated name.
const NAME_ATTEMPTS: usize = 8;

/// A finished object that is about to be written.
struct NewObject {
    object: Value,
    /// Its approximate size.
    size: usize,
    /// The revision in the request, which must be 0.
    revision: u64,
    /// Whether the workspace limits apply.
    limited: bool,
}

impl Registry {
    /// Creates `object`, whose kind, types and namespace have been checked, at `object_ref` (without the name if
    /// that is to be generated). `manager` is the field manager, `None` if the object already contains its
    /// managed fields.
    pub async fn create<A: Admission>(
        &self,
        row: &Row,
        object_ref: &ObjectRef<'_>,
        mut object: Value,
        manager: Option<&str>,
        dry_run: bool,
        admission: &A,
    ) -> Result<RenderedObject, Status> {
        if row.custom.as_ref().is_some_and(|custom| custom.is_terminating) {
            let message = "create not allowed while custom resource definition is terminating";
            return Err(Status::forbidden(&row.group, &row.resource, object::name(&object), message));
        }
        let labelled = object::labels(&object).next().is_some();
        let size = size_of(&object);
        let prepare = || self.prepare_create(row, &mut object, manager, admission);
        self.run_sized(object_ref.workspace, size, Stage::Started, prepare).await??;
        admission.mutate(&mut object, None).await?;
        let base = object::generate_name(&object).to_string();
        if !object::name(&object).is_empty() || base.is_empty() {
            return self.create_once(row, object_ref, object, labelled, dry_run, admission).await;
        }
        for _ in 0..NAME_ATTEMPTS {
            let mut candidate = object.clone();
            object::set_name(&mut candidate, &id::generated_name(&base, random()?));
            // Some defaults depend on the name.
            row.fill_defaults(&mut candidate)?;
            match self.create_once(row, object_ref, candidate, labelled, dry_run, admission).await {
                Err(status) if status.reason() == "AlreadyExists" => {}
                outcome => return outcome,
            }
        }
        Err(Status::generate_name_conflict(&row.group, &row.resource, &base, 1))
    }

    /// Sets defaults and managed fields, and removes fields that clients cannot set.
    fn prepare_create<A: Admission>(
        &self,
        row: &Row,
        object: &mut Value,
        manager: Option<&str>,
        admission: &A,
    ) -> Result<(), Status> {
        row.fill_defaults(object)?;
        check_size(object, None)?;
        let fields = object::metadata_mut(object);
        for unset in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "uid"] {
            fields.remove(unset);
        }
        // The server adds it to objects of several workspaces, and controllers rely on it.
        if object::annotation(object, ORIGIN).is_some() {
            admission.annotation_ignored(ORIGIN);
        }
        object::remove_annotation(object, ORIGIN);
        if placement::keep(object, None) {
            admission.placement_ignored(object);
        }
        if let Some(manager) = manager {
            self.record_new(row, object, manager);
        }
        check_memory(object, None)
    }

    /// Records `manager` as the field manager of a new object.
    pub fn record_new(&self, row: &Row, object: &mut Value, manager: &str) {
        let (time, resets) = (self.now(), reset_fields::of(row, ""));
        let author = Author { manager, subresource: "", time: &time, resets };
        self.record(row, row.managed.empty(), object, &author);
    }

    async fn create_once<A: Admission>(
        &self,
        row: &Row,
        object_ref: &ObjectRef<'_>,
        mut object: Value,
        labelled: bool,
        dry_run: bool,
        admission: &A,
    ) -> Result<RenderedObject, Status> {
        row.to_stored(&mut object);
        let name = object::name(&object).to_string();
        let object_ref = ObjectRef { name: &name, ..*object_ref };
        let Some(allocate) = row.strategy.effects.allocate else {
            return self.finish_create(row, &object_ref, object, labelled, dry_run, admission).await;
        };
        let taken = allocate(self, object_ref, &mut object, None, dry_run).await?;
        let outcome = self.finish_create(row, &object_ref, object, labelled, dry_run, admission).await;
        match outcome.is_ok() {
            true => self.commit_allocation(taken).await,
            false => self.undo_allocation(taken).await,
        }
        outcome
    }

    /// Prepares, validates and writes an object that has its defaults.
    async fn finish_create<A: Admission>(
        &self,
        row: &Row,
        object_ref: &ObjectRef<'_>,
        mut object: Value,
        labelled: bool,
        dry_run: bool,
        admission: &A,
    ) -> Result<RenderedObject, Status> {
        let revision = object::resource_version(&object).parse::<u64>().unwrap_or(0);
        self.set_system_fields(row, object_ref, &mut object, labelled)?;
        let size = size_of(&object);
        let (object, errors) = self.validate_new(row, object_ref.workspace, object, size).await?;
        if !errors.is_empty() {
            return Err(Status::invalid(
                row.storage_group(),
                row.error_kind(&object),
                object_ref.name,
                errors,
            ));
        }
        if let Some(check) = row.strategy.effects.check {
            check(self, row, object_ref, &object, None)?;
        }
        let _name = match row.strategy.effects.reserve_name {
            Some(reserve) => Some(reserve(self, row, *object_ref).await?),
            None => None,
        };
        admission.validate(Some(&object), None, size).await?;
        let new = NewObject { object, size, revision, limited: admission.is_limited() };
        let (outcome, written) = self.write_new(row, object_ref, new, dry_run).await;
        admission.write_finished(written).await;
        outcome
    }

    /// Writes a finished object to an absent key.
    async fn write_new(
        &self,
        row: &Row,
        object_ref: &ObjectRef<'_>,
        new: NewObject,
        dry_run: bool,
    ) -> (Result<RenderedObject, Status>, WriteOutcome) {
        let NewObject { mut object, size, revision, limited } = new;
        let key = row.key(object_ref);
        let taken = || Status::already_exists(&row.group, &row.resource, object_ref.name);
        let snapshot = self.snapshot();
        // An own object hides an inherited one.
        if let Some(existing) = snapshot.get_own(&key) {
            let status = match parse(&existing.json()) {
                Ok(existing) if object::is_being_deleted(&existing) => {
                    taken().with_message(format!("object is being deleted: {}", taken().message()))
                }
                Ok(_) => taken(),
                Err(status) => status,
            };
            return (Err(status), WriteOutcome::NotWritten);
        }
        if !dry_run && revision != 0 {
            let refused =
                Status::plain_internal("resourceVersion should not be set on objects to be created");
            return (Err(refused), WriteOutcome::NotWritten);
        }
        let compiled = self.compile_ahead(row, object_ref.workspace, &object).await;
        let (encoded, facts) = run_in_place(size, || self.encode_stored(row, &mut object));
        let reserved = match limited && has_limits(object_ref.workspace) {
            true => {
                let bytes = charged_bytes([&*encoded]);
                self.reserve(row, object_ref, &key, None, bytes, compiled.as_deref())
            }
            false => Ok((None, None)),
        };
        let _reserved = match reserved {
            Ok(reserved) => reserved,
            Err(status) => return (Err(status), WriteOutcome::NotWritten),
        };
        if dry_run {
            return (Ok(RenderedObject { json: row.served_json(encoded) }), WriteOutcome::NotWritten);
        }
        match self.write(&snapshot, &key, Some((encoded.clone(), facts))).await {
            Ok(revision) => {
                if let Some(after_write) = row.strategy.effects.after_write {
                    after_write(self, *object_ref).await;
                }
                let json = Bytes::from(splice_resource_version(&encoded, revision));
                (Ok(RenderedObject { json: row.served_json(json) }), WriteOutcome::At(revision))
            }
            Err(WriteFailure::Conflict) => (Err(taken()), WriteOutcome::NotWritten),
            Err(WriteFailure::Status(status)) => (Err(status), WriteOutcome::Unknown),
        }
    }

    /// Sets the system fields of a new object, regardless of the request.
    pub(crate) fn set_system_fields(
        &self,
        row: &Row,
        object_ref: &ObjectRef<'_>,
        object: &mut Value,
        labelled: bool,
    ) -> Result<(), Status> {
        let random = random()?;
        let uid = id::uuid_v4(random);
        let now = self.now();
        let fields = object::metadata_mut(object);
        fields.remove("resourceVersion");
        fields.insert("uid".into(), uid.into());
        fields.insert("creationTimestamp".into(), now.as_str().into());
        match object_ref.namespace {
            "" => fields.remove("namespace"),
            namespace => fields.insert("namespace".into(), namespace.into()),
        };
        if row.strategy.generation {
            fields.insert("generation".into(), 1.into());
        }
        if row.has_status() && !row.strategy.keeps_status {
            row.clear_status(object);
        }
        (row.strategy.prepare_create)(object, &Context { random, now: &now, labelled });
        Ok(())
    }
}
