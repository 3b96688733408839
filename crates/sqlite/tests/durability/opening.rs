//! Directories that cannot be opened, and the error messages.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use atoll_sqlite::{OpenError, SqliteOptions, SqliteStore};
use atoll_store::suite::put;
use atoll_store::{Range, Store};
use rusqlite::Connection;

fn open(directory: &Path) -> Result<SqliteStore, OpenError> {
    SqliteStore::open(directory, SqliteOptions::default())
}

fn refused(directory: &Path) -> OpenError {
    open(directory).err().expect("the store should not open")
}

/// The message without the variable part.
fn message(error: &OpenError, directory: &Path) -> String {
    error.to_string().replace(&directory.display().to_string(), "DIR")
}

#[tokio::test]
async fn opening_a_store_in_use_reports_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    let error = refused(directory.path());
    let process = std::process::id();
    assert!(matches!(error, OpenError::InUse { process: Some(named), .. } if named == process), "{error:?}");
    assert_eq!(
        message(&error, directory.path()),
        format!(
            "DIR is in use by another process (pid {process}); stop that one first, or choose another data directory"
        )
    );
    store.write(put("a", "1")).await.unwrap();
    store.close().await;
    let again = open(directory.path()).expect("a closed store releases its directory");
    assert_eq!(again.range(Range::all(), None, 0).await.unwrap().entries.len(), 1);
}

#[test]
fn a_newer_format_is_not_modified() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()).unwrap());
    let path = directory.path().join("store.db");
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = refused(directory.path());
    assert!(matches!(error, OpenError::NewerFormat { found: 99, .. }), "{error:?}");
    assert_eq!(
        message(&error, directory.path()),
        "DIR/store.db was written by a newer version of Atoll (format 99; this version knows up to 1); \
         run that version or a newer one"
    );
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_file_that_is_not_a_store_is_not_modified() {
    let expected = "DIR/store.db is not an Atoll store; move it away, or choose another data directory";
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    for content in ["hello".into(), "x".repeat(10_000)] {
        std::fs::write(&path, &content).unwrap();
        let error = refused(directory.path());
        assert!(matches!(error, OpenError::NotAStore { .. }), "{error:?}");
        assert_eq!(message(&error, directory.path()), expected);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
    }
    std::fs::remove_file(&path).unwrap();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE bookmarks (url TEXT)").unwrap();
    let error = refused(directory.path());
    assert!(matches!(error, OpenError::NotAStore { .. }), "{error:?}");
}

#[tokio::test]
async fn damage_is_detected() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    for index in 0..50 {
        store.write(put(&format!("key-{index}"), vec![1; 1000])).await.unwrap();
    }
    store.close().await;
    let path = directory.path().join("store.db");
    let mut content = std::fs::read(&path).unwrap();
    // The header is intact, the pages are not.
    content[4096..].fill(0xa5);
    std::fs::write(&path, content).unwrap();
    let error = refused(directory.path());
    assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}");
    assert!(message(&error, directory.path()).ends_with("and restore a backup"));
}

#[test]
fn a_file_instead_of_the_directory_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, "").unwrap();
    let error = refused(&path);
    assert!(matches!(error, OpenError::Failed { .. }), "{error:?}");
    assert!(error.to_string().ends_with("check that the path is right and the disk is healthy"), "{error}");
}

#[tokio::test]
async fn files_are_readable_by_the_owner_only() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("deep/data");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let check = |directory: &Path| {
        assert_eq!(mode(directory), 0o700);
        let mut names = Vec::new();
        for file in std::fs::read_dir(directory).unwrap() {
            let path = file.unwrap().path();
            assert_eq!(mode(&path), 0o600, "{}", path.display());
            names.push(path.file_name().unwrap().to_string_lossy().into_owned());
        }
        names.sort();
        names
    };
    let store = open(&directory).unwrap();
    store.write(put("a", "secret")).await.unwrap();
    assert_eq!(check(&directory), ["lock", "store.db", "store.db-shm", "store.db-wal"]);
    store.close().await;
    assert_eq!(check(&directory), ["lock", "store.db"]);
    // A backup that was restored with permissions for all users.
    std::fs::set_permissions(directory.join("store.db"), PermissionsExt::from_mode(0o644)).unwrap();
    let store = open(&directory).unwrap();
    store.write(put("a", "secret")).await.unwrap();
    check(&directory);
}

#[tokio::test]
async fn a_closed_store_returns_closed() {
    use atoll_store::{ReadError, Unavailable, WriteError};
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    store.close().await;
    store.close().await;
    let closed = Unavailable::Closed;
    assert_eq!(store.write(put("a", "1")).await, Err(WriteError::Unavailable(closed.clone())));
    assert_eq!(store.compact(1).await, Err(WriteError::Unavailable(closed.clone())));
    assert_eq!(store.raise(1).await, Err(WriteError::Unavailable(closed.clone())));
    assert_eq!(store.revision().await, Err(ReadError::Unavailable(closed.clone())));
    assert_eq!(
        store.range(Range::all(), None, 0).await.err(),
        Some(ReadError::Unavailable(closed)),
        "a range"
    );
}
