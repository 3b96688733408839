//! The body of a response of a cluster. Bytes that have arrived and are not sent yet are charged to the memory
//! budget of the cluster.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use atoll_client::memory_limits::{Budget, Charge};
use atoll_client::{BoxError, ResponseBody};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

pub struct ClusterBody {
    body: ResponseBody,
    /// Charge for the last frame.
    charge: Charge,
}

impl ClusterBody {
    pub fn new(body: ResponseBody, budget: Arc<Budget>) -> Self {
        ClusterBody { body, charge: Charge::new(Some(budget)) }
    }
}

impl Body for ClusterBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let size = match &frame {
            Some(Ok(frame)) => frame.data_ref().map_or(0, Bytes::len),
            _ => 0,
        };
        match self.charge.set(size) {
            Ok(()) => Poll::Ready(frame),
            Err(refused) => Poll::Ready(Some(Err(refused.message().into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Full};

    use super::*;

    #[tokio::test]
    async fn frames_are_charged_until_the_next_one() {
        let budget = Budget::new(10);
        let body = |text: &'static str| {
            let body = Full::new(Bytes::from_static(text.as_bytes()));
            ClusterBody::new(body.map_err(|never| match never {}).boxed_unsync(), budget.clone())
        };
        let mut small = body("0123456789");
        assert!(small.frame().await.is_some_and(|frame| frame.is_ok()));
        assert_eq!(budget.used(), 10);
        assert!(body("x").frame().await.is_some_and(|frame| frame.is_err()), "nothing is left");
        assert!(small.frame().await.is_none());
        assert_eq!(budget.used(), 0);
    }
}
