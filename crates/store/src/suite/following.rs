//! Following from anywhere, without a gap and without a change seen twice.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;

use super::follower::{Follower, revisions};
use super::{all, delete, done, pour, put};
use crate::{Batch, ReadError, Revision, Store, Write};

pub async fn follows_from_every_point(store: Arc<dyn Store>) {
    let start = store.revision().await.expect("a revision");
    let mut written = Vec::new();
    for round in 0..30 {
        let key = format!("key-{}", round % 4);
        let deletes = round % 5 == 4 && round % 4 != 3;
        let write = if deletes { delete(&key) } else { put(&key, round.to_string()) };
        written.push((done(&store, write.clone()).await, write));
    }
    let mut followers = Vec::new();
    let points: Vec<Revision> = written.iter().map(|(revision, _)| *revision).collect();
    for after in std::iter::once(start).chain(points) {
        followers.push((after, Follower::start(&store, after).await.expect("following")));
    }
    for round in 0..10 {
        let write = put("live", round.to_string());
        written.push((done(&store, write.clone()).await, write));
    }
    let last = written.last().expect("something was written").0;
    for (after, follower) in &mut followers {
        let changes = follower.until(last).await;
        let expected: Vec<_> = written.iter().filter(|(revision, _)| revision > after).collect();
        assert_eq!(changes.len(), expected.len(), "after {after}");
        for (change, (revision, write)) in changes.iter().zip(expected) {
            assert_eq!((change.revision, &change.key, &change.value), (*revision, &write.key, &write.value));
        }
    }
}

pub async fn the_future_cannot_be_followed(store: Arc<dyn Store>) {
    let current = done(&store, put("a", "1")).await;
    for future in [current + 1, u64::MAX] {
        assert_eq!(Follower::start(&store, future).await.err(), Some(ReadError::Future { current }));
    }
    assert!(Follower::start(&store, current).await.is_ok());
}

pub async fn a_follower_that_breaks_is_left_alone(store: Arc<dyn Store>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let current = store.revision().await.expect("a revision");
    let sink = move |batch: &Batch| {
        if !batch.changes.is_empty() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        if batch.changes.is_empty() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    store.follow(current, Box::new(sink)).await.expect("following");
    let mut other = Follower::start(&store, current).await.expect("following");
    let mut last = current;
    for round in 0..5 {
        last = done(&store, put("a", round.to_string())).await;
    }
    assert_eq!(other.until(last).await.len(), 5, "the others go on");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

pub async fn a_follower_may_break_while_it_catches_up(store: Arc<dyn Store>) {
    let start = store.revision().await.expect("a revision");
    pour(&store, (0..2000).map(|round| put(&format!("key-{}", round % 10), round.to_string()))).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let sink = move |_: &Batch| {
        counted.fetch_add(1, Ordering::SeqCst);
        ControlFlow::Break(())
    };
    store.follow(start, Box::new(sink)).await.expect("following");
    let mut other = Follower::start(&store, start).await.expect("following");
    let last = done(&store, put("a", "more")).await;
    assert_eq!(other.until(last).await.len(), 2001);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

/// Followers begin from the start, from now and from in between, all while others write.
pub async fn replay_and_live_fit_together(store: Arc<dyn Store>) {
    let start = store.revision().await.expect("a revision");
    // So many writes are let through for each follower that begins, however fast the store is.
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
    let mut followers = Vec::new();
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
        followers.push((after, Follower::start(&store, after).await.expect("following")));
    }
    turns.close();
    let mut written = Vec::new();
    for writer in writers {
        written.extend(writer.await.expect("the writer"));
    }
    written.sort_unstable();
    let last = *written.last().expect("something was written");
    for (after, follower) in &mut followers {
        let seen = revisions(&follower.until(last).await);
        let first = written.partition_point(|revision| revision <= after);
        assert_eq!(seen, written[first..], "after {after}");
    }
}

pub async fn memos_are_handed_through(store: Arc<dyn Store>) {
    let current = store.revision().await.expect("a revision");
    let mut follower = Follower::start(&store, current).await.expect("following");
    done(&store, Write { memo: Some(Arc::new(String::from("labels"))), ..put("a", "1") }).await;
    let last = done(&store, put("b", "1")).await;
    let changes = follower.until(last).await;
    // Where the writer is in another process there is none, and it is always right to have none.
    let memo = changes[0].memo.clone().map(|memo| memo.downcast::<String>().expect("what was handed in"));
    assert!(memo.is_none_or(|memo| *memo == "labels"));
    assert!(changes[1].memo.is_none());
    let replayed = Follower::start(&store, current).await.expect("following").until(last).await;
    assert_eq!(revisions(&replayed), revisions(&changes));
}

pub async fn followers_know_before_the_writer_does(store: Arc<dyn Store>) {
    let current = store.revision().await.expect("a revision");
    let mut followers = Vec::new();
    for _ in 0..3 {
        followers.push(Arc::new(Follower::start(&store, current).await.expect("following")));
    }
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let (store, followers) = (store.clone(), followers.clone());
            tokio::spawn(async move {
                for round in 0..20_usize {
                    let memo = Some(Arc::new(round) as crate::Memo);
                    let write = Write { memo, ..put(&format!("key-{writer}"), "") };
                    let revision = done(&store, write).await;
                    for follower in &followers {
                        let changes = follower.changes();
                        let change = changes.iter().find(|change| change.revision == revision);
                        let memo = change.expect("the change").memo.clone().expect("the memo");
                        assert_eq!(*memo.downcast::<usize>().expect("a number"), round);
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
    let mut follower = Follower::start(&store, 0).await.expect("following");
    done(&store, put("a", "1")).await;
    let last = done(&store, put("a", "2")).await;
    let changes = follower.until(last).await;
    let read = all(&store).await.entries.remove(0).key;
    for change in &changes {
        assert_eq!(change.key.as_ptr(), read.as_ptr(), "one copy of the text for everyone");
    }
}
