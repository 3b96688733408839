//! The kubeconfig files of a user, read and changed as kubectl does: the first file that has an entry or the
//! current context decides, and a change is written to the file that has the entry.

// upstream: staging/src/k8s.io/client-go/tools/clientcmd/config.go
// upstream: staging/src/k8s.io/client-go/tools/clientcmd/loader.go

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{Context, CredentialPlugin, ENTRIES, Kubeconfig, Problem, entries, named};

/// The files to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// One file that was named by an option. It must exist.
    Explicit(PathBuf),
    /// Files in order of precedence. Missing ones are skipped.
    Precedence(Vec<PathBuf>),
}

/// The existing files of a [`Selection`].
#[derive(Clone, Debug)]
pub struct KubeconfigFiles {
    files: Vec<KubeconfigFile>,
    /// The content of all files, with absolute paths.
    merged: Kubeconfig,
}

#[derive(Clone, Debug)]
struct KubeconfigFile {
    path: PathBuf,
    content: Kubeconfig,
}

/// Error of the files. No variant contains a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// No file is named: KUBECONFIG contains only separators, or there is no home directory.
    NoneNamed,
    /// None of these files exists.
    Missing(Vec<PathBuf>),
    /// A file cannot be read, parsed or written.
    File { path: PathBuf, cause: String },
    /// No file has what is to be changed.
    Entry(Problem),
}

impl fmt::Display for LoadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::NoneNamed => out.write_str("no file is named"),
            LoadError::Missing(paths) => {
                let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
                write!(out, "{}: No such file or directory", paths.join(", "))
            }
            LoadError::File { path, cause } => write!(out, "{}: {cause}", path.display()),
            LoadError::Entry(problem) => problem.fmt(out),
        }
    }
}

impl std::error::Error for LoadError {}

impl Selection {
    /// `explicit` is the value of an option, `variable` that of KUBECONFIG. If KUBECONFIG is set,
    /// `~/.kube/config` is not used, even if none of its files exists.
    pub fn new(explicit: Option<&Path>, variable: Option<&OsStr>, home: Option<&Path>) -> Selection {
        if let Some(path) = explicit {
            return Selection::Explicit(path.to_path_buf());
        }
        let Some(variable) = variable.filter(|paths| !paths.is_empty()) else {
            let default = home.map(|home| home.join(".kube").join("config"));
            return Selection::Precedence(default.into_iter().collect());
        };
        let mut seen = HashSet::new();
        let named = std::env::split_paths(variable).filter(|path| !path.as_os_str().is_empty());
        Selection::Precedence(named.filter(|path| seen.insert(path.clone())).collect())
    }

    /// Uses the environment of this process.
    pub fn from_environment(explicit: Option<&Path>) -> Selection {
        let (variable, home) = (std::env::var_os("KUBECONFIG"), std::env::var_os("HOME"));
        Selection::new(explicit, variable.as_deref(), home.as_deref().map(Path::new))
    }
}

impl KubeconfigFiles {
    pub fn load(selection: &Selection) -> Result<KubeconfigFiles, LoadError> {
        let paths = match selection {
            Selection::Explicit(path) => std::slice::from_ref(path),
            Selection::Precedence(paths) if paths.is_empty() => return Err(LoadError::NoneNamed),
            Selection::Precedence(paths) => paths,
        };
        let mut files = Vec::new();
        for path in paths {
            if let Some(content) = read(path)? {
                files.push(KubeconfigFile { path: path.clone(), content });
            }
        }
        if files.is_empty() {
            return Err(LoadError::Missing(paths.to_vec()));
        }
        let merged = merge(&files);
        Ok(KubeconfigFiles { files, merged })
    }

    /// Returns the paths of the files that exist, in order of precedence.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|file| file.path.as_path())
    }

    /// Returns the content of all files, with absolute paths.
    pub fn merged(&self) -> &Kubeconfig {
        &self.merged
    }

    /// Returns a context. Files that it names are read.
    pub fn context(&self, name: &str) -> Result<Context, Problem> {
        self.merged.context(name, Some(Path::new("")))
    }

    /// Replaces the credentials of a user in memory only.
    pub fn use_credentials(&mut self, plugin: &CredentialPlugin, user: Value) -> Result<(), Problem> {
        self.merged.set_user(&plugin.user, user)
    }

    /// Changes the address of a context's server, in the file that has its cluster.
    pub fn set_server(&mut self, context: &str, server: &str) -> Result<(), LoadError> {
        let cluster = self.merged.cluster_name(context).map_err(LoadError::Entry)?.to_string();
        let missing = || Problem::NoCluster(cluster.clone());
        self.change("clusters", &cluster, missing, |content| content.set_server(&cluster, server))
    }

    /// Sets an extension of a context, in the file that has the context.
    pub fn set_extension(&mut self, context: &str, name: &str, extension: &Value) -> Result<(), LoadError> {
        self.change(
            "contexts",
            context,
            || Problem::NoContext,
            |content| content.set_extension(context, name, extension.clone()),
        )
    }

    /// Changes an entry in the first file that has it, and in memory.
    fn change(
        &mut self,
        list: &str,
        name: &str,
        missing: impl Fn() -> Problem,
        change: impl Fn(&mut Kubeconfig) -> Result<(), Problem>,
    ) -> Result<(), LoadError> {
        let holder = self.files.iter_mut().find(|file| named(&file.content.content[list], name).is_some());
        let file = holder.ok_or_else(|| LoadError::Entry(missing()))?;
        let failed =
            |cause: &dyn fmt::Display| LoadError::File { path: file.path.clone(), cause: cause.to_string() };
        // Replace the target of a symbolic link, not the link.
        let target = file.path.canonicalize().map_err(|error| failed(&error))?;
        let _lock = Lock::take(&file.path)?;
        // Another program may have changed the file since it was read.
        let mut content = read(&file.path)?.unwrap_or_default();
        change(&mut content).map_err(|problem| failed(&problem))?;
        replace_file(&target, &content.text()).map_err(|error| failed(&error))?;
        file.content = content;
        change(&mut self.merged).map_err(LoadError::Entry)
    }
}

/// Returns the content of a file, or `None` if it does not exist. An empty file has no entries.
fn read(path: &Path) -> Result<Option<Kubeconfig>, LoadError> {
    let failed = |cause: String| LoadError::File { path: path.to_path_buf(), cause };
    match std::fs::read_to_string(path) {
        Ok(text) if text.is_empty() => Ok(Some(Kubeconfig::default())),
        Ok(text) => Kubeconfig::parse(&text).map(Some).map_err(|problem| failed(problem.to_string())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// Entries with the same name are not combined: the first one is used as it is.
fn merge(files: &[KubeconfigFile]) -> Kubeconfig {
    let mut content = Map::new();
    for list in ENTRIES {
        let mut merged: Vec<Value> = Vec::new();
        for file in files {
            let first: Vec<Value> = entries(&file.content.content[list])
                .filter(|entry| !merged.iter().any(|one| one["name"] == entry["name"]))
                .map(|entry| with_absolute_paths(entry, &file.path))
                .collect();
            merged.extend(first);
        }
        content.insert(list.into(), merged.into());
    }
    let current = files.iter().map(|file| file.content.current()).find(|name| !name.is_empty());
    content.insert("current-context".into(), current.unwrap_or_default().into());
    Kubeconfig { content: content.into() }
}

/// Fields that name files, relative to the file that has the entry.
const PATHS: [&str; 5] = [
    "/cluster/certificate-authority",
    "/user/client-certificate",
    "/user/client-key",
    "/user/tokenFile",
    "/user/exec/command",
];

fn with_absolute_paths(entry: &Value, file: &Path) -> Value {
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_path_buf());
    let mut entry = entry.clone();
    for pointer in PATHS {
        let Some(Value::String(path)) = entry.pointer_mut(pointer) else { continue };
        // A plain name of a command is looked up in PATH.
        let is_command = pointer.ends_with("/command") && !path.contains('/');
        if !path.is_empty() && !is_command {
            *path = directory.join(&*path).to_string_lossy().into_owned();
        }
    }
    entry
}

/// The lock file by which kubectl and this program exclude each other while they change a kubeconfig.
struct Lock(PathBuf);

impl Lock {
    fn take(path: &Path) -> Result<Lock, LoadError> {
        let mut name = path.as_os_str().to_os_string();
        name.push(".lock");
        let lock = PathBuf::from(name);
        match std::fs::OpenOptions::new().write(true).create_new(true).open(&lock) {
            Ok(_) => Ok(Lock(lock)),
            Err(error) => {
                let cause = match error.kind() {
                    ErrorKind::AlreadyExists => {
                        "another program is changing the kubeconfig; try again, or remove this file if none is"
                            .into()
                    }
                    _ => error.to_string(),
                };
                Err(LoadError::File { path: lock, cause })
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Replaces a file atomically and keeps its permissions.
pub fn replace_file(path: &Path, text: &str) -> io::Result<()> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    let mode = std::fs::metadata(path)?.permissions().mode() & 0o777;
    // The whole name, because two kubeconfigs may differ only in their extension.
    let mut name: OsString = path.file_name().unwrap_or_default().to_os_string();
    name.push(".draft");
    let draft = path.with_file_name(name);
    // A leftover file may have wider permissions.
    let _ = std::fs::remove_file(&draft);
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(mode & 0o600).open(&draft)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(std::fs::Permissions::from_mode(mode))?;
    file.sync_all()?;
    std::fs::rename(&draft, path)
}

#[cfg(test)]
mod tests;
