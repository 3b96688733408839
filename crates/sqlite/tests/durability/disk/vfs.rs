//! The VFS of the simulated disk: it forwards every call to the system's VFS, and asks the disk before
//! writing.

// SQLite's VFS interface consists of C structs and function pointers.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::mem::size_of;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr;

use rusqlite::ffi::{self, sqlite3_file, sqlite3_int64, sqlite3_io_methods, sqlite3_vfs};

use super::{Disk, OperationResult, Pending, Refusal};

/// The file types that must survive a power cut.
const DURABLE: c_int = ffi::SQLITE_OPEN_MAIN_DB | ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_WAL;

/// The application data of a registered VFS.
struct Shim {
    disk: Disk,
    real: *mut sqlite3_vfs,
}

/// An open file. SQLite allocates it together with space for the system's file.
#[repr(C)]
struct File {
    base: sqlite3_file,
    disk: Disk,
    /// The path under which the disk knows the file; null for files that need not survive.
    path: *mut PathBuf,
}

/// Registers the disk under its name.
pub fn register(disk: Disk) {
    // SAFETY: the default VFS lives as long as the process. Its copy, the name and the application data are
    // leaked, so they do too. Apart from opening, the system's methods do not access the struct they are
    // called with, so they can be called with the copy.
    unsafe {
        let real = ffi::sqlite3_vfs_find(ptr::null());
        assert!(!real.is_null());
        let shim = Box::leak(Box::new(Shim { disk, real }));
        let name = CString::new(disk.name).unwrap().into_raw();
        let vfs = Box::leak(Box::new(sqlite3_vfs {
            szOsFile: size_of::<File>() as c_int + (*real).szOsFile,
            pNext: ptr::null_mut(),
            zName: name,
            pAppData: ptr::from_mut(shim).cast(),
            xOpen: Some(open),
            xDelete: Some(delete),
            ..*real
        }));
        assert_eq!(ffi::sqlite3_vfs_register(vfs, 0), ffi::SQLITE_OK);
    }
}

/// SAFETY: `name` is a string that SQLite passes.
unsafe fn path_of(name: *const c_char) -> PathBuf {
    // SAFETY: see above.
    PathBuf::from(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()))
}

/// The system's file, which is stored after this VFS's file.
///
/// SAFETY: `file` is one that SQLite allocated for this VFS.
unsafe fn real(file: *mut sqlite3_file) -> *mut sqlite3_file {
    // SAFETY: `szOsFile` reserved the space. `File` contains pointers and its size is a multiple of their
    // alignment, as the system's file requires.
    unsafe { file.byte_add(size_of::<File>()) }
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite calls this with the VFS registered above and uninitialised memory of the requested size
    // for the file.
    unsafe {
        let shim = &*(*vfs).pAppData.cast::<Shim>();
        let below = real(file);
        (*below).pMethods = ptr::null();
        let Some(open_below) = (*shim.real).xOpen else { return ffi::SQLITE_ERROR };
        let outcome = open_below(shim.real, name, below, flags, out);
        let mut path = ptr::null_mut();
        if outcome == ffi::SQLITE_OK && !name.is_null() && flags & DURABLE != 0 {
            let opened = path_of(name);
            shim.disk.state().opened(&opened);
            path = Box::into_raw(Box::new(opened));
        }
        // Without methods, SQLite does not close the file.
        let methods = if (*below).pMethods.is_null() { ptr::null() } else { ptr::from_ref(&METHODS) };
        file.cast::<File>().write(File { base: sqlite3_file { pMethods: methods }, disk: shim.disk, path });
        outcome
    }
}

unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: as for `open`.
    unsafe {
        let shim = &*(*vfs).pAppData.cast::<Shim>();
        let mut state = shim.disk.state();
        if state.left.is_some() {
            return ffi::SQLITE_IOERR_DELETE;
        }
        state.deleted(&path_of(name));
        match (*shim.real).xDelete {
            Some(delete_below) => delete_below(shim.real, name, sync),
            None => ffi::SQLITE_ERROR,
        }
    }
}

fn code(refusal: Refusal) -> c_int {
    match refusal {
        Refusal::Full => ffi::SQLITE_FULL,
        Refusal::ReadOnly => ffi::SQLITE_READONLY,
        Refusal::Input => ffi::SQLITE_IOERR_WRITE,
        Refusal::Sync => ffi::SQLITE_IOERR_FSYNC,
    }
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite closes each file once, after which it does not use it.
    unsafe {
        let path = (*file.cast::<File>()).path;
        if !path.is_null() {
            drop(Box::from_raw(path));
        }
        below_close(file)
    }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    data: *const c_void,
    size: c_int,
    offset: sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite passes an open file of this VFS and `size` bytes at `data`.
    unsafe {
        let File { disk, path, .. } = &*file.cast::<File>();
        if !path.is_null() {
            let bytes = std::slice::from_raw_parts(data.cast::<u8>(), size as usize).to_vec();
            if let OperationResult::Refuse(refusal) =
                disk.state().write(&**path, Pending::Write(offset as usize, bytes))
            {
                return code(refusal);
            }
        }
        below_write(file, data, size, offset)
    }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: sqlite3_int64) -> c_int {
    // SAFETY: SQLite passes an open file of this VFS.
    unsafe {
        let File { disk, path, .. } = &*file.cast::<File>();
        if !path.is_null()
            && let OperationResult::Refuse(refusal) =
                disk.state().write(&**path, Pending::Truncate(size as usize))
        {
            return code(refusal);
        }
        below_truncate(file, size)
    }
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: SQLite passes an open file of this VFS.
    let File { disk, path, .. } = unsafe { &*file.cast::<File>() };
    if path.is_null() {
        return ffi::SQLITE_OK;
    }
    // SAFETY: the path lives as long as the file is open.
    match disk.state().sync(unsafe { &**path }) {
        OperationResult::Pass => ffi::SQLITE_OK,
        OperationResult::Refuse(refusal) => code(refusal),
    }
}

/// Defines functions that call the same method of the system's file.
macro_rules! pass_on {
    ($($name:ident = $method:ident($($argument:ident: $kind:ty),*) $(-> $result:ty, $missing:expr)?;)*) => {
        $(unsafe extern "C" fn $name(file: *mut sqlite3_file, $($argument: $kind),*) $(-> $result)? {
            // SAFETY: SQLite calls methods of open files only, and a file of this VFS is open only while the
            // system's is. The arguments come from SQLite.
            unsafe {
                let below = real(file);
                match (*(*below).pMethods).$method {
                    Some(method) => method(below, $($argument),*),
                    None => { $($missing)? }
                }
            }
        })*
    };
}

pass_on! {
    below_close = xClose() -> c_int, ffi::SQLITE_ERROR;
    below_write = xWrite(data: *const c_void, size: c_int, offset: sqlite3_int64) -> c_int, ffi::SQLITE_ERROR;
    below_truncate = xTruncate(size: sqlite3_int64) -> c_int, ffi::SQLITE_ERROR;
    read = xRead(data: *mut c_void, size: c_int, offset: sqlite3_int64) -> c_int, ffi::SQLITE_ERROR;
    file_size = xFileSize(size: *mut sqlite3_int64) -> c_int, ffi::SQLITE_ERROR;
    lock = xLock(level: c_int) -> c_int, ffi::SQLITE_ERROR;
    unlock = xUnlock(level: c_int) -> c_int, ffi::SQLITE_ERROR;
    check_reserved_lock = xCheckReservedLock(out: *mut c_int) -> c_int, ffi::SQLITE_ERROR;
    file_control = xFileControl(operation: c_int, argument: *mut c_void) -> c_int, ffi::SQLITE_NOTFOUND;
    sector_size = xSectorSize() -> c_int, 4096;
    device_characteristics = xDeviceCharacteristics() -> c_int, 0;
    shm_map = xShmMap(page: c_int, size: c_int, extend: c_int, out: *mut *mut c_void) -> c_int, ffi::SQLITE_ERROR;
    shm_lock = xShmLock(offset: c_int, count: c_int, flags: c_int) -> c_int, ffi::SQLITE_ERROR;
    shm_barrier = xShmBarrier();
    shm_unmap = xShmUnmap(delete: c_int) -> c_int, ffi::SQLITE_ERROR;
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    // Version 2 has no memory-mapped reads.
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};
