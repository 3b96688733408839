//! An answer that comes line by line, for as long as the server has something to say.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;

use crate::ResponseBody;
use crate::memory::{Charge, LINE};

pub struct Lines {
    body: ResponseBody,
    pending: BytesMut,
    /// How much of what is pending is known to have no end of a line.
    searched: usize,
    /// For what is pending.
    charge: Charge,
}

impl Lines {
    pub(crate) fn new(body: ResponseBody, charge: Charge) -> Self {
        Lines { body, pending: BytesMut::new(), searched: 0, charge }
    }

    /// The charge for what is read from the same server.
    pub(crate) fn charge(&self) -> Charge {
        self.charge.another()
    }

    /// The next line without its end; `None` when the server has said all, the connection broke, or the line is too long.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(end) = self.pending[self.searched..].iter().position(|byte| *byte == b'\n') {
                let mut line = self.pending.split_to(self.searched + end + 1);
                self.charge.shrink(line.len());
                line.truncate(line.len() - 1);
                self.searched = 0;
                return Some(line.freeze());
            }
            self.searched = self.pending.len();
            if self.searched > LINE {
                self.charge.note_too_large(&format!("a line of a watch has more than {} MiB", LINE >> 20));
                return None;
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
    use super::*;

    #[test]
    fn lines_end_where_they_end() {
        let body = http_body_util::Full::new(Bytes::from_static(b"one\n\ntwo\nrest"));
        let mut lines = Lines::new(body.map_err(|never| match never {}).boxed_unsync(), Charge::default());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let mut next = || match Box::pin(lines.next()).as_mut().poll(&mut context) {
            std::task::Poll::Ready(line) => line,
            std::task::Poll::Pending => panic!("everything is there"),
        };
        for line in ["one", "", "two"] {
            assert_eq!(next().as_deref(), Some(line.as_bytes()));
        }
        assert_eq!(next(), None, "what was not ended was not said");
    }
}
