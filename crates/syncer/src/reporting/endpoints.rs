//! The endpoints of placed Services, which are shown above.
//!
//! Controllers of the cluster copy the labels of a Service to its EndpointSlices, the mark included, so one watch
//! finds the slices of placed Services and no others.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_client::memory_limits::Charge;
use atoll_fleet::marks;
use atoll_fleet::view::{EndpointGroup, ServiceEndpoints};
use atoll_informer::{ApiScope, ListWatch, ListWatchEvent, list_and_watch, resources};
use atoll_meta::object;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::inventory::Owner;
use crate::syncer::Syncer;

/// Pause that batches changes. Clients above must learn of a Pod that ends while it still serves.
const PAUSE: Duration = Duration::from_millis(100);
/// Pause for Services with many endpoints, whose reports are large.
const LARGE_PAUSE: Duration = Duration::from_secs(1);
const LARGE: usize = 100;
const SLICES: &str = "/apis/discovery.k8s.io/v1/endpointslices?limit=1";
/// The right that clusters do not have that joined with an earlier version.
const RIGHT: &str = "list endpointslices.discovery.k8s.io";

/// The EndpointSlices of placed Services.
#[derive(Default)]
pub struct SliceWatch {
    state: Mutex<Slices>,
    changed: Notify,
}

#[derive(Default)]
struct Slices {
    /// Slices by uid, with the Service that owns each.
    slices: HashMap<String, (Owner, EndpointGroup)>,
    /// Uids of slices by the uid of their Service.
    by_service: HashMap<String, BTreeSet<String>>,
    /// Services that have changed, and when they are to be reported.
    changed: BTreeMap<Owner, Instant>,
    /// Whether the first list is complete.
    is_listed: bool,
    charge: Charge,
}

impl Slices {
    /// Adds a slice if the memory budget allows it. The budget records the refusal, which the heartbeat reports.
    fn add(&mut self, slice: &Value) {
        let uid = object::uid(slice);
        self.remove(uid);
        let owner = Owner::of(slice).filter(|owner| owner.kind == "Service" && owner.group.is_empty());
        let Some(owner) = owner else { return };
        let group = EndpointGroup::of(slice);
        self.mark_changed(&owner, group.endpoints.len());
        if self.charge.grow(group.size() + owner.size() + uid.len()).is_ok() {
            self.by_service.entry(owner.uid.clone()).or_default().insert(uid.to_string());
            self.slices.insert(uid.to_string(), (owner, group));
        }
    }

    fn remove(&mut self, uid: &str) {
        let Some((owner, group)) = self.slices.remove(uid) else { return };
        self.charge.shrink(group.size() + owner.size() + uid.len());
        if let Some(of_service) = self.by_service.get_mut(&owner.uid) {
            of_service.remove(uid);
            if of_service.is_empty() {
                self.by_service.remove(&owner.uid);
            }
        }
        self.mark_changed(&owner, group.endpoints.len());
    }

    fn mark_changed(&mut self, owner: &Owner, endpoints: usize) {
        let pause = if endpoints >= LARGE { LARGE_PAUSE } else { PAUSE };
        self.changed.entry(owner.clone()).or_insert_with(|| Instant::now() + pause);
    }

    fn retain(&mut self, present: &HashSet<String>) {
        let absent = self.slices.keys().filter(|uid| !present.contains(*uid));
        for uid in absent.cloned().collect::<Vec<_>>() {
            self.remove(&uid);
        }
        self.is_listed = true;
    }

    /// Returns the Services that are to be reported now, and when the next one is.
    fn take_due(&mut self, now: Instant) -> (Vec<Owner>, Option<Instant>) {
        let due: Vec<Owner> =
            self.changed.iter().filter(|(_, at)| **at <= now).map(|(owner, _)| owner.clone()).collect();
        for owner in &due {
            self.changed.remove(owner);
        }
        (due, self.changed.values().min().copied())
    }
}

impl SliceWatch {
    /// Returns the endpoints of the Service with this uid below; `None` before the first list is complete.
    pub fn endpoints_of(&self, uid: &str) -> Option<ServiceEndpoints> {
        let state = self.state();
        let slices = state.by_service.get(uid).into_iter().flatten();
        let groups = slices.filter_map(|slice| state.slices.get(slice)).map(|(_, group)| group.clone());
        state.is_listed.then(|| ServiceEndpoints::of(groups))
    }

    fn observe(&self, event: ListWatchEvent<'_>) {
        let mut state = self.state();
        match event {
            ListWatchEvent::Upserted(slice) => state.add(&slice),
            ListWatchEvent::Deleted(slice) => state.remove(object::uid(&slice)),
            ListWatchEvent::Listed(present, _) => state.retain(present),
        }
        drop(state);
        self.changed.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, Slices> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches slices and reports their Services for as long as it is polled.
pub async fn run(syncer: &Arc<Syncer>, api: &ApiScope) {
    let registration = syncer.registration().await;
    // Nothing is placed on a cluster that is only observed.
    if syncer.is_observing(&registration) {
        return std::future::pending().await;
    }
    wait_for_right(syncer).await;
    syncer.slices.state().charge = Charge::new(api.client().budget().cloned());
    let labels = format!("{}={}", marks::CONTROL_PLANE, registration.control_plane);
    let list_watch = ListWatch::all(&resources::ENDPOINT_SLICES).label_selector(&labels);
    let watching = list_and_watch(api, list_watch, |event| syncer.slices.observe(event));
    tokio::join!(watching, report(syncer));
}

/// Waits until the syncer may read slices.
async fn wait_for_right(syncer: &Syncer) {
    loop {
        let found = syncer.below.list_metadata(SLICES).await;
        let is_missing = found.is_err_and(|status| status.code() == 403);
        syncer.capabilities.set_missing(RIGHT, is_missing);
        if !is_missing {
            return;
        }
        tokio::time::sleep(syncer.settings.jitter(syncer.connection.interval(&syncer.settings))).await;
    }
}

/// Reports Services whose endpoints have changed, a moment after the change.
async fn report(syncer: &Arc<Syncer>) {
    let slices = &syncer.slices;
    loop {
        let (due, next) = slices.state().take_due(Instant::now());
        for owner in due {
            // A Service that has not been observed yet is reported when it is.
            if let Some(key) = syncer.placed_owner(&owner) {
                syncer.report(&key);
            }
        }
        match next {
            // Polled in a fixed order, so that test runs are reproducible.
            Some(next) => tokio::select! {
                biased;
                () = tokio::time::sleep_until(next) => {}
                () = slices.changed.notified() => {}
            },
            None => slices.changed.notified().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn slice(uid: &str, service: &str, addresses: &[&str]) -> Value {
        let endpoints: Vec<Value> =
            addresses.iter().map(|address| json!({ "addresses": [address], "conditions": {} })).collect();
        json!({
            "metadata": {
                "name": uid, "namespace": "shop", "uid": uid,
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Service", "name": service, "uid": format!("uid-{service}"),
                    "controller": true,
                }],
            },
            "addressType": "IPv4",
            "ports": [{ "name": "", "port": 80, "protocol": "TCP" }],
            "endpoints": endpoints,
        })
    }

    #[tokio::test(start_paused = true)]
    async fn services_are_reported_a_moment_after_their_slices_change() {
        let watch = SliceWatch::default();
        watch.observe(ListWatchEvent::Upserted(slice("a", "web", &["10.1.0.1"])));
        watch.observe(ListWatchEvent::Upserted(slice("b", "web", &["10.1.0.2"])));
        assert_eq!(watch.endpoints_of("uid-web"), None, "the list is not complete");
        watch.observe(ListWatchEvent::Listed(&["a".to_string(), "b".to_string()].into(), 1));
        let ready = |uid: &str| watch.endpoints_of(uid).map(|found| (found.slices.len(), found.ready));
        assert_eq!((ready("uid-web"), ready("uid-other")), (Some((1, 2)), Some((0, 0))));
        let names = |due: Vec<Owner>| due.into_iter().map(|owner| owner.name).collect::<Vec<_>>();

        let (due, next) = watch.state().take_due(Instant::now());
        assert_eq!((names(due), next), (vec![], Some(Instant::now() + PAUSE)));
        tokio::time::advance(PAUSE).await;
        let (due, next) = watch.state().take_due(Instant::now());
        assert_eq!((names(due), next), (vec!["web".to_string()], None));

        // Large Services are reported less often.
        let many: Vec<String> = (1..=LARGE).map(|number| format!("10.2.0.{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        watch.observe(ListWatchEvent::Upserted(slice("c", "large", &many)));
        watch.observe(ListWatchEvent::Deleted(slice("b", "web", &[])));
        tokio::time::advance(PAUSE).await;
        let (due, next) = watch.state().take_due(Instant::now());
        assert_eq!((names(due), next.is_some()), (vec!["web".to_string()], true));
        assert_eq!(ready("uid-web"), Some((1, 1)));
        watch.observe(ListWatchEvent::Listed(&["c".to_string()].into(), 2));
        assert_eq!((ready("uid-web"), ready("uid-large")), (Some((0, 0)), Some((1, 100))));
    }
}
