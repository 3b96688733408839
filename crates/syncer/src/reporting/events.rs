//! Forwards Events about placed objects, and about objects that they own in the cluster, to the control
//! plane.
//!
//! An Event names its involved object. If that is a placed object, the Event is forwarded. If it is a Pod, a
//! ReplicaSet or a Job, its owners are followed until a placed object is found. All other Events are ignored.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_client::path;
use atoll_fleet::Locator;
use atoll_fleet::event::{created_plural, trim};
use atoll_fleet::rate_limit::{Rate, RateLimiter};
use atoll_fleet::view::{EventReport, ObjectTarget};
use atoll_informer::{ApiScope, Key, ListWatch, ListWatchEvent, Next, Queue, list_and_watch, resources};
use atoll_meta::{Status, object};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::objects::table::key_of;
use crate::syncer::Syncer;

/// Selects Events that may be about placed objects.
const FIELD_SELECTOR: &str =
    "involvedObject.kind!=Node,metadata.namespace!=kube-system,metadata.namespace!=kube-node-lease";
/// Longest chain of owners: a CronJob owns Jobs, which own Pods.
const DEEPEST: usize = 4;
/// Longest field of an owner reference.
const LONGEST: usize = 320;
/// Attempts for an Event whose involved object has not been observed yet.
const ATTEMPTS: u32 = 4;
const RETRY_PAUSE: Duration = Duration::from_secs(2);
const AT_ONCE: usize = 4;
/// Events that wait; further ones are dropped.
const WAITING: usize = 1000;
/// Number of owners and of forwarded Events that are remembered.
const REMEMBERED: usize = 4096;
/// Rate limits per object and per cluster.
const EACH: Rate = Rate { burst: 30, every: Duration::from_secs(20) };
const ALL: Rate = Rate { burst: 300, every: Duration::from_millis(500) };

/// An object in an owner chain.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
}

struct EventForwarder {
    syncer: Arc<Syncer>,
    queue: Queue,
    began: Instant,
    state: Mutex<ForwarderState>,
}

struct ForwarderState {
    waiting: HashMap<Key, (Value, u32)>,
    /// Owners by the uid of the owned object.
    owners: HashMap<String, Option<Owner>>,
    /// Resource versions of forwarded Events by uid.
    forwarded: HashMap<String, String>,
    limiter: RateLimiter,
}

/// Forwards Events for as long as it is polled.
pub async fn forward(syncer: &Arc<Syncer>, api: &ApiScope) {
    let state = ForwarderState {
        waiting: HashMap::new(),
        owners: HashMap::new(),
        forwarded: HashMap::new(),
        limiter: RateLimiter::new(EACH, ALL),
    };
    let (queue, began) = (Queue::new(), Instant::now());
    let forwarder =
        Arc::new(EventForwarder { syncer: syncer.clone(), queue, began, state: Mutex::new(state) });
    // The placed objects are not known before.
    syncer.gate.wait_open().await;
    let list_watch = ListWatch::all(&resources::EVENTS).field_selector(FIELD_SELECTOR);
    let watching = list_and_watch(api, list_watch, |event| {
        if let ListWatchEvent::Upserted(event) = event {
            forwarder.add(event);
        }
    });
    let working = forwarder.queue.work("events", AT_ONCE, |key| {
        let forwarder = forwarder.clone();
        async move { forwarder.work(&key).await }
    });
    tokio::join!(watching, working);
}

impl EventForwarder {
    fn add(&self, event: Value) {
        let event = trim(&event);
        if self.location(&event).is_none() {
            return;
        }
        let key = Key::new("", object::namespace(&event), object::name(&event));
        let mut state = self.state();
        let is_reported = state
            .forwarded
            .get(object::uid(&event))
            .is_some_and(|forwarded| forwarded == object::resource_version(&event));
        if is_reported || state.waiting.len() >= WAITING && !state.waiting.contains_key(&key) {
            return;
        }
        state.waiting.insert(key.clone(), (event, 0));
        drop(state);
        self.queue.add(key);
    }

    /// Returns the location of the involved object, if its namespace stands for one above.
    fn location(&self, event: &Value) -> Option<Location> {
        let namespace = event["involvedObject"]["namespace"].as_str().unwrap_or_default();
        match namespace.is_empty() {
            true => Some(Location::ClusterScoped),
            false => self
                .syncer
                .namespaces
                .above(namespace)
                .map(|locator| Location::Namespaced(namespace.into(), locator)),
        }
    }

    async fn work(&self, key: &Key) -> Result<Next, Status> {
        let Some((event, tries)) = self.state().waiting.get(key).cloned() else { return Ok(Next::Done) };
        let found = match self.location(&event) {
            Some(location) => self.root(&location, &event["involvedObject"]).await?,
            None => None,
        };
        let mut state = self.state();
        let Some((target, about)) = found else {
            if tries + 1 < ATTEMPTS
                && let Some((_, tries)) = state.waiting.get_mut(key)
            {
                *tries += 1;
                return Ok(Next::After(RETRY_PAUSE));
            }
            state.waiting.remove(key);
            return Ok(Next::Done);
        };
        if let Err(wait) = state.limiter.take(&target.uid, self.began.elapsed()) {
            return Ok(Next::After(wait));
        }
        // A newer version of the Event is handled separately.
        let revision = object::resource_version(&event).to_string();
        let is_newest =
            state.waiting.get(key).is_some_and(|(now, _)| object::resource_version(now) == revision);
        if is_newest {
            state.waiting.remove(key);
        }
        if state.forwarded.len() >= REMEMBERED {
            state.forwarded.clear();
        }
        state.forwarded.insert(object::uid(&event).to_string(), revision);
        drop(state);
        let id = object::uid(&event).to_string();
        self.syncer.reports.add_event(EventReport { target: (*target).clone(), id, about, event });
        Ok(Next::Done)
    }

    /// Returns the placed object that an Event concerns, and a reference to the involved object if that is
    /// another one.
    async fn root(
        &self,
        location: &Location,
        involved: &Value,
    ) -> Result<Option<(Arc<ObjectTarget>, Value)>, Status> {
        let text = |field: &str| involved[field].as_str().unwrap_or_default().to_string();
        let mut at = Owner {
            api_version: text("apiVersion"),
            kind: text("kind"),
            name: text("name"),
            uid: text("uid"),
        };
        for depth in 0..DEEPEST {
            if let Some(target) = self.placed_object(location, &at) {
                let about = match depth {
                    0 => Value::Null,
                    _ => {
                        json!({ "apiVersion": text("apiVersion"), "kind": text("kind"), "name": text("name"), "uid": text("uid") })
                    }
                };
                return Ok(Some((target, about)));
            }
            let Location::Namespaced(namespace, _) = location else { return Ok(None) };
            match self.owner(namespace, &at).await? {
                Some(owner) => at = owner,
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Returns the placed object for an object in the cluster.
    fn placed_object(&self, location: &Location, at: &Owner) -> Option<Arc<ObjectTarget>> {
        let (group, _) = at.api_version.rsplit_once('/').unwrap_or_default();
        let resource = self.syncer.watched_resource(group, &at.kind)?;
        let key = match location {
            Location::Namespaced(_, locator) => {
                key_of(&resource, &locator.workspace, &locator.namespace, &at.name)
            }
            // Only the registering workspace has cluster-scoped objects there.
            Location::ClusterScoped => {
                key_of(&resource, &self.syncer.current_registration()?.workspace, "", &at.name)
            }
        };
        let task = self.syncer.table.task(&key)?;
        // An unmanaged object with the same name may have existed before.
        task.seen.as_ref().is_some_and(|seen| seen.uid == at.uid).then(|| task.target.clone())
    }

    /// Returns the controller of a Pod, ReplicaSet or Job.
    async fn owner(&self, namespace: &str, of: &Owner) -> Result<Option<Owner>, Status> {
        let Some(plural) = created_plural(&of.api_version, &of.kind) else { return Ok(None) };
        if let Some(known) = self.state().owners.get(&of.uid) {
            return Ok(known.clone());
        }
        let (group, version) = of.api_version.rsplit_once('/').unwrap_or(("", &of.api_version));
        let path = path::object(&path::collection(group, version, namespace, plural), &of.name);
        let Some(found) = self.syncer.below.get_metadata(&path).await? else { return Ok(None) };
        if object::uid(&found) != of.uid {
            return Ok(None);
        }
        let is_named = |text: &str| text.len() <= LONGEST;
        let owner = object::controller_of(&found)
            .filter(|owner| [owner.api_version, owner.kind, owner.name, owner.uid].into_iter().all(is_named));
        let owner = owner.map(|owner| Owner {
            api_version: owner.api_version.into(),
            kind: owner.kind.into(),
            name: owner.name.into(),
            uid: owner.uid.into(),
        });
        let mut state = self.state();
        if state.owners.len() >= REMEMBERED {
            state.owners.clear();
        }
        state.owners.insert(of.uid.clone(), owner.clone());
        Ok(owner)
    }

    fn state(&self) -> MutexGuard<'_, ForwarderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Location of an object in the cluster.
enum Location {
    /// In this namespace below, which stands for that one above.
    Namespaced(String, Locator),
    ClusterScoped,
}
