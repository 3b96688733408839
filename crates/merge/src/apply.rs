//! Server-side apply: tracks which manager owns which fields, and detects conflicts.
//!
//! ```text
//! managedFields ─ managed ─▶ Entry { manager, Set }            shape: how apply treats a type
//!                               │                                │
//!   new object ─ record ─▶ compare(live, new) ─▶ the author owns the changed fields, other managers lose them
//!   configuration ─ apply ─▶ validate ─ merge ─ prune ─ compare ─▶ conflicts, or the new object
//!                                               │
//!                                               fields that the author no longer applies and that have no other owner
//! ```
//!
//! Sets borrow names from objects and from `managedFields`, so that nothing is copied until the entries are
//! encoded again.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/fieldmanager.go
// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/structuredmerge.go
// upstream: sigs.k8s.io/structured-merge-diff/v6/merge/update.go

mod author;
mod compare;
mod conflict;
mod custom;
mod element;
mod extract;
mod fields_v1;
mod last_applied;
mod managed;
mod merge;
mod object_fields;
mod path_set;
mod remove;
mod scale;
mod shape;
mod validate;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use atoll_crd::Schema;
use atoll_meta::{Status, object};
use atoll_schema::{TypeId, TypeRef, Types};
use serde_json::{Map, Value};

pub use author::{Author, ResetFields};
pub use extract::extract;
pub use fields_v1::MalformedFields;
pub use managed::is_reset;
pub use path_set::Set;
pub use scale::{REPLICAS, parent_fields, scale_fields};

use conflict::Conflict;
use managed::{Entry, Operation};
use shape::{NoKey, Shape};

/// The field of the metadata with the managers.
const MANAGED_FIELDS: &str = "managedFields";

/// Manager of all fields of an object that had no `managedFields` before the first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Merges two lists of managers, in canonical order.
pub fn merge_managers(one: Option<&Value>, other: &Value) -> Option<Value> {
    let mut entries = managed::decode(one).unwrap_or_default();
    entries.extend(managed::decode(Some(other)).unwrap_or_default());
    managed::encode(entries)
}

/// A kind, as far as field management needs it.
#[derive(Clone, Debug)]
pub struct Kind {
    api_version: String,
    kind: String,
    /// All versions of the kind that managers may have used; the versions of a definition share the list.
    siblings: Arc<[String]>,
    root: Root,
    /// An object without any fields set.
    empty: Value,
}

/// Source of the field types of a kind.
#[derive(Clone, Debug)]
enum Root {
    Type(Option<TypeId>),
    Schema(Arc<Schema>),
}

impl Kind {
    /// Creates a kind that a CustomResourceDefinition describes.
    pub fn custom(api_version: String, kind: &str, schema: Arc<Schema>) -> Self {
        Kind { root: Root::Schema(schema), ..Kind::new(api_version, kind, None) }
    }

    fn shape(&self) -> Shape<'_> {
        match &self.root {
            Root::Type(id) => Shape::of_kind(*id),
            Root::Schema(schema) => Shape::of_schema(schema),
        }
    }

    /// Creates a built-in kind, or a kind whose types are deduced from its objects.
    pub fn new(api_version: String, kind: &str, type_id: Option<TypeId>) -> Self {
        let zero = type_id.map(|id| Types::get().zero(TypeRef::Struct(id)));
        let mut empty = zero.unwrap_or_else(|| Value::Object(Map::new()));
        if type_id.is_none() {
            object::set_type(&mut empty, &api_version, kind);
        }
        Kind {
            api_version,
            kind: kind.to_owned(),
            siblings: Arc::default(),
            root: Root::Type(type_id),
            empty,
        }
    }

    /// Adds the versions that managers may have used and that have the same field names. This version may be
    /// among them.
    pub fn with_siblings(self, siblings: Arc<[String]>) -> Self {
        Kind { siblings, ..self }
    }

    /// Whether all fields of an object are known to this kind.
    pub fn accepts(&self, object: &Value) -> bool {
        validate::errors(self.shape(), object).is_empty()
    }

    /// Returns an object without any fields set.
    pub fn empty(&self) -> &Value {
        &self.empty
    }

    /// Updates the `managedFields` of `new`, which `author` has changed from `live` (from [`Kind::empty`] if
    /// it is new).
    pub fn record(&self, live: &Value, new: &mut Value, author: &Author<'_>) {
        let sent = new
            .get_mut("metadata")
            .and_then(Value::as_object_mut)
            .and_then(|fields| fields.remove(MANAGED_FIELDS));
        let kept = live_fields(live);
        let (source, is_kept) = match &sent {
            // Writes of a subresource cannot change `managedFields`.
            _ if !author.subresource.is_empty() => (kept, true),
            Some(sent) if managed::is_reset(Some(sent)) => (None, false),
            Some(sent) if !managed::decode(Some(sent)).unwrap_or_default().is_empty() => (Some(sent), false),
            _ => (kept, true),
        };
        let entries = managed::decode(source).unwrap_or_default();
        // Objects without `managedFields` are tracked only from the first apply on.
        if entries.is_empty() && !object::uid(live).is_empty() {
            return;
        }
        let recorded = match self.updated(live, new, entries, author, author.manager) {
            Ok(Some(entries)) => managed::encode(entries),
            Ok(None) if is_kept => kept.cloned(),
            Ok(None) => managed::encode(managed::decode(source).unwrap_or_default()),
            // Upstream drops the managers instead of failing.
            Err(NoKey(_)) => None,
        };
        if let Some(recorded) = recorded {
            object::metadata_mut(new).insert(MANAGED_FIELDS.to_owned(), recorded);
        }
    }

    /// Returns the entries after `author`, under the name `manager`, has changed `live` to `new`. `None` if
    /// they are unchanged.
    fn updated<'a>(
        &'a self,
        live: &'a Value,
        new: &'a Value,
        mut entries: Vec<Entry<'a>>,
        author: &Author<'a>,
        manager: &'a str,
    ) -> Result<Option<Vec<Entry<'a>>>, NoKey> {
        let count = entries.len();
        entries.retain(|entry| entry.api_version == self.api_version.as_str());
        let mut comparison = compare::compare(self.shape(), live, new)?;
        author.resets.filter(&mut comparison.changed);
        author.resets.filter(&mut comparison.removed);
        let mut same = entries.len() == count;
        for entry in &mut entries {
            same &= !self.reconcile(entry) && !entry.set.is_empty();
            same &= !remove_fields(entry, &comparison.changed);
            same &= !remove_fields(entry, &comparison.removed);
        }
        let mut own = comparison.changed;
        strip_system_fields(&mut own);
        if same && own.is_empty() {
            return Ok(None);
        }
        entries.retain(|entry| !entry.set.is_empty());
        if !own.is_empty() {
            let mut entry = self.entry(author, manager, Operation::Update);
            entry.time = Some(author.time.into());
            entry.set = own;
            if let Some(index) = entries.iter().position(|other| other.is_same_manager(&entry)) {
                entry.set = entry.set.union(entries.swap_remove(index).set);
            }
            entries.push(entry);
        }
        managed::cap(&mut entries);
        Ok(Some(entries))
    }

    /// Returns the entries of this version after `author` has changed `live` to `new` in another version.
    pub fn entries_after_change(&self, live: &Value, new: &Value, author: &Author<'_>) -> Option<Value> {
        let mut entries = managed::decode(live_fields(live)).unwrap_or_default();
        entries.retain(|entry| entry.api_version == self.api_version.as_str());
        let mut comparison = compare::compare(self.shape(), live, new).ok()?;
        author.resets.filter(&mut comparison.changed);
        author.resets.filter(&mut comparison.removed);
        for entry in &mut entries {
            remove_fields(entry, &comparison.changed);
            remove_fields(entry, &comparison.removed);
        }
        entries.retain(|entry| !entry.set.is_empty());
        managed::encode(entries)
    }

    fn entry<'a>(&'a self, author: &Author<'a>, manager: &'a str, operation: Operation) -> Entry<'a> {
        Entry {
            manager: if manager.is_empty() { "unknown".into() } else { manager.into() },
            operation,
            api_version: self.api_version.as_str().into(),
            subresource: author.subresource.into(),
            time: None,
            set: Set::default(),
        }
    }

    /// Adapts an entry to types that have become atomic since it was written. Returns whether it changed.
    fn reconcile(&self, entry: &mut Entry<'_>) -> bool {
        let count = entry.set.len();
        entry.set.collapse(self.shape());
        entry.set.len() != count
    }

    /// Applies `config` to `live` (to [`Kind::empty`] if there is no object yet) and returns the new object.
    ///
    /// The result still has to be normalised.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration is of another kind, is invalid, or conflicts with other
    /// managers.
    pub fn apply(
        &self,
        live: &Value,
        config: &Value,
        author: &Author<'_>,
        force: bool,
    ) -> Result<Value, Status> {
        self.check_kind(config)?;
        let result = match self.apply_once(live, config, author, force) {
            Err(ApplyError::Conflicts(conflicts)) if author.manager == last_applied::MANAGER => {
                match last_applied::without_own_fields(self.shape(), &self.api_version, live, conflicts) {
                    conflicts if conflicts.is_empty() => self.apply_once(live, config, author, true),
                    conflicts => Err(ApplyError::Conflicts(conflicts)),
                }
            }
            result => result,
        };
        let mut applied = result.map_err(|error| match error {
            ApplyError::Conflicts(conflicts) => conflict::status(conflicts),
            ApplyError::Status(status) => *status,
        })?;
        if author.manager == last_applied::MANAGER {
            last_applied::update_annotation(&mut applied, config);
        }
        Ok(applied)
    }

    fn check_kind(&self, config: &Value) -> Result<(), Status> {
        let (version, kind) = (object::api_version(config), object::kind(config));
        if version == self.api_version && kind == self.kind {
            return Ok(());
        }
        let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
        Err(Status::bad_request(format!("invalid object type: {group}/{version}, Kind={kind}")))
    }

    fn apply_once<'a>(
        &'a self,
        live: &'a Value,
        config: &'a Value,
        author: &Author<'a>,
        force: bool,
    ) -> Result<Value, ApplyError<'a>> {
        let plain = |message: String| ApplyError::Status(Box::new(Status::plain_internal(message)));
        let mut entries = managed::decode(live_fields(live))
            .map_err(|_| plain("failed to decode managed fields".to_owned()))?;
        if entries.is_empty() {
            let before = self.updated(&self.empty, live, entries, author, BEFORE_FIRST_APPLY);
            let before = before.map_err(|NoKey(message)| {
                plain(format!("failed to create manager for existing fields: {message}"))
            })?;
            entries = before.unwrap_or_default();
        }
        if config["metadata"][MANAGED_FIELDS].is_array() {
            return Err(ApplyError::Status(Box::new(Status::bad_request(
                "metadata.managedFields must be nil",
            ))));
        }
        let errors = validate::errors(self.shape(), config);
        if !errors.is_empty() {
            return Err(plain(format!(
                "failed to create typed patch object ({}): {}",
                describe(config),
                validate::join(&errors)
            )));
        }
        let failed = |NoKey(message): NoKey| plain(format!("failed to merge config: {message}"));
        entries.retain(|entry| {
            let is_version = |version: &String| entry.api_version == version.as_str();
            is_version(&self.api_version) || self.siblings.iter().any(is_version)
        });
        for entry in &mut entries {
            self.reconcile(entry);
        }
        let mut own = self.entry(author, author.manager, Operation::Apply);
        own.set = object_fields::of(self.shape(), config).map_err(failed)?;
        author.resets.filter(&mut own.set);
        let last = entries
            .iter()
            .position(|entry| entry.is_same_manager(&own))
            .map(|index| entries.swap_remove(index));
        let merged = merge::merge(self.shape(), live, config).map_err(failed)?;
        let new = match &last {
            Some(last) if !last.set.is_subset(&own.set) => {
                self.prune(&merged, &entries, &own, last).map_err(failed)?
            }
            _ => merged,
        };
        let conflicts: Vec<Conflict<'a>>;
        let recorded = {
            let mut comparison = compare::compare(self.shape(), live, &new).map_err(failed)?;
            author.resets.filter(&mut comparison.changed);
            author.resets.filter(&mut comparison.removed);
            conflicts = conflicts_with(&entries, &comparison.changed);
            if conflicts.is_empty() || force {
                let mut entries = entries;
                for entry in &mut entries {
                    remove_fields(entry, &comparison.changed);
                    remove_fields(entry, &comparison.removed);
                }
                entries.retain(|entry| !entry.set.is_empty());
                strip_system_fields(&mut own.set);
                own.time = match compare::same(live, &new) {
                    true => last.and_then(|last| last.time),
                    false => Some(author.time.into()),
                };
                if !own.set.is_empty() {
                    entries.push(own);
                }
                Some(managed::encode(entries))
            } else {
                None
            }
        };
        let Some(recorded) = recorded else { return Err(ApplyError::Conflicts(conflicts)) };
        let mut new = new;
        let fields = object::metadata_mut(&mut new);
        match recorded {
            Some(recorded) => fields.insert(MANAGED_FIELDS.to_owned(), recorded),
            None => fields.remove(MANAGED_FIELDS),
        };
        Ok(new)
    }

    /// Removes from the merged object the fields that the author applied last time, no longer applies, and
    /// that have no other owner.
    fn prune(
        &self,
        merged: &Value,
        others: &[Entry<'_>],
        own: &Entry<'_>,
        last: &Entry<'_>,
    ) -> Result<Value, NoKey> {
        let shape = self.shape();
        let owned = |value| object_fields::of(shape, value).map(|set| set.with_named_fields(shape));
        let last = last.set.clone().with_named_fields(shape);
        let managed = others.iter().map(|entry| &entry.set).chain([&own.set]);
        let managed = Set::union_of(managed.cloned().collect());
        let whole = owned(merged)?;
        let without_last = remove::remove(shape, merged, &last);
        let kept = owned(&without_last)?.union(managed.with_named_fields(shape));
        let owned_only = remove::remove(shape, merged, &whole.difference(&kept));
        let pruned = owned(&owned_only)?;
        // Fields that were never applied stay, even if the owner of their parent is gone.
        let abandoned = whole.difference(&pruned).intersection(&last);
        Ok(remove::remove(shape, merged, &abandoned))
    }
}

/// The reason why an apply fails.
enum ApplyError<'a> {
    Conflicts(Vec<Conflict<'a>>),
    Status(Box<Status>),
}

fn live_fields(live: &Value) -> Option<&Value> {
    live.get("metadata").and_then(|fields| fields.get(MANAGED_FIELDS))
}

/// Returns the conflicts with the owners of the changed fields.
fn conflicts_with<'a>(entries: &[Entry<'a>], changed: &Set<'_>) -> Vec<Conflict<'a>> {
    let conflict = |entry: &Entry<'a>| {
        let fields = entry.set.intersection(changed);
        (!fields.is_empty()).then(|| Conflict::new(entry, fields))
    };
    entries.iter().filter_map(conflict).collect()
}

/// Describes an object by name and kind, as in upstream's errors.
fn describe(config: &Value) -> String {
    let (group, version) =
        object::api_version(config).rsplit_once('/').unwrap_or(("", object::api_version(config)));
    let (namespace, name, kind) = (object::namespace(config), object::name(config), object::kind(config));
    format!("{namespace}/{name}; {group}/{version}, Kind={kind}")
}

/// Removes fields from an entry. Returns whether it lost any.
fn remove_fields<'a>(entry: &mut Entry<'a>, set: &Set<'a>) -> bool {
    if entry.set.is_disjoint(set) {
        return false;
    }
    entry.set = entry.set.difference(set);
    true
}

/// Removes the system fields, which have no manager.
fn strip_system_fields(set: &mut Set<'_>) {
    const METADATA: [&str; 9] = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    set.remove(&["apiVersion"], false);
    set.remove(&["kind"], false);
    set.remove(&["metadata"], false);
    for field in METADATA {
        set.remove(&["metadata", field], false);
    }
}
