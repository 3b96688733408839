//! Open requests of users to clusters. A tunnel has a limited number of streams, and no user may take all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atoll_authn::User;
use atoll_meta::Status;
use atoll_tunnel::STREAMS_OF_USER;

/// Seconds after which a refused client tries again.
const RETRY_AFTER: u32 = 5;

/// Uid of a cluster, and home and name of a user.
type Key = (String, Option<String>, String);
type Counts = Mutex<HashMap<Key, usize>>;

/// Numbers of open requests.
#[derive(Default)]
pub struct OpenRequests {
    counts: Arc<Counts>,
}

/// A request that counts until this is dropped.
pub struct OpenRequest {
    counts: Arc<Counts>,
    key: Key,
}

impl OpenRequests {
    /// Counts a request of a user to a cluster, unless the user has too many.
    pub fn open(&self, (name, uid): (&str, &str), user: &User) -> Result<OpenRequest, Status> {
        let key = (uid.to_string(), user.home.clone(), user.name.clone());
        let mut counts = locked(&self.counts);
        let count = counts.entry(key.clone()).or_default();
        if *count >= STREAMS_OF_USER {
            let message = format!(
                "the user has {STREAMS_OF_USER} open requests to cluster {name}, and may not open more of them"
            );
            return Err(Status::too_many_requests(message, RETRY_AFTER));
        }
        *count += 1;
        Ok(OpenRequest { counts: self.counts.clone(), key })
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let mut counts = locked(&self.counts);
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

fn locked(counts: &Counts) -> MutexGuard<'_, HashMap<Key, usize>> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_leaves_room_for_others() {
        let requests = OpenRequests::default();
        let user = |name: &str| User { name: name.into(), ..User::anonymous() };
        let (lab, east) = (("lab", "1"), ("east", "2"));
        let mut open: Vec<OpenRequest> =
            (0..STREAMS_OF_USER).map(|_| requests.open(lab, &user("ann")).unwrap()).collect();
        let refused = requests.open(lab, &user("ann")).err().unwrap();
        assert_eq!((refused.code(), refused.reason()), (429, "TooManyRequests"));
        assert!(requests.open(lab, &user("bob")).is_ok());
        assert!(requests.open(east, &user("ann")).is_ok());
        open.pop();
        open.push(requests.open(lab, &user("ann")).unwrap());
        assert!(requests.open(lab, &user("ann")).is_err());
        open.clear();
        assert!(locked(&requests.counts).is_empty());
    }
}
