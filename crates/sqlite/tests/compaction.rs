//! What compaction does to the file, which no client can see.

// Clippy takes only functions marked as tests for test code.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex};

use atoll_sqlite::{Options, SqliteStore};
use atoll_store::suite::{all, delete, done, pour, put};
use atoll_store::{Batch, Store};
use rusqlite::Connection;
use tokio::sync::mpsc;

fn open(directory: &Path) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(directory, Options::default()).unwrap())
}

fn rows(directory: &Path) -> i64 {
    let connection = Connection::open(directory.join("store.db")).unwrap();
    connection.query_row("SELECT count(*) FROM change", [], |row| row.get(0)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_current_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    // More rows than one step takes, each key written four times, a third of them deleted in the end.
    for round in 0..4 {
        pour(&store, (0..900).map(|index| put(&format!("key-{index}"), round.to_string()))).await;
    }
    let middle = store.revision().await.unwrap();
    pour(&store, (0..900).step_by(3).map(|index| delete(&format!("key-{index}")))).await;
    assert_eq!(rows(directory.path()), 3900);
    store.compact(middle).await.unwrap();
    assert_eq!(
        rows(directory.path()),
        1200,
        "one row per key, and the deletions that followers may still want"
    );
    store.compact(store.revision().await.unwrap()).await.unwrap();
    assert_eq!(rows(directory.path()), 600);
    assert_eq!(all(&store).await.entries.len(), 600);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_compaction_goes_on_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let last = {
        let store = open(directory.path());
        pour(&store, (0..2000).map(|index| put(&format!("key-{}", index % 10), index.to_string()))).await;
        store.revision().await.unwrap()
    };
    // What a process leaves that was killed after the compaction was decided on, and before any row was deleted.
    let connection = Connection::open(directory.path().join("store.db")).unwrap();
    connection.execute("UPDATE mark SET compacted = ?1", [last as i64]).unwrap();
    drop(connection);
    assert_eq!(rows(directory.path()), 2000);
    let store = open(directory.path());
    assert_eq!(store.compacted().await, Ok(last));
    assert_eq!(all(&store).await.entries.len(), 10);
    // Nothing new to compact: this only waits for what is under way.
    store.compact(last).await.unwrap();
    assert_eq!(rows(directory.path()), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_stops_growing() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let mut sizes = Vec::new();
    for round in 0..12_u64 {
        // The same keys over and over, with values of one page and of many.
        let value = |index: u64| vec![round as u8; if index.is_multiple_of(10) { 50_000 } else { 800 }];
        pour(&store, (0..400).map(|index| put(&format!("key-{index}"), value(index)))).await;
        store.compact(store.revision().await.unwrap()).await.unwrap();
        sizes.push(std::fs::metadata(directory.path().join("store.db")).unwrap().len());
    }
    let (early, late) = (sizes[3], sizes[11]);
    assert!(late <= early + early / 2, "the file grew: {sizes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_go_on_while_it_runs() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let mut through_at_once = Vec::new();
    // On a busy machine a compaction may be over before this task goes on: one of many has to be seen at work.
    for _ in 0..ATTEMPTS {
        for _ in 0..3 {
            pour(&store, (0..3000).map(|index| put(&format!("key-{index}"), vec![1; 500]))).await;
        }
        let through = store.revision().await.unwrap();
        let compacting = {
            let store = store.clone();
            tokio::spawn(async move { store.compact(through).await })
        };
        // As soon as it has begun; there are many more steps to come than writes.
        while store.compacted().await != Ok(through) {
            tokio::task::yield_now().await;
        }
        let mut between = 0;
        while !compacting.is_finished() {
            done(&store, put("other", "")).await;
            between += 1;
        }
        compacting.await.unwrap().unwrap();
        through_at_once.push(between);
        if between >= 3 {
            return;
        }
    }
    panic!("so many writes got through while 9000 rows were looked at: {through_at_once:?}");
}

const ATTEMPTS: usize = 50;

/// A replay takes as long as its sink does. Compaction does not take away what is still to come.
#[tokio::test(flavor = "multi_thread")]
async fn a_replay_under_way_is_spared() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    pour(&store, (0..2000).map(|index| put(&format!("key-{}", index % 10), index.to_string()))).await;
    let (begun, mut has_begun) = mpsc::unbounded_channel();
    let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let seen = seen.clone();
        move |batch: &Batch| {
            let mut seen = seen.lock().unwrap();
            if seen.is_empty() {
                begun.send(()).unwrap();
                may_go_on.recv().unwrap();
            }
            seen.extend(batch.changes.iter().map(|change| change.revision));
            ControlFlow::Continue(())
        }
    };
    let following = {
        let store = store.clone();
        tokio::spawn(async move { store.follow(0, Box::new(sink)).await })
    };
    has_begun.recv().await.unwrap();
    // So much that the follower needs a second look, and then compaction of all of it.
    pour(&store, (0..2000).map(|index| put(&format!("key-{}", index % 10), index.to_string()))).await;
    done(&store, delete("key-0")).await;
    let through = store.revision().await.unwrap();
    let compacting = {
        let store = store.clone();
        tokio::spawn(async move { store.compact(through).await })
    };
    while store.compacted().await != Ok(through) {
        tokio::task::yield_now().await;
    }
    // After each write comes a step of the compaction, if there is one to take.
    for index in 0..20 {
        done(&store, put("other", index.to_string())).await;
    }
    assert!(!compacting.is_finished());
    go_on.send(()).unwrap();
    following.await.unwrap().unwrap();
    compacting.await.unwrap().unwrap();
    let last = done(&store, put("other", "last")).await;
    assert_eq!(*seen.lock().unwrap(), (1..=last).collect::<Vec<_>>());
    assert_eq!(rows(directory.path()), 9 + 21, "in the end it was carried out");
}
