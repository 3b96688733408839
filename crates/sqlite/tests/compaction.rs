//! The effect of compaction on the file, which clients cannot see.

// Clippy regards only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex};

use atoll_sqlite::{SqliteOptions, SqliteStore};
use atoll_store::suite::{all, delete, done, put, write_all};
use atoll_store::{Batch, Store};
use rusqlite::Connection;
use tokio::sync::mpsc;

fn open(directory: &Path) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(directory, SqliteOptions::default()).unwrap())
}

fn rows(directory: &Path) -> i64 {
    let connection = Connection::open(directory.join("store.db")).unwrap();
    connection.query_row("SELECT count(*) FROM change", [], |row| row.get(0)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn compaction_leaves_only_current_rows() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    // More rows than one step handles, each key written four times, a third of them deleted in the end.
    for round in 0..4 {
        write_all(&store, (0..900).map(|index| put(&format!("key-{index}"), round.to_string()))).await;
    }
    let middle = store.revision().await.unwrap();
    write_all(&store, (0..900).step_by(3).map(|index| delete(&format!("key-{index}")))).await;
    assert_eq!(rows(directory.path()), 3900);
    store.compact(middle).await.unwrap();
    assert_eq!(
        rows(directory.path()),
        1200,
        "one row per key, and the deletions that subscribers may still need"
    );
    store.compact(store.revision().await.unwrap()).await.unwrap();
    assert_eq!(rows(directory.path()), 600);
    assert_eq!(all(&store).await.entries.len(), 600);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_compaction_continues_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let last = {
        let store = open(directory.path());
        write_all(&store, (0..2000).map(|index| put(&format!("key-{}", index % 10), index.to_string())))
            .await;
        store.revision().await.unwrap()
    };
    // The state after a process was killed between recording the compaction and deleting rows.
    let connection = Connection::open(directory.path().join("store.db")).unwrap();
    connection.execute("UPDATE mark SET compacted = ?1", [last as i64]).unwrap();
    drop(connection);
    assert_eq!(rows(directory.path()), 2000);
    let store = open(directory.path());
    assert_eq!(store.compacted().await, Ok(last));
    assert_eq!(all(&store).await.entries.len(), 10);
    // There is nothing new to compact: this only waits for the running compaction.
    store.compact(last).await.unwrap();
    assert_eq!(rows(directory.path()), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_stops_growing() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let mut sizes = Vec::new();
    for round in 0..12_u64 {
        // The same keys repeatedly, with values of one page and of many.
        let value = |index: u64| vec![round as u8; if index.is_multiple_of(10) { 50_000 } else { 800 }];
        write_all(&store, (0..400).map(|index| put(&format!("key-{index}"), value(index)))).await;
        store.compact(store.revision().await.unwrap()).await.unwrap();
        sizes.push(std::fs::metadata(directory.path().join("store.db")).unwrap().len());
    }
    let (early, late) = (sizes[3], sizes[11]);
    assert!(late <= early + early / 2, "the file grew: {sizes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_continue_during_compaction() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let mut through_at_once = Vec::new();
    // On a busy machine a compaction may finish before this task runs again: it must be observed in one of
    // many attempts.
    for _ in 0..ATTEMPTS {
        for _ in 0..3 {
            write_all(&store, (0..3000).map(|index| put(&format!("key-{index}"), vec![1; 500]))).await;
        }
        let through = store.revision().await.unwrap();
        let compacting = {
            let store = store.clone();
            tokio::spawn(async move { store.compact(through).await })
        };
        // As soon as it has started; there are many more steps than writes.
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
    panic!("writes during the compaction of 9000 rows: {through_at_once:?}");
}

const ATTEMPTS: usize = 50;

/// Compaction does not delete rows that a slow replay still needs.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_an_active_replay_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    write_all(&store, (0..2000).map(|index| put(&format!("key-{}", index % 10), index.to_string()))).await;
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
        tokio::spawn(async move { store.subscribe(0, Box::new(sink)).await })
    };
    has_begun.recv().await.unwrap();
    // Enough that the replay needs a second pass, and then compaction of all of it.
    write_all(&store, (0..2000).map(|index| put(&format!("key-{}", index % 10), index.to_string()))).await;
    done(&store, delete("key-0")).await;
    let through = store.revision().await.unwrap();
    let compacting = {
        let store = store.clone();
        tokio::spawn(async move { store.compact(through).await })
    };
    while store.compacted().await != Ok(through) {
        tokio::task::yield_now().await;
    }
    // Each write is followed by a compaction step, if there is one to run.
    for index in 0..20 {
        done(&store, put("other", index.to_string())).await;
    }
    assert!(!compacting.is_finished());
    go_on.send(()).unwrap();
    following.await.unwrap().unwrap();
    compacting.await.unwrap().unwrap();
    let last = done(&store, put("other", "last")).await;
    assert_eq!(*seen.lock().unwrap(), (1..=last).collect::<Vec<_>>());
    assert_eq!(rows(directory.path()), 9 + 21, "the compaction was finished");
}
