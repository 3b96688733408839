//! Timeout for reading responses that are not small, and the events of watches. What is never read would keep its
//! memory from others. A watch without unread events has no timeout.

use std::sync::{Mutex, PoisonError, Weak};
use std::time::Duration;

use http::Response;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::inflight::{ResponseReservation, WatchBuffer, WatchProgress};

/// Time that reading any response may take.
const BASE_TIMEOUT: Duration = Duration::from_secs(60);
/// Minimum bytes per second after that.
const MIN_RATE: u32 = 512 << 10;

/// The responses that are not small, and the watches, that a connection is sending.
#[derive(Default)]
pub struct ResponseTimeout {
    sent: Mutex<SentResponses>,
    changed: Notify,
}

#[derive(Default)]
struct SentResponses {
    /// Responses that are not small, with the time at which they must have been read.
    counted: Vec<(Instant, Weak<()>)>,
    watches: Vec<Weak<WatchBuffer>>,
}

/// Returns the time that reading may take.
fn allowed(bytes: usize) -> Duration {
    BASE_TIMEOUT + Duration::from_secs(1) * u32::try_from(bytes).unwrap_or(u32::MAX) / MIN_RATE
}

impl ResponseTimeout {
    /// Starts the timeout of a response.
    pub fn start<B>(&self, response: &mut Response<B>) {
        let reservation = response.extensions_mut().remove::<ResponseReservation>();
        let watch = response.extensions_mut().remove::<WatchProgress>();
        if reservation.is_none() && watch.is_none() {
            return;
        }
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.forget_ended();
        let counted = reservation.map(|response| (Instant::now() + allowed(response.bytes), response.alive));
        sent.counted.extend(counted);
        sent.watches.extend(watch.map(|watch| watch.0));
        self.changed.notify_one();
    }

    /// Resolves when a client has taken too long.
    pub async fn expired(&self) {
        loop {
            let Some(deadline) = self.deadline() else {
                self.changed.notified().await;
                continue;
            };
            if deadline <= Instant::now() {
                return;
            }
            tokio::select! {
                () = sleep_until(deadline) => {}
                () = self.changed.notified() => {}
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.forget_ended();
        let responses = sent.counted.iter().map(|(deadline, _)| *deadline);
        let watches = sent.watches.iter().filter_map(Weak::upgrade).map(|watch| match watch.unread() {
            Some(unread) => unread.since + allowed(unread.bytes),
            // Look again later: there may be unread events then.
            None => Instant::now() + BASE_TIMEOUT,
        });
        responses.chain(watches).min()
    }
}

impl SentResponses {
    fn forget_ended(&mut self) {
        self.counted.retain(|(_, alive)| alive.strong_count() > 0);
        self.watches.retain(|watch| watch.strong_count() > 0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::inflight::ResponseLimits;

    #[tokio::test(start_paused = true)]
    async fn only_unread_responses_end_a_connection() {
        let response_timeout = ResponseTimeout::default();
        let started = |bytes: usize| {
            let alive = Arc::new(());
            let mut response = Response::new(());
            response.extensions_mut().insert(ResponseReservation { bytes, alive: Arc::downgrade(&alive) });
            response_timeout.start(&mut response);
            alive
        };
        let waits =
            async |time: Duration| tokio::time::timeout(time, response_timeout.expired()).await.is_err();
        response_timeout.start(&mut Response::new(()));
        assert!(waits(100 * BASE_TIMEOUT).await);
        drop(started(1000));
        assert!(waits(100 * BASE_TIMEOUT).await, "the response has been read");
        let _unread = started(100 * MIN_RATE as usize);
        assert!(waits(BASE_TIMEOUT + Duration::from_secs(99)).await);
        assert!(!waits(Duration::from_secs(2)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn only_watches_with_unread_events_end_a_connection() {
        let response_timeout = ResponseTimeout::default();
        let waits =
            async |time: Duration| tokio::time::timeout(time, response_timeout.expired()).await.is_err();
        let watch = || {
            let limits = ResponseLimits::without_limits();
            let buffer = limits.watch_buffer();
            let mut response = Response::new(());
            response.extensions_mut().insert(WatchProgress(Arc::downgrade(&buffer)));
            response_timeout.start(&mut response);
            buffer
        };
        let (busy, idle) = (watch(), watch());
        assert!(waits(100 * BASE_TIMEOUT).await, "nothing has happened");
        for _ in 0..100 {
            let unread = busy.reserve(1000).await;
            assert!(waits(BASE_TIMEOUT - Duration::from_secs(1)).await, "the client reads slowly");
            drop(unread);
        }
        let unread = busy.reserve(1000).await;
        // The connection looks at an idle watch once in a while.
        assert!(!waits(2 * BASE_TIMEOUT + Duration::from_secs(2)).await);
        drop((busy, idle));
        assert!(!waits(Duration::from_secs(1)).await, "the watch has ended, and its events are unread");
        drop(unread);
        assert!(waits(100 * BASE_TIMEOUT).await);
    }
}
