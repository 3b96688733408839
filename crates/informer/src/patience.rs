//! Backoff and logging for resources that cannot be listed or watched.

use std::time::Duration;

use atoll_meta::Status;

use crate::{Resource, World};

pub const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Reason why a resource cannot be listed or watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    NotServed,
    Refused,
    Failing,
}

impl Trouble {
    fn of(status: &Status) -> Trouble {
        match status.code() {
            404 => Trouble::NotServed,
            401 | 403 => Trouble::Refused,
            _ => Trouble::Failing,
        }
    }

    /// Longest pause. Resources and permissions are rarely added later.
    fn longest(self) -> Duration {
        match self {
            Trouble::NotServed => Duration::from_secs(60),
            Trouble::Refused => Duration::from_secs(120),
            Trouble::Failing => Duration::from_secs(10),
        }
    }
}

/// Logs each kind of failure once, and backs off exponentially.
pub struct Patience {
    /// Resource name as kubectl shows it.
    resource: String,
    /// Returns whether a failure is expected and therefore not logged as a warning.
    hushed: fn(Trouble) -> bool,
    trouble: Option<Trouble>,
    pause: Duration,
}

impl Patience {
    /// Creates the backoff of a resource that was found `by_discovery`, or is expected to exist.
    pub fn new(world: &World, resource: &Resource, by_discovery: bool) -> Patience {
        let name = match resource.group.is_empty() {
            true => resource.plural.to_string(),
            false => format!("{}.{}", resource.plural, resource.group),
        };
        let hushed: fn(Trouble) -> bool = match (by_discovery, world.has_workspaces()) {
            // A definition or workspace may be deleted before discovery reflects it.
            (true, _) => |trouble| trouble != Trouble::Refused,
            // Atoll serves only the resources of its profile.
            (false, true) => |trouble| trouble == Trouble::NotServed,
            (false, false) => |_| false,
        };
        Patience { resource: name, hushed, trouble: None, pause: FIRST_PAUSE }
    }

    /// Resets the backoff after a success.
    pub fn restore(&mut self) {
        if self.trouble.take().is_some() {
            tracing::debug!(resource = %self.resource, "listing and watching works again");
        }
        self.pause = FIRST_PAUSE;
    }

    /// Returns the pause after a failure.
    pub fn after(&mut self, status: &Status) -> Duration {
        let (is_loud, pause) = self.judge(Trouble::of(status));
        let resource = self.resource.as_str();
        match (is_loud, self.trouble) {
            (false, _) => tracing::debug!(%status, %resource, "cannot list or watch"),
            (true, Some(Trouble::NotServed)) => tracing::warn!(%resource, "the resource is not served; waiting for it"),
            (true, Some(Trouble::Refused)) => {
                tracing::warn!(%status, %resource, "list or watch is forbidden; waiting for the permission");
            }
            (true, _) => tracing::warn!(%status, %resource, "cannot list or watch; retrying"),
        }
        pause
    }

    /// Returns whether to log the failure as a warning, and how long to wait.
    fn judge(&mut self, trouble: Trouble) -> (bool, Duration) {
        let is_new = self.trouble.replace(trouble) != Some(trouble);
        self.pause = match is_new {
            true => FIRST_PAUSE,
            false => (self.pause * 2).min(trouble.longest()),
        };
        (is_new && !(self.hushed)(trouble), self.pause)
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
        let (one, all) = (World::one(client.clone()), World::all(client, Arc::new(Tree::default())));
        use Trouble::{Failing, NotServed, Refused};
        for (world, by_discovery, told) in [
            (&one, false, vec![NotServed, Refused, Failing]),
            (&all, false, vec![Refused, Failing]),
            (&one, true, vec![Refused]),
            (&all, true, vec![Refused]),
        ] {
            for trouble in [NotServed, Refused, Failing] {
                let mut patience = Patience::new(world, &resources::JOBS, by_discovery);
                assert_eq!(patience.judge(trouble), (told.contains(&trouble), FIRST_PAUSE), "{trouble:?}");
                let later: Vec<(bool, Duration)> = (0..20).map(|_| patience.judge(trouble)).collect();
                assert!(later.iter().all(|(is_loud, _)| !is_loud), "{trouble:?} is logged again");
                assert_eq!(later[0].1, FIRST_PAUSE * 2);
                assert_eq!(later[19].1, trouble.longest());
                patience.restore();
                assert_eq!(patience.judge(trouble).1, FIRST_PAUSE, "after a success");
            }
        }
    }

    #[test]
    fn another_failure_is_logged_too() {
        let mut patience = Patience::new(&World::one(Client::new(Arc::new(Unreachable))), &resources::PODS, false);
        assert!(patience.judge(Trouble::Failing).0);
        assert!(patience.judge(Trouble::Refused).0);
        assert!(!patience.judge(Trouble::Refused).0);
    }
}
