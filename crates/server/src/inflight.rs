//! How many requests may be under way at once.

use std::sync::Arc;

use atoll_authn::{MASTERS, User};
use atoll_meta::Status;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::health;
use crate::request::RequestInfo;

pub struct InFlight {
    reading: Arc<Semaphore>,
    mutating: Arc<Semaphore>,
}

/// Keeps a place taken for as long as a request lasts.
pub struct Place {
    _permit: Option<OwnedSemaphorePermit>,
}

impl InFlight {
    pub fn new(reading: usize, mutating: usize) -> Self {
        InFlight { reading: Arc::new(Semaphore::new(reading)), mutating: Arc::new(Semaphore::new(mutating)) }
    }

    /// A place for this request, or the advice to come back later. Requests that last for as long as their
    /// client wants take none; nor do probes, or a busy server would be taken for a dead one; nor do those who
    /// may everything, controllers among them, who have to set right what keeps a server busy.
    pub fn enter(&self, request: &RequestInfo, user: &User) -> Result<Place, Status> {
        let is_probe = !request.is_resource && health::is_check(&request.path);
        if request.is_long_running() || is_probe || user.is_in(MASTERS) {
            return Ok(Place { _permit: None });
        }
        let reads = matches!(request.verb, "get" | "list" | "head");
        let places = if reads { &self.reading } else { &self.mutating };
        let busy = |_| Status::too_many_requests("Too many requests, please try again later.", 1);
        let permit = places.clone().try_acquire_owned().map_err(busy)?;
        Ok(Place { _permit: Some(permit) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_place_taken_turns_others_away_until_it_is_free() {
        let inflight = InFlight::new(1, 1);
        let read = RequestInfo { verb: "list", ..RequestInfo::default() };
        let write = RequestInfo { verb: "create", ..RequestInfo::default() };
        let watch = RequestInfo { verb: "watch", ..RequestInfo::default() };
        let ann = User::authenticated("ann".into(), String::new(), Vec::new());
        let master = User::authenticated("root".into(), String::new(), vec![MASTERS.into()]);
        let place = inflight.enter(&read, &ann).ok();
        let refused = inflight.enter(&read, &ann).err().unwrap();
        assert_eq!((refused.code(), refused.retry_after()), (429, Some(1)));
        assert!(inflight.enter(&write, &ann).is_ok(), "writes have places of their own");
        assert!(inflight.enter(&watch, &ann).is_ok());
        assert!(inflight.enter(&read, &master).is_ok());
        let probe = RequestInfo { verb: "get", path: "/livez".into(), ..RequestInfo::default() };
        assert!(inflight.enter(&probe, &ann).is_ok());
        drop(place);
        assert!(inflight.enter(&read, &ann).is_ok());
    }
}
