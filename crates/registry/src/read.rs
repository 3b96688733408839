//! Get and list, from memory and without parsing objects.

// upstream: staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go

use std::borrow::Cow;
use std::sync::Arc;

use atoll_meta::{FieldSelector, LabelSelector, Status};
use atoll_store::Revision;
use atoll_watch::{Object, ObjectCursor, Scope, Snapshot};

use crate::Registry;
use crate::row::{ObjectRef, Row};

/// A label and field selector.
#[derive(Clone, Debug)]
pub struct Selection {
    pub labels: LabelSelector,
    pub fields: FieldSelector,
}

/// One page of a list.
#[derive(Clone)]
pub struct Listing {
    pub objects: ObjectCursor,
    /// The revision that the list shows.
    pub revision: Revision,
    /// PageStart of the next page: the key relative to the scope's prefix after which it begins. `None` for the
    /// last page.
    pub next: Option<String>,
    /// Number of remaining objects, if known without iterating.
    pub remaining: Option<usize>,
}

/// The start of a page of a list.
#[derive(Clone, Copy, Debug)]
pub struct PageStart<'a> {
    /// The key relative to the scope's prefix after which the page starts.
    pub after: &'a str,
    /// Number of remaining objects after the previous page, if known.
    pub remaining: Option<usize>,
    /// Whether the revision of the previous pages has expired: this page is the first one at a new revision.
    pub is_restart: bool,
}

impl Selection {
    pub fn everything() -> Self {
        Selection { labels: LabelSelector::everything(), fields: FieldSelector::everything() }
    }

    pub fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an object is selected. The selectable fields of a custom object depend on the requested
    /// version.
    pub fn matches_in(&self, row: &Row, object: &Arc<Object>) -> bool {
        match row.custom {
            Some(_) if !self.fields.is_empty() => self.matches(&row.to_served(object.clone())),
            _ => self.matches(object),
        }
    }

    pub fn matches(&self, object: &Object) -> bool {
        (self.labels.is_empty() || self.labels.matches(|label| object.facts.label(label)))
            && (self.fields.is_empty() || self.fields.matches(|field| Some(object.field(field))))
    }
}

impl Registry {
    pub fn get(&self, row: &Row, object_ref: &ObjectRef<'_>) -> Result<Arc<Object>, Status> {
        let found = self.snapshot().get(&row.key(object_ref));
        let found = found.ok_or_else(|| Status::not_found(&row.group, &row.resource, object_ref.name))?;
        Ok(row.to_served(found))
    }

    /// The selected objects of `scope` in `snapshot`; at max `limit` unless it is 0.
    pub fn list(
        &self,
        row: &Row,
        snapshot: &Arc<Snapshot>,
        scope: &Scope,
        selection: &Selection,
        start: Option<PageStart<'_>>,
        limit: usize,
    ) -> Listing {
        let after = start.map(|start| start.after);
        let everything = selection.is_everything();
        let max = if limit == 0 { usize::MAX } else { limit };
        let objects = everything.then(|| ObjectCursor::within(snapshot, scope, after, max)).flatten();
        let objects = objects.unwrap_or_else(|| {
            let wanted = |object: &Cow<'_, Arc<Object>>| everything || selection.matches_in(row, object);
            let found = snapshot.list_borrowed(scope, after).filter(wanted).take(max);
            found.map(Cow::into_owned).collect::<Vec<_>>().into()
        });
        let revision = snapshot.revision;
        if limit == 0 {
            return Listing { objects, revision, next: None, remaining: None };
        }
        let last = objects.iter().nth(limit - 1).map(|last| scope.relative(&last.key).to_string());
        // As in upstream, the remaining objects are not matched against the selector until they are
        // requested.
        let mut rest = last.as_deref().map(|last| snapshot.list_borrowed(scope, Some(last)));
        let more = rest.as_mut().is_some_and(|rest| rest.next().is_some());
        let remaining = (more && everything).then(|| {
            let before = match start {
                None => snapshot.count(scope),
                Some(start) => {
                    start.remaining.unwrap_or_else(|| snapshot.list_borrowed(scope, after).count())
                }
            };
            before.saturating_sub(limit).max(1)
        });
        // Pin only for the first page: continuing a list must not extend its lifetime.
        if more && start.is_none_or(|start| start.is_restart) {
            self.cache.pin(snapshot);
        }
        Listing { objects, revision, next: last.filter(|_| more), remaining }
    }
}
