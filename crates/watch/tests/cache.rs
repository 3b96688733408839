//! Reads and watches through the cache of a store.

use std::sync::Arc;

use atoll_store::memory::MemoryStore;
use atoll_store::{Condition, Key, Store, Write, WriteHint};
use atoll_watch::layer::REVISION;
use atoll_watch::object::{Decode, TOMBSTONE};
use atoll_watch::{
    Cache, EventType, Facts, Layer, Limits, Object, ObjectCursor, RevisionError, Scope, Watcher,
};
use bytes::Bytes;
use serde_json::json;

/// Takes the labels from `metadata.labels` of the value.
struct Labels;

impl Decode for Labels {
    fn facts(&self, _: &Key, value: &Bytes, _: Option<&WriteHint>) -> Arc<Facts> {
        let value: serde_json::Value = serde_json::from_slice(value).unwrap_or_default();
        let labels = value["metadata"]["labels"].as_object().into_iter().flatten();
        let labels =
            labels.map(|(name, value)| (name.as_str().into(), value.as_str().unwrap_or_default().into()));
        Arc::new(Facts { labels: labels.collect(), ..Facts::default() })
    }
}

struct CacheWithStore {
    store: MemoryStore,
    cache: Arc<Cache>,
}

fn key(workspace: &str, namespace: &str, name: &str) -> Key {
    Key::object("", "configmaps", workspace, namespace, name)
}

fn encoded(name: &str, label: &str, size: usize) -> Bytes {
    let object = json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": { "name": name, "labels": { "l": label } },
        "data": { "k": "x".repeat(size) },
    });
    Bytes::from(atoll_meta::json::encode_object(&object))
}

fn everything() -> Scope {
    Scope::new("", "configmaps", None, None)
}

fn within(workspace: &str, namespace: &str) -> Scope {
    Scope::new("", "configmaps", Some(workspace), Some(namespace))
}

impl CacheWithStore {
    async fn new() -> CacheWithStore {
        CacheWithStore::with(Layer::default(), Limits::default()).await
    }

    async fn with(layer: Layer, limits: Limits) -> CacheWithStore {
        let store = MemoryStore::new();
        let cache = Cache::open(&store, Arc::new(Labels), layer, limits, Vec::new())
            .await
            .expect("a new store can be read");
        CacheWithStore { store, cache }
    }

    async fn write(&self, key: &Key, value: Option<Bytes>) -> u64 {
        let write = Write { key: key.clone(), expect: Condition::Any, value, guards: Vec::new(), hint: None };
        self.store.write(write).await.expect("the write succeeds")
    }

    async fn put(&self, name: &str, label: &str) -> u64 {
        self.write(&key("w", "n", name), Some(encoded(name, label, 1))).await
    }

    fn names(&self, scope: &Scope) -> Vec<String> {
        self.cache.snapshot().list(scope, None).map(|object| object.name().to_string()).collect()
    }

    fn watch(&self, scope: Scope, after: u64) -> Watcher {
        self.cache.watch(scope, after).expect("the revision is in the history")
    }
}

/// All events that are ready, as (revision, type) for a watcher of label `l=a`.
async fn seen(watcher: &mut Watcher, count: usize) -> Vec<(u64, EventType)> {
    let is_a = |object: &Arc<Object>| object.facts.label("l") == Some("a");
    let mut seen = Vec::new();
    while seen.len() < count {
        let events = watcher.next().await.expect("the watcher keeps up");
        seen.extend(events.iter().filter_map(|event| Some((event.revision, event.type_for(is_a)?))));
    }
    seen
}

#[tokio::test]
async fn a_write_that_was_acknowledged_can_be_read() {
    let fixture = CacheWithStore::new().await;
    let revision = fixture.put("a", "x").await;
    let object = fixture.cache.snapshot().get(&key("w", "n", "a")).unwrap();
    assert_eq!(
        (object.revision, object.name(), object.namespace(), object.workspace()),
        (revision, "a", "n", "w")
    );
    let expected = format!(
        "{{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"{revision}\","
    );
    assert!(object.json().starts_with(expected.as_bytes()), "{:?}", object.json());
}

#[tokio::test]
async fn lists_are_in_key_order_and_stay_in_their_scope() {
    let fixture = CacheWithStore::new().await;
    for (workspace, namespace, name) in
        [("w", "n", "b"), ("w", "n-1", "c"), ("w", "n", "a"), ("v", "n", "z"), ("w", "m", "d")]
    {
        fixture.write(&key(workspace, namespace, name), Some(encoded(name, "", 1))).await;
    }
    // `n-1/` sorts before `n/`: a dash comes before a slash, here as in etcd.
    assert_eq!(fixture.names(&Scope::new("", "configmaps", Some("w"), None)), ["d", "c", "a", "b"]);
    assert_eq!(fixture.names(&within("w", "n")), ["a", "b"]);
    assert_eq!(fixture.names(&everything()).len(), 5);
    assert_eq!(fixture.names(&Scope::object("", "configmaps", "w", "n", "a")), ["a"]);
    let behind: Vec<_> = fixture
        .cache
        .snapshot()
        .list(&within("w", "n"), Some("a"))
        .map(|object| object.name().to_string())
        .collect();
    assert_eq!(behind, ["b"]);
}

#[tokio::test]
async fn a_cursor_reads_the_snapshot_that_it_started_with() {
    let mut layer = Layer::default();
    layer.add("", "configmaps", "layered", "base", encoded("base", "a", 1), Facts::default());
    let fixture = CacheWithStore::with(layer, Limits::default()).await;
    let names: Vec<String> = (0..100).map(|number| format!("o{number:03}")).collect();
    for name in &names {
        fixture.put(name, "a").await;
    }
    fixture.write(&key("w", "n", "o050"), Some(Bytes::from_static(TOMBSTONE))).await;
    fixture.write(&key("w", "o", "other"), Some(encoded("other", "a", 1))).await;
    let expected: Vec<&str> = names.iter().map(String::as_str).filter(|name| *name != "o050").collect();
    let (scope, snapshot) = (within("w", "n"), fixture.cache.snapshot());
    let gathered: Vec<Arc<Object>> = snapshot.list(&scope, None).collect();
    let stretches = [
        (ObjectCursor::within(&snapshot, &scope, None, usize::MAX).unwrap(), &expected[..]),
        (ObjectCursor::within(&snapshot, &scope, Some("o048"), usize::MAX).unwrap(), &expected[49..]),
        (ObjectCursor::within(&snapshot, &scope, Some("o010"), 60).unwrap(), &expected[11..71]),
        (ObjectCursor::within(&snapshot, &scope, Some("o099"), 60).unwrap(), &[]),
        (ObjectCursor::from(gathered), &expected[..]),
    ];
    drop(snapshot);
    for name in &names {
        fixture.write(&key("w", "n", name), None).await;
    }
    for (stretch, expected) in stretches {
        for size in [1, 7, 99, 200] {
            let (mut rest, mut seen) = (stretch.clone(), Vec::new());
            while !rest.is_empty() {
                let piece: Vec<Arc<Object>> = rest.iter().take(size).cloned().collect();
                seen.extend(piece.iter().map(|object| object.name().to_string()));
                rest.advance(piece.len(), &piece[piece.len() - 1].key);
            }
            assert_eq!(seen, expected, "{size} at a time");
        }
    }
    let snapshot = fixture.cache.snapshot();
    let layered = |workspace, namespace| {
        let scope = Scope::new("", "configmaps", workspace, namespace);
        ObjectCursor::within(&snapshot, &scope, None, usize::MAX).is_none()
    };
    let places = [(Some("w"), Some("n")), (Some("w"), None), (Some("w"), Some("layered")), (None, None)];
    assert_eq!(
        places.map(|(workspace, namespace)| layered(workspace, namespace)),
        [false, true, true, false]
    );
}

#[tokio::test]
async fn past_revisions_can_be_listed_until_they_expire() {
    let fixture = CacheWithStore::new().await;
    let first = fixture.put("a", "x").await;
    let second = fixture.put("b", "x").await;
    fixture.put("a", "y").await;
    fixture.write(&key("w", "n", "b"), None).await;
    let names_at = |revision| {
        let snapshot = fixture.cache.at(revision, &within("w", "n"))?;
        Ok(snapshot
            .list(&within("w", "n"), None)
            .map(|object| (object.name().to_string(), object.revision))
            .collect::<Vec<_>>())
    };
    assert_eq!(names_at(first), Ok(vec![("a".into(), first)]));
    assert_eq!(names_at(second), Ok(vec![("a".into(), first), ("b".into(), second)]));
    let current = fixture.cache.revision();
    assert_eq!(names_at(current + 1), Err(RevisionError::Future { requested: current + 1, current }));
    fixture.cache.expire(std::time::Duration::ZERO);
    assert_eq!(names_at(first), Err(RevisionError::Expired { requested: first, oldest: current }));
    assert!(fixture.cache.watch(within("w", "n"), first).is_err());
}

#[tokio::test]
async fn a_pinned_snapshot_outlives_the_history() {
    let fixture = CacheWithStore::new().await;
    let first = fixture.put("a", "x").await;
    fixture.cache.pin(&fixture.cache.snapshot());
    fixture.write(&key("w", "n", "a"), None).await;
    fixture.cache.expire(std::time::Duration::from_secs(60));
    let past = fixture.cache.at(first, &within("w", "n")).unwrap();
    assert_eq!(past.list(&within("w", "n"), None).count(), 1);
}

#[tokio::test]
async fn a_watcher_sees_what_enters_and_leaves_its_selection() {
    let fixture = CacheWithStore::new().await;
    let start = fixture.cache.revision();
    let a = fixture.put("one", "a").await;
    let b = fixture.put("one", "b").await;
    let c = fixture.put("one", "a").await;
    let mut watcher = fixture.watch(within("w", "n"), start);
    let expected = vec![(a, EventType::Added), (b, EventType::Deleted), (c, EventType::Added)];
    assert_eq!(seen(&mut watcher, 3).await, expected);
    let d = fixture.put("one", "a").await;
    fixture.write(&key("w", "other", "two"), Some(encoded("two", "a", 1))).await;
    let e = fixture.write(&key("w", "n", "one"), None).await;
    assert_eq!(seen(&mut watcher, 2).await, vec![(d, EventType::Modified), (e, EventType::Deleted)]);
}

#[tokio::test]
async fn a_deletion_shows_the_last_state_at_its_own_revision() {
    let fixture = CacheWithStore::new().await;
    let put = fixture.put("one", "a").await;
    let mut watcher = fixture.watch(within("w", "n"), put);
    let gone = fixture.write(&key("w", "n", "one"), None).await;
    let events = watcher.next().await.unwrap();
    let frame = String::from_utf8(events[0].frame(EventType::Deleted).to_vec()).unwrap();
    let line: serde_json::Value = serde_json::from_str(&frame).unwrap();
    assert_eq!(line["type"], "DELETED");
    assert_eq!(line["object"]["metadata"]["resourceVersion"], gone.to_string());
    assert_eq!(line["object"]["data"]["k"], "x");
    assert!(frame.ends_with("}\n"));
}

#[tokio::test]
async fn a_thousand_watchers_share_one_encoding() {
    let fixture = CacheWithStore::new().await;
    let start = fixture.cache.revision();
    let mut watchers: Vec<_> = (0..1000).map(|_| fixture.watch(everything(), start)).collect();
    fixture.put("one", "a").await;
    let mut frames = Vec::new();
    for watcher in &mut watchers {
        frames.push(watcher.next().await.unwrap()[0].frame(EventType::Added));
    }
    assert!(frames.iter().all(|frame| frame.as_ptr() == frames[0].as_ptr()), "the same bytes, not a copy");
    assert_eq!(fixture.cache.watchers(), 1000);
    drop(watchers);
    assert_eq!(fixture.cache.watchers(), 0);
}

#[tokio::test]
async fn a_slow_watcher_catches_up_from_the_history_without_a_gap() {
    let fixture = CacheWithStore::new().await;
    let mut watcher = fixture.watch(everything(), fixture.cache.revision());
    assert!(watcher.ready().unwrap().is_none(), "no events yet");
    let mut written = Vec::new();
    for number in 0..3000 {
        written.push(fixture.put(&format!("o{number}"), "a").await);
    }
    let revisions: Vec<u64> =
        seen(&mut watcher, 3000).await.into_iter().map(|(revision, _)| revision).collect();
    assert_eq!(revisions, written);
}

#[tokio::test]
async fn a_watcher_that_is_too_slow_expires() {
    let fixture = CacheWithStore::with(Layer::default(), Limits { bytes: 64 << 10 }).await;
    let mut watcher = fixture.watch(everything(), fixture.cache.revision());
    assert!(watcher.ready().unwrap().is_none());
    for number in 0..2000 {
        fixture.put(&format!("o{number}"), "a").await;
    }
    let expired = watcher.next().await.unwrap_err();
    assert!(expired.seen < expired.oldest, "{expired:?}");
}

#[tokio::test]
async fn an_idle_watcher_is_not_expired_by_events_in_other_scopes() {
    let fixture = CacheWithStore::with(Layer::default(), Limits { bytes: 64 << 10 }).await;
    let mut watcher = fixture.watch(within("w", "quiet"), fixture.cache.revision());
    assert!(watcher.ready().unwrap().is_none());
    for number in 0..2000 {
        fixture.put(&format!("o{number}"), "a").await;
    }
    assert_eq!(watcher.progress(), fixture.cache.revision());
    let last = fixture.write(&key("w", "quiet", "x"), Some(encoded("x", "a", 1))).await;
    assert_eq!(seen(&mut watcher, 1).await, vec![(last, EventType::Added)]);
}

#[tokio::test]
async fn layer_objects_are_visible_until_a_workspace_writes_its_own() {
    let mut layer = Layer::default();
    layer.add("", "configmaps", "n", "base", encoded("base", "a", 1), Facts::default());
    let fixture = CacheWithStore::with(layer, Limits::default()).await;
    let base = key("w", "n", "base");
    let shown = fixture.cache.snapshot().get(&base).unwrap();
    assert_eq!(shown.revision, REVISION);
    assert!(fixture.put("later", "x").await > REVISION, "the layer's revision is reserved");
    assert_eq!(fixture.names(&within("w", "n")), ["base", "later"]);
    assert_eq!(fixture.names(&within("v", "n")), ["base"], "visible in every workspace");
    assert_eq!(fixture.names(&everything()), ["later"], "not in lists across all workspaces");
    let uid = |workspace: &str| {
        let object = fixture.cache.snapshot().get(&key(workspace, "n", "base")).unwrap();
        serde_json::from_slice::<serde_json::Value>(&object.json()).unwrap()["metadata"]["uid"].clone()
    };
    assert_ne!(uid("w"), uid("v"));
    assert_eq!(uid("w"), uid("w"));

    let mut watcher = fixture.watch(within("w", "n"), fixture.cache.revision());
    let all = |_: &Arc<Object>| true;
    fixture.write(&base, Some(encoded("base", "b", 1))).await;
    assert_eq!(
        watcher.next().await.unwrap()[0].type_for(all),
        Some(EventType::Modified),
        "the layer's object existed before"
    );
    fixture.write(&base, Some(Bytes::from_static(TOMBSTONE))).await;
    assert_eq!(watcher.next().await.unwrap()[0].type_for(all), Some(EventType::Deleted));
    assert_eq!(fixture.names(&within("w", "n")), ["later"]);
    assert!(fixture.cache.snapshot().get(&base).is_none());
    fixture.write(&base, Some(encoded("base", "c", 1))).await;
    assert_eq!(watcher.next().await.unwrap()[0].type_for(all), Some(EventType::Added));
}

#[tokio::test]
async fn a_new_cache_loads_the_history_that_the_store_kept() {
    let fixture = CacheWithStore::new().await;
    let first = fixture.put("a", "x").await;
    let second = fixture.put("a", "y").await;
    let again =
        Cache::open(&fixture.store, Arc::new(Labels), Layer::default(), Limits::default(), Vec::new())
            .await
            .unwrap();
    assert_eq!(again.revision(), second);
    let mut watcher = again.watch(within("w", "n"), first).unwrap();
    let events = watcher.next().await.unwrap();
    assert_eq!(
        events[0].previous.as_ref().map(|object| object.revision),
        Some(first),
        "the previous state is known"
    );
    fixture.store.compact(second).await.unwrap();
    let later =
        Cache::open(&fixture.store, Arc::new(Labels), Layer::default(), Limits::default(), Vec::new())
            .await
            .unwrap();
    assert!(matches!(later.watch(within("w", "n"), first), Err(RevisionError::Expired { .. })));
    assert_eq!(later.snapshot().len(), 1);
}

#[tokio::test]
async fn raising_the_revision_expires_older_ones() {
    let fixture = CacheWithStore::new().await;
    let before = fixture.put("a", "x").await;
    fixture.store.raise(before + 1000).await.unwrap();
    assert!(matches!(fixture.cache.watch(everything(), before), Err(RevisionError::Expired { .. })));
    assert!(fixture.put("b", "x").await > before + 1000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_is_readable_before_its_event_is_delivered() {
    let fixture = CacheWithStore::new().await;
    let mut watcher = fixture.watch(everything(), fixture.cache.revision());
    let cache = fixture.cache.clone();
    const WRITES: u64 = 20_000;
    let listening = tokio::spawn(async move {
        let mut received = 0;
        while received < WRITES {
            for event in watcher.next().await.unwrap() {
                let found = cache.snapshot().get(&event.key).map(|object| object.revision);
                assert!(found >= Some(event.revision), "event at {}, object at {found:?}", event.revision);
                received += 1;
            }
        }
    });
    for _ in 0..WRITES {
        fixture.put("one", "a").await;
    }
    listening.await.unwrap();
}

/// The count of a scope equals the length of its list after every kind of write, at the current and at past
/// revisions.
#[tokio::test]
async fn counts_equal_the_length_of_lists() {
    let mut layer = Layer::default();
    for name in ["born", "hidden"] {
        layer.add("", "configmaps", "n", name, encoded(name, "layer", 1), Facts::default());
    }
    let fixture = CacheWithStore::with(layer, Limits::default()).await;
    let scopes = [
        everything(),
        Scope::new("", "configmaps", Some("w"), None),
        within("w", "n"),
        within("w", "m"),
        within("v", "n"),
        Scope::object("", "configmaps", "w", "n", "born"),
        Scope::object("", "configmaps", "w", "n", "missing"),
    ];
    let mut revisions = Vec::new();
    // A fixed sequence that visits every key several times, with every kind of write.
    for step in 0_usize..200 {
        let (workspace, namespace) = [("w", "n"), ("w", "m"), ("v", "n")][step % 3];
        let name = ["born", "hidden", "a", "b", "c"][step / 3 % 5];
        let key = key(workspace, namespace, name);
        let is_there = fixture.cache.snapshot().stored_revision(&key).is_some();
        let value = match step * 7 % 5 {
            0 | 1 => Some(encoded(name, "own", 1)),
            2 => Some(Bytes::from_static(TOMBSTONE)),
            _ => None,
        };
        if value.is_some() || is_there {
            revisions.push(fixture.write(&key, value).await);
        }
        let snapshot = fixture.cache.snapshot();
        for scope in &scopes {
            assert_eq!(snapshot.count(scope), snapshot.list(scope, None).count(), "step {step}: {scope:?}");
        }
    }
    for revision in revisions {
        for scope in &scopes {
            let past = fixture.cache.at(revision, scope).expect("the revision is in the history");
            assert_eq!(past.count(scope), past.list(scope, None).count(), "revision {revision}: {scope:?}");
        }
    }
}

/// Events that the history has dropped are kept only by queues of watchers.
#[tokio::test]
async fn large_events_are_queued_within_a_size() {
    const EVENTS: usize = 64;
    let fixture = CacheWithStore::new().await;
    let start = fixture.put("a", "a").await;
    let mut watcher = fixture.watch(everything(), start);
    assert!(watcher.ready().unwrap().is_none(), "the watcher has caught up");
    let mut written = Vec::new();
    for _ in 0..EVENTS {
        written.push(fixture.write(&key("w", "n", "a"), Some(encoded("a", "a", 100 << 10))).await);
    }
    let mut received = Vec::new();
    while received.len() < EVENTS {
        let events = watcher.next().await.expect("the history has all events");
        assert!(events.len() <= 10, "{} events at once", events.len());
        received.extend(events.iter().map(|event| event.revision));
    }
    assert_eq!(received, written);
    // One event may be larger.
    let revision = fixture.write(&key("w", "n", "a"), Some(encoded("a", "a", 3 << 20))).await;
    let next = watcher.next().await.unwrap();
    assert_eq!(next.iter().map(|event| event.revision).collect::<Vec<_>>(), [revision]);
}
