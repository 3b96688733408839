//! Lists that are continued at the revision of their first page: how long that is possible, and their
//! contents.

use std::sync::Arc;
use std::time::Duration;

use atoll_store::memory::MemoryStore;
use atoll_store::{Condition, Key, Revision, Store, Write, WriteHint};
use atoll_watch::object::Decode;
use atoll_watch::{Cache, Facts, Layer, Limits, RevisionError, Scope};
use bytes::Bytes;

struct NoFacts;

impl Decode for NoFacts {
    fn facts(&self, _: &Key, _: &Bytes, _: Option<&WriteHint>) -> Arc<Facts> {
        Facts::none()
    }
}

async fn open(store: &MemoryStore) -> Arc<Cache> {
    let opened = Cache::open(store, Arc::new(NoFacts), Layer::default(), Limits::default(), Vec::new());
    opened.await.expect("a new store can be read")
}

/// Writes a ConfigMap of workspace `w`.
async fn put(store: &MemoryStore, namespace: &str, name: &str) -> Revision {
    let key = Key::object("", "configmaps", "w", namespace, name);
    let value = format!(r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}"}}}}"#);
    let value = Some(Bytes::from(value));
    let write = Write { key, expect: Condition::Any, value, guards: Vec::new(), hint: None };
    store.write(write).await.expect("the write succeeds")
}

fn within(namespace: Option<&str>) -> Scope {
    Scope::new("", "configmaps", Some("w"), namespace)
}

#[tokio::test(start_paused = true)]
async fn a_list_is_continued_for_as_long_as_history_is_kept() {
    for (is_begun_again, is_expired) in [(false, true), (true, false)] {
        let store = MemoryStore::new();
        let cache = open(&store).await;
        let (revision, scope) = (put(&store, "n", "a").await, within(Some("n")));
        cache.pin(&cache.snapshot());
        tokio::time::advance(Duration::from_secs(200)).await;
        if is_begun_again {
            cache.pin(&cache.snapshot());
        }
        let expire = || cache.expire(Duration::from_secs(100));
        let expired = Some(RevisionError::Expired { requested: revision, oldest: revision });
        expire();
        assert_eq!(cache.continue_at(revision, &scope).err(), expired.filter(|_| is_expired));
        // Later writes neither revive an expired list nor expire another one.
        put(&store, "n", "b").await;
        for _ in 0..2 {
            assert_eq!(cache.continue_at(revision, &scope).err(), expired.filter(|_| is_expired));
            expire();
        }
        assert!(cache.continue_at(cache.revision(), &scope).is_ok(), "a list that starts now");
    }
}

#[tokio::test]
async fn a_snapshot_reverted_for_one_scope_is_not_used_for_another() {
    let store = MemoryStore::new();
    let cache = open(&store).await;
    let (a, b) = (put(&store, "n", "a").await, put(&store, "m", "b").await);
    for (namespace, name) in [("n", "a"), ("n", "new"), ("m", "b"), ("m", "new")] {
        put(&store, namespace, name).await;
    }
    let scopes = [
        (within(Some("n")), vec![("a".to_string(), a)]),
        (within(Some("m")), vec![("b".to_string(), b)]),
        (within(None), vec![("b".to_string(), b), ("a".to_string(), a)]),
    ];
    // The order of requests and pins does not matter; once more when all of them are pinned.
    for first in [0, 1, 2, 0, 1, 2] {
        cache.pin(&cache.at(b, &scopes[first].0).expect("the revision is in the history"));
        for (scope, expected) in &scopes {
            let past = cache.continue_at(b, scope).expect("the revision is in the history");
            let seen: Vec<_> =
                past.list(scope, None).map(|object| (object.name().to_string(), object.revision)).collect();
            assert_eq!(seen, *expected, "{scope:?}, after {:?}", scopes[first].0);
            assert_eq!(past.count(scope), expected.len());
        }
    }
}
