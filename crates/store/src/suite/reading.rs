//! Ranges at the current and at past revisions.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use super::random::{Random, seeds};
use super::{all, delete, done, put, texts};
use crate::{Key, Range, ReadError, Revision, Store, key};

async fn keys(store: &Arc<dyn Store>, range: Range, limit: usize) -> (Vec<String>, bool) {
    let page = store.range(range, None, limit).await.expect("reading a range");
    (page.entries.iter().map(|entry| entry.key.to_string()).collect(), page.more)
}

pub async fn revisions_ascend(store: Arc<dyn Store>) {
    let mut last = store.revision().await.expect("a revision");
    for round in 0..20 {
        let key = format!("key-{}", round % 3);
        let revision = done(&store, put(&key, round.to_string())).await;
        assert!(revision > last);
        assert_eq!(store.revision().await, Ok(revision));
        assert_eq!(all(&store).await.revision, revision);
        last = revision;
    }
}

pub async fn ranges_are_in_byte_order(store: Arc<dyn Store>) {
    let mut names =
        ["b", "a/b", "a", "a-b", "B", "a/", "ab", "é", "z", "a\u{0}b", "~", "中"].map(String::from);
    for name in &names {
        done(&store, put(name, name)).await;
    }
    names.sort_unstable();
    assert_eq!(keys(&store, Range::all(), 0).await, (names.to_vec(), false));
}

pub async fn ranges_respect_their_bounds(store: Arc<dyn Store>) {
    for name in ["a", "b", "c", "d"] {
        done(&store, put(name, name)).await;
    }
    let key = |name: &str| Key::from(name);
    for (start, end, expected) in [
        (Unbounded, Unbounded, "abcd"),
        (Included(key("b")), Unbounded, "bcd"),
        (Excluded(key("b")), Unbounded, "cd"),
        (Unbounded, Included(key("b")), "ab"),
        (Unbounded, Excluded(key("b")), "a"),
        (Included(key("b")), Included(key("c")), "bc"),
        (Included(key("b")), Included(key("b")), "b"),
        (Included(key("b")), Excluded(key("b")), ""),
        (Excluded(key("b")), Included(key("b")), ""),
        (Excluded(key("b")), Excluded(key("b")), ""),
        (Excluded(key("b")), Excluded(key("c")), ""),
        (Included(key("c")), Included(key("b")), ""),
        (Included(key("bb")), Excluded(key("d")), "c"),
        (Included(key("e")), Unbounded, ""),
    ] {
        let range = Range { start: start.clone(), end: end.clone() };
        assert_eq!(keys(&store, range, 0).await.0.concat(), expected, "{start:?} to {end:?}");
    }
    let object = |resource, workspace, name| Key::object("", resource, workspace, "default", name);
    for key in [object("pods", "one", "p"), object("pods", "two", "q"), object("podsets", "one", "r")] {
        done(&store, put(&key, "")).await;
    }
    let prefix = |workspace, namespace| Range::prefix(&key::prefix("", "pods", workspace, namespace));
    assert_eq!(keys(&store, prefix(None, None), 0).await.0.len(), 2);
    assert_eq!(keys(&store, prefix(Some("one"), None), 0).await.0, ["core/pods/one/default/p"]);
    assert_eq!(keys(&store, prefix(Some("one"), Some("other")), 0).await.0.len(), 0);
}

pub async fn limits_leave_out_the_rest(store: Arc<dyn Store>) {
    for name in ["a", "b", "c", "d", "e"] {
        done(&store, put(name, name)).await;
    }
    done(&store, delete("b")).await;
    for (limit, expected, more) in [(0, "acde", false), (1, "a", true), (3, "acd", true), (4, "acde", false)]
    {
        let (found, left) = keys(&store, Range::all(), limit).await;
        assert_eq!((found.concat().as_str(), left), (expected, more), "limit {limit}");
    }
    assert_eq!(keys(&store, Range::all(), usize::MAX).await.0.len(), 4);
    // The next page starts just after the last key of this one.
    let rest = Range { start: Excluded(Key::from("a")), end: Unbounded };
    assert_eq!(keys(&store, rest, 2).await, (vec!["c".into(), "d".into()], true));
}

pub async fn every_revision_can_be_read(store: Arc<dyn Store>) {
    for seed in seeds(3) {
        let mut random = Random::new(seed);
        let mut model: BTreeMap<String, String> = texts(&all(&store).await.entries).into_iter().collect();
        let mut past: Vec<(Revision, BTreeMap<String, String>)> = Vec::new();
        for round in 0..150 {
            let key = format!("key-{}", random.below(12));
            let revision = if model.contains_key(&key) && random.one_in(3) {
                model.remove(&key);
                done(&store, delete(&key)).await
            } else {
                model.insert(key.clone(), round.to_string());
                done(&store, put(&key, round.to_string())).await
            };
            past.push((revision, model.clone()));
        }
        for (revision, model) in past {
            let page = store.range(Range::all(), Some(revision), 0).await.expect("the past");
            assert_eq!(page.revision, revision);
            assert_eq!(texts(&page.entries), model.clone().into_iter().collect::<Vec<_>>(), "at {revision}");
            let few = store.range(Range::all(), Some(revision), 3).await.expect("the past");
            assert_eq!(few.entries, page.entries[..page.entries.len().min(3)]);
            assert_eq!(few.more, page.entries.len() > 3);
        }
    }
}

pub async fn the_future_cannot_be_read(store: Arc<dyn Store>) {
    let current = done(&store, put("a", "1")).await;
    for future in [current + 1, current + 1000, u64::MAX] {
        assert_eq!(
            store.range(Range::all(), Some(future), 0).await.err(),
            Some(ReadError::Future { current }),
            "{future}"
        );
    }
    assert!(store.range(Range::all(), Some(current), 0).await.is_ok());
}
