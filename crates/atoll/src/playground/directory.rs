//! The directory of a playground and its record.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use atoll_authn::authority::write_private;
use serde_json::{Value, json};

use super::CONTROL_PLANE;

const RECORD: &str = "playground.json";
const LOCK: &str = "playground.lock";
const KUBECONFIG: &str = "kubeconfig";
const DATA: [&str; 2] = ["control-plane", "clusters"];

/// A playground's directory, locked by this process.
pub struct PlaygroundDirectory {
    pub path: PathBuf,
    /// Held while the playground runs.
    lock: File,
}

impl Drop for PlaygroundDirectory {
    /// Unlocks explicitly, because a child process that is just being started may still have the file open.
    fn drop(&mut self) {
        // If that fails, the next playground reports that this one still runs.
        let _ = self.lock.unlock();
    }
}

/// The persistent record of a playground.
#[derive(Debug, PartialEq, Eq)]
pub struct PlaygroundRecord {
    pub clusters: usize,
    pub nodes: usize,
    /// Ports of its servers, by name.
    pub ports: BTreeMap<String, u16>,
    /// Whether the sample application was created, so that it is not created again after it was deleted.
    pub has_sample: bool,
}

impl Default for PlaygroundRecord {
    fn default() -> Self {
        PlaygroundRecord { clusters: 3, nodes: 5, ports: BTreeMap::new(), has_sample: false }
    }
}

impl PlaygroundRecord {
    /// Whether the playground has never run.
    pub fn is_new(&self) -> bool {
        self.ports.is_empty()
    }

    fn to_json(&self) -> Value {
        json!({
            "atoll": "playground",
            "format": 1,
            "clusters": self.clusters,
            "nodes": self.nodes,
            "ports": self.ports,
            "sample": self.has_sample,
        })
    }

    /// Returns `None` if the value is not a playground's record.
    fn from_json(value: &Value) -> Option<PlaygroundRecord> {
        if value["atoll"] != "playground" || value["format"] != 1 {
            return None;
        }
        let number = |name: &str| value[name].as_u64().and_then(|number| usize::try_from(number).ok());
        let ports = value["ports"].as_object()?.iter();
        let port =
            |(name, port): (&String, &Value)| Some((name.clone(), u16::try_from(port.as_u64()?).ok()?));
        Some(PlaygroundRecord {
            clusters: number("clusters")?,
            nodes: number("nodes")?,
            ports: ports.filter_map(port).collect(),
            has_sample: value["sample"].as_bool()?,
        })
    }
}

impl PlaygroundDirectory {
    /// Locks the directory, which must be empty or a playground's, and empties it if `reset`.
    pub fn open(directory: &Path, reset: bool) -> Result<Self, String> {
        let failed = |error: io::Error| format!("{}: {error}", directory.display());
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        let is_playground =
            read(&directory.join(RECORD)).is_some_and(|value| PlaygroundRecord::from_json(&value).is_some());
        let is_empty = || -> io::Result<bool> {
            let mut entries = fs::read_dir(directory)?;
            entries.try_fold(true, |empty, entry| Ok(empty && entry?.file_name() == LOCK))
        };
        if !is_playground && !is_empty().map_err(failed)? {
            return Err(format!(
                "{} is not empty and not a playground; nothing was changed; choose another directory with --data-dir",
                directory.display()
            ));
        }
        // Absolute, because the printed commands must work in any directory.
        let directory = fs::canonicalize(directory).map_err(failed)?;
        let lock = File::create(directory.join(LOCK)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(format!(
                    "a playground already runs in {}; stop it, or choose another directory with --data-dir",
                    directory.display()
                ));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let directory = PlaygroundDirectory { path: directory, lock };
        if reset {
            directory.empty().map_err(failed)?;
        }
        Ok(directory)
    }

    /// Deletes only the playground's own files; the record last, so that an interrupted reset can be
    /// repeated.
    fn empty(&self) -> io::Result<()> {
        let gone = |outcome: io::Result<()>| match outcome {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            outcome => outcome,
        };
        for name in DATA {
            gone(fs::remove_dir_all(self.path.join(name)))?;
        }
        gone(fs::remove_file(self.kubeconfig()))?;
        gone(fs::remove_file(self.path.join(RECORD)))
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.path.join(KUBECONFIG)
    }

    /// The data directory of the control plane or of a cluster.
    pub fn of(&self, name: &str) -> PathBuf {
        match name {
            CONTROL_PLANE => self.path.join(DATA[0]),
            cluster => self.path.join(DATA[1]).join(cluster),
        }
    }

    /// Reads the record, or returns the default for a new playground.
    pub fn record(&self) -> Result<PlaygroundRecord, String> {
        let path = self.path.join(RECORD);
        match read(&path) {
            None => Ok(PlaygroundRecord::default()),
            Some(value) => PlaygroundRecord::from_json(&value)
                .ok_or_else(|| format!("{} cannot be read; delete its data with --reset", path.display())),
        }
    }

    pub fn write(&self, record: &PlaygroundRecord) -> Result<(), String> {
        let text = format!("{:#}\n", record.to_json());
        write_private(&self.path.join(RECORD), &text).map_err(|error| error.to_string())
    }
}

fn read(path: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_playground_directories_are_used() {
        let parent = tempfile::tempdir().expect("a directory");
        let path = parent.path().join("new");
        let directory = PlaygroundDirectory::open(&path, false).expect("a new one");
        assert_eq!(directory.record(), Ok(PlaygroundRecord::default()));
        assert!(
            PlaygroundDirectory::open(&path, true).is_err_and(|problem| problem.contains("already runs"))
        );
        let mut record = PlaygroundRecord { clusters: 2, has_sample: true, ..PlaygroundRecord::default() };
        record.ports.insert("east".into(), 4242);
        directory.write(&record).expect("it can be written");
        fs::create_dir_all(directory.of("east")).expect("it can be made");
        fs::write(directory.path.join("notes.txt"), "mine").expect("it can be written");
        drop(directory);

        let directory = PlaygroundDirectory::open(&path, false).expect("the same again");
        assert_eq!(directory.record(), Ok(record));
        drop(directory);
        let directory = PlaygroundDirectory::open(&path, true).expect("a new one");
        assert_eq!(directory.record(), Ok(PlaygroundRecord::default()));
        assert!(!directory.of("east").exists() && directory.path.join("notes.txt").exists());
        drop(directory);
        // Without the record, the directory is no longer recognized as a playground's.
        for reset in [false, true] {
            let refused = PlaygroundDirectory::open(&path, reset).err().unwrap_or_default();
            assert!(refused.contains("nothing was changed"), "{refused}");
        }
        assert!(path.join("notes.txt").exists());
    }
}
