//! Values under old keys are rewritten, and values that cannot be decrypted are reported before the store is
//! used.

use std::sync::Arc;

use atoll_encryption::{EncryptedStore, EncryptionError, MigrationSummary, Rules, generate, with_new_key};
use atoll_store::memory::MemoryStore;
use atoll_store::{Condition, Key, Range, Store, Write};
use bytes::Bytes;

const COUNT: usize = 1200;

fn write(key: &Key, value: Option<&'static str>) -> Write {
    let value = value.map(|text| Bytes::from_static(text.as_bytes()));
    Write { key: key.clone(), expect: Condition::Any, value, guards: Vec::new(), hint: None }
}

fn key(resource: &str, number: usize) -> Key {
    Key::object("", resource, "root", "default", &format!("a{number}"))
}

fn rules(text: &str) -> Rules {
    Rules::parse(text).expect("a configuration")
}

/// Number of stored values that contain `text`.
async fn raw(store: &MemoryStore, text: &[u8]) -> usize {
    let page = store.range(Range::all(), None, 0).await.expect("readable");
    let has = |value: &[u8]| value.windows(text.len()).any(|window| window == text);
    page.entries.iter().filter(|entry| has(&entry.value)).count()
}

#[tokio::test]
async fn migration_rewrites_everything_with_the_newest_key() {
    let store = Arc::new(MemoryStore::new());
    for number in 0..COUNT {
        store.write(write(&key("secrets", number), Some("{\"a\":\"hidden\"}"))).await.expect("written");
    }
    store.write(write(&key("configmaps", 0), Some("{\"a\":\"shown\"}"))).await.expect("written");
    store.write(write(&key("secrets", 0), None)).await.expect("deleted");
    let first = generate().expect("a configuration");
    let encrypted = EncryptedStore::new(store.clone(), rules(&first));
    let mut steps = Vec::new();
    let migrated = encrypted.migrate(|done, total| steps.push((done, total))).await.expect("all is readable");
    assert_eq!(migrated, MigrationSummary { rewritten: COUNT - 1 });
    assert_eq!(steps, [(0, 1199), (500, 1199), (1000, 1199), (1199, 1199)]);
    assert_eq!((raw(&store, b"hidden").await, raw(&store, b"shown").await), (0, 1));
    let again = encrypted.migrate(|_, _| panic!("there is nothing to do")).await;
    assert_eq!(again, Ok(MigrationSummary::default()));
    let page = encrypted.range(Range::all(), None, 0).await.expect("readable");
    assert!(page.entries.iter().any(|entry| entry.value == "{\"a\":\"hidden\"}"));
    // The history with the plain values was compacted.
    assert_eq!(store.compacted().await, store.revision().await);

    let (second, name) = with_new_key(&first).expect("another");
    let encrypted = EncryptedStore::new(store.clone(), rules(&second));
    assert_eq!(encrypted.migrate(|_, _| {}).await, Ok(MigrationSummary { rewritten: COUNT - 1 }));
    assert_eq!(raw(&store, format!("k8s:enc:aesgcm:v1:{name}:").as_bytes()).await, COUNT - 1);

    let lost = EncryptedStore::new(store.clone(), rules(&first)).migrate(|_, _| {}).await;
    let Err(EncryptionError::MissingKey { key, .. }) = lost else { panic!("{lost:?}") };
    assert_eq!(key, name);
}

#[tokio::test]
async fn keys_of_history_are_required_too() {
    let store = Arc::new(MemoryStore::new());
    let old = EncryptedStore::new(store.clone(), rules(&generate().expect("a configuration")));
    old.write(write(&key("secrets", 0), Some("{}"))).await.expect("written");
    old.write(write(&key("secrets", 0), None)).await.expect("deleted");
    let new = EncryptedStore::new(store.clone(), rules(&generate().expect("a configuration")));
    assert!(matches!(new.migrate(|_, _| {}).await, Err(EncryptionError::MissingKey { .. })));
    store.compact(store.revision().await.expect("readable")).await.expect("compacted");
    assert!(new.migrate(|_, _| {}).await.is_ok(), "compacted values need no key");
}
