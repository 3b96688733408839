//! The address and the authority with which Pods in clusters reach this server.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use atoll_fleet::api_access;
use atoll_fleet::view::{ObjectTarget, Record, State};

/// How Pods in clusters reach this server.
pub struct PodApi {
    /// The address that clients are given.
    pub advertised: SocketAddr,
    /// Certificate of the authority of the serving certificate.
    pub authority_pem: String,
    /// Lifetime of the tokens.
    pub token_seconds: i64,
}

impl PodApi {
    /// Returns the address for Pods, if they may be able to reach it.
    pub fn address(&self) -> Option<SocketAddr> {
        Some(self.advertised).filter(|address| api_access::is_reachable(address.ip()))
    }
}

/// Access Secrets that sync views have removed, by the uids of the Cluster and of the Secret, and whether the
/// cluster has confirmed that. They do not exist above, so nothing else records it.
#[derive(Default)]
pub struct AccessRemovals(Mutex<HashMap<(String, String), bool>>);

impl AccessRemovals {
    pub fn request(&self, cluster: &str, secret: &str) {
        self.removals().insert((cluster.into(), secret.into()), false);
    }

    /// Forgets a request, because the Secret is needed again.
    pub fn cancel(&self, cluster: &str, secret: &str) {
        self.removals().remove(&(cluster.into(), secret.into()));
    }

    /// Records what a cluster reports. Returns whether it is about an access Secret, of which nothing else is
    /// recorded.
    pub fn record(&self, cluster: &str, record: &Record) -> bool {
        let ObjectTarget { resource, name, uid, .. } = &record.target;
        let is_secret = resource.group.is_empty() && resource.resource == "secrets";
        // An object above has a uid of another form.
        if !is_secret || name != uid {
            return false;
        }
        if !record.message.is_empty() {
            tracing::warn!(
                cluster,
                secret = name,
                message = record.message,
                "the cluster has a problem with an access Secret"
            );
        }
        if record.state == State::Gone
            && let Some(is_confirmed) = self.removals().get_mut(&(cluster.into(), uid.clone()))
        {
            *is_confirmed = true;
        }
        true
    }

    /// Returns whether the cluster has confirmed a removal, and forgets it then.
    pub fn take_confirmed(&self, cluster: &str, secret: &str) -> bool {
        let (mut removals, key) = (self.removals(), (cluster.to_string(), secret.to_string()));
        let is_confirmed = removals.get(&key).is_none_or(|is_confirmed| *is_confirmed);
        if is_confirmed {
            removals.remove(&key);
        }
        is_confirmed
    }

    fn removals(&self) -> MutexGuard<'_, HashMap<(String, String), bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use atoll_fleet::api_access::AccountRef;

    use super::*;

    #[test]
    fn removals_are_confirmed_by_their_cluster() {
        let removals = AccessRemovals::default();
        let target = AccountRef { workspace: "w".into(), namespace: "n".into(), name: "a".into() }.target();
        let uid = target.uid.clone();
        let record = |state| Record { target: target.clone(), state, ..Record::default() };
        removals.request("c", &uid);
        assert!(removals.record("c", &record(State::Applied)) && !removals.take_confirmed("c", &uid));
        assert!(removals.record("d", &record(State::Gone)) && !removals.take_confirmed("c", &uid));
        assert!(removals.record("c", &record(State::Gone)) && removals.take_confirmed("c", &uid));
        assert!(removals.removals().is_empty());
        let other =
            Record { target: ObjectTarget { name: "a".into(), ..target.clone() }, ..Record::default() };
        assert!(!removals.record("c", &other), "it is an object above");
    }
}
