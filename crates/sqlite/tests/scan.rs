//! A log that is long enough to be read from both ends.

// Clippy regards only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

use atoll_sqlite::{SqliteOptions, SqliteStore, Synchronous};
use atoll_store::suite::{all, delete, put, write_all};
use atoll_store::{Key, Range, Revision, Store};

fn open(directory: &Path) -> Arc<dyn Store> {
    let options = SqliteOptions { synchronous: Synchronous::Off, ..SqliteOptions::default() };
    Arc::new(SqliteStore::open(directory, options).unwrap())
}

/// Writes in rounds: every key, every second one again, every third one deleted, and so on. Returns the state
/// after each round.
async fn fill(store: &Arc<dyn Store>) -> Vec<(Revision, BTreeMap<String, String>)> {
    let (mut model, mut past) = (BTreeMap::new(), Vec::new());
    for round in 0..6 {
        let step = [1, 2, 3, 1, 5, 4][round];
        for part in (0..4000).step_by(step).collect::<Vec<_>>().chunks(500) {
            let keys = part.iter().map(|index| format!("key-{:04}", index * 7 % 4000));
            let (gone, kept): (Vec<_>, Vec<_>) = keys.partition(|key| step == 3 && model.contains_key(key));
            for key in &gone {
                model.remove(key);
            }
            model.extend(kept.iter().map(|key| (key.clone(), format!("{round} {key}"))));
            let kept = kept.iter().map(|key| put(key, format!("{round} {key}")));
            write_all(store, gone.iter().map(|key| delete(key)).chain(kept)).await;
        }
        past.push((store.revision().await.unwrap(), model.clone()));
    }
    past
}

async fn texts(store: &Arc<dyn Store>, at: Revision) -> BTreeMap<String, String> {
    let page = store.range(Range::all(), Some(at), 0).await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    page.entries.iter().map(|entry| (entry.key.to_string(), text(&entry.value))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_log_is_read_correctly_from_both_ends() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path());
    let past = fill(&store).await;
    let first = past[0].0;
    for is_reopened in [false, true] {
        if is_reopened {
            drop(store);
            store = open(directory.path());
        }
        for (revision, model) in &past {
            assert_eq!(texts(&store, *revision).await, *model, "at {revision}, reopened: {is_reopened}");
        }
        assert_eq!(all(&store).await.entries.len(), past[5].1.len());
    }
    // Only a few scattered old rows are left.
    store.compact(past[4].0).await.unwrap();
    drop(store);
    let store = open(directory.path());
    for (revision, model) in &past[4..] {
        assert_eq!(texts(&store, *revision).await, *model, "at {revision}, compacted");
    }
    assert!(store.range(Range::all(), Some(first), 0).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_value_of_a_long_log_is_visited() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let past = fill(&store).await;
    let visited: Arc<Mutex<BTreeSet<(Key, Revision)>>> = Arc::default();
    let noted = visited.clone();
    let visit = move |key: &Key, revision: Revision, value: &[u8]| {
        assert!(value.ends_with(key.as_bytes()), "{key} has the value of another key");
        noted.lock().unwrap().insert((key.clone(), revision));
    };
    store.visit(Arc::new(visit)).await.unwrap();
    let visited = std::mem::take(&mut *visited.lock().unwrap());
    for (revision, _) in past {
        let page = store.range(Range::all(), Some(revision), 0).await.unwrap();
        assert!(page.entries.into_iter().all(|entry| visited.contains(&(entry.key, entry.revision))));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_changes_are_found_by_their_size() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    write_all(&store, (0..100).map(|index| put(&format!("key-{index}"), "0123456789"))).await;
    let revision = store.revision().await.unwrap();
    for (bytes, compacted, behind) in [(0, 0, 1), (95, 0, 10), (500, 0, 51), (5000, 0, 100), (500, 80, 20)] {
        store.compact(revision - 100 + compacted).await.unwrap();
        assert_eq!(store.tail_start(bytes).await, Ok(revision - behind), "{bytes} bytes");
    }
}
