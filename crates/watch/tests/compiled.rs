//! Compiled definitions are in memory for as long as their objects are current, and no longer: neither the
//! history nor pinned snapshots keep them.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use atoll_store::memory::MemoryStore;
use atoll_store::{Condition, Key, Revision, Store, Write, WriteHint};
use atoll_watch::object::Decode;
use atoll_watch::{Cache, ExtraFacts, Facts, Layer, Limits, Scope};
use bytes::Bytes;

/// Compiles every value, and shares all of its text but the name.
#[derive(Default)]
struct Compiler {
    compiled: Mutex<Vec<Weak<Bytes>>>,
    texts: Mutex<HashSet<Bytes>>,
    past: AtomicUsize,
}

impl Compiler {
    /// The number of compiled values that are still in memory.
    fn alive(&self) -> usize {
        let compiled = self.compiled.lock().expect("no panic");
        compiled.iter().filter(|compiled| compiled.strong_count() > 0).count()
    }

    fn made(&self) -> usize {
        self.compiled.lock().expect("no panic").len()
    }
}

impl Decode for Compiler {
    fn facts(&self, _: &Key, value: &Bytes, _: Option<&WriteHint>) -> Arc<Facts> {
        let made = Arc::new(value.clone());
        self.compiled.lock().expect("no panic").push(Arc::downgrade(&made));
        let spec = value.windows(7).position(|part| part == b"\"spec\":").expect("a spec") + 7;
        let mut texts = self.texts.lock().expect("no panic");
        let text = Bytes::copy_from_slice(&value[spec..value.len() - 1]);
        let text = texts.get(&text).cloned().unwrap_or(text);
        texts.insert(text.clone());
        let extra = ExtraFacts { shared: [text].into(), compiled: Some(made), ..ExtraFacts::default() };
        let labels = [("l".into(), "v".into())].into();
        Arc::new(Facts { labels, extra: Some(Box::new(extra)), ..Facts::default() })
    }

    fn past_facts(&self, _: &Key, _: &Bytes) -> Arc<Facts> {
        self.past.fetch_add(1, Ordering::Relaxed);
        Facts::none()
    }
}

struct World {
    store: MemoryStore,
    cache: Arc<Cache>,
    compiler: Arc<Compiler>,
}

impl World {
    async fn open(store: MemoryStore, limits: Limits) -> World {
        let compiler = Arc::new(Compiler::default());
        let opened = Cache::open(&store, compiler.clone(), Layer::default(), limits, Vec::new()).await;
        World { cache: opened.expect("the store can be read"), store, compiler }
    }

    async fn put(&self, name: &str, text: &str) -> Revision {
        put(&self.store, name, text).await
    }
}

async fn put(store: &MemoryStore, name: &str, text: &str) -> Revision {
    let value = format!(
        r#"{{"kind":"K","apiVersion":"v1","metadata":{{"name":"{name}"}},"spec":{{"text":"{text}"}}}}"#
    );
    let key = Key::object("g", "definitions", "w", "", name);
    let value = Some(Bytes::from(value));
    let write = Write { key, expect: Condition::Any, value, guards: Vec::new(), hint: None };
    store.write(write).await.expect("the write succeeds")
}

fn scope() -> Scope {
    Scope::new("g", "definitions", Some("w"), None)
}

#[tokio::test]
async fn the_history_keeps_the_json_of_replaced_definitions_only() {
    let world = World::open(MemoryStore::new(), Limits::default()).await;
    let first = world.put("a", "0").await;
    for number in 1..100 {
        world.put("a", &number.to_string()).await;
    }
    assert_eq!((world.compiler.made(), world.compiler.alive()), (100, 1), "the current one");
    let mut watcher = world.cache.watch(scope(), first).expect("the history has it");
    let events = watcher.next().await.expect("events");
    assert_eq!(events.len(), 99);
    for event in &events {
        let [previous, object] =
            [&event.previous, &event.object].map(|object| object.as_ref().expect("both"));
        assert_eq!((previous.facts.label("l"), object.facts.label("l")), (Some("v"), Some("v")));
        assert!(previous.json().len() > 50 && object.revision == event.revision);
    }
    assert_eq!(world.compiler.alive(), 1, "events that a watcher has");
    let past = world.cache.at(first, &scope()).expect("the history has it");
    let shown = past.list(&scope(), None).next().expect("the object").json();
    assert!(shown.ends_with(br#""spec":{"text":"0"}}"#), "{shown:?}");
}

#[tokio::test]
async fn pinned_snapshots_keep_the_json_of_replaced_definitions_only() {
    let world = World::open(MemoryStore::new(), Limits::default()).await;
    let mut before = world.put("a", "0").await;
    for number in 1..20 {
        // One snapshot is pinned before the change, and one by a request that has begun before.
        world.cache.pin(&world.cache.snapshot());
        world.put("b", &number.to_string()).await;
        let under_way = world.cache.snapshot();
        let after = world.put("a", &number.to_string()).await;
        world.cache.pin(&under_way);
        drop(under_way);
        assert_eq!(world.compiler.alive(), 2, "the current ones");
        let past = world.cache.continue_at(before, &scope()).expect("pinned");
        let shown = past.list(&scope(), None).next().expect("the object");
        assert_eq!(shown.revision, before);
        assert!(shown.json().ends_with(format!(r#"{{"text":"{}"}}}}"#, number - 1).as_bytes()));
        before = after;
    }
}

#[tokio::test]
async fn requests_under_way_keep_the_definitions_that_they_have_seen() {
    let world = World::open(MemoryStore::new(), Limits::default()).await;
    world.put("a", "0").await;
    let snapshot = world.cache.snapshot();
    world.cache.pin(&snapshot);
    world.put("a", "1").await;
    let object = snapshot.list(&scope(), None).next().expect("the object");
    assert!(object.facts.extra.as_ref().expect("facts").compiled.is_some());
}

#[tokio::test]
async fn replayed_definitions_that_were_replaced_are_not_compiled() {
    let store = MemoryStore::new();
    for number in 0..100 {
        for name in ["a", "b"] {
            put(&store, name, &number.to_string()).await;
        }
    }
    let world = World::open(store, Limits::default()).await;
    let made = world.compiler.made();
    assert_eq!(made + world.compiler.past.load(Ordering::Relaxed), 200);
    assert_eq!((made, world.compiler.alive()), (2, 2), "the last of each");
    let texts: Vec<Bytes> = world.cache.snapshot().list(&scope(), None).map(|object| object.json()).collect();
    assert!(texts.iter().all(|json| json.ends_with(br#"{"text":"99"}}"#)), "{texts:?}");
}

#[tokio::test]
async fn the_history_counts_texts_that_objects_share_once() {
    let limits = Limits { bytes: 64 << 10 };
    for is_same in [true, false] {
        let world = World::open(MemoryStore::new(), limits).await;
        let start = world.cache.revision();
        for number in 0..32 {
            let text = format!("{}{}", "x".repeat(8 << 10), if is_same { 0 } else { number });
            world.put("a", &text).await;
        }
        // Different texts are 256 KiB, four times the limit.
        let dropped = world.cache.oldest() - start;
        assert!(if is_same { dropped == 0 } else { (24..30).contains(&dropped) }, "{dropped} were dropped");
    }
}
