//! State of the connection to the control plane, and the heartbeat interval that it requests.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_fleet::view::ReportResponse;
use atoll_meta::Status;
use atoll_meta::time::Timestamp;
use tokio::sync::Notify;

use crate::settings::Settings;

/// Shortest heartbeat interval.
const SHORTEST: Duration = Duration::from_millis(100);

#[derive(Default)]
pub struct ControlPlaneConnection {
    state: Mutex<ConnectionState>,
    /// Notified when the control plane requests a shorter heartbeat interval.
    pub interval_shortened: Notify,
}

#[derive(Default)]
struct ConnectionState {
    /// Start and reason of the current outage.
    lost: Option<(Timestamp, String)>,
    /// Heartbeat interval that the control plane requests.
    asked: Option<Duration>,
}

impl ControlPlaneConnection {
    /// Records a response.
    pub fn succeeded(&self, cluster: &str, answer: &ReportResponse) {
        let mut state = self.state();
        let asked = answer.heartbeat_milliseconds.map(Duration::from_millis);
        if asked.is_some_and(|asked| state.asked.is_none_or(|before| asked < before)) {
            self.interval_shortened.notify_one();
        }
        state.asked = asked;
        if let Some((since, _)) = state.lost.take() {
            tracing::info!(cluster, since = since.to_time(), "the control plane is reachable again");
        }
    }

    /// Records a failure. Workloads in the cluster are not affected.
    pub fn failed(&self, cluster: &str, now: Timestamp, status: &Status) {
        let mut state = self.state();
        match &mut state.lost {
            Some((_, why)) => status.message().clone_into(why),
            None => {
                tracing::warn!(
                    cluster,
                    %status,
                    "cannot reach the control plane; workloads in the cluster continue to run; retrying"
                );
                state.lost = Some((now, status.message().to_string()));
            }
        }
    }

    /// Returns the start and reason of the current outage, for the lease in the cluster.
    pub fn outage(&self) -> Option<String> {
        let state = self.state();
        state.lost.as_ref().map(|(since, why)| format!("since {}: {why}", since.to_time()))
    }

    /// Returns the shorter of the configured and the requested heartbeat interval.
    pub fn interval(&self, settings: &Settings) -> Duration {
        let asked = self.state().asked.unwrap_or(settings.interval);
        asked.min(settings.interval).max(SHORTEST.min(settings.interval))
    }

    fn state(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn outage_has_its_start_and_latest_reason() {
        let connection = ControlPlaneConnection::default();
        assert_eq!(connection.outage(), None);
        let refused = Status::service_unavailable("connection refused");
        connection.failed("east", Timestamp::new(0, 0), &refused);
        connection.failed("east", Timestamp::new(60, 0), &Status::unauthorized("Unauthorized"));
        assert_eq!(connection.outage().as_deref(), Some("since 1970-01-01T00:00:00Z: Unauthorized"));
        connection.succeeded("east", &ReportResponse::default());
        assert_eq!(connection.outage(), None);
    }

    #[test]
    fn heartbeat_interval_is_the_shorter_one() {
        let connection = ControlPlaneConnection::default();
        let mut settings = Settings::new("east", "one", Arc::new(|| 0));
        for (own, asked, expected) in [
            (10_000, None, 10_000),
            (10_000, Some(2_500), 2_500),
            (1_000, Some(2_500), 1_000),
            (10_000, Some(0), 100),
            (20, Some(50), 20),
        ] {
            settings.interval = Duration::from_millis(own);
            let answer = ReportResponse { heartbeat_milliseconds: asked, ..ReportResponse::default() };
            connection.succeeded("east", &answer);
            assert_eq!(connection.interval(&settings), Duration::from_millis(expected));
        }
    }
}
