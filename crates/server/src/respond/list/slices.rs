//! A part of a list that borrows from the objects: nothing is copied before encryption.

use std::borrow::Cow;
use std::io::IoSlice;

use atoll_watch::ObjectCursor;
use bytes::Buf;
use self_cell::self_cell;

/// The owner of the slices.
pub struct Source {
    /// Text before the items.
    pub head: Vec<u8>,
    pub objects: ObjectCursor,
}

type Slices<'a> = Vec<Cow<'a, [u8]>>;

self_cell!(
    struct SourceSlices {
        owner: Source,
        #[covariant]
        dependent: Slices,
    }
);

pub struct SliceBuffer {
    slices_of_source: SourceSlices,
    /// Index of the first slice that is not consumed.
    slice: usize,
    /// Consumed bytes of that slice.
    offset: usize,
    remaining: usize,
}

impl SliceBuffer {
    pub fn new(source: Source, gather: impl for<'a> FnOnce(&'a Source) -> Vec<Cow<'a, [u8]>>) -> SliceBuffer {
        let slices_of_source = SourceSlices::new(source, gather);
        let remaining = slices_of_source.borrow_dependent().iter().map(|slice| slice.len()).sum();
        let mut run = SliceBuffer { slices_of_source, slice: 0, offset: 0, remaining };
        run.advance(0);
        run
    }

    /// Returns the remaining slices; the first of them is not empty.
    fn rest(&self) -> impl Iterator<Item = &[u8]> {
        let slices = self.slices_of_source.borrow_dependent().get(self.slice..).unwrap_or_default();
        let first = slices.first().map(|slice| &slice[self.offset..]);
        first.into_iter().chain(slices.iter().skip(1).map(|slice| &**slice))
    }
}

impl Buf for SliceBuffer {
    fn remaining(&self) -> usize {
        self.remaining
    }

    fn chunk(&self) -> &[u8] {
        self.rest().next().unwrap_or_default()
    }

    fn chunks_vectored<'a>(&'a self, buffers: &mut [IoSlice<'a>]) -> usize {
        let mut count = 0;
        for (buffer, slice) in buffers.iter_mut().zip(self.rest()) {
            *buffer = IoSlice::new(slice);
            count += 1;
        }
        count
    }

    fn advance(&mut self, count: usize) {
        assert!(count <= self.remaining, "there are {} bytes, not {count}", self.remaining);
        self.remaining -= count;
        self.offset += count;
        let slices = self.slices_of_source.borrow_dependent();
        while let Some(slice) = slices.get(self.slice).filter(|slice| slice.len() <= self.offset) {
            self.offset -= slice.len();
            self.slice += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_read_in_any_steps() {
        let parts = ["", "abc", "", "d", "efghij", ""];
        let run = || {
            let source = Source { head: b"head:".to_vec(), objects: Vec::new().into() };
            SliceBuffer::new(source, |source| {
                let parts = parts.iter().map(|part| Cow::Borrowed(part.as_bytes()));
                std::iter::once(Cow::Borrowed(&source.head[..])).chain(parts).collect()
            })
        };
        for step in 1..=15 {
            for buffers in 1..=5 {
                let (mut run, mut read) = (run(), Vec::new());
                while run.has_remaining() {
                    let mut slices = vec![IoSlice::new(&[]); buffers];
                    let count = run.chunks_vectored(&mut slices);
                    assert_eq!(*slices[0], *run.chunk());
                    assert!(!run.chunk().is_empty());
                    let seen = slices[..count].iter().flat_map(|slice| slice.to_vec());
                    let taken: Vec<u8> = seen.take(step).collect();
                    run.advance(taken.len());
                    read.extend(taken);
                }
                assert_eq!(read, b"head:abcdefghij");
                assert_eq!((run.chunk(), run.chunks_vectored(&mut [IoSlice::new(&[])])), (&[][..], 0));
            }
        }
    }
}
