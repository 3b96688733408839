//! Get and list: from memory, without parsing anything.

use std::borrow::Cow;
use std::sync::Arc;

use atoll_meta::{FieldSelector, LabelSelector, Status};
use atoll_store::Revision;
use atoll_watch::{Object, Scope, Snapshot, Stretch};

use crate::Registry;
use crate::row::{Place, Row};

/// Which objects of a scope are wanted.
#[derive(Clone, Debug)]
pub struct Selection {
    pub labels: LabelSelector,
    pub fields: FieldSelector,
}

/// One page of a list.
pub struct Listing {
    pub objects: Stretch,
    /// The revision that the list shows.
    pub revision: Revision,
    /// Where the next page begins: behind this, counted from the scope's prefix. `None` if this was the last.
    pub next: Option<String>,
    /// How many are left, if that is known without looking at each.
    pub remaining: Option<usize>,
}

/// Where a page of a list begins.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// Behind this, counted from the scope's prefix.
    pub after: &'a str,
    /// How many were left when the page before had been sent, if that is known.
    pub rest: Option<usize>,
    /// Whether the revision of the pages before has expired: this page is the first one at its own.
    pub is_anew: bool,
}

impl Selection {
    pub fn everything() -> Self {
        Selection { labels: LabelSelector::everything(), fields: FieldSelector::everything() }
    }

    pub fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an object is wanted. Which fields one of a custom resource has depends on who asks.
    pub fn matches_in(&self, row: &Row, object: &Arc<Object>) -> bool {
        match row.custom {
            Some(_) if !self.fields.is_empty() => self.matches(&row.shown(object.clone())),
            _ => self.matches(object),
        }
    }

    pub fn matches(&self, object: &Object) -> bool {
        (self.labels.is_empty() || self.labels.matches(|label| object.facts.label(label)))
            && (self.fields.is_empty() || self.fields.matches(|field| Some(object.field(field))))
    }
}

impl Registry {
    pub fn get(&self, row: &Row, place: &Place<'_>) -> Result<Arc<Object>, Status> {
        let found = self.snapshot().get(&row.key(place));
        let found = found.ok_or_else(|| Status::not_found(&row.group, &row.resource, place.name))?;
        Ok(row.shown(found))
    }

    /// The objects of `scope` that are selected, as `snapshot` has them; at most `limit` if that is not 0.
    pub fn list(
        &self,
        row: &Row,
        snapshot: &Arc<Snapshot>,
        scope: &Scope,
        selection: &Selection,
        start: Option<Start<'_>>,
        limit: usize,
    ) -> Listing {
        let after = start.map(|start| start.after);
        let everything = selection.is_everything();
        let most = if limit == 0 { usize::MAX } else { limit };
        let objects = everything.then(|| Stretch::within(snapshot, scope, after, most)).flatten();
        let objects = objects.unwrap_or_else(|| {
            let wanted = |object: &Cow<'_, Arc<Object>>| everything || selection.matches_in(row, object);
            let found = snapshot.list_borrowed(scope, after).filter(wanted).take(most);
            found.map(Cow::into_owned).collect::<Vec<_>>().into()
        });
        let revision = snapshot.revision;
        if limit == 0 {
            return Listing { objects, revision, next: None, remaining: None };
        }
        let last = objects.iter().nth(limit - 1).map(|last| scope.relative(&last.key).to_string());
        // Whether what follows is selected is only seen when it is asked for, as upstream has it.
        let mut rest = last.as_deref().map(|last| snapshot.list_borrowed(scope, Some(last)));
        let more = rest.as_mut().is_some_and(|rest| rest.next().is_some());
        let remaining = (more && everything).then(|| {
            let before = match start {
                None => snapshot.count(scope),
                Some(start) => start.rest.unwrap_or_else(|| snapshot.list_borrowed(scope, after).count()),
            };
            before.saturating_sub(limit).max(1)
        });
        // Only the first page counts: a list cannot make itself last longer than history by being continued.
        if more && start.is_none_or(|start| start.is_anew) {
            self.cache.pin(snapshot);
        }
        Listing { objects, revision, next: last.filter(|_| more), remaining }
    }
}
