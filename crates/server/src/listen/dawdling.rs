//! Timeout for reading large responses. A response that is never read would keep its memory from others.

use std::sync::{Mutex, PoisonError, Weak};
use std::time::Duration;

use http::Response;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::inflight::Held;

/// Time that reading any response may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Minimum bytes per second after that.
const SLOWEST: u32 = 512 << 10;

/// The large responses that a connection is sending.
#[derive(Default)]
pub struct Dawdling {
    answers: Mutex<Vec<(Instant, Weak<()>)>>,
    changed: Notify,
}

impl Dawdling {
    /// Starts the timeout of a response.
    pub fn begins<B>(&self, response: &mut Response<B>) {
        let Some(held) = response.extensions_mut().remove::<Held>() else { return };
        let extra = Duration::from_secs(1) * u32::try_from(held.bytes).unwrap_or(u32::MAX) / SLOWEST;
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.retain(|(_, there)| there.strong_count() > 0);
        answers.push((Instant::now() + PATIENCE + extra, held.there));
        self.changed.notify_one();
    }

    /// Resolves when a client has taken too long.
    pub async fn ended(&self) {
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
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.retain(|(_, there)| there.strong_count() > 0);
        answers.iter().map(|(deadline, _)| *deadline).min()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_unread_responses_end_a_connection() {
        let dawdling = Dawdling::default();
        let began = |bytes: usize| {
            let there = Arc::new(());
            let mut response = Response::new(());
            response.extensions_mut().insert(Held { bytes, there: Arc::downgrade(&there) });
            dawdling.begins(&mut response);
            there
        };
        let waits = async |time: Duration| tokio::time::timeout(time, dawdling.ended()).await.is_err();
        dawdling.begins(&mut Response::new(()));
        assert!(waits(100 * PATIENCE).await);
        drop(began(1000));
        assert!(waits(100 * PATIENCE).await, "the response has been read");
        let _unread = began(100 * SLOWEST as usize);
        assert!(waits(PATIENCE + Duration::from_secs(99)).await);
        assert!(!waits(Duration::from_secs(2)).await);
    }
}
