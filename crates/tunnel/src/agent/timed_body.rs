//! A body that ends with an error when nothing has arrived for too long.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use atoll_client::{BoxError, ResponseBody};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use crate::protocol::IDLE;

pub struct TimedBody {
    body: ResponseBody,
    timeout: Pin<Box<Sleep>>,
}

impl TimedBody {
    pub fn new(body: ResponseBody) -> TimedBody {
        TimedBody { body, timeout: Box::pin(tokio::time::sleep(IDLE)) }
    }
}

impl Body for TimedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.timeout.as_mut().reset(Instant::now() + IDLE);
            return Poll::Ready(frame);
        }
        ready!(self.timeout.as_mut().poll(context));
        Poll::Ready(Some(Err("nothing arrived for too long".into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
