//! Processes killed while they write.

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use atoll_sqlite::{OpenError, SqliteOptions, SqliteStore};
use atoll_store::suite::{all, delete, put};
use atoll_store::{Range, Revision, Store};

const DIRECTORY: &str = "ATOLL_TEST_DIRECTORY";
const WRITERS: usize = 8;

/// Not a test: the process that the other tests kill. It writes as fast as it can and prints acknowledged
/// writes until its output is closed.
#[test]
#[ignore = "a process for other tests to kill"]
fn writer_process() {
    let directory = std::env::var(DIRECTORY).expect("started by another test");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Arc::new(SqliteStore::open(Path::new(&directory), SqliteOptions::default()).unwrap());
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let store = store.clone();
                tokio::spawn(async move {
                    for round in 0_u64.. {
                        let key = format!("key-{writer}-{}", round % 50);
                        let revision = store.write(put(&key, format!("{writer}-{round}"))).await.unwrap();
                        if writer == 0 && round % 40 == 39 {
                            store.compact(revision).await.unwrap();
                        }
                        // One call per line: it arrives complete or not at all.
                        let line = format!("ack {revision} {key} {writer}-{round}\n");
                        if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
                            return;
                        }
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
    });
}

fn start(directory: &Path) -> (Child, impl Iterator<Item = (Revision, String, String)>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::writer_process", "--ignored", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let acknowledged = lines.map_while(Result::ok).filter_map(|line| {
        // The test harness may have printed text at the start of the line.
        let (_, rest) = line.split_once("ack ")?;
        let mut words = rest.split(' ').map(String::from);
        Some((words.next()?.parse().ok()?, words.next()?, words.next()?))
    });
    (child, acknowledged)
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let mut highest = 0;
    for life in 0..5 {
        let (mut child, mut acknowledgements) = start(directory.path());
        let mut acknowledged: Vec<_> = acknowledgements.by_ref().take(200 + life * 150).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        // Acknowledgements that the process printed before it was killed.
        acknowledged.extend(acknowledgements);
        assert!(acknowledged.len() >= 200);

        let store = SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap();
        let page = store.range(Range::all(), None, 0).await.unwrap();
        for (revision, key, value) in &acknowledged {
            assert!(*revision > highest, "revision {revision} was assigned before the restart");
            let entry = page.entries.iter().find(|entry| *entry.key == **key).expect("the key is there");
            assert!(entry.revision >= *revision, "{key} is older than its acknowledged write");
            if entry.revision == *revision {
                assert_eq!(entry.value, value.as_bytes());
            }
        }
        assert!(acknowledged.iter().all(|(revision, ..)| *revision <= page.revision));
        highest = page.revision;
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_revision_is_reused_although_no_row_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let open = || SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap();
    let before = {
        let store: Arc<dyn Store> = Arc::new(open());
        store.write(put("a", "1")).await.unwrap();
        let deleted = store.write(delete("a")).await.unwrap();
        store.compact(deleted).await.unwrap();
        let rows = rusqlite::Connection::open(directory.path().join("store.db")).unwrap();
        let left: i64 = rows.query_row("SELECT count(*) FROM change", [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0);
        // The files as a killed process leaves them.
        let copy = directory.path().join("copy");
        std::fs::create_dir(&copy).unwrap();
        for name in ["store.db", "store.db-wal"] {
            std::fs::copy(directory.path().join(name), copy.join(name)).unwrap();
        }
        deleted
    };
    for store in
        [open(), SqliteStore::open(&directory.path().join("copy"), SqliteOptions::default()).unwrap()]
    {
        let store: Arc<dyn Store> = Arc::new(store);
        assert!(all(&store).await.entries.is_empty());
        assert_eq!(store.revision().await, Ok(before));
        assert!(store.write(put("a", "2")).await.unwrap() > before);
    }
}

#[test]
fn the_error_contains_the_id_of_the_other_process() {
    let directory = tempfile::tempdir().unwrap();
    let (mut child, mut acknowledgements) = start(directory.path());
    acknowledgements.next().expect("the store is open");
    let error = SqliteStore::open(directory.path(), SqliteOptions::default()).err().expect("it is in use");
    assert!(
        matches!(error, OpenError::InUse { process: Some(process), .. } if process == child.id()),
        "{error:?}"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    SqliteStore::open(directory.path(), SqliteOptions::default())
        .expect("the lock is released when the process ends");
}
