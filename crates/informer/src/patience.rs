//! When to look again for what could not be looked at, and what to say about it.

use std::time::Duration;

use atoll_meta::Status;

use crate::{Resource, World};

pub const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Why something cannot be looked at.
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

    /// The longest pause. Who serves something new, or allows it, does not do so often.
    fn longest(self) -> Duration {
        match self {
            Trouble::NotServed => Duration::from_secs(60),
            Trouble::Refused => Duration::from_secs(120),
            Trouble::Failing => Duration::from_secs(10),
        }
    }
}

/// Says what is wrong once, and then waits longer and longer.
pub struct Patience {
    /// As people name it.
    resource: String,
    /// What is not worth a word.
    hushed: fn(Trouble) -> bool,
    trouble: Option<Trouble>,
    pause: Duration,
}

impl Patience {
    /// Of somebody who was told of the resource `by_discovery`, or expects it in any case.
    pub fn new(world: &World, resource: &Resource, by_discovery: bool) -> Patience {
        let name = match resource.group.is_empty() {
            true => resource.plural.to_string(),
            false => format!("{}.{}", resource.plural, resource.group),
        };
        let hushed: fn(Trouble) -> bool = match (by_discovery, world.has_workspaces()) {
            // It goes, with its definition or its workspace, before others hear of it.
            (true, _) => |trouble| trouble != Trouble::Refused,
            // An Atoll has what its profile says.
            (false, true) => |trouble| trouble == Trouble::NotServed,
            (false, false) => |_| false,
        };
        Patience { resource: name, hushed, trouble: None, pause: FIRST_PAUSE }
    }

    /// It works again.
    pub fn restore(&mut self) {
        if self.trouble.take().is_some() {
            tracing::debug!(resource = %self.resource, "can be looked at now");
        }
        self.pause = FIRST_PAUSE;
    }

    /// How long to wait after this.
    pub fn after(&mut self, status: &Status) -> Duration {
        let (is_loud, pause) = self.judge(Trouble::of(status));
        let resource = self.resource.as_str();
        match (is_loud, self.trouble) {
            (false, _) => tracing::debug!(%status, %resource, "cannot be looked at"),
            (true, Some(Trouble::NotServed)) => tracing::warn!(%resource, "not served; waiting for it"),
            (true, Some(Trouble::Refused)) => {
                tracing::warn!(%status, %resource, "may not be looked at; waiting for the permission");
            }
            (true, _) => tracing::warn!(%status, %resource, "cannot be looked at; trying again"),
        }
        pause
    }

    /// Whether it is worth a word to people, and how long to wait.
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

    struct Nobody;

    impl Transport for Nobody {
        fn send(
            &self,
            _: http::Request<bytes::Bytes>,
        ) -> BoxFuture<'_, Result<http::Response<ResponseBody>, BoxError>> {
            Box::pin(async { Err("nobody is there".into()) })
        }
    }

    #[test]
    fn trouble_is_told_once_and_tried_less_and_less() {
        let client = Client::new(Arc::new(Nobody));
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
                assert!(later.iter().all(|(is_loud, _)| !is_loud), "{trouble:?} is told again");
                assert_eq!(later[0].1, FIRST_PAUSE * 2);
                assert_eq!(later[19].1, trouble.longest());
                patience.restore();
                assert_eq!(patience.judge(trouble).1, FIRST_PAUSE, "after it has worked");
            }
        }
    }

    #[test]
    fn another_trouble_is_told_as_well() {
        let mut patience = Patience::new(&World::one(Client::new(Arc::new(Nobody))), &resources::PODS, false);
        assert!(patience.judge(Trouble::Failing).0);
        assert!(patience.judge(Trouble::Refused).0);
        assert!(!patience.judge(Trouble::Refused).0);
    }
}
