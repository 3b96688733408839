//! The directory of a playground: what it remembers, and what is its to delete.

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

/// A directory that this process has to itself.
pub struct Place {
    pub directory: PathBuf,
    /// Held for as long as the playground runs.
    lock: File,
}

impl Drop for Place {
    /// Closing the file would not do: a program that is just being started has it open for a moment, too.
    fn drop(&mut self) {
        // If that fails, whoever comes next is told that it still runs.
        let _ = self.lock.unlock();
    }
}

/// What a playground remembers of itself.
#[derive(Debug, PartialEq, Eq)]
pub struct Record {
    pub clusters: usize,
    pub nodes: usize,
    /// Where each of its servers was.
    pub ports: BTreeMap<String, u16>,
    /// Whether the sample application was put in: whoever removes it does not get it again.
    pub has_sample: bool,
}

impl Default for Record {
    fn default() -> Self {
        Record { clusters: 3, nodes: 5, ports: BTreeMap::new(), has_sample: false }
    }
}

impl Record {
    /// Whether it has never run.
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

    /// `None` if this is no playground's.
    fn from_json(value: &Value) -> Option<Record> {
        if value["atoll"] != "playground" || value["format"] != 1 {
            return None;
        }
        let number = |name: &str| value[name].as_u64().and_then(|number| usize::try_from(number).ok());
        let ports = value["ports"].as_object()?.iter();
        let port =
            |(name, port): (&String, &Value)| Some((name.clone(), u16::try_from(port.as_u64()?).ok()?));
        Some(Record {
            clusters: number("clusters")?,
            nodes: number("nodes")?,
            ports: ports.filter_map(port).collect(),
            has_sample: value["sample"].as_bool()?,
        })
    }
}

impl Place {
    /// Takes the directory, which must be empty or a playground's, and with `reset` empties it.
    pub fn open(directory: &Path, reset: bool) -> Result<Self, String> {
        let failed = |error: io::Error| format!("{}: {error}", directory.display());
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        let is_ours = read(&directory.join(RECORD)).is_some_and(|value| Record::from_json(&value).is_some());
        let is_empty = || -> io::Result<bool> {
            let mut entries = fs::read_dir(directory)?;
            entries.try_fold(true, |empty, entry| Ok(empty && entry?.file_name() == LOCK))
        };
        if !is_ours && !is_empty().map_err(failed)? {
            return Err(format!(
                "{} is not empty and no playground's: nothing was touched; choose another with --data-dir",
                directory.display()
            ));
        }
        // Whatever else it is called, it is absolute: what is printed is good in any directory.
        let directory = fs::canonicalize(directory).map_err(failed)?;
        let lock = File::create(directory.join(LOCK)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(format!(
                    "a playground already runs in {}; stop it, or choose another with --data-dir",
                    directory.display()
                ));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let place = Place { directory, lock };
        if reset {
            place.empty().map_err(failed)?;
        }
        Ok(place)
    }

    /// Deletes what playgrounds make, and nothing else; the record last, so that it can be tried again.
    fn empty(&self) -> io::Result<()> {
        let gone = |outcome: io::Result<()>| match outcome {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            outcome => outcome,
        };
        for name in DATA {
            gone(fs::remove_dir_all(self.directory.join(name)))?;
        }
        gone(fs::remove_file(self.kubeconfig()))?;
        gone(fs::remove_file(self.directory.join(RECORD)))
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join(KUBECONFIG)
    }

    /// Where one of the planes keeps what it has.
    pub fn of(&self, name: &str) -> PathBuf {
        match name {
            CONTROL_PLANE => self.directory.join(DATA[0]),
            cluster => self.directory.join(DATA[1]).join(cluster),
        }
    }

    /// What is remembered, or what a new one is like.
    pub fn record(&self) -> Result<Record, String> {
        let path = self.directory.join(RECORD);
        match read(&path) {
            None => Ok(Record::default()),
            Some(value) => Record::from_json(&value)
                .ok_or_else(|| format!("{} cannot be read; start afresh with --reset", path.display())),
        }
    }

    pub fn write(&self, record: &Record) -> Result<(), String> {
        let text = format!("{:#}\n", record.to_json());
        write_private(&self.directory.join(RECORD), &text).map_err(|error| error.to_string())
    }
}

fn read(path: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_playground_takes_only_what_is_its_own() {
        let parent = tempfile::tempdir().expect("a directory");
        let directory = parent.path().join("new");
        let place = Place::open(&directory, false).expect("a new one");
        assert_eq!(place.record(), Ok(Record::default()));
        assert!(Place::open(&directory, true).is_err_and(|problem| problem.contains("already runs")));
        let mut record = Record { clusters: 2, has_sample: true, ..Record::default() };
        record.ports.insert("east".into(), 4242);
        place.write(&record).expect("it can be written");
        fs::create_dir_all(place.of("east")).expect("it can be made");
        fs::write(place.directory.join("notes.txt"), "mine").expect("it can be written");
        drop(place);

        let place = Place::open(&directory, false).expect("the same again");
        assert_eq!(place.record(), Ok(record));
        drop(place);
        let place = Place::open(&directory, true).expect("afresh");
        assert_eq!(place.record(), Ok(Record::default()));
        assert!(!place.of("east").exists() && place.directory.join("notes.txt").exists());
        drop(place);
        // With the record gone the notes are somebody else's, and so is the directory.
        for reset in [false, true] {
            let refused = Place::open(&directory, reset).err().unwrap_or_default();
            assert!(refused.contains("nothing was touched"), "{refused}");
        }
        assert!(directory.join("notes.txt").exists());
    }
}
