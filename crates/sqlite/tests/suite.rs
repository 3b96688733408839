//! The SQLite store under the suite.

use atoll_sqlite::{Options, SqliteStore};
use atoll_store::suite::Subject;

atoll_store::suite_embedded!(|| {
    let directory = tempfile::tempdir().unwrap();
    Subject::keeping(SqliteStore::open(directory.path(), Options::default()).unwrap(), directory)
});
