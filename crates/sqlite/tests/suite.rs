//! The store suite, run against the SQLite store.

use atoll_sqlite::{SqliteOptions, SqliteStore};
use atoll_store::suite::Subject;

atoll_store::suite_embedded!(|| {
    let directory = tempfile::tempdir().unwrap();
    Subject::keeping(SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap(), directory)
});
