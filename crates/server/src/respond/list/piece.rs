//! The unit in which bodies are sent.

use std::io::IoSlice;

use bytes::{Buf, Bytes};

use super::run::Run;

/// A chunk of a body.
pub enum Piece {
    Bytes(Bytes),
    Run(Box<Run>),
}

impl Piece {
    pub fn into_bytes(self) -> Bytes {
        match self {
            Piece::Bytes(bytes) => bytes,
            Piece::Run(mut run) => run.copy_to_bytes(run.remaining()),
        }
    }
}

impl From<Bytes> for Piece {
    fn from(bytes: Bytes) -> Self {
        Piece::Bytes(bytes)
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        match self {
            Piece::Bytes(bytes) => bytes.remaining(),
            Piece::Run(run) => run.remaining(),
        }
    }

    fn chunk(&self) -> &[u8] {
        match self {
            Piece::Bytes(bytes) => bytes.chunk(),
            Piece::Run(run) => run.chunk(),
        }
    }

    fn chunks_vectored<'a>(&'a self, places: &mut [IoSlice<'a>]) -> usize {
        match self {
            Piece::Bytes(bytes) => bytes.chunks_vectored(places),
            Piece::Run(run) => run.chunks_vectored(places),
        }
    }

    fn advance(&mut self, count: usize) {
        match self {
            Piece::Bytes(bytes) => bytes.advance(count),
            Piece::Run(run) => run.advance(count),
        }
    }

    /// Contiguous bytes need no copy.
    fn copy_to_bytes(&mut self, length: usize) -> Bytes {
        match self {
            Piece::Bytes(bytes) => bytes.copy_to_bytes(length),
            Piece::Run(run) => run.copy_to_bytes(length),
        }
    }
}
