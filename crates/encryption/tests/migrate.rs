//! What was written otherwise is written anew, and what cannot be read is told before anybody reads.

use std::sync::Arc;

use atoll_encryption::{EncryptionError, Migrated, Rules, Sealed, generate, with_new_key};
use atoll_store::memory::MemoryStore;
use atoll_store::{Condition, Key, Range, Store, Write};
use bytes::Bytes;

const COUNT: usize = 1200;

fn write(key: &Key, value: Option<&'static str>) -> Write {
    let value = value.map(|text| Bytes::from_static(text.as_bytes()));
    Write { key: key.clone(), expect: Condition::Any, value, guards: Vec::new(), memo: None }
}

fn key(resource: &str, number: usize) -> Key {
    Key::object("", resource, "root", "default", &format!("a{number}"))
}

fn rules(text: &str) -> Rules {
    Rules::parse(text).expect("a configuration")
}

/// How many values on the disk contain this.
async fn raw(store: &MemoryStore, text: &[u8]) -> usize {
    let page = store.range(Range::all(), None, 0).await.expect("readable");
    let has = |value: &[u8]| value.windows(text.len()).any(|window| window == text);
    page.entries.iter().filter(|entry| has(&entry.value)).count()
}

#[tokio::test]
async fn everything_comes_under_the_newest_key() {
    let store = Arc::new(MemoryStore::new());
    for number in 0..COUNT {
        store.write(write(&key("secrets", number), Some("{\"a\":\"hidden\"}"))).await.expect("written");
    }
    store.write(write(&key("configmaps", 0), Some("{\"a\":\"shown\"}"))).await.expect("written");
    store.write(write(&key("secrets", 0), None)).await.expect("deleted");
    let first = generate().expect("a configuration");
    let sealed = Sealed::new(store.clone(), rules(&first));
    let mut steps = Vec::new();
    let migrated = sealed.migrate(|done, total| steps.push((done, total))).await.expect("all is readable");
    assert_eq!(migrated, Migrated { rewritten: COUNT - 1 });
    assert_eq!(steps, [(0, 1199), (500, 1199), (1000, 1199), (1199, 1199)]);
    assert_eq!((raw(&store, b"hidden").await, raw(&store, b"shown").await), (0, 1));
    let again = sealed.migrate(|_, _| panic!("there is nothing to do")).await;
    assert_eq!(again, Ok(Migrated::default()));
    let page = sealed.range(Range::all(), None, 0).await.expect("readable");
    assert!(page.entries.iter().any(|entry| entry.value == "{\"a\":\"hidden\"}"));
    // The past, in which it could be read, is gone.
    assert_eq!(store.compacted().await, store.revision().await);

    let (second, name) = with_new_key(&first).expect("another");
    let sealed = Sealed::new(store.clone(), rules(&second));
    assert_eq!(sealed.migrate(|_, _| {}).await, Ok(Migrated { rewritten: COUNT - 1 }));
    assert_eq!(raw(&store, format!("k8s:enc:aesgcm:v1:{name}:").as_bytes()).await, COUNT - 1);

    let lost = Sealed::new(store.clone(), rules(&first)).migrate(|_, _| {}).await;
    let Err(EncryptionError::MissingKey { key, .. }) = lost else { panic!("{lost:?}") };
    assert_eq!(key, name);
}

#[tokio::test]
async fn the_past_is_looked_at_too() {
    let store = Arc::new(MemoryStore::new());
    let old = Sealed::new(store.clone(), rules(&generate().expect("a configuration")));
    old.write(write(&key("secrets", 0), Some("{}"))).await.expect("written");
    old.write(write(&key("secrets", 0), None)).await.expect("deleted");
    let new = Sealed::new(store.clone(), rules(&generate().expect("a configuration")));
    assert!(matches!(new.migrate(|_, _| {}).await, Err(EncryptionError::MissingKey { .. })));
    store.compact(store.revision().await.expect("readable")).await.expect("compacted");
    assert!(new.migrate(|_, _| {}).await.is_ok(), "what is gone needs no key");
}
