//! Disk faults while the store runs: writes fail with the cause, reads continue, and the store recovers
//! without a restart.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use atoll_sqlite::{OpenError, SqliteOptions, SqliteStore};
use atoll_store::suite::random::{Random, seeds};
use atoll_store::suite::subscriber::{Subscriber, revisions};
use atoll_store::suite::workload::{self, Workload};
use atoll_store::suite::{all, done, history, put, texts, when};
use atoll_store::{Condition, Store, Unavailable, WriteError};
use tempfile::TempDir;

use crate::disk::{Disk, Fault};

fn open(directory: &Path, options: SqliteOptions) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(directory, options).unwrap())
}

async fn failure(store: &Arc<dyn Store>, key: &str) -> Unavailable {
    match store.write(put(key, "lost")).await {
        Err(WriteError::Unavailable(cause)) => cause,
        other => panic!("expected a failure, got {other:?}"),
    }
}

/// Injects one fault, checks writes and reads, and heals the disk.
async fn fail_and_heal(fault: Fault, expected: impl Fn(&Unavailable) -> bool) {
    let directory = tempfile::tempdir().unwrap();
    let disk = Disk::new(1);
    let store = open(directory.path(), disk.options());
    let mut subscriber = Subscriber::start(&store, 0).await.unwrap();
    let first = done(&store, put("a", "1")).await;
    for round in 0..3 {
        disk.fail(fault);
        for _ in 0..3 {
            let cause = failure(&store, "b").await;
            assert!(expected(&cause), "{fault:?} is reported as {cause:?}");
            assert!(!cause.to_string().is_empty());
        }
        // Reads and subscriptions continue, without the failed writes.
        assert!(texts(&all(&store).await.entries).contains(&("a".into(), "1".into())));
        let before = store.revision().await.unwrap();
        Subscriber::start(&store, first).await.unwrap().until(before).await;
        let compacting = store.compact(before).await;
        assert!(matches!(compacting, Err(WriteError::Unavailable(_))) || round > 0, "{compacting:?}");

        disk.heal();
        let healed = done(&store, put("c", round.to_string())).await;
        assert!(healed > before);
        assert_eq!(subscriber.until(healed).await.last().unwrap().revision, healed);
    }
    store.compact(store.revision().await.unwrap()).await.unwrap();
    let before = all(&store).await;
    drop(store);
    let reopened = all(&open(directory.path(), SqliteOptions::default())).await;
    assert_eq!((reopened.entries, reopened.revision), (before.entries, before.revision));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk() {
    fail_and_heal(Fault::Full, |cause| *cause == Unavailable::DiskFull).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_gone_read_only() {
    fail_and_heal(Fault::ReadOnly, |cause| *cause == Unavailable::ReadOnly).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn syncs_that_fail() {
    for fault in [Fault::SyncLoses, Fault::SyncLies] {
        fail_and_heal(fault, |cause| matches!(cause, Unavailable::Failed(_))).await;
    }
}

/// Faults come and go under load, and then the power is cut. A failed sync has lost its data permanently:
/// writes that are acknowledged later must not depend on it.
#[test]
fn faults_and_then_a_power_cut() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for seed in seeds(20) {
        let outcome = runtime.block_on(async {
            let mut random = Random::new(seed);
            let directory = tempfile::tempdir().unwrap();
            let disk = Disk::new(random.number());
            let store = open(directory.path(), SqliteOptions { checkpoint_pages: 30, ..disk.options() });
            let initial = all(&store).await;
            let subscriber = Subscriber::start(&store, 0).await.unwrap();
            // During the workload, or after it.
            disk.cut_after(random.below(2500));
            let trouble = tokio::spawn(async move {
                let faults = [Fault::Full, Fault::ReadOnly, Fault::SyncLoses, Fault::SyncLies];
                for _ in 0..40 {
                    let until = disk.operations() + random.below(12);
                    disk.fail(*random.pick(&faults));
                    disk.reached(until).await;
                    disk.heal();
                    let until = disk.operations() + random.below(60);
                    disk.reached(until).await;
                }
            });
            let workload = Workload { clients: 6, operations: 60, keys: 6, compacting: true };
            let operations = workload::run(&store, seed, workload).await;
            trouble.abort();
            let _ = trouble.await;
            disk.heal();
            disk.cut();
            drop(store);
            let mut log = subscriber.changes();

            let survived = tempfile::tempdir().unwrap();
            disk.restore(survived.path());
            let store = open(survived.path(), SqliteOptions::default());
            let last = log.last().map_or(0, |change| change.revision);
            let arrived = Subscriber::start(&store, last).await;
            log.extend(arrived.map_err(|error| format!("revision {last} is missing: {error:?}"))?.changes());
            history::check(&initial, &log, &operations)
        });
        if let Err(violation) = outcome {
            panic!("seed {seed}: {violation}");
        }
    }
}

/// A change that is on the disk after a fault is made durable and published, so that memory and disk agree
/// again.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_write_that_reached_the_log_is_published() {
    for fault in [Fault::SyncLoses, Fault::SyncLies] {
        let directory = tempfile::tempdir().unwrap();
        let disk = Disk::new(1);
        let store = open(directory.path(), disk.options());
        let mut subscriber = Subscriber::start(&store, 0).await.unwrap();
        let first = done(&store, put("a", "1")).await;
        disk.fail(fault);
        failure(&store, "b").await;
        assert_eq!(all(&store).await.entries.len(), 1, "not visible before it is durable");
        disk.heal();
        let refused = store.write(when(Condition::Absent, put("b", "2"))).await;
        assert!(
            matches!(refused, Err(WriteError::Unmet { actual: Some(actual), .. }) if actual == first + 1),
            "{refused:?}"
        );
        let healed = done(&store, put("c", "3")).await;
        assert_eq!(revisions(&subscriber.until(healed).await), [first, first + 1, healed]);
        let expected = [("a", "1"), ("b", "lost"), ("c", "3")].map(|(key, value)| (key.into(), value.into()));
        assert_eq!(texts(&all(&store).await.entries), expected);
        disk.cut();
        drop(store);
        let survived = tempfile::tempdir().unwrap();
        disk.restore(survived.path());
        assert_eq!(texts(&all(&open(survived.path(), SqliteOptions::default())).await.entries), expected);
    }
}

/// A small tmpfs, which only root can mount.
struct Mount {
    directory: TempDir,
}

impl Mount {
    fn new(size: &str) -> Option<Mount> {
        let directory = tempfile::tempdir().unwrap();
        let options = format!("size={size}");
        match run("mount", &["-t", "tmpfs", "-o", &options, "tmpfs"], directory.path()) {
            Ok(()) => Some(Mount { directory }),
            Err(reason) => {
                println!("skipped: cannot mount a tmpfs here ({reason})");
                None
            }
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("store")
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazy unmount: a child process that another test is starting may still share the files.
        if let Err(reason) = run("umount", &["--lazy"], self.directory.path()) {
            eprintln!("cannot unmount {}: {reason}", self.directory.path().display());
        }
    }
}

fn run(program: &str, arguments: &[&str], path: &Path) -> Result<(), String> {
    let output =
        Command::new(program).args(arguments).arg(path).output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().into()) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_really_full_disk() {
    let Some(mount) = Mount::new("4m") else { return };
    let filler = mount.directory.path().join("filler");
    std::fs::write(&filler, vec![0; 1 << 20]).unwrap();
    let store = open(&mount.path(), SqliteOptions::default());
    let mut written = 0;
    let cause = loop {
        match store.write(put(&format!("key-{written}"), vec![7; 20_000])).await {
            Ok(_) => written += 1,
            Err(WriteError::Unavailable(cause)) => break cause,
            Err(error) => panic!("{error:?}"),
        }
    };
    assert_eq!(cause, Unavailable::DiskFull);
    let again = store.write(put("still", vec![7; 20_000])).await;
    assert_eq!(again, Err(WriteError::Unavailable(Unavailable::DiskFull)));
    assert_eq!(all(&store).await.entries.len(), written);
    std::fs::remove_file(filler).unwrap();
    done(&store, put("key-more", "")).await;
    assert_eq!(all(&store).await.entries.len(), written + 1);
    drop(store);
    assert_eq!(all(&open(&mount.path(), SqliteOptions::default())).await.entries.len(), written + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_really_read_only_disk() {
    let Some(mount) = Mount::new("4m") else { return };
    done(&open(&mount.path(), SqliteOptions::default()), put("a", "1")).await;
    run("mount", &["-o", "remount,ro"], mount.directory.path()).unwrap();
    let error = SqliteStore::open(&mount.path(), SqliteOptions::default()).err().unwrap();
    assert!(matches!(error, OpenError::ReadOnly { .. }), "{error:?}");
    run("mount", &["-o", "remount,rw"], mount.directory.path()).unwrap();
    assert_eq!(all(&open(&mount.path(), SqliteOptions::default())).await.entries.len(), 1);
}
