//! Errors of packaging.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub enum PackageError {
    /// A file cannot be read or written.
    File { path: PathBuf, error: io::Error },
    /// The program cannot run in a Linux container.
    Program(&'static str),
    /// The loader failed to list the program's libraries.
    Loader { path: String, problem: String },
    /// Libraries that the loader would not find in a container.
    Libraries(Vec<String>),
    /// A file that does not fit into a tar archive.
    Entry { path: String, problem: &'static str },
}

impl PackageError {
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> PackageError {
        move |error| PackageError::File { path: path.to_path_buf(), error }
    }
}

impl fmt::Display for PackageError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PackageError::File { path, error } => write!(formatter, "{}: {error}", path.display()),
            PackageError::Program(problem) => {
                write!(formatter, "cannot put the program into an image: {problem}")
            }
            PackageError::Loader { path, problem } => {
                write!(formatter, "cannot list libraries with the loader {path}: {problem}")
            }
            PackageError::Libraries(names) => write!(
                formatter,
                "the loader finds {} only through its cache or not at all; install them in a default directory \
                 such as /usr/lib",
                names.join(", ")
            ),
            PackageError::Entry { path, problem } => {
                write!(formatter, "cannot add {path} to the archive: {problem}")
            }
        }
    }
}

impl std::error::Error for PackageError {}
