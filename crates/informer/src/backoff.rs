//! Backoff and logging for resources that cannot be listed or watched.

use std::time::Duration;

use atoll_meta::Status;

use crate::{ApiScope, Resource};

pub const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Reason why a resource cannot be listed or watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FailureKind {
    NotServed,
    Refused,
    Failing,
}

impl FailureKind {
    fn of(status: &Status) -> FailureKind {
        match status.code() {
            404 => FailureKind::NotServed,
            401 | 403 => FailureKind::Refused,
            _ => FailureKind::Failing,
        }
    }

    /// Longest pause. Resources and permissions are rarely added later.
    fn longest(self) -> Duration {
        match self {
            FailureKind::NotServed => Duration::from_secs(60),
            FailureKind::Refused => Duration::from_secs(120),
            FailureKind::Failing => Duration::from_secs(10),
        }
    }
}

/// Logs each kind of failure once, and backs off exponentially.
pub struct Backoff {
    /// Resource name as kubectl shows it.
    resource: String,
    /// Returns whether a failure is expected and therefore not logged as a warning.
    is_expected: fn(FailureKind) -> bool,
    failure: Option<FailureKind>,
    pause: Duration,
}

impl Backoff {
    /// Creates the backoff of a resource that was found `by_discovery`, or is expected to exist.
    pub fn new(api: &ApiScope, resource: &Resource, by_discovery: bool) -> Backoff {
        let name = match resource.group.is_empty() {
            true => resource.plural.to_string(),
            false => format!("{}.{}", resource.plural, resource.group),
        };
        let is_expected: fn(FailureKind) -> bool = match (by_discovery, api.has_workspaces()) {
            // A definition or workspace may be deleted before discovery reflects it.
            (true, _) => |failure| failure != FailureKind::Refused,
            // Atoll serves only the resources of its profile.
            (false, true) => |failure| failure == FailureKind::NotServed,
            (false, false) => |_| false,
        };
        Backoff { resource: name, is_expected, failure: None, pause: FIRST_PAUSE }
    }

    /// Resets the backoff after a success.
    pub fn reset(&mut self) {
        if self.failure.take().is_some() {
            tracing::debug!(resource = %self.resource, "listing and watching works again");
        }
        self.pause = FIRST_PAUSE;
    }

    /// Returns the pause after a failure.
    pub fn after(&mut self, status: &Status) -> Duration {
        let (is_warning, pause) = self.record(FailureKind::of(status));
        let resource = self.resource.as_str();
        match (is_warning, self.failure) {
            (false, _) => tracing::debug!(%status, %resource, "cannot list or watch"),
            (true, Some(FailureKind::NotServed)) => {
                tracing::warn!(%resource, "the resource is not served; waiting for it")
            }
            (true, Some(FailureKind::Refused)) => {
                tracing::warn!(%status, %resource, "list or watch is forbidden; waiting for the permission");
            }
            (true, _) => tracing::warn!(%status, %resource, "cannot list or watch; retrying"),
        }
        pause
    }

    /// Returns whether to log the failure as a warning, and how long to wait.
    fn record(&mut self, failure: FailureKind) -> (bool, Duration) {
        let is_new = self.failure.replace(failure) != Some(failure);
        self.pause = match is_new {
            true => FIRST_PAUSE,
            false => (self.pause * 2).min(failure.longest()),
        };
        (is_new && !(self.is_expected)(failure), self.pause)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use atoll_client::{BoxError, BoxFuture, Client, ResponseBody, Transport};

    use super::*;
    use crate::{Tree, resources};

    struct Unreachable;

    impl Transport for Unreachable {
        fn send(
            &self,
            _: http::Request<bytes::Bytes>,
        ) -> BoxFuture<'_, Result<http::Response<ResponseBody>, BoxError>> {
            Box::pin(async { Err("unreachable".into()) })
        }
    }

    #[test]
    fn failure_is_logged_once_and_retried_with_backoff() {
        let client = Client::new(Arc::new(Unreachable));
        let (one, all) =
            (ApiScope::single(client.clone()), ApiScope::all_workspaces(client, Arc::new(Tree::default())));
        use FailureKind::{Failing, NotServed, Refused};
        for (api, by_discovery, told) in [
            (&one, false, vec![NotServed, Refused, Failing]),
            (&all, false, vec![Refused, Failing]),
            (&one, true, vec![Refused]),
            (&all, true, vec![Refused]),
        ] {
            for failure in [NotServed, Refused, Failing] {
                let mut backoff = Backoff::new(api, &resources::JOBS, by_discovery);
                assert_eq!(backoff.record(failure), (told.contains(&failure), FIRST_PAUSE), "{failure:?}");
                let later: Vec<(bool, Duration)> = (0..20).map(|_| backoff.record(failure)).collect();
                assert!(later.iter().all(|(is_warning, _)| !is_warning), "{failure:?} is logged again");
                assert_eq!(later[0].1, FIRST_PAUSE * 2);
                assert_eq!(later[19].1, failure.longest());
                backoff.reset();
                assert_eq!(backoff.record(failure).1, FIRST_PAUSE, "after a success");
            }
        }
    }

    #[test]
    fn another_failure_is_logged_too() {
        let mut backoff =
            Backoff::new(&ApiScope::single(Client::new(Arc::new(Unreachable))), &resources::PODS, false);
        assert!(backoff.record(FailureKind::Failing).0);
        assert!(backoff.record(FailureKind::Refused).0);
        assert!(!backoff.record(FailureKind::Refused).0);
    }
}
