//! Get and list, from memory and without parsing objects.

// upstream: staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go

use std::borrow::Cow;
use std::sync::Arc;

use atoll_meta::Status;
use atoll_store::Revision;
use atoll_watch::{Object, ObjectCursor, Scope, Snapshot};

use crate::Registry;
use crate::row::{ObjectRef, Row};
use crate::selection::Selection;

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

impl Registry {
    pub fn get(&self, row: &Row, object_ref: &ObjectRef<'_>) -> Result<Arc<Object>, Status> {
        let found = self.snapshot().get(&row.key(object_ref));
        let found = found.ok_or_else(|| Status::not_found(&row.group, &row.resource, object_ref.name))?;
        Ok(row.to_served(found))
    }

    /// The selected objects of `scope` in `snapshot`; at max `limit` unless it is 0. Selecting them takes turns
    /// with other tenants if it takes long.
    pub async fn list(
        &self,
        row: &Row,
        snapshot: &Arc<Snapshot>,
        scope: &Scope,
        selection: &Selection,
        start: Option<PageStart<'_>>,
        limit: usize,
    ) -> Result<Listing, Status> {
        let after = start.map(|start| start.after);
        let max = if limit == 0 { usize::MAX } else { limit };
        let everything = selection.is_everything();
        let objects = everything.then(|| ObjectCursor::within(snapshot, scope, after, max)).flatten();
        let objects = match objects {
            Some(objects) => objects,
            None if everything => {
                let all = snapshot.list_borrowed(scope, after).take(max);
                all.map(Cow::into_owned).collect::<Vec<_>>().into()
            }
            None => self.select(row, snapshot, scope, selection, after, max).await?.into(),
        };
        Ok(self.page(snapshot, scope, everything, start, limit, objects))
    }

    /// A page with these objects.
    fn page(
        &self,
        snapshot: &Arc<Snapshot>,
        scope: &Scope,
        everything: bool,
        start: Option<PageStart<'_>>,
        limit: usize,
        objects: ObjectCursor,
    ) -> Listing {
        let after = start.map(|start| start.after);
        let revision = snapshot.revision;
        if limit == 0 {
            return Listing { objects, revision, next: None, remaining: None };
        }
        let last = objects.iter().nth(limit - 1).map(|last| scope.relative(&last.key).to_string());
        // As in upstream, the remaining objects are not matched against the selector until they are
        // requested.
        let more = last.as_deref().is_some_and(|last| snapshot.has_more(scope, last));
        let before = start.and_then(|start| start.remaining);
        let remaining = (more && everything).then(|| snapshot.remaining(scope, after, before, limit));
        // Pin only for the first page: continuing a list must not extend its lifetime.
        if more && start.is_none_or(|start| start.is_restart) {
            self.cache.pin(snapshot);
        }
        Listing { objects, revision, next: last.filter(|_| more), remaining }
    }
}
