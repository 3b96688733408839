//! What can go wrong while measuring, by cause.

use std::fmt;
use std::io;
use std::path::Path;

#[derive(Debug)]
pub enum BenchError {
    /// The command line was not understood.
    Usage(String),
    /// A server, or what it needs, could not be had.
    Start(String),
    /// A connection failed or ended in the middle of an answer.
    Connection(String),
    /// An answer was not what was asked for: its numbers would mean nothing.
    Answer(String),
    /// Something about this machine could not be read or written.
    Machine(String),
}

pub type Outcome<T> = Result<T, BenchError>;

impl BenchError {
    pub fn file(path: &Path, error: &io::Error) -> Self {
        BenchError::Machine(format!("{}: {error}", path.display()))
    }
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (BenchError::Usage(message)
        | BenchError::Start(message)
        | BenchError::Connection(message)
        | BenchError::Answer(message)
        | BenchError::Machine(message)) = self;
        f.write_str(message)
    }
}

impl std::error::Error for BenchError {}
