//! Delete: at once where nothing holds the object, else by marking it.

use atoll_meta::json::splice_resource_version;
use atoll_meta::status::Details;
use atoll_meta::{Status, object};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::row::{Place, Row};
use crate::{Answer, Refused, Registry, parse};

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

/// How a deletion ended.
#[derive(Clone, Debug)]
pub enum Deleted {
    /// It is gone; this is what it was.
    Gone(Answer),
    /// It is gone, and kinds like this answer with a Status.
    Status(Status),
    /// Something holds it still; this is what it is now.
    Marked(Answer),
}

impl Registry {
    pub async fn delete(
        &self,
        row: &Row,
        place: &Place<'_>,
        options: &DeleteOptions,
        admit: &(dyn Fn(&Value) -> Result<(), Status> + Sync),
    ) -> Result<Deleted, Status> {
        let key = row.key(place);
        loop {
            let snapshot = self.snapshot();
            let existing =
                snapshot.get(&key).ok_or_else(|| Status::not_found(&row.group, &row.resource, place.name))?;
            let old = parse(&existing.json)?;
            check_preconditions(row, &old, options)?;
            admit(&old)?;
            let marked = self.marked(row, &old, options);
            let value = match &marked {
                Some(marked) => {
                    let (encoded, facts) = self.encode(row, marked);
                    let same = splice_resource_version(&encoded, existing.revision);
                    if same == existing.json || options.dry_run {
                        return Ok(Deleted::Marked(Answer { json: Bytes::from(same) }));
                    }
                    Some((encoded, facts))
                }
                None if options.dry_run => return Ok(gone(row, &old, existing.json.clone())),
                None => None,
            };
            let encoded = value.as_ref().map(|(encoded, _)| encoded.clone());
            match (self.write(&snapshot, &key, value).await, encoded) {
                (Ok(revision), Some(encoded)) => {
                    let json = Bytes::from(splice_resource_version(&encoded, revision));
                    return Ok(Deleted::Marked(Answer { json }));
                }
                (Ok(revision), None) => return Ok(gone(row, &old, existing.json_at(revision))),
                (Err(Refused::Changed), _) => {}
                (Err(Refused::Status(status)), _) => return Err(status),
            }
        }
    }

    /// The object marked for deletion, or `None` if it can go at once.
    fn marked(&self, row: &Row, old: &Value, options: &DeleteOptions) -> Option<Value> {
        let finalizers = finalizers(old, options.propagation);
        if finalizers.is_empty() && !(row.strategy.is_held)(old) {
            return None;
        }
        let mut marked = old.clone();
        let first = !old["metadata"]["deletionTimestamp"].is_string();
        let fields = object::metadata_mut(&mut marked);
        match finalizers.is_empty() {
            true => fields.remove("finalizers"),
            false => fields.insert("finalizers".into(), json!(finalizers)),
        };
        if first {
            fields.insert("deletionTimestamp".into(), self.now().into());
            if let Some(generation) =
                fields.get("generation").and_then(Value::as_i64).filter(|count| *count > 0)
            {
                fields.insert("generation".into(), (generation + 1).into());
            }
        }
        if !row.strategy.own_deletion {
            fields.insert("deletionGracePeriodSeconds".into(), 0.into());
        }
        (row.strategy.begin_delete)(&mut marked);
        Some(marked)
    }
}

/// The finalizers that the object shall have, given how its dependents are to be treated.
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
    if row.strategy.own_deletion {
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

fn gone(row: &Row, old: &Value, json: Bytes) -> Deleted {
    if row.strategy.returns_deleted {
        return Deleted::Gone(Answer { json });
    }
    Deleted::Status(Status::success(Details {
        name: object::name(old).into(),
        group: row.group.clone(),
        kind: row.resource.clone(),
        uid: object::uid(old).into(),
        ..Details::default()
    }))
}
