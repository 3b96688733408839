//! Panics of one request become an error response and a log line, and do not affect other requests.

// upstream: staging/src/k8s.io/apiserver/pkg/server/filters/wrap.go

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future that returns a panic as an error.
pub struct CatchPanic<F>(Pin<Box<F>>);

pub fn catch_panic<F: Future>(future: F) -> CatchPanic<F> {
    CatchPanic(Box::pin(future))
}

impl<F: Future> Future for CatchPanic<F> {
    /// `Err` with the panic message.
    type Output = Result<F::Output, String>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // After a panic the future is dropped and never polled again. Shared state is guarded by its own
        // locks.
        match catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context))) {
            Ok(poll) => poll.map(Ok),
            Err(payload) => {
                let text = payload.downcast_ref::<&str>().map(ToString::to_string);
                let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
                Poll::Ready(Err(text.unwrap_or_else(|| "no message".into())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_an_error() {
        assert_eq!(catch_panic(async { 1 }).await, Ok(1));
        let panicking = catch_panic(async {
            if std::hint::black_box(true) {
                panic!("broken {}", 1);
            }
        });
        assert_eq!(panicking.await, Err("broken 1".to_string()));
    }
}
