//! A simulated disk with power cuts and faults.
//!
//! It is a VFS between SQLite and the real files. Writes go to the real files at once, and also into a list
//! of unsynced writes; a sync makes the file durable in its current state, without syncing the real disk.
//! After a power cut, synced data is left, and any part of the unsynced data: disks reorder writes, a sector
//! at a time.
//!
//! A failed sync loses the data that it should have written, and the next one does not retry: this is how
//! Linux treats its page cache.

mod vfs;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use atoll_sqlite::SqliteOptions;
use atoll_store::suite::random::Random;

const SECTOR: usize = 512;

/// A fault of write operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No space is left.
    Full,
    /// The file system has become read-only.
    ReadOnly,
    /// Syncs fail, and their data is lost.
    SyncLoses,
    /// Syncs fail, but their data is on the disk.
    SyncLies,
}

/// A disk with its own VFS. SQLite may use a VFS for as long as the process lives, so it is never freed.
#[derive(Clone, Copy)]
pub struct Disk {
    name: &'static str,
    state: &'static Mutex<State>,
}

struct State {
    files: HashMap<PathBuf, Medium>,
    /// Writes, truncations and syncs so far.
    operations: u64,
    cut_at: Option<u64>,
    /// The files after the power cut.
    left: Option<HashMap<PathBuf, Vec<u8>>>,
    fault: Option<Fault>,
    random: Random,
}

#[derive(Default)]
struct Medium {
    durable: Vec<u8>,
    pending: Vec<Pending>,
}

enum Pending {
    Write(usize, Vec<u8>),
    Truncate(usize),
}

impl Pending {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Pending::Write(offset, data) => {
                let end = offset + data.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[*offset..end].copy_from_slice(data);
            }
            Pending::Truncate(size) => content.resize(*size, 0),
        }
    }

    /// The parts that independently reach the disk or do not.
    fn sectors(&self) -> Vec<Pending> {
        let Pending::Write(offset, data) = self else { return Vec::new() };
        let mut parts = Vec::new();
        let mut from = 0;
        while from < data.len() {
            let until = data.len().min(from + SECTOR - (offset + from) % SECTOR);
            parts.push(Pending::Write(offset + from, data[from..until].to_vec()));
            from = until;
        }
        parts
    }
}

impl Medium {
    fn sync(&mut self) {
        for pending in self.pending.drain(..) {
            pending.apply(&mut self.durable);
        }
    }

    fn after_power_cut(&self, random: &mut Random) -> Vec<u8> {
        let mut content = self.durable.clone();
        // Either all unsynced data is lost, or each write is kept or lost, or each sector is.
        let way = random.below(3);
        for pending in &self.pending {
            match (way, pending) {
                (0, _) => {}
                (1, _) | (_, Pending::Truncate(_)) => {
                    if random.one_in(2) {
                        pending.apply(&mut content);
                    }
                }
                _ => pending
                    .sectors()
                    .iter()
                    .filter(|_| random.one_in(2))
                    .for_each(|part| part.apply(&mut content)),
            }
        }
        content
    }
}

impl Disk {
    pub fn new(seed: u64) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("disk-{}", NUMBER.fetch_add(1, Ordering::SeqCst));
        let state = State {
            files: HashMap::new(),
            operations: 0,
            cut_at: None,
            left: None,
            fault: None,
            random: Random::new(seed),
        };
        let disk = Disk { name: name.leak(), state: Box::leak(Box::new(Mutex::new(state))) };
        vfs::register(disk);
        DISKS.lock().unwrap().push(disk);
        disk
    }

    /// SqliteOptions for a store on this disk.
    pub fn options(&self) -> SqliteOptions {
        SqliteOptions { vfs: Some(self.name.into()), rewritten: Some(rewritten), ..SqliteOptions::default() }
    }

    /// Cuts the power after `operations` further operations.
    pub fn cut_after(&self, operations: u64) {
        let mut state = self.state();
        state.cut_at = Some(state.operations + operations);
    }

    /// Cuts the power, unless it is already cut.
    pub fn cut(&self) {
        self.state().cut();
    }

    pub fn fail(&self, fault: Fault) {
        self.state().fault = Some(fault);
    }

    pub fn heal(&self) {
        self.state().fault = None;
    }

    /// Writes, truncations and syncs so far.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Waits until the disk has counted `operations` operations.
    pub async fn reached(&self, operations: u64) {
        while self.operations() < operations {
            tokio::task::yield_now().await;
        }
    }

    /// Copies the files that the power cut has left into another directory.
    pub fn restore(&self, directory: &Path) {
        let state = self.state();
        for (path, content) in state.left.as_ref().expect("the power was cut") {
            std::fs::write(directory.join(path.file_name().unwrap()), content).unwrap();
        }
    }

    fn state(&self) -> MutexGuard<'static, State> {
        self.state.lock().unwrap()
    }
}

static DISKS: Mutex<Vec<Disk>> = Mutex::new(Vec::new());

/// Handles a file that was written and synced without the VFS: unless a fault is active, its current contents
/// are durable.
fn rewritten(vfs: &str, file: &Path) -> io::Result<()> {
    let disk = *DISKS.lock().unwrap().iter().find(|disk| disk.name == vfs).expect("a disk of that name");
    let mut state = disk.state();
    if state.left.is_some() {
        return Err(io::ErrorKind::Other.into());
    }
    let medium = state.files.entry(file.to_path_buf()).or_default();
    let content = std::fs::read(file)?;
    medium.pending = vec![Pending::Truncate(content.len()), Pending::Write(0, content)];
    match state.sync(file) {
        OperationResult::Pass => Ok(()),
        OperationResult::Refuse(_) => Err(io::ErrorKind::Other.into()),
    }
}

/// The result of an operation.
enum OperationResult {
    Pass,
    Refuse(Refusal),
}

enum Refusal {
    Full,
    ReadOnly,
    Input,
    Sync,
}

/// Calls from the VFS.
impl State {
    fn opened(&mut self, path: &Path) {
        self.files.entry(path.to_path_buf()).or_insert_with(|| Medium {
            durable: std::fs::read(path).unwrap_or_default(),
            pending: Vec::new(),
        });
    }

    fn deleted(&mut self, path: &Path) {
        self.files.remove(path);
    }

    fn write(&mut self, path: &Path, pending: Pending) -> OperationResult {
        self.operations += 1;
        match self.fault {
            _ if self.left.is_some() => return OperationResult::Refuse(Refusal::Input),
            Some(Fault::Full) => return OperationResult::Refuse(Refusal::Full),
            Some(Fault::ReadOnly) => return OperationResult::Refuse(Refusal::ReadOnly),
            _ => {}
        }
        self.files.entry(path.to_path_buf()).or_default().pending.push(pending);
        self.power()
    }

    fn sync(&mut self, path: &Path) -> OperationResult {
        self.operations += 1;
        // The power may be cut before the sync is done.
        if let OperationResult::Refuse(refusal) = self.power() {
            return OperationResult::Refuse(refusal);
        }
        let medium = self.files.entry(path.to_path_buf()).or_default();
        match self.fault {
            Some(Fault::SyncLoses) => {
                medium.pending.clear();
                OperationResult::Refuse(Refusal::Sync)
            }
            Some(Fault::SyncLies) => {
                medium.sync();
                OperationResult::Refuse(Refusal::Sync)
            }
            _ => {
                medium.sync();
                OperationResult::Pass
            }
        }
    }

    fn power(&mut self) -> OperationResult {
        if self.cut_at.is_some_and(|cut_at| self.operations >= cut_at) {
            self.cut();
        }
        match self.left {
            Some(_) => OperationResult::Refuse(Refusal::Input),
            None => OperationResult::Pass,
        }
    }

    fn cut(&mut self) {
        if self.left.is_none() {
            // Sorted, so that the order depends on the seed and not on the map.
            let mut paths: Vec<&PathBuf> = self.files.keys().collect();
            paths.sort();
            let random = &mut self.random;
            let left = paths.into_iter().map(|path| (path.clone(), self.files[path].after_power_cut(random)));
            self.left = Some(left.collect());
        }
    }
}
