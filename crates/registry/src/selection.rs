//! Selection of objects by labels and fields.
//!
//! A tenant may send a selector of thousands of terms, or select among very many objects. Such work is split
//! into turns of some milliseconds, which tenants take alternately and not on the threads that serve requests.

use std::borrow::Cow;
use std::sync::Arc;

use atoll_meta::{FieldSelector, LabelSelector, Status};
use atoll_watch::{Object, Scope, Snapshot};

use crate::Registry;
use crate::blocking::{self, Stage};
use crate::bootstrap::ROOT;
use crate::row::Row;
use crate::subtree::Subtree;

/// Number of lookups from which a selection takes turns.
const MANY_LOOKUPS: usize = 100_000;
/// Number of lookups in a turn.
const LOOKUPS_PER_TURN: usize = 50_000;
/// Lookups that take as long as the conversion of a custom object to the requested version.
const LOOKUPS_PER_CONVERSION: usize = 100;
/// Lookups that take as long as finding out whether an object is in a subtree of workspaces.
const LOOKUPS_IN_SUBTREE: usize = 10;

/// A label and field selector, and the workspaces if they are neither one nor all.
#[derive(Clone, Debug)]
pub struct Selection {
    pub labels: LabelSelector,
    pub fields: FieldSelector,
    pub within: Option<Subtree>,
}

impl Selection {
    pub fn everything() -> Self {
        Selection { labels: LabelSelector::everything(), fields: FieldSelector::everything(), within: None }
    }

    pub fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty() && self.within.is_none()
    }

    /// Whether there are more terms than in almost all selectors.
    pub fn is_long(&self) -> bool {
        self.labels.is_long() || self.fields.is_long()
    }

    /// Approximate number of bytes in memory.
    pub fn memory(&self) -> usize {
        self.labels.memory() + self.fields.memory()
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
        (self.labels.is_empty() || self.labels.matches_labels(&*object.facts))
            && (self.fields.is_empty() || self.fields.matches(|field| Some(object.field(field))))
            && self.within.as_ref().is_none_or(|within| within.contains(object.workspace()))
    }

    /// Maximum number of lookups for an object with this number of labels.
    fn lookups(&self, row: &Row, labels: usize) -> usize {
        let conversion =
            if row.custom.is_some() && !self.fields.is_empty() { LOOKUPS_PER_CONVERSION } else { 0 };
        let within = if self.within.is_some() { LOOKUPS_IN_SUBTREE } else { 0 };
        1 + self.labels.lookups().min(labels) + self.fields.lookups() + conversion + within
    }

    /// Maximum number of lookups for this object.
    pub fn lookups_in(&self, row: &Row, object: &Object) -> usize {
        self.lookups(row, object.facts.labels.len())
    }
}

/// The objects of a turn.
struct Turn {
    selected: Vec<Arc<Object>>,
    /// The key of the last object, if there may be more.
    last: Option<String>,
}

impl Registry {
    /// The selected objects of `scope`, at most `max`, after the key `after`, which is relative to the scope's
    /// prefix.
    pub async fn select(
        &self,
        row: &Row,
        snapshot: &Arc<Snapshot>,
        scope: &Scope,
        selection: &Selection,
        after: Option<&str>,
        max: usize,
    ) -> Result<Vec<Arc<Object>>, Status> {
        let lookups = selection.lookups(row, usize::MAX).saturating_mul(snapshot.stored_count(scope));
        if lookups < MANY_LOOKUPS {
            let is_selected = |object: &Cow<'_, Arc<Object>>| selection.matches_in(row, object);
            let found = snapshot.list_borrowed(scope, after).filter(is_selected).take(max);
            return Ok(found.map(Cow::into_owned).collect());
        }
        let workspace = scope.workspace().unwrap_or(ROOT);
        let (mut selected, mut after) = (Vec::new(), after.map(str::to_string));
        loop {
            let max = max - selected.len();
            let turn = || one_turn(row, snapshot, scope, selection, after.as_deref(), max);
            let turn = self.take_turn(workspace, turn).await?;
            selected.extend(turn.selected);
            match turn.last {
                Some(last) => after = Some(last),
                None => return Ok(selected),
            }
        }
    }

    /// Runs a short part of long work for a workspace when it is the turn of its tenant. Other requests of
    /// this thread continue on another one meanwhile.
    pub async fn take_turn<T>(&self, workspace: &str, work: impl FnOnce() -> T) -> Result<T, Status> {
        self.run_sized(workspace, blocking::LARGE, Stage::Started, work).await
    }
}

/// Whether this number of lookups is enough for a turn.
pub fn is_turn(lookups: usize) -> bool {
    lookups >= LOOKUPS_PER_TURN
}

fn one_turn(
    row: &Row,
    snapshot: &Snapshot,
    scope: &Scope,
    selection: &Selection,
    after: Option<&str>,
    max: usize,
) -> Turn {
    let (mut selected, mut lookups) = (Vec::new(), 0);
    for object in snapshot.list_borrowed(scope, after) {
        lookups += selection.lookups_in(row, &object);
        let last = is_turn(lookups).then(|| scope.relative(&object.key).to_string());
        if selection.matches_in(row, &object) {
            selected.push(object.into_owned());
            if selected.len() == max {
                break;
            }
        }
        if last.is_some() {
            return Turn { selected, last };
        }
    }
    Turn { selected, last: None }
}

#[cfg(test)]
mod tests {
    use atoll_store::Key;
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::testing;

    #[tokio::test]
    async fn selecting_in_turns_finds_the_same_objects() {
        let keys = 400;
        let labels: Map<String, Value> = (0..keys).map(|number| (format!("k{number}"), json!(""))).collect();
        let objects: Vec<(Key, Value)> = (0..300)
            .map(|number| {
                let mut labels = labels.clone();
                labels.insert("n".into(), json!((number % 3).to_string()));
                let name = format!("c{number:03}");
                let key = Key::object("core", "configmaps", "w", "n", &name);
                (key, json!({ "metadata": { "name": name, "namespace": "n", "labels": labels } }))
            })
            .collect();
        let registry = testing::registry(&objects).await;
        let row = registry.catalog.stored("", "configmaps").unwrap().clone();
        let (snapshot, scope) = (registry.snapshot(), row.scope(Some("w"), "n"));
        let terms: Vec<String> = (0..keys).map(|number| format!("k{number}")).collect();
        let labels = LabelSelector::parse(&format!("{},n!=1", terms.join(","))).unwrap();
        let selection = Selection { labels, ..Selection::everything() };
        let most = selection.lookups(&row, usize::MAX) * snapshot.stored_count(&scope);
        assert!(most > 2 * LOOKUPS_PER_TURN, "{most}");
        for after in [None, Some("c100"), Some("c299")] {
            for max in [usize::MAX, 1, 50, 150] {
                let all = snapshot.list(&scope, after).filter(|object| object.facts.label("n") != Some("1"));
                let expected: Vec<Key> = all.take(max).map(|object| object.key.clone()).collect();
                let selected =
                    registry.select(&row, &snapshot, &scope, &selection, after, max).await.unwrap();
                let selected: Vec<Key> = selected.iter().map(|object| object.key.clone()).collect();
                assert_eq!(selected, expected, "at most {max} after {after:?}");
            }
        }
    }
}
