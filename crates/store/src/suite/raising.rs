//! Raising the revision of a store.

use std::sync::Arc;

use super::subscriber::Subscriber;
use super::{all, delete, done, put, texts, when};
use crate::{Condition, MAX_REVISION, Range, ReadError, Store, Unavailable, WriteError};

pub async fn the_next_revision_is_higher(store: Arc<dyn Store>) {
    let before = done(&store, put("a", "1")).await;
    let to = before + 1_000_000;
    store.raise(to).await.expect("raising");
    assert!(store.revision().await.expect("a revision") >= to);
    assert!(done(&store, put("a", "2")).await > to);
}

pub async fn values_survive(store: Arc<dyn Store>) {
    let a = done(&store, put("a", "1")).await;
    done(&store, put("b", "1")).await;
    done(&store, delete("b")).await;
    store.raise(1 << 40).await.expect("raising");
    let page = all(&store).await;
    assert_eq!(texts(&page.entries), [("a".into(), "1".into())]);
    assert_eq!(page.entries[0].revision, a, "a value keeps the revision of its last change");
    done(&store, when(Condition::At(a), put("a", "2"))).await;
}

pub async fn history_is_gone(store: Arc<dyn Store>) {
    let before = done(&store, put("a", "1")).await;
    let to = before + 1000;
    store.raise(to).await.expect("raising");
    let current = store.revision().await.expect("a revision");
    assert_eq!(store.compacted().await, Ok(current));
    for past in [0, before, to - 1] {
        let gone = Some(ReadError::Compacted { oldest: current });
        assert_eq!(store.range(Range::all(), Some(past), 0).await.err(), gone, "range at {past}");
        assert_eq!(Subscriber::start(&store, past).await.err(), gone, "subscribe after {past}");
    }
    let mut subscriber = Subscriber::start(&store, current).await.expect("subscribing");
    let next = done(&store, put("a", "2")).await;
    assert_eq!(subscriber.until(next).await.len(), 1);
}

pub async fn raising_never_lowers_the_revision(store: Arc<dyn Store>) {
    for round in 0..5 {
        done(&store, put("a", round.to_string())).await;
    }
    let current = store.revision().await.expect("a revision");
    store.raise(1).await.expect("raising");
    assert_eq!(store.revision().await, Ok(current));
    assert!(done(&store, put("a", "more")).await > current);
}

pub async fn subscribers_are_notified(store: Arc<dyn Store>) {
    let current = done(&store, put("a", "1")).await;
    let mut subscriber = Subscriber::start(&store, current).await.expect("subscribing");
    store.raise(current + 1000).await.expect("raising");
    assert!(subscriber.until(current + 1000).await.is_empty());
    let next = done(&store, put("a", "2")).await;
    assert_eq!(subscriber.until(next).await.len(), 1);
}

pub async fn raising_beyond_the_limit_fails(store: Arc<dyn Store>) {
    let before = done(&store, put("a", "1")).await;
    let refused = store.raise(MAX_REVISION + 1).await;
    assert!(matches!(refused, Err(WriteError::Unavailable(Unavailable::Failed(_)))), "{refused:?}");
    assert_eq!(store.revision().await, Ok(before));
    store.raise(MAX_REVISION).await.expect("raising");
    assert!(done(&store, put("a", "2")).await > MAX_REVISION);
}
