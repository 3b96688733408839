//! The unit in which bodies are sent.

use std::io::IoSlice;

use bytes::{Buf, Bytes};

use super::slices::SliceBuffer;

/// A chunk of a body.
pub enum Chunk {
    Bytes(Bytes),
    Slices(Box<SliceBuffer>),
}

impl Chunk {
    pub fn into_bytes(self) -> Bytes {
        match self {
            Chunk::Bytes(bytes) => bytes,
            Chunk::Slices(mut slices) => slices.copy_to_bytes(slices.remaining()),
        }
    }
}

impl From<Bytes> for Chunk {
    fn from(bytes: Bytes) -> Self {
        Chunk::Bytes(bytes)
    }
}

impl Buf for Chunk {
    fn remaining(&self) -> usize {
        match self {
            Chunk::Bytes(bytes) => bytes.remaining(),
            Chunk::Slices(slices) => slices.remaining(),
        }
    }

    fn chunk(&self) -> &[u8] {
        match self {
            Chunk::Bytes(bytes) => bytes.chunk(),
            Chunk::Slices(slices) => slices.chunk(),
        }
    }

    fn chunks_vectored<'a>(&'a self, buffers: &mut [IoSlice<'a>]) -> usize {
        match self {
            Chunk::Bytes(bytes) => bytes.chunks_vectored(buffers),
            Chunk::Slices(slices) => slices.chunks_vectored(buffers),
        }
    }

    fn advance(&mut self, count: usize) {
        match self {
            Chunk::Bytes(bytes) => bytes.advance(count),
            Chunk::Slices(slices) => slices.advance(count),
        }
    }

    /// Contiguous bytes need no copy.
    fn copy_to_bytes(&mut self, length: usize) -> Bytes {
        match self {
            Chunk::Bytes(bytes) => bytes.copy_to_bytes(length),
            Chunk::Slices(slices) => slices.copy_to_bytes(length),
        }
    }
}
