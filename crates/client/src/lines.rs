//! An answer that comes line by line, for as long as the server has something to say.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;

use crate::ResponseBody;

/// Nobody says more at once; who does is not listened to any longer.
const LONGEST: usize = 32 << 20;

pub struct Lines {
    body: ResponseBody,
    pending: BytesMut,
    /// How much of what is pending is known to have no end of a line.
    searched: usize,
}

impl Lines {
    pub(crate) fn new(body: ResponseBody) -> Self {
        Lines { body, pending: BytesMut::new(), searched: 0 }
    }

    /// The next line without its end; `None` when the server has said all or the connection broke.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(end) = self.pending[self.searched..].iter().position(|byte| *byte == b'\n') {
                let mut line = self.pending.split_to(self.searched + end + 1);
                line.truncate(line.len() - 1);
                self.searched = 0;
                return Some(line.freeze());
            }
            self.searched = self.pending.len();
            if self.searched > LONGEST {
                return None;
            }
            let data = self.body.frame().await?.ok()?.into_data();
            if let Ok(data) = data {
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
        let mut lines = Lines::new(body.map_err(|never| match never {}).boxed_unsync());
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
