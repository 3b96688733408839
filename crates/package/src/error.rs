//! What can go wrong, with what to do about it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub enum Error {
    /// A file cannot be read or written.
    File { path: PathBuf, error: io::Error },
    /// The program is none that a container on Linux can run.
    Program(&'static str),
    /// The loader does not say which libraries there are.
    Loader { path: String, problem: String },
    /// Libraries that the loader would not find in a container.
    Libraries(Vec<String>),
    /// What a tar archive has no room for.
    Entry { path: String, problem: &'static str },
}

impl Error {
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |error| Error::File { path: path.to_path_buf(), error }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::File { path, error } => write!(formatter, "{}: {error}", path.display()),
            Error::Program(problem) => write!(formatter, "the program cannot go into an image: {problem}"),
            Error::Loader { path, problem } => {
                write!(formatter, "the loader {path} cannot be asked for libraries: {problem}")
            }
            Error::Libraries(names) => write!(
                formatter,
                "the loader finds {} only by its cache or not at all; install them where it looks without one, \
                 such as /usr/lib",
                names.join(", ")
            ),
            Error::Entry { path, problem } => {
                write!(formatter, "{path} does not fit into an archive: {problem}")
            }
        }
    }
}

impl std::error::Error for Error {}
