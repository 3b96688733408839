//! Delete: immediately, or by marking the object if finalizers or a grace period remain.

// upstream: staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go
// upstream: staging/src/k8s.io/apiserver/pkg/registry/rest/delete.go

use std::sync::Arc;

use atoll_meta::json::splice_resource_version;
use atoll_meta::status::Details;
use atoll_meta::{Status, object, time};
use atoll_watch::Facts;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::row::{ObjectRef, Row};
use crate::strategy::GracePeriod;
use crate::{Admission, Registry, RenderedObject, WriteFailure, parse, placement};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Orphan,
    Background,
    Foreground,
}

#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub propagation: Option<Propagation>,
    pub grace_period_seconds: Option<i64>,
    pub dry_run: bool,
}

/// The result of a deletion.
#[derive(Clone, Debug)]
pub enum DeleteResult {
    /// The object was removed; this is its last state.
    Removed(RenderedObject),
    /// The object was removed, and its kind responds with a Status.
    Status(Status),
    /// The object is terminating; this is its current state.
    Terminating(RenderedObject),
}

impl Registry {
    pub async fn delete<A: Admission>(
        &self,
        row: &Row,
        object_ref: &ObjectRef<'_>,
        options: &DeleteOptions,
        admission: &A,
    ) -> Result<DeleteResult, Status> {
        let deleted = self.delete_stored(row, object_ref, options, admission).await?;
        let shown = |answer: RenderedObject| RenderedObject { json: row.served_json(answer.json) };
        Ok(match deleted {
            DeleteResult::Removed(answer) => DeleteResult::Removed(shown(answer)),
            DeleteResult::Terminating(answer) => DeleteResult::Terminating(shown(answer)),
            DeleteResult::Status(status) => DeleteResult::Status(status),
        })
    }

    async fn delete_stored<A: Admission>(
        &self,
        row: &Row,
        object_ref: &ObjectRef<'_>,
        options: &DeleteOptions,
        admission: &A,
    ) -> Result<DeleteResult, Status> {
        let key = row.key(object_ref);
        loop {
            let snapshot = self.snapshot();
            let existing = snapshot
                .get(&key)
                .ok_or_else(|| Status::not_found(&row.group, &row.resource, object_ref.name))?;
            if snapshot.is_inherited(&key) {
                let message = "it is imported from clusters: delete it there, or remove the clusters; kubectl get apiimports shows \
                               which clusters have it";
                return Err(Status::forbidden(&row.group, &row.resource, object_ref.name, message));
            }
            let stored = existing.clone();
            let existing = if row.custom.is_some() { row.to_served(existing) } else { existing };
            let mut old = parse(&existing.json())?;
            self.remove_missing_clusters(object_ref.workspace, &mut old);
            check_preconditions(row, &old, options)?;
            admission.validate(None, Some(&old), existing.size()).await?;
            let step = self.next_step(row, &old, options);
            let value = match &step {
                DeletionStep::Wait => {
                    return Ok(DeleteResult::Terminating(RenderedObject { json: existing.json() }));
                }
                DeletionStep::Mark(marked) | DeletionStep::MarkAndRemove(marked) => {
                    let (encoded, facts) = self.encode_marked(row, marked);
                    let same = splice_resource_version(&encoded, existing.revision);
                    let goes = matches!(step, DeletionStep::MarkAndRemove(_));
                    if options.dry_run && goes {
                        return Ok(removed(row, &old, Bytes::from(same)));
                    }
                    if same == stored.json() || options.dry_run {
                        return Ok(DeleteResult::Terminating(RenderedObject { json: Bytes::from(same) }));
                    }
                    Some((encoded, facts))
                }
                DeletionStep::Remove if options.dry_run => return Ok(removed(row, &old, existing.json())),
                DeletionStep::Remove => None,
            };
            let encoded = value.as_ref().map(|(encoded, _)| encoded.clone());
            if value.is_none()
                && let Some(before_removal) = row.strategy.effects.before_removal
            {
                before_removal(self, &key).await?;
            }
            match (self.write(&snapshot, &key, value).await, encoded) {
                // Watchers have seen the deletion timestamp; now remove the object.
                (Ok(_), Some(_)) if matches!(step, DeletionStep::MarkAndRemove(_)) => {}
                (Ok(revision), Some(encoded)) => {
                    let json = Bytes::from(splice_resource_version(&encoded, revision));
                    return Ok(DeleteResult::Terminating(RenderedObject { json }));
                }
                (Ok(revision), None) => {
                    self.after_removal(row, object_ref.workspace, &old).await;
                    return Ok(removed(row, &old, existing.json_at(revision)));
                }
                (Err(WriteFailure::Conflict), _) => {}
                (Err(WriteFailure::Status(status)), _) => return Err(status),
            }
        }
    }

    /// Encodes a terminating object. A client may delete a custom object in another version than the stored
    /// one.
    fn encode_marked(&self, row: &Row, marked: &Value) -> (Bytes, Arc<Facts>) {
        match row.custom {
            Some(_) => self.encode_stored(row, &mut marked.clone()),
            None => self.encode(row, marked),
        }
    }

    /// Calls the effect of the kind on a removed object.
    pub(crate) async fn after_removal(&self, row: &Row, workspace: &str, old: &Value) {
        if let Some(after_removal) = row.strategy.effects.after_removal {
            let object_ref =
                ObjectRef { workspace, namespace: object::namespace(old), name: object::name(old) };
            after_removal(self, object_ref, old).await;
        }
    }

    fn next_step(&self, row: &Row, old: &Value, options: &DeleteOptions) -> DeletionStep {
        let grace = match row.strategy.grace_period {
            Some(period) => self.grace(old, options.grace_period_seconds, period),
            None => Grace::None,
        };
        let finalizers = match &grace {
            Grace::Pending => return DeletionStep::Wait,
            _ => finalizers(old, options.propagation.filter(|_| row.strategy.propagates_deletion)),
        };
        let held =
            !finalizers.is_empty() || (row.strategy.blocks_removal)(old) || placement::is_on_clusters(old);
        if !held && matches!(grace, Grace::None) {
            return DeletionStep::Remove;
        }
        let mut marked = old.clone();
        let first = !object::is_being_deleted(old);
        let fields = object::metadata_mut(&mut marked);
        match finalizers.is_empty() {
            true => fields.remove("finalizers"),
            false => fields.insert("finalizers".into(), json!(finalizers)),
        };
        let counts = first && !row.strategy.custom_deletion;
        if counts && let Some(generation) = fields.get("generation").and_then(Value::as_i64) {
            fields.insert("generation".into(), (generation + 1).into());
        }
        let (time, period) = match grace {
            Grace::Until { time, period } => (Some(time), period),
            _ => ((first || ends_after(old, self.clock.seconds())).then(|| self.clock.seconds()), 0),
        };
        if let Some(time) = time {
            fields.insert("deletionTimestamp".into(), time::format(time).into());
        }
        if !row.strategy.custom_deletion {
            fields.insert("deletionGracePeriodSeconds".into(), period.into());
        }
        (row.strategy.begin_delete)(&mut marked);
        if held || period > 0 { DeletionStep::Mark(marked) } else { DeletionStep::MarkAndRemove(marked) }
    }

    /// The remaining grace period of an object.
    fn grace(&self, old: &Value, wanted: Option<i64>, period: GracePeriod) -> Grace {
        let wanted = wanted.map(|seconds| if seconds < 0 { 1 } else { seconds });
        if !object::is_being_deleted(old) {
            let period = period(old, wanted);
            return Grace::Until { time: self.clock.seconds().saturating_add(period), period };
        }
        let (current, wanted) = match (object::deletion_grace_period_seconds(old), wanted) {
            (None | Some(0), _) => return Grace::None,
            (Some(_), None) => return Grace::Pending,
            // A grace period can only be shortened.
            (Some(current), Some(wanted)) if wanted >= current.max(1) => return Grace::Pending,
            (Some(current), Some(wanted)) => (current, wanted),
        };
        let end = deletion_time(old).unwrap_or_else(|| self.clock.seconds());
        let time = end.saturating_sub(current).saturating_add(wanted);
        // The deletion time cannot be in the past; a nonzero grace period stays at least one second.
        match self.clock.seconds() {
            now if time < now => Grace::Until { time: now, period: wanted.min(1) },
            _ => Grace::Until { time, period: wanted },
        }
    }
}

/// The next step of a deletion.
enum DeletionStep {
    /// Remove the object.
    Remove,
    /// The object is already terminating, and its grace period is not over.
    Wait,
    /// Finalizers or a grace period remain.
    Mark(Value),
    /// No grace period remains; watchers see the marked object first.
    MarkAndRemove(Value),
}

enum Grace {
    /// The kind has no grace period, or none remains.
    None,
    /// The grace period of the existing deletion applies.
    Pending,
    /// End of the grace period in seconds since 1970, and its length in seconds.
    Until { time: i64, period: i64 },
}

fn deletion_time(object: &Value) -> Option<i64> {
    let text = object::deletion_timestamp(object)?;
    time::parse(text).ok().map(|time| time.seconds)
}

fn ends_after(object: &Value, now: i64) -> bool {
    deletion_time(object).is_some_and(|time| time > now)
}

/// The finalizers of the object for a propagation policy.
fn finalizers(object: &Value, propagation: Option<Propagation>) -> Vec<String> {
    let current = object["metadata"]["finalizers"].as_array();
    let current: Vec<String> =
        current.into_iter().flatten().filter_map(Value::as_str).map(str::to_string).collect();
    let has = |name: &str| current.iter().any(|own| own == name);
    let propagation = propagation.unwrap_or(match () {
        () if has(ORPHAN) => Propagation::Orphan,
        () if has(FOREGROUND) => Propagation::Foreground,
        () => Propagation::Background,
    });
    let added = match propagation {
        Propagation::Orphan => Some(ORPHAN),
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Background => None,
    };
    if added.is_some_and(|added| has(added) && !(has(ORPHAN) && has(FOREGROUND))) {
        return current;
    }
    let others = current.into_iter().filter(|own| own != ORPHAN && own != FOREGROUND);
    others.chain(added.map(str::to_string)).collect()
}

fn check_preconditions(row: &Row, old: &Value, options: &DeleteOptions) -> Result<(), Status> {
    let (name, uid, revision) = (object::name(old), object::uid(old), object::resource_version(old));
    if row.strategy.custom_deletion {
        return check_own_preconditions(row, old, options);
    }
    let conflict = |message: String| Err(Status::conflict(&row.group, &row.kind, name, message));
    match (&options.uid, &options.resource_version) {
        (Some(wanted), _) if wanted != uid => conflict(format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might \
             have been deleted and then recreated"
        )),
        (_, Some(wanted)) if wanted != revision => conflict(format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
             ({revision}). The object might have been modified"
        )),
        _ => Ok(()),
    }
}

fn check_own_preconditions(row: &Row, old: &Value, options: &DeleteOptions) -> Result<(), Status> {
    let conditions = [
        ("UID", &options.uid, object::uid(old)),
        ("ResourceVersion", &options.resource_version, object::resource_version(old)),
    ];
    for (name, wanted, actual) in conditions {
        if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != actual) {
            let message = format!(
                "Precondition failed: {name} in precondition: {wanted}, {name} in object meta: {actual}"
            );
            return Err(Status::conflict(&row.group, &row.resource, object::name(old), message));
        }
    }
    Ok(())
}

fn removed(row: &Row, old: &Value, json: Bytes) -> DeleteResult {
    if row.strategy.returns_deleted {
        return DeleteResult::Removed(RenderedObject { json });
    }
    DeleteResult::Status(Status::success(Details {
        name: object::name(old).into(),
        group: row.group.clone(),
        kind: row.resource.clone(),
        uid: object::uid(old).into(),
        ..Details::default()
    }))
}
