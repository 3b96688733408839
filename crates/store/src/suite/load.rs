//! Load: large values, many keys, many clients.

use std::sync::Arc;

use bytes::Bytes;

use super::random::seeds;
use super::subscriber::{Subscriber, revisions};
use super::workload::{self, Workload};
use super::{all, delete, done, history, put, texts, when, write_all};
use crate::{Condition, Key, Range, Store, WriteError};

pub async fn values_of_every_size(store: Arc<dyn Store>) {
    let mut expected = Vec::new();
    // Sizes around page and packet boundaries, and well beyond them.
    for size in [0, 1, 4_000, 4_095, 4_096, 4_097, 65_536, 1_000_003] {
        let key = format!("key-{size:08}");
        let value: Vec<u8> = (0..size).map(|index| (index * 31 + size) as u8).collect();
        done(&store, put(&key, &value)).await;
        expected.push((key, value));
    }
    let entries = all(&store).await.entries;
    let found: Vec<(String, Vec<u8>)> =
        entries.into_iter().map(|entry| (entry.key.to_string(), entry.value.to_vec())).collect();
    assert_eq!(found, expected);
    let last = store.revision().await.expect("a revision");
    let replayed = Subscriber::start(&store, 0).await.expect("subscribing").until(last).await;
    let replayed: Vec<Bytes> = replayed.into_iter().filter_map(|change| change.value).collect();
    assert!(replayed.iter().eq(expected.iter().map(|(_, value)| value)), "an empty value is not a deletion");
}

pub async fn odd_keys(store: Arc<dyn Store>) {
    let long = "x".repeat(2000);
    for name in ["", " ", "/", "a'b", "a\"b", "a%b_c", "a\u{0}b", "Ü/😀", long.as_str()] {
        let revision = done(&store, when(Condition::Absent, put(name, name))).await;
        let only = Range {
            start: std::ops::Bound::Included(Key::from(name)),
            end: std::ops::Bound::Included(Key::from(name)),
        };
        let page = store.range(only, Some(revision), 0).await.expect("reading one key");
        assert_eq!(texts(&page.entries), [(name.to_string(), name.to_string())]);
        done(&store, when(Condition::At(revision), delete(name))).await;
    }
    assert!(all(&store).await.entries.is_empty());
}

pub async fn many_keys(store: Arc<dyn Store>) {
    let name = |index: usize| format!("key-{index:05}");
    write_all(&store, (0..5_000).map(|index| put(&name(index), index.to_string()))).await;
    write_all(&store, (0..5_000).step_by(2).map(|index| delete(&name(index)))).await;
    let page = all(&store).await;
    let expected = (0..5_000).filter(|index| index % 2 == 1).map(|index| (name(index), index.to_string()));
    assert_eq!(texts(&page.entries), expected.collect::<Vec<_>>());
    store.compact(page.revision).await.expect("compacting");
    assert_eq!(all(&store).await.entries, page.entries);
    assert_eq!(store.range(Range::prefix("key-0123"), None, 0).await.expect("a range").entries.len(), 5);
}

pub async fn one_creator_wins(store: Arc<dyn Store>) {
    for round in 0..10 {
        let key = format!("key-{round}");
        let creators: Vec<_> = (0..16)
            .map(|creator: u32| {
                let (store, write) = (store.clone(), when(Condition::Absent, put(&key, creator.to_string())));
                tokio::spawn(async move { store.write(write).await })
            })
            .collect();
        let mut won = Vec::new();
        let mut lost = Vec::new();
        for creator in creators {
            match creator.await.expect("a creator") {
                Ok(revision) => won.push(Some(revision)),
                Err(WriteError::Unmet { actual, .. }) => lost.push(actual),
                Err(error) => panic!("{error:?}"),
            }
        }
        assert_eq!((won.len(), lost.len()), (1, 15));
        assert!(lost.iter().all(|actual| *actual == won[0]), "the losers get the winner's revision");
    }
}

pub async fn no_increment_is_lost(store: Arc<dyn Store>) {
    let counter = Key::from("counter");
    done(&store, put(&counter, "0")).await;
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                for _ in 0..25 {
                    loop {
                        let entry = all(&store).await.entries.remove(0);
                        let count: u64 = String::from_utf8_lossy(&entry.value).parse().expect("a number");
                        let next =
                            when(Condition::At(entry.revision), put("counter", (count + 1).to_string()));
                        match store.write(next).await {
                            Ok(_) => break,
                            Err(WriteError::Unmet { .. }) => {}
                            Err(error) => panic!("{error:?}"),
                        }
                    }
                }
            })
        })
        .collect();
    for client in clients {
        client.await.expect("a client");
    }
    assert_eq!(texts(&all(&store).await.entries), [("counter".into(), "200".into())]);
}

pub async fn random_histories(store: Arc<dyn Store>) {
    check_random(store, Workload::default()).await;
}

pub async fn random_histories_under_compaction(store: Arc<dyn Store>) {
    check_random(store, Workload { compacting: true, ..Workload::default() }).await;
}

async fn check_random(store: Arc<dyn Store>, workload: Workload) {
    for seed in seeds(8) {
        let initial = all(&store).await;
        let mut subscribers = Vec::new();
        for _ in 0..2 {
            subscribers.push(Subscriber::start(&store, initial.revision).await.expect("subscribing"));
        }
        let operations = workload::run(&store, seed, workload).await;
        let last = store.revision().await.expect("a revision");
        let log = subscribers[0].until(last).await;
        assert_eq!(revisions(&subscribers[1].until(last).await), revisions(&log), "seed {seed}");
        if let Err(violation) = history::check(&initial, &log, &operations) {
            panic!("seed {seed}: {violation}");
        }
    }
}
