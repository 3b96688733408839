//! Timeout for reading large responses. A response that is never read would keep its memory from others.

use std::sync::{Mutex, PoisonError, Weak};
use std::time::Duration;

use http::Response;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::inflight::ResponseReservation;

/// Time that reading any response may take.
const BASE_TIMEOUT: Duration = Duration::from_secs(60);
/// Minimum bytes per second after that.
const MIN_RATE: u32 = 512 << 10;

/// The large responses that a connection is sending.
#[derive(Default)]
pub struct ResponseTimeout {
    responses: Mutex<Vec<(Instant, Weak<()>)>>,
    changed: Notify,
}

impl ResponseTimeout {
    /// Starts the timeout of a response.
    pub fn start<B>(&self, response: &mut Response<B>) {
        let Some(reservation) = response.extensions_mut().remove::<ResponseReservation>() else { return };
        let extra = Duration::from_secs(1) * u32::try_from(reservation.bytes).unwrap_or(u32::MAX) / MIN_RATE;
        let mut responses = self.responses.lock().unwrap_or_else(PoisonError::into_inner);
        responses.retain(|(_, alive)| alive.strong_count() > 0);
        responses.push((Instant::now() + BASE_TIMEOUT + extra, reservation.alive));
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
        let mut responses = self.responses.lock().unwrap_or_else(PoisonError::into_inner);
        responses.retain(|(_, alive)| alive.strong_count() > 0);
        responses.iter().map(|(deadline, _)| *deadline).min()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

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
}
