//! Subscriptions from any revision, without gaps or duplicates.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;

use super::subscriber::{Subscriber, revisions};
use super::{all, delete, done, put, write_all};
use crate::{Batch, ReadError, Revision, Store, Write};

pub async fn subscribes_from_every_revision(store: Arc<dyn Store>) {
    let start = store.revision().await.expect("a revision");
    let mut written = Vec::new();
    for round in 0..30 {
        let key = format!("key-{}", round % 4);
        let deletes = round % 5 == 4 && round % 4 != 3;
        let write = if deletes { delete(&key) } else { put(&key, round.to_string()) };
        written.push((done(&store, write.clone()).await, write));
    }
    let mut subscribers = Vec::new();
    let points: Vec<Revision> = written.iter().map(|(revision, _)| *revision).collect();
    for after in std::iter::once(start).chain(points) {
        subscribers.push((after, Subscriber::start(&store, after).await.expect("subscribing")));
    }
    for round in 0..10 {
        let write = put("live", round.to_string());
        written.push((done(&store, write.clone()).await, write));
    }
    let last = written.last().expect("something was written").0;
    for (after, subscriber) in &mut subscribers {
        let changes = subscriber.until(last).await;
        let expected: Vec<_> = written.iter().filter(|(revision, _)| revision > after).collect();
        assert_eq!(changes.len(), expected.len(), "after {after}");
        for (change, (revision, write)) in changes.iter().zip(expected) {
            assert_eq!((change.revision, &change.key, &change.value), (*revision, &write.key, &write.value));
        }
    }
}

pub async fn subscribing_from_the_future_fails(store: Arc<dyn Store>) {
    let current = done(&store, put("a", "1")).await;
    for future in [current + 1, u64::MAX] {
        assert_eq!(Subscriber::start(&store, future).await.err(), Some(ReadError::Future { current }));
    }
    assert!(Subscriber::start(&store, current).await.is_ok());
}

pub async fn a_subscriber_that_breaks_is_removed(store: Arc<dyn Store>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let current = store.revision().await.expect("a revision");
    let sink = move |batch: &Batch| {
        if !batch.changes.is_empty() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        if batch.changes.is_empty() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    store.subscribe(current, Box::new(sink)).await.expect("subscribing");
    let mut other = Subscriber::start(&store, current).await.expect("subscribing");
    let mut last = current;
    for round in 0..5 {
        last = done(&store, put("a", round.to_string())).await;
    }
    assert_eq!(other.until(last).await.len(), 5, "other subscribers continue");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

pub async fn a_subscriber_may_break_during_replay(store: Arc<dyn Store>) {
    let start = store.revision().await.expect("a revision");
    write_all(&store, (0..2000).map(|round| put(&format!("key-{}", round % 10), round.to_string()))).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let sink = move |_: &Batch| {
        counted.fetch_add(1, Ordering::SeqCst);
        ControlFlow::Break(())
    };
    store.subscribe(start, Box::new(sink)).await.expect("subscribing");
    let mut other = Subscriber::start(&store, start).await.expect("subscribing");
    let last = done(&store, put("a", "more")).await;
    assert_eq!(other.until(last).await.len(), 2001);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

/// Subscribers start from the beginning, from now and from in between, while other tasks write.
pub async fn replay_and_live_changes_have_no_gap(store: Arc<dyn Store>) {
    let start = store.revision().await.expect("a revision");
    // Permits a fixed number of writes per subscriber, however fast the store is.
    let turns = Arc::new(Semaphore::new(0));
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let (store, turns) = (store.clone(), turns.clone());
            tokio::spawn(async move {
                let mut written = Vec::new();
                while let Ok(turn) = turns.acquire().await {
                    turn.forget();
                    let write = put(&format!("key-{writer}"), written.len().to_string());
                    written.push(done(&store, write).await);
                }
                written
            })
        })
        .collect();
    let mut subscribers = Vec::new();
    let mut current = start;
    for round in 0..60 {
        turns.add_permits(50);
        let previous = current;
        while current == previous {
            tokio::task::yield_now().await;
            current = store.revision().await.expect("a revision");
        }
        let after = match round % 3 {
            0 => start,
            1 => current,
            _ => start + (current - start) / 2,
        };
        subscribers.push((after, Subscriber::start(&store, after).await.expect("subscribing")));
    }
    turns.close();
    let mut written = Vec::new();
    for writer in writers {
        written.extend(writer.await.expect("the writer"));
    }
    written.sort_unstable();
    let last = *written.last().expect("something was written");
    for (after, subscriber) in &mut subscribers {
        let seen = revisions(&subscriber.until(last).await);
        let first = written.partition_point(|revision| revision <= after);
        assert_eq!(seen, written[first..], "after {after}");
    }
}

pub async fn hints_are_passed_to_subscribers(store: Arc<dyn Store>) {
    let current = store.revision().await.expect("a revision");
    let mut subscriber = Subscriber::start(&store, current).await.expect("subscribing");
    done(&store, Write { hint: Some(Arc::new(String::from("labels"))), ..put("a", "1") }).await;
    let last = done(&store, put("b", "1")).await;
    let changes = subscriber.until(last).await;
    // A hint is optional: there is none if the writer is in another process.
    let hint = changes[0].hint.clone().map(|hint| hint.downcast::<String>().expect("the writer's hint"));
    assert!(hint.is_none_or(|hint| *hint == "labels"));
    assert!(changes[1].hint.is_none());
    let replayed = Subscriber::start(&store, current).await.expect("subscribing").until(last).await;
    assert_eq!(revisions(&replayed), revisions(&changes));
}

pub async fn subscribers_receive_a_change_before_the_write_returns(store: Arc<dyn Store>) {
    let current = store.revision().await.expect("a revision");
    let mut subscribers = Vec::new();
    for _ in 0..3 {
        subscribers.push(Arc::new(Subscriber::start(&store, current).await.expect("subscribing")));
    }
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let (store, subscribers) = (store.clone(), subscribers.clone());
            tokio::spawn(async move {
                for round in 0..20_usize {
                    let hint = Some(Arc::new(round) as crate::WriteHint);
                    let write = Write { hint, ..put(&format!("key-{writer}"), "") };
                    let revision = done(&store, write).await;
                    for subscriber in &subscribers {
                        let changes = subscriber.changes();
                        let change = changes.iter().find(|change| change.revision == revision);
                        let hint = change.expect("the change").hint.clone().expect("the hint");
                        assert_eq!(*hint.downcast::<usize>().expect("a number"), round);
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("the writer");
    }
}

pub async fn keys_are_shared(store: Arc<dyn Store>) {
    let mut subscriber = Subscriber::start(&store, 0).await.expect("subscribing");
    done(&store, put("a", "1")).await;
    let last = done(&store, put("a", "2")).await;
    let changes = subscriber.until(last).await;
    let read = all(&store).await.entries.remove(0).key;
    for change in &changes {
        assert_eq!(change.key.as_ptr(), read.as_ptr(), "subscribers and readers share one copy of the key");
    }
}
