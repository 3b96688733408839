//! Finds out why the disk cannot be used, so that the error tells the operator what to fix.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use atoll_store::Unavailable;
use rusqlite::ErrorCode;

const PROBE: &str = "probe";

/// Translates an SQLite error for the store in `directory`.
pub(crate) fn unavailable(error: &rusqlite::Error, directory: &Path) -> Unavailable {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Unavailable::DiskFull,
        Some(ErrorCode::ReadOnly) => Unavailable::ReadOnly,
        // SQLite does not report the system's error: a quota, a remount and a failing disk look the same. A
        // test write tells them apart.
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            match probe(directory) {
                Err(cause) => of_system(&cause),
                Ok(()) => Unavailable::Failed(error.to_string()),
            }
        }
        _ => Unavailable::Failed(error.to_string()),
    }
}

pub(crate) fn of_system(error: &io::Error) -> Unavailable {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Unavailable::DiskFull,
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => Unavailable::ReadOnly,
        _ => Unavailable::Failed(error.to_string()),
    }
}

/// Writes a few pages in the same way as the store.
fn probe(directory: &Path) -> io::Result<()> {
    let path = directory.join(PROBE);
    let outcome = (|| {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        file.write_all(&[0; 64 << 10])?;
        file.sync_data()
    })();
    // Nothing to remove if the file could not be created.
    let _ = fs::remove_file(&path);
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_errors_are_distinguished() {
        let kind = |kind: ErrorKind| of_system(&io::Error::from(kind));
        assert_eq!(kind(ErrorKind::StorageFull), Unavailable::DiskFull);
        assert_eq!(kind(ErrorKind::QuotaExceeded), Unavailable::DiskFull);
        assert_eq!(kind(ErrorKind::ReadOnlyFilesystem), Unavailable::ReadOnly);
        assert_eq!(kind(ErrorKind::PermissionDenied), Unavailable::ReadOnly);
        assert!(matches!(kind(ErrorKind::TimedOut), Unavailable::Failed(_)));
    }

    #[test]
    fn an_error_without_a_cause_is_probed() {
        let failed = |code| rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
        let directory = tempfile::tempdir().unwrap();
        let write = failed(rusqlite::ffi::SQLITE_IOERR_WRITE);
        assert!(matches!(unavailable(&write, directory.path()), Unavailable::Failed(_)));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "the probe file is removed");
        let full = failed(rusqlite::ffi::SQLITE_FULL);
        assert_eq!(unavailable(&full, directory.path()), Unavailable::DiskFull);
        let read_only = failed(rusqlite::ffi::SQLITE_READONLY_DBMOVED);
        assert_eq!(unavailable(&read_only, directory.path()), Unavailable::ReadOnly);
    }
}
