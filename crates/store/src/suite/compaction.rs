//! Compaction: removed and retained versions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::subscriber::{Subscriber, revisions};
use super::{all, delete, done, put, texts, when};
use crate::{Condition, Range, ReadError, Revision, Store};

/// Three keys: one written twice, one deleted, one deleted and created again. Returns the revisions.
async fn some_history(store: &Arc<dyn Store>) -> Vec<Revision> {
    let writes = [
        put("a", "a1"),
        put("b", "b1"),
        put("c", "c1"),
        put("a", "a2"),
        delete("b"),
        delete("c"),
        put("c", "c2"),
        put("a", "a3"),
    ];
    let mut revisions = Vec::new();
    for write in writes {
        revisions.push(done(store, write).await);
    }
    revisions
}

async fn read(store: &Arc<dyn Store>, at: Revision) -> Result<Vec<(String, String)>, ReadError> {
    store.range(Range::all(), Some(at), 0).await.map(|page| texts(&page.entries))
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

pub async fn current_values_are_kept(store: Arc<dyn Store>) {
    let history = some_history(&store).await;
    let before = all(&store).await;
    for through in &history {
        store.compact(*through).await.expect("compacting");
        assert_eq!(store.compacted().await, Ok(*through));
        let after = all(&store).await;
        assert_eq!((&after.entries, after.revision), (&before.entries, before.revision), "through {through}");
    }
    assert_eq!(texts(&before.entries), pairs(&[("a", "a3"), ("c", "c2")]));
    // Conditions refer to current values, whatever was compacted.
    done(&store, when(Condition::At(history[7]), put("a", "a4"))).await;
    done(&store, when(Condition::Absent, put("b", "b2"))).await;
}

pub async fn older_revisions_are_gone(store: Arc<dyn Store>) {
    assert_eq!(store.compacted().await, Ok(0));
    let history = some_history(&store).await;
    let through = history[4];
    store.compact(through).await.expect("compacting");
    let gone = Err(ReadError::Compacted { oldest: through });
    for revision in &history[..4] {
        assert_eq!(read(&store, *revision).await, gone, "range at {revision}");
        assert_eq!(Subscriber::start(&store, *revision).await.map(drop), gone.clone().map(|_| ()));
    }
    assert_eq!(read(&store, 0).await, gone);
    assert_eq!(Subscriber::start(&store, 0).await.map(drop), gone.clone().map(|_| ()));
    assert_eq!(read(&store, through).await, Ok(pairs(&[("a", "a2"), ("c", "c1")])), "the last one stays");
}

pub async fn history_after_it_stays(store: Arc<dyn Store>) {
    let history = some_history(&store).await;
    store.compact(history[3]).await.expect("compacting");
    assert_eq!(read(&store, history[3]).await, Ok(pairs(&[("a", "a2"), ("b", "b1"), ("c", "c1")])));
    assert_eq!(read(&store, history[4]).await, Ok(pairs(&[("a", "a2"), ("c", "c1")])));
    assert_eq!(read(&store, history[5]).await, Ok(pairs(&[("a", "a2")])));
    assert_eq!(read(&store, history[6]).await, Ok(pairs(&[("a", "a2"), ("c", "c2")])));
    assert_eq!(read(&store, history[7]).await, Ok(pairs(&[("a", "a3"), ("c", "c2")])));
    let mut subscriber = Subscriber::start(&store, history[3]).await.expect("subscribing");
    let changes = subscriber.until(history[7]).await;
    assert_eq!(revisions(&changes), history[4..]);
    assert_eq!(changes[0].value, None);
}

pub async fn compacting_twice_or_backwards_does_nothing(store: Arc<dyn Store>) {
    let history = some_history(&store).await;
    for through in [history[5], history[5], history[2], 0] {
        store.compact(through).await.expect("compacting");
        assert_eq!(store.compacted().await, Ok(history[5]));
    }
    assert_eq!(read(&store, history[5]).await, Ok(pairs(&[("a", "a2")])));
}

pub async fn compacting_the_future_compacts_to_the_current_revision(store: Arc<dyn Store>) {
    let history = some_history(&store).await;
    store.compact(history[7] + 1000).await.expect("compacting");
    assert_eq!(store.compacted().await, Ok(history[7]));
    let next = done(&store, put("d", "d1")).await;
    assert!(Subscriber::start(&store, history[7]).await.expect("subscribing").until(next).await.len() == 1);
}

pub async fn no_revision_is_reused(store: Arc<dyn Store>) {
    done(&store, put("a", "1")).await;
    let deleted = done(&store, delete("a")).await;
    store.compact(deleted).await.expect("compacting");
    assert_eq!(store.revision().await, Ok(deleted), "the revision is kept when the store is empty");
    assert!(all(&store).await.entries.is_empty());
    assert!(done(&store, put("a", "2")).await > deleted);
}

pub async fn a_subscriber_survives_compaction(store: Arc<dyn Store>) {
    let start = store.revision().await.expect("a revision");
    let mut subscriber = Subscriber::start(&store, start).await.expect("subscribing");
    let mut written = Vec::new();
    for _ in 0..5 {
        written.extend(some_history(&store).await);
        store.compact(*written.last().expect("a revision")).await.expect("compacting");
    }
    let seen = subscriber.until(*written.last().expect("a revision")).await;
    assert_eq!(revisions(&seen), written);
}

pub async fn reads_under_compaction_are_right_or_refused(store: Arc<dyn Store>) {
    let stop = Arc::new(AtomicBool::new(false));
    let compactor = {
        let (store, stop) = (store.clone(), stop.clone());
        tokio::spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                let current = store.revision().await.expect("a revision");
                store.compact(current.saturating_sub(5)).await.expect("compacting");
                tokio::task::yield_now().await;
            }
        })
    };
    let mut model = BTreeMap::new();
    let (mut right, mut refused) = (0, 0);
    let mut past: Vec<(Revision, BTreeMap<String, String>)> = Vec::new();
    for round in 0..300_u64 {
        let key = format!("key-{}", round % 7);
        let write = if round % 3 == 2 && model.contains_key(&key) {
            model.remove(&key);
            delete(&key)
        } else {
            model.insert(key.clone(), round.to_string());
            put(&key, round.to_string())
        };
        let revision = done(&store, write).await;
        past.push((revision, model.clone()));
        let (at, expected) = &past[past.len().saturating_sub(1 + round as usize % 10)];
        match read(&store, *at).await {
            Ok(found) => {
                assert_eq!(found, expected.clone().into_iter().collect::<Vec<_>>(), "at {at}");
                right += 1;
            }
            Err(ReadError::Compacted { oldest }) => {
                assert!(oldest > *at);
                refused += 1;
            }
            Err(error) => panic!("{error:?}"),
        }
        match Subscriber::start(&store, *at).await {
            Ok(mut subscriber) => {
                let seen = revisions(&subscriber.until(revision).await);
                let after = past.iter().map(|(revision, _)| *revision).filter(|revision| revision > at);
                assert_eq!(seen, after.collect::<Vec<_>>(), "subscribing from {at}");
            }
            Err(ReadError::Compacted { oldest }) => assert!(oldest > *at),
            Err(error) => panic!("{error:?}"),
        }
    }
    stop.store(true, Ordering::SeqCst);
    compactor.await.expect("the compactor");
    assert!(right > 0, "{right} right, {refused} refused");
}
