//! A streaming response, read line by line.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use memchr::memchr;

use crate::ResponseBody;
use crate::memory_limits::{Charge, MAX_WATCH_LINE};

pub struct Lines {
    body: ResponseBody,
    pending: BytesMut,
    /// Length of the prefix of `pending` that is known to contain no newline.
    searched: usize,
    /// Whether the start of an oversized line was dropped.
    skipping: bool,
    /// Charge for `pending`.
    charge: Charge,
}

impl Lines {
    pub(crate) fn new(body: ResponseBody, charge: Charge) -> Self {
        Lines { body, pending: BytesMut::new(), searched: 0, skipping: false, charge }
    }

    /// Returns a new charge for the same budget.
    pub(crate) fn charge(&self) -> Charge {
        self.charge.another()
    }

    /// Returns the next line without its newline; `None` when the server ends the stream or the connection
    /// breaks. An oversized line of an untrusted server is skipped and recorded in the budget.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(end) = memchr(b'\n', &self.pending[self.searched..]) {
                let mut line = self.pending.split_to(self.searched + end + 1);
                self.charge.shrink(line.len());
                line.truncate(line.len() - 1);
                self.searched = 0;
                if std::mem::take(&mut self.skipping) {
                    continue;
                }
                return Some(line.freeze());
            }
            self.searched = self.pending.len();
            if self.searched > MAX_WATCH_LINE && self.charge.is_limited() {
                if !self.skipping {
                    self.charge.note_too_large(&format!(
                        "a line of a watch has more than {} MiB",
                        MAX_WATCH_LINE >> 20
                    ));
                }
                self.skipping = true;
            }
            if self.skipping {
                self.charge.shrink(self.pending.len());
                self.pending = BytesMut::new();
                self.searched = 0;
            }
            let data = self.body.frame().await?.ok()?.into_data();
            if let Ok(data) = data {
                self.charge.grow(data.len()).ok()?;
                self.pending.extend_from_slice(&data);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use http_body::{Body, Frame};

    use super::*;
    use crate::BoxError;
    use crate::memory_limits::Budget;

    #[test]
    fn lines_are_split_at_newlines() {
        let body = http_body_util::Full::new(Bytes::from_static(b"one\n\ntwo\nrest"));
        let mut lines = Lines::new(body.map_err(|never| match never {}).boxed_unsync(), Charge::default());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let mut next = || match Box::pin(lines.next()).as_mut().poll(&mut context) {
            std::task::Poll::Ready(line) => line,
            std::task::Poll::Pending => panic!("the body is complete"),
        };
        for line in ["one", "", "two"] {
            assert_eq!(next().as_deref(), Some(line.as_bytes()));
        }
        assert_eq!(next(), None, "an incomplete line is dropped");
    }

    struct Pieces(VecDeque<Bytes>);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = BoxError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
            Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
        }
    }

    #[tokio::test]
    async fn oversized_lines_are_skipped() {
        let long = format!("one\n{}\ntwo\n", "x".repeat(MAX_WATCH_LINE + (2 << 20)));
        let body = || {
            let pieces = long.as_bytes().chunks(1 << 20).map(Bytes::copy_from_slice);
            Pieces(pieces.collect()).boxed_unsync()
        };
        let budget = Budget::new(MAX_WATCH_LINE * 2);
        let mut lines = Lines::new(body(), Charge::new(Some(budget.clone())));
        for line in ["one", "two"] {
            assert_eq!(lines.next().await.as_deref(), Some(line.as_bytes()));
        }
        assert_eq!((lines.next().await, budget.used(), budget.refusals()), (None, 0, 1));
        // A server without a budget is trusted.
        let mut lines = Lines::new(body(), Charge::default());
        for length in [3, MAX_WATCH_LINE + (2 << 20), 3] {
            assert_eq!(lines.next().await.map(|line| line.len()), Some(length));
        }
    }
}
