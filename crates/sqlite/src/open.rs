//! Opening a store: the directory, its lock, the file's format, and the connections.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_store::Unavailable;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::fault;
use crate::table::{self, APPLICATION, Contents, FORMAT};

const DATABASE: &str = "store.db";
const LOG: &str = "store.db-wal";
const LOCK: &str = "lock";

/// Options for opening a store. The hidden ones are for tests, which run the store on a simulated disk.
#[derive(Clone)]
pub struct SqliteOptions {
    /// The SQLite VFS to use.
    #[doc(hidden)]
    pub vfs: Option<String>,
    /// Called whenever a file was written and synced without the VFS.
    #[doc(hidden)]
    pub rewritten: Option<fn(vfs: &str, file: &Path) -> io::Result<()>>,
    #[doc(hidden)]
    pub synchronous: Synchronous,
    /// Length of the log in pages at which it is moved into the database.
    #[doc(hidden)]
    pub checkpoint_pages: u32,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        SqliteOptions { vfs: None, rewritten: None, synchronous: Synchronous::Full, checkpoint_pages: 1000 }
    }
}

/// The SQLite synchronous mode.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchronous {
    /// A commit waits for the disk.
    Full,
    /// A commit does not wait. Only for tests which prove that the durability tests detect lost writes.
    Off,
}

/// The reason why a store cannot be opened, and how to fix it.
#[derive(Debug)]
pub enum OpenError {
    /// Another process has it open.
    InUse {
        directory: PathBuf,
        process: Option<u32>,
    },
    /// The store was written by a newer version of this program.
    NewerFormat {
        path: PathBuf,
        found: i64,
    },
    /// The file is not a store.
    NotAStore {
        path: PathBuf,
    },
    /// The file is a damaged store.
    Damaged {
        path: PathBuf,
        cause: String,
    },
    ReadOnly {
        path: PathBuf,
    },
    DiskFull {
        path: PathBuf,
    },
    Failed {
        path: PathBuf,
        cause: String,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::InUse { directory, process } => {
                write!(f, "{} is in use by another process", directory.display())?;
                if let Some(process) = process {
                    write!(f, " (pid {process})")?;
                }
                f.write_str("; stop that one first, or choose another data directory")
            }
            OpenError::NewerFormat { path, found } => write!(
                f,
                "{} was written by a newer version of Atoll (format {found}; this version knows up to {FORMAT}); \
                 run that version or a newer one",
                path.display()
            ),
            OpenError::NotAStore { path } => write!(
                f,
                "{} is not an Atoll store; move it away, or choose another data directory",
                path.display()
            ),
            OpenError::Damaged { path, cause } => write!(
                f,
                "{} is damaged ({cause}); move it away together with the files beside it, and restore a backup",
                path.display()
            ),
            OpenError::ReadOnly { path } => write!(
                f,
                "{} cannot be written to; remount it writable, or give this user the right to write there",
                path.display()
            ),
            OpenError::DiskFull { path } => {
                write!(f, "the disk that holds {} is full; free some space and start again", path.display())
            }
            OpenError::Failed { path, cause } => write!(
                f,
                "cannot open {}: {cause}; check that the path is right and the disk is healthy",
                path.display()
            ),
        }
    }
}

impl std::error::Error for OpenError {}

/// The location of the tables, and how to reopen them after a fault.
pub(crate) struct Database {
    directory: PathBuf,
    path: PathBuf,
    pub options: SqliteOptions,
    /// The reader thread's connection. `None` after a fault, until it is needed again.
    reader: Mutex<Option<Connection>>,
}

pub(crate) struct Opened {
    pub database: Arc<Database>,
    pub lock: File,
    pub writer: Connection,
    pub contents: Contents,
}

pub(crate) fn open(directory: &Path, options: SqliteOptions) -> Result<Opened, OpenError> {
    let of_system = |error: io::Error| OpenError::of(fault::of_system(&error), directory);
    create_directory(directory).map_err(of_system)?;
    let lock = take_lock(directory)?;

    let path = directory.join(DATABASE);
    create_file(directory, &path).map_err(of_system)?;
    let database = Database { directory: directory.into(), path, options, reader: Mutex::new(None) };
    database.secure_log().map_err(of_system)?;

    let (writer, contents) = database.prepare().map_err(|error| match error {
        PrepareError::Known(error) => error,
        PrepareError::Sqlite(error) => database.open_error(&error),
    })?;
    Ok(Opened { database: Arc::new(database), lock, writer, contents })
}

enum PrepareError {
    Known(OpenError),
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for PrepareError {
    fn from(error: rusqlite::Error) -> Self {
        PrepareError::Sqlite(error)
    }
}

impl Database {
    fn prepare(&self) -> Result<(Connection, Contents), PrepareError> {
        let connection = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        // Checked before anything is changed: a file that is not a store stays untouched.
        let fresh = self.check_format(&connection)?;
        drop(connection);
        let writer = self.writer()?;
        if fresh {
            table::create(&writer)?;
            // Checkpoint, so that a database file without its log is not mistaken for a new one.
            table::checkpoint(&writer, "TRUNCATE")?;
        }
        let contents = table::contents(&writer, || self.connect(OpenFlags::SQLITE_OPEN_READ_ONLY))?;
        Ok((writer, contents))
    }

    /// Whether the file is still empty. Fails if the file is not a store.
    fn check_format(&self, connection: &Connection) -> Result<bool, PrepareError> {
        let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        let application = number("PRAGMA application_id")?;
        let format = number("PRAGMA user_version")?;
        let tables = number("SELECT count(*) FROM sqlite_schema")?;
        match (application, format, tables) {
            (0, 0, 0) => Ok(true),
            (APPLICATION, FORMAT, _) => Ok(false),
            (APPLICATION, found, _) if found > FORMAT => {
                Err(PrepareError::Known(OpenError::NewerFormat { path: self.path.clone(), found }))
            }
            _ => Err(PrepareError::Known(OpenError::NotAStore { path: self.path.clone() })),
        }
    }

    /// Reopens the tables after a fault without trusting the system's page cache.
    ///
    /// A failed sync may have lost written data, and the system will not retry it. SQLite would continue from
    /// what it believes was written; so every connection is closed, the rest of the log is made durable, and
    /// SQLite then recovers it as after a killed process.
    pub fn recover(&self) -> Result<Connection, Unavailable> {
        let mut reader = self.lock_reader();
        *reader = None;
        self.secure_log().map_err(|error| fault::of_system(&error))?;
        self.writer().map_err(|error| self.unavailable(&error))
    }

    /// Rewrites the contents of the log and syncs it.
    fn secure_log(&self) -> io::Result<()> {
        let path = self.directory.join(LOG);
        let file = match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut part = vec![0; 1 << 20];
        let mut offset = 0;
        loop {
            let size = file.read_at(&mut part, offset)?;
            if size == 0 {
                break;
            }
            file.write_all_at(&part[..size], offset)?;
            offset += size as u64;
        }
        file.sync_data()?;
        match (&self.options.rewritten, &self.options.vfs) {
            (Some(rewritten), Some(vfs)) => rewritten(vfs, &path),
            _ => Ok(()),
        }
    }

    /// Opens the connection for writing. Once the store is open, the file is never created again: if it is
    /// missing, writing must fail instead of starting with an empty store.
    fn writer(&self) -> rusqlite::Result<Connection> {
        let connection = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let synchronous = match self.options.synchronous {
            Synchronous::Full => "FULL",
            Synchronous::Off => "OFF",
        };
        // The log keeps its size when it starts over, so that most commits overwrite allocated blocks and
        // need no change to file system metadata; only the excess of a burst is truncated.
        connection.execute_batch(&format!(
            "PRAGMA page_size = 4096;
             PRAGMA journal_mode = WAL;
             PRAGMA synchronous = {synchronous};
             PRAGMA fullfsync = ON;
             PRAGMA checkpoint_fullfsync = ON;
             PRAGMA wal_autocheckpoint = 0;
             PRAGMA journal_size_limit = 33554432;
             PRAGMA cache_size = -8192;"
        ))?;
        Ok(connection)
    }

    /// Reads with the reader connection, which is replaced after an SQLite error.
    pub fn read<T, E: From<rusqlite::Error>>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, E>,
        is_fault: impl FnOnce(&E) -> bool,
    ) -> Result<T, E> {
        let mut reader = self.lock_reader();
        let connection = match reader.take() {
            Some(connection) => connection,
            None => self.connect(OpenFlags::SQLITE_OPEN_READ_ONLY)?,
        };
        let outcome = work(&connection);
        if !outcome.as_ref().is_err_and(is_fault) {
            *reader = Some(connection);
        }
        outcome
    }

    pub fn close_reader(&self) {
        *self.lock_reader() = None;
    }

    fn lock_reader(&self) -> MutexGuard<'_, Option<Connection>> {
        // A sink that panics during its replay leaves `None`, and another connection is opened.
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn connect(&self, access: OpenFlags) -> rusqlite::Result<Connection> {
        let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = match self.options.vfs.as_deref() {
            Some(vfs) => Connection::open_with_flags_and_vfs(&self.path, flags, vfs)?,
            None => Connection::open_with_flags(&self.path, flags)?,
        };
        // By default, closing the last connection moves the log into the database, even after a fault.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        // Only another program that opens the file, such as the `sqlite3` shell, can hold a lock.
        connection.busy_timeout(Duration::from_secs(5))?;
        connection.execute_batch(
            "PRAGMA mmap_size = 0; PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY;",
        )?;
        Ok(connection)
    }

    /// Closes the last connection of a healthy store, which moves the log into the database.
    pub fn finish(&self, writer: Connection) {
        self.close_reader();
        // If this fails, the log stays and is read at the next start.
        let _ = writer.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false);
    }

    pub fn unavailable(&self, error: &rusqlite::Error) -> Unavailable {
        fault::unavailable(error, &self.directory)
    }

    fn open_error(&self, error: &rusqlite::Error) -> OpenError {
        let path = self.path.clone();
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => OpenError::NotAStore { path },
            Some(ErrorCode::DatabaseCorrupt) => OpenError::Damaged { path, cause: error.to_string() },
            _ => OpenError::of(self.unavailable(error), &self.path),
        }
    }
}

impl OpenError {
    fn of(cause: Unavailable, path: &Path) -> Self {
        let path = path.to_path_buf();
        match cause {
            Unavailable::DiskFull => OpenError::DiskFull { path },
            Unavailable::ReadOnly => OpenError::ReadOnly { path },
            Unavailable::Failed(cause) => OpenError::Failed { path, cause },
            Unavailable::Closed => OpenError::Failed { path, cause: cause.to_string() },
        }
    }
}

/// Creates the directory with access for this user only. An existing directory keeps its permissions: it may
/// be a mount point or shared on purpose, and the files in it are private anyway.
fn create_directory(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    match directory.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => Ok(()),
    }
}

/// Creates the database file if there is none. SQLite gives the files next to it the same permissions.
fn create_file(directory: &Path, path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => File::open(directory)?.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // The file may have been copied here with permissions for all users.
            if fs::metadata(path)?.permissions().mode() & 0o077 != 0 {
                fs::set_permissions(path, Permissions::from_mode(0o600))?;
            }
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Takes the lock, which the system releases when the process ends, however it ends.
fn take_lock(directory: &Path) -> Result<File, OpenError> {
    let path = directory.join(LOCK);
    let of_system = |error: io::Error| OpenError::of(fault::of_system(&error), directory);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(of_system)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            // Best effort: the process id is only for the error message.
            let process = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
            return Err(OpenError::InUse { directory: directory.into(), process });
        }
        Err(TryLockError::Error(error)) => return Err(of_system(error)),
    }
    // On a full disk the process id is not written, and a later step reports the error.
    let _ =
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(file)
}
