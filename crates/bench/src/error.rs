//! Errors of benchmarks, by cause.

use std::fmt;
use std::io;
use std::path::Path;

#[derive(Debug)]
pub enum BenchError {
    /// Invalid command line.
    Usage(String),
    /// A server or one of its prerequisites failed to start.
    Start(String),
    /// A connection failed or ended in the middle of a response.
    Connection(String),
    /// An unexpected response, which makes the measurement meaningless.
    Response(String),
    /// ReadLoad or writing on this machine failed.
    Machine(String),
}

pub type BenchResult<T> = Result<T, BenchError>;

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
        | BenchError::Response(message)
        | BenchError::Machine(message)) = self;
        f.write_str(message)
    }
}

impl std::error::Error for BenchError {}
