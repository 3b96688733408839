//! Update: from what is there to what is wanted, again and again until nobody came in between.

use std::borrow::Cow;

use atoll_merge::apply::Author;
use atoll_meta::json::splice_resource_version;
use atoll_meta::{FieldError, FieldPath, Status, object};
use atoll_store::Key;
use atoll_watch::{Object, Snapshot};
use serde_json::Value;

use crate::catalog::ATOLL;
use crate::definitions;
use crate::row::{Place, Row};
use crate::services::{self, Taken};
use crate::strategy::{Context, raise_generation};
use crate::{Admission, Answer, Refused, Registry, Written, parse, placement, resets};

const STALE: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// Makes the wanted object from the existing one, `None` if there is none.
pub type Transform<'a> = dyn Fn(Option<&Value>) -> Result<Value, Status> + Sync + 'a;

/// How an existing object is to change.
pub struct Update<'a, A> {
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// Who updates; `None` if `transform` keeps account of who manages which fields.
    pub manager: Option<&'a str>,
    /// Called as often as it takes.
    pub transform: &'a Transform<'a>,
    /// Asked as often.
    pub admission: &'a A,
    /// The uid that the caller's object carries, if it does.
    pub uid: Option<&'a str>,
    /// Creates the object if it is missing, even where a PUT would not.
    pub create_missing: bool,
    pub dry_run: bool,
}

/// What one try comes to.
enum Step {
    Unchanged,
    Put(Value),
    Delete(Value),
}

impl Registry {
    /// The object as it then is, and whether it was created.
    pub async fn update<A: Admission>(
        &self,
        row: &Row,
        place: &Place<'_>,
        update: &Update<'_, A>,
    ) -> Result<(Answer, bool), Status> {
        let key = row.key(place);
        loop {
            let snapshot = self.snapshot();
            let Some(existing) = snapshot.get(&key) else {
                match self.create_missing(row, place, update).await {
                    // Somebody else has created it meanwhile.
                    Err(status)
                        if status.reason() == "AlreadyExists" && self.snapshot().get(&key).is_some() => {}
                    outcome => return outcome,
                }
                continue;
            };
            let old = match row.custom {
                Some(_) => parse(&row.shown(existing.clone()).json())?,
                None => parse(&existing.json())?,
            };
            check_uid(row, place, update.uid, &old)?;
            let mut shown = Cow::Borrowed(&old);
            if row.view.is_some() {
                row.to_view(shown.to_mut());
            }
            let mut new = (update.transform)(Some(&shown))?;
            if update.subresource != placement::SUBRESOURCE && placement::keep(&mut new, Some(&shown)) {
                update.admission.placement_ignored(&new);
            }
            row.fill_defaults(&mut new)?;
            if let Some(manager) = update.manager {
                let (time, resets) = (self.now(), resets::of(row, update.subresource));
                let author = Author { manager, subresource: update.subresource, time: &time, resets };
                self.record(row, &shown, &mut new, &author);
            }
            update.admission.mutate(&mut new, Some(&shown)).await?;
            check_revision(row, place, &new, &existing)?;
            self.check_reserved(row, place, &new, Some(&old))?;
            row.to_stored(&mut new);
            let taken = match services::is_services(row) && update.subresource.is_empty() {
                true => self.take_for_service(place, &mut new, Some(&old), update.dry_run).await?,
                false => Taken::default(),
            };
            let existing = Existing {
                workspace: place.workspace,
                key: &key,
                old: &old,
                object: &existing,
                snapshot: &snapshot,
            };
            match self.attempt(row, update, &existing, new).await {
                Ok(Some(answer)) => {
                    self.settle_taken(taken).await;
                    if definitions::defines(row) && !update.dry_run {
                        self.settle_definition(place.workspace, place.name).await;
                    }
                    return Ok((Answer { json: row.shown_json(answer.json) }, false));
                }
                Ok(None) => self.undo_taken(taken).await,
                Err(status) => {
                    self.undo_taken(taken).await;
                    return Err(status);
                }
            }
        }
    }

    /// One try to write; `None` if somebody else was faster.
    async fn attempt<A: Admission>(
        &self,
        row: &Row,
        update: &Update<'_, A>,
        existing: &Existing<'_>,
        new: Value,
    ) -> Result<Option<Answer>, Status> {
        if update.subresource.is_empty() {
            self.check_template(row, existing.workspace, &new, existing.old)?;
        }
        let step = self.step(row, existing.workspace, update, existing.old, new).await?;
        let limited = update.admission.is_limited();
        let (outcome, written) = self.carry_out(row, existing, step, limited, update.dry_run).await;
        update.admission.ended(written).await;
        outcome
    }

    /// Writes what one try came to.
    async fn carry_out(
        &self,
        row: &Row,
        existing: &Existing<'_>,
        step: Step,
        limited: bool,
        dry_run: bool,
    ) -> (Result<Option<Answer>, Status>, Written) {
        let revision = existing.object.revision;
        let shown =
            |encoded: &[u8], revision| Answer { json: splice_resource_version(encoded, revision).into() };
        let unwritten = |answer| (Ok(Some(answer)), Written::No);
        let mut _reserved = (None, None);
        let (value, answer) = match step {
            Step::Unchanged => return unwritten(Answer { json: existing.object.json() }),
            Step::Put(mut new) => {
                let compiled = self.compile_ahead(row, existing.workspace, &new).await;
                let (encoded, facts) = self.encode_stored(row, &mut new);
                let same = shown(&encoded, revision);
                if same.json == existing.object.json() {
                    return unwritten(same);
                }
                if limited {
                    let name = object::name(&new);
                    let place = Place { workspace: existing.workspace, namespace: "", name };
                    let before =
                        existing.snapshot.stored_revision(existing.key).map(|_| existing.object.size());
                    let size = same.json.len();
                    match self.reserve(row, &place, existing.key, before, size, compiled.as_deref()) {
                        Ok(reserved) => _reserved = reserved,
                        Err(status) => return (Err(status), Written::No),
                    }
                }
                if dry_run {
                    return unwritten(same);
                }
                (Some((encoded.clone(), facts)), encoded)
            }
            Step::Delete(last) => (None, self.encode(row, &last).0),
        };
        if dry_run {
            return unwritten(shown(&answer, revision));
        }
        let deleted = value.is_none();
        if deleted
            && row.group == ATOLL
            && row.resource == "workspaces"
            && let Err(status) = self.purge_child(existing.key).await
        {
            return (Err(status), Written::No);
        }
        match self.write(existing.snapshot, existing.key, value).await {
            // What was deleted is shown as it last was.
            Ok(at) if deleted => {
                self.after_delete(row, existing.workspace, existing.old).await;
                (Ok(Some(shown(&answer, revision))), Written::At(at))
            }
            Ok(revision) => (Ok(Some(shown(&answer, revision))), Written::At(revision)),
            Err(Refused::Changed) => (Ok(None), Written::No),
            Err(Refused::Status(status)) => (Err(status), Written::Unknown),
        }
    }

    async fn create_missing<A: Admission>(
        &self,
        row: &Row,
        place: &Place<'_>,
        update: &Update<'_, A>,
    ) -> Result<(Answer, bool), Status> {
        let allowed =
            update.create_missing || (row.strategy.create_on_update && update.subresource.is_empty());
        if !allowed {
            return Err(Status::not_found(&row.group, &row.resource, place.name));
        }
        if let Some(uid) = update.uid {
            return Err(uid_conflict(row, place, uid, ""));
        }
        let mut new = (update.transform)(None)?;
        object::metadata_mut(&mut new).remove("resourceVersion");
        self.create(row, place, new, update.manager, update.dry_run, update.admission)
            .await
            .map(|answer| (answer, true))
    }

    async fn step<A: Admission>(
        &self,
        row: &Row,
        workspace: &str,
        update: &Update<'_, A>,
        old: &Value,
        mut new: Value,
    ) -> Result<Step, Status> {
        settle(row, update.subresource, &mut new, old, &self.now());
        // Of a custom object that has not changed, the form may have.
        if row.custom.is_none() && (new == *old || differs_in_times_only(&new, old)) {
            update.admission.validate(Some(&new), Some(old)).await?;
            return Ok(Step::Unchanged);
        }
        if update.subresource == placement::SUBRESOURCE {
            return Ok(if is_finished(row, &new) { Step::Delete(new) } else { Step::Put(new) });
        }
        let (mut new, errors) = self.check_changed(row, workspace, update.subresource, new, old).await?;
        if row.custom.is_some() && differs_in_times_only(&new, old) {
            new.clone_from(old);
        }
        if !errors.is_empty() {
            return Err(Status::invalid(
                row.storage_group(),
                row.named_kind(&new),
                object::name(&new),
                errors,
            ));
        }
        update.admission.validate(Some(&new), Some(old)).await?;
        Ok(if is_finished(row, &new) { Step::Delete(new) } else { Step::Put(new) })
    }
}

/// What an update begins from.
struct Existing<'a> {
    workspace: &'a str,
    key: &'a Key,
    old: &'a Value,
    object: &'a Object,
    snapshot: &'a Snapshot,
}

/// An update that names a resource version applies to that one only.
fn check_revision(row: &Row, place: &Place<'_>, new: &Value, existing: &Object) -> Result<(), Status> {
    match object::resource_version(new) {
        "" | "0" if row.strategy.unconditional_update => Ok(()),
        "" | "0" => {
            let path = FieldPath::new("metadata").child("resourceVersion");
            let error = FieldError::invalid(&path, 0, "must be specified for an update");
            Err(Status::invalid(&row.group, &row.resource, place.name, vec![error]))
        }
        wanted => match wanted.parse::<u64>() {
            Ok(revision) if revision == existing.revision => Ok(()),
            Ok(_) => Err(Status::conflict(&row.group, &row.resource, place.name, STALE)),
            Err(_) => {
                Err(Status::plain_internal(format!("strconv.ParseUint: parsing {wanted:?}: invalid syntax")))
            }
        },
    }
}

/// Puts back what an update of this part of the object cannot change.
fn settle(row: &Row, subresource: &str, new: &mut Value, old: &Value, now: &str) {
    let context = Context { random: [0; 16], now, labelled: true };
    keep(new, old, "generation");
    match subresource {
        "status" | "approval" => {
            keep_all_but(new, old, "status");
            if subresource == "status" {
                row.strategy.status_keeps.iter().for_each(|field| keep(new, old, field));
            }
            (row.strategy.prepare_subresource)(subresource, new, old, &context);
        }
        "ephemeralcontainers" | "resize" => {
            (row.strategy.prepare_subresource)(subresource, new, old, &context);
        }
        "finalize" => {
            keep_all_but(new, old, "spec");
        }
        // It is made of the old one.
        placement::SUBRESOURCE => {}
        _ => {
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
    // Nobody has to repeat these, and nobody may change them.
    for kept in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        if new["metadata"].get(kept).is_none_or(Value::is_null) {
            keep(new, old, kept);
        }
    }
    let has_spec = matches!(subresource, "" | "ephemeralcontainers" | "resize");
    if has_spec && (row.strategy.is_counted)(new, old) {
        raise_generation(new, old);
    }
}

/// Whether nothing is new but when some fields were managed last, which is then no news.
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

/// Whether two objects have the same members, one aside.
fn same_but(left: &Value, right: &Value, aside: &str) -> bool {
    fn members<'v>(value: &'v Value, aside: &str) -> impl Iterator<Item = (&'v String, &'v Value)> {
        value.as_object().into_iter().flatten().filter(move |(name, _)| *name != aside)
    }
    members(left, aside).eq(members(right, aside))
}

/// `metadata.<field>` is what it was, absence included.
fn keep(new: &mut Value, old: &Value, field: &str) {
    let fields = object::metadata_mut(new);
    match old["metadata"].get(field) {
        Some(value) => fields.insert(field.into(), value.clone()),
        None => fields.remove(field),
    };
}

/// Everything but `part` and the metadata is what it was.
fn keep_all_but(new: &mut Value, old: &Value, part: &str) {
    let (Some(new), Some(old)) = (new.as_object_mut(), old.as_object()) else { return };
    let own = |name: &str| name == part || name == "metadata";
    new.retain(|name, _| own(name));
    for (name, value) in old.iter().filter(|(name, _)| !own(name)) {
        new.insert(name.clone(), value.clone());
    }
}

/// Whether deletion was asked for and nothing holds the object any longer.
pub(crate) fn is_finished(row: &Row, object: &Value) -> bool {
    let fields = &object["metadata"];
    let held = fields["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty());
    let graceful = fields["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) != 0;
    fields["deletionTimestamp"].is_string()
        && !held
        && !graceful
        && !(row.strategy.is_held)(object)
        && !placement::holds(object)
}

fn check_uid(row: &Row, place: &Place<'_>, wanted: Option<&str>, old: &Value) -> Result<(), Status> {
    match wanted {
        Some(wanted) if wanted != object::uid(old) => Err(uid_conflict(row, place, wanted, object::uid(old))),
        _ => Ok(()),
    }
}

pub(crate) fn uid_conflict(row: &Row, place: &Place<'_>, wanted: &str, actual: &str) -> Status {
    let path = match place.namespace {
        "" => format!("/registry/{}/{}", row.resource, place.name),
        namespace => format!("/registry/{}/{namespace}/{}", row.resource, place.name),
    };
    let message = format!(
        "StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {wanted}, UID in object meta: {actual}"
    );
    Status::conflict(&row.group, &row.resource, place.name, message)
}
