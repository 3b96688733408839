use std::cell::Cell;

use atoll_store::WriteHint;

use super::*;
use crate::ObjectCursor;
use crate::object::Facts;

thread_local! {
    static VISITS: Cell<usize> = const { Cell::new(0) };
}

/// Counts a stored key that a list has visited on this thread.
pub fn count_visit() {
    VISITS.with(|visits| visits.set(visits.get() + 1));
}

struct NoFacts;

impl Decode for NoFacts {
    fn facts(&self, _: &Key, _: &Bytes, _: Option<&WriteHint>) -> Arc<Facts> {
        Facts::none()
    }
}

fn snapshot_with(objects: usize) -> Arc<Snapshot> {
    let mut snapshot = Snapshot::new(1, Arc::new(Layer::default()), Arc::new(NoFacts));
    let stored = br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{}}"#;
    let object = |number: usize| {
        let key = Key::object("", "configmaps", "w", "n", &format!("{number:06}"));
        Arc::new(Object::new(key, 1, stored, Facts::none()))
    };
    snapshot.fill((0..objects).map(object).collect());
    Arc::new(snapshot)
}

/// Reads a page as lists do. Returns its last key, the number of remaining objects, and the number of visited keys.
fn page(
    snapshot: &Arc<Snapshot>,
    scope: &Scope,
    start: Option<(&str, usize)>,
    limit: usize,
) -> (String, usize, usize) {
    VISITS.with(|visits| visits.set(0));
    let (after, before) = (start.map(|(after, _)| after), start.map(|(_, before)| before));
    let cursor = ObjectCursor::within(snapshot, scope, after, limit).expect("the layer is empty");
    let last = cursor.iter().nth(limit - 1).expect("the page is full");
    let last = scope.relative(&last.key).to_string();
    assert!(snapshot.has_more(scope, &last));
    let remaining = snapshot.remaining(scope, after, before, limit);
    (last, remaining, VISITS.with(Cell::get))
}

#[test]
fn pages_visit_the_keys_that_they_return() {
    let scopes = [
        Scope::new("", "configmaps", Some("w"), Some("n")),
        Scope::new("", "configmaps", Some("w"), None),
        Scope::new("", "configmaps", None, None),
    ];
    let [small, large] = [1_000, 100_000].map(|objects| (objects, snapshot_with(objects)));
    for (objects, snapshot) in [small, large] {
        for scope in &scopes {
            for limit in [1, 500] {
                // The page and the key after it, whatever the number of objects.
                let visits = limit + 1;
                let (last, remaining, visited) = page(&snapshot, scope, None, limit);
                assert_eq!((remaining, visited), (objects - limit, visits), "{scope:?} of {objects}");
                if remaining > limit {
                    let (_, then, visited) = page(&snapshot, scope, Some((&last, remaining)), limit);
                    assert_eq!((then, visited), (remaining - limit, visits), "{scope:?} of {objects}");
                }
            }
        }
    }
}
