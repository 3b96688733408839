//! Create: fill in system fields, validate, and write to an absent key.

// upstream: staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go
// upstream: staging/src/k8s.io/apiserver/pkg/registry/rest/create.go

use atoll_merge::apply::Author;
use atoll_meta::json::splice_resource_version;
use atoll_meta::{Status, id, object};
use bytes::Bytes;
use serde_json::Value;

use crate::definitions;
use crate::row::{Place, Row};
use crate::strategy::Context;
use crate::{Admission, Answer, Refused, Registry, Written, parse, placement, random, resets, services};

/// Number of attempts to find an unused generated name.
const NAME_ATTEMPTS: usize = 8;

impl Registry {
    /// Creates `object`, whose kind, types and namespace have been checked, at `place` (without the name if
    /// that is to be generated). `manager` is the field manager, `None` if the object already contains its
    /// managed fields.
    pub async fn create<A: Admission>(
        &self,
        row: &Row,
        place: &Place<'_>,
        mut object: Value,
        manager: Option<&str>,
        dry_run: bool,
        admission: &A,
    ) -> Result<Answer, Status> {
        if row.custom.as_ref().is_some_and(|custom| custom.is_terminating) {
            let message = "create not allowed while custom resource definition is terminating";
            return Err(Status::forbidden(&row.group, &row.resource, object::name(&object), message));
        }
        let labelled = object::labels(&object).next().is_some();
        row.fill_defaults(&mut object)?;
        let fields = object::metadata_mut(&mut object);
        for unset in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "uid"] {
            fields.remove(unset);
        }
        if placement::keep(&mut object, None) {
            admission.placement_ignored(&object);
        }
        if let Some(manager) = manager {
            self.record_new(row, &mut object, manager);
        }
        admission.mutate(&mut object, None).await?;
        let base = object::generate_name(&object).to_string();
        if !object::name(&object).is_empty() || base.is_empty() {
            return self.create_once(row, place, object, labelled, dry_run, admission).await;
        }
        for _ in 0..NAME_ATTEMPTS {
            let mut candidate = object.clone();
            object::set_name(&mut candidate, &id::generated_name(&base, random()?));
            // Some defaults depend on the name.
            row.fill_defaults(&mut candidate)?;
            match self.create_once(row, place, candidate, labelled, dry_run, admission).await {
                Err(status) if status.reason() == "AlreadyExists" => {}
                outcome => return outcome,
            }
        }
        Err(Status::generate_name_conflict(&row.group, &row.resource, &base, 1))
    }

    /// Records `manager` as the field manager of a new object.
    pub fn record_new(&self, row: &Row, object: &mut Value, manager: &str) {
        let (time, resets) = (self.now(), resets::of(row, ""));
        let author = Author { manager, subresource: "", time: &time, resets };
        self.record(row, row.managed.empty(), object, &author);
    }

    async fn create_once<A: Admission>(
        &self,
        row: &Row,
        place: &Place<'_>,
        mut object: Value,
        labelled: bool,
        dry_run: bool,
        admission: &A,
    ) -> Result<Answer, Status> {
        row.to_stored(&mut object);
        let name = object::name(&object).to_string();
        if !services::is_services(row) {
            let place = Place { name: &name, ..*place };
            return self.finish_create(row, &place, object, labelled, dry_run, admission).await;
        }
        let place = Place { name: &name, ..*place };
        let taken = self.take_for_service(&place, &mut object, None, dry_run).await?;
        let outcome = self.finish_create(row, &place, object, labelled, dry_run, admission).await;
        match outcome.is_ok() {
            true => self.settle_taken(taken).await,
            false => self.undo_taken(taken).await,
        }
        outcome
    }

    /// Prepares, validates and writes an object that has its defaults.
    async fn finish_create<A: Admission>(
        &self,
        row: &Row,
        place: &Place<'_>,
        mut object: Value,
        labelled: bool,
        dry_run: bool,
        admission: &A,
    ) -> Result<Answer, Status> {
        let revision = object::resource_version(&object).parse::<u64>().unwrap_or(0);
        self.fill(row, place, &mut object, labelled)?;
        let (object, errors) = self.check_new(row, place.workspace, object).await?;
        if !errors.is_empty() {
            return Err(Status::invalid(row.storage_group(), row.named_kind(&object), place.name, errors));
        }
        self.check_reserved(row, place, &object, None)?;
        self.check_depth(row, place)?;
        let _naming = self.name_cluster(row, place).await?;
        admission.validate(Some(&object), None).await?;
        let limited = admission.is_limited();
        let (outcome, written) = self.write_new(row, place, object, revision, limited, dry_run).await;
        admission.ended(written).await;
        outcome
    }

    /// Writes a finished object to an absent key.
    async fn write_new(
        &self,
        row: &Row,
        place: &Place<'_>,
        mut object: Value,
        revision: u64,
        limited: bool,
        dry_run: bool,
    ) -> (Result<Answer, Status>, Written) {
        let key = row.key(place);
        let taken = || Status::already_exists(&row.group, &row.resource, place.name);
        let snapshot = self.snapshot();
        if let Some(existing) = snapshot.get(&key) {
            let status = match parse(&existing.json()) {
                Ok(existing) if object::is_being_deleted(&existing) => {
                    taken().with_message(format!("object is being deleted: {}", taken().message()))
                }
                Ok(_) => taken(),
                Err(status) => status,
            };
            return (Err(status), Written::No);
        }
        if !dry_run && revision != 0 {
            let refused =
                Status::plain_internal("resourceVersion should not be set on objects to be created");
            return (Err(refused), Written::No);
        }
        let compiled = self.compile_ahead(row, place.workspace, &object).await;
        let (encoded, facts) = self.encode_stored(row, &mut object);
        let reserved = match limited {
            true => self.reserve(row, place, &key, None, encoded.len(), compiled.as_deref()),
            false => Ok((None, None)),
        };
        let _reserved = match reserved {
            Ok(reserved) => reserved,
            Err(status) => return (Err(status), Written::No),
        };
        if dry_run {
            return (Ok(Answer { json: row.shown_json(encoded) }), Written::No);
        }
        match self.write(&snapshot, &key, Some((encoded.clone(), facts))).await {
            Ok(revision) => {
                if definitions::defines(row) {
                    self.settle_definition(place.workspace, place.name).await;
                }
                let json = Bytes::from(splice_resource_version(&encoded, revision));
                (Ok(Answer { json: row.shown_json(json) }), Written::At(revision))
            }
            Err(Refused::Changed) => (Err(taken()), Written::No),
            Err(Refused::Status(status)) => (Err(status), Written::Unknown),
        }
    }

    /// Sets the system fields of a new object, regardless of the request.
    pub(crate) fn fill(
        &self,
        row: &Row,
        place: &Place<'_>,
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
        match place.namespace {
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
