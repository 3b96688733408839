//! Forwards Events about placed objects, and about objects that they own in the cluster, to the control
//! plane.
//!
//! An Event names its involved object. If that is a placed object, the Event is forwarded. If it is a Pod, a
//! ReplicaSet or a Job, its owners are followed until a placed object is found. All other Events are ignored.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_fleet::Locator;
use atoll_fleet::allowance::{Allowances, Rate};
use atoll_fleet::happening::{made, trimmed};
use atoll_fleet::view::{Happening, Target};
use atoll_informer::{Key, Look, Next, Queue, Sight, World, follow, resources};
use atoll_meta::{Status, object};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::core::Core;
use crate::table::key_of;

/// Selects Events that may be about placed objects.
const OTHERS: &str =
    "involvedObject.kind!=Node,metadata.namespace!=kube-system,metadata.namespace!=kube-node-lease";
/// Longest chain of owners: a CronJob owns Jobs, which own Pods.
const DEEPEST: usize = 4;
/// Longest field of an owner reference.
const LONGEST: usize = 320;
/// Attempts for an Event whose involved object has not been observed yet.
const TRIES: u32 = 4;
const AGAIN: Duration = Duration::from_secs(2);
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

struct Happenings {
    core: Arc<Core>,
    queue: Queue,
    began: Instant,
    state: Mutex<State>,
}

struct State {
    waiting: HashMap<Key, (Value, u32)>,
    /// Owners by the uid of the owned object.
    owners: HashMap<String, Option<Owner>>,
    /// Resource versions of forwarded Events by uid.
    told: HashMap<String, String>,
    allowances: Allowances,
}

/// Forwards Events for as long as it is polled.
pub async fn tell(core: &Arc<Core>, world: &World) {
    let state = State {
        waiting: HashMap::new(),
        owners: HashMap::new(),
        told: HashMap::new(),
        allowances: Allowances::new(EACH, ALL),
    };
    let (queue, began) = (Queue::new(), Instant::now());
    let happenings = Arc::new(Happenings { core: core.clone(), queue, began, state: Mutex::new(state) });
    // The placed objects are not known before.
    core.trust.opened().await;
    let look = Look::everywhere(&resources::EVENTS).selecting(OTHERS);
    let watching = follow(world, look, |sight| {
        if let Sight::There(event) = sight {
            happenings.heed(event);
        }
    });
    let working = happenings.queue.work("events", AT_ONCE, |key| {
        let happenings = happenings.clone();
        async move { happenings.work(&key).await }
    });
    tokio::join!(watching, working);
}

impl Happenings {
    fn heed(&self, event: Value) {
        let event = trimmed(&event);
        if self.place(&event).is_none() {
            return;
        }
        let key = Key::new("", object::namespace(&event), object::name(&event));
        let mut state = self.state();
        let is_told =
            state.told.get(object::uid(&event)).is_some_and(|told| told == object::resource_version(&event));
        if is_told || state.waiting.len() >= WAITING && !state.waiting.contains_key(&key) {
            return;
        }
        state.waiting.insert(key.clone(), (event, 0));
        drop(state);
        self.queue.add(key);
    }

    /// Returns the location of the involved object, if its namespace stands for one above.
    fn place(&self, event: &Value) -> Option<Place> {
        let namespace = event["involvedObject"]["namespace"].as_str().unwrap_or_default();
        match namespace.is_empty() {
            true => Some(Place::Nowhere),
            false => self.core.spaces.above(namespace).map(|locator| Place::In(namespace.into(), locator)),
        }
    }

    async fn work(&self, key: &Key) -> Result<Next, Status> {
        let Some((event, tries)) = self.state().waiting.get(key).cloned() else { return Ok(Next::Done) };
        let found = match self.place(&event) {
            Some(place) => self.root(&place, &event["involvedObject"]).await?,
            None => None,
        };
        let mut state = self.state();
        let Some((target, about)) = found else {
            if tries + 1 < TRIES
                && let Some((_, tries)) = state.waiting.get_mut(key)
            {
                *tries += 1;
                return Ok(Next::After(AGAIN));
            }
            state.waiting.remove(key);
            return Ok(Next::Done);
        };
        if let Err(wait) = state.allowances.take(&target.uid, self.began.elapsed()) {
            return Ok(Next::After(wait));
        }
        // A newer version of the Event is handled separately.
        let revision = object::resource_version(&event).to_string();
        let is_newest =
            state.waiting.get(key).is_some_and(|(now, _)| object::resource_version(now) == revision);
        if is_newest {
            state.waiting.remove(key);
        }
        if state.told.len() >= REMEMBERED {
            state.told.clear();
        }
        state.told.insert(object::uid(&event).to_string(), revision);
        drop(state);
        let id = object::uid(&event).to_string();
        self.core.reports.happened(Happening { target: (*target).clone(), id, about, event });
        Ok(Next::Done)
    }

    /// Returns the placed object that an Event concerns, and a reference to the involved object if that is
    /// another one.
    async fn root(&self, place: &Place, involved: &Value) -> Result<Option<(Arc<Target>, Value)>, Status> {
        let text = |field: &str| involved[field].as_str().unwrap_or_default().to_string();
        let mut at = Owner {
            api_version: text("apiVersion"),
            kind: text("kind"),
            name: text("name"),
            uid: text("uid"),
        };
        for depth in 0..DEEPEST {
            if let Some(target) = self.ours(place, &at) {
                let about = match depth {
                    0 => Value::Null,
                    _ => {
                        json!({ "apiVersion": text("apiVersion"), "kind": text("kind"), "name": text("name"), "uid": text("uid") })
                    }
                };
                return Ok(Some((target, about)));
            }
            let Place::In(namespace, _) = place else { return Ok(None) };
            match self.owner(namespace, &at).await? {
                Some(owner) => at = owner,
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Returns the placed object for an object in the cluster.
    fn ours(&self, place: &Place, at: &Owner) -> Option<Arc<Target>> {
        let (group, _) = at.api_version.rsplit_once('/').unwrap_or_default();
        let resource = self.core.followed(group, &at.kind)?;
        let key = match place {
            Place::In(_, locator) => key_of(&resource, &locator.workspace, &locator.namespace, &at.name),
            // Only the registering workspace has cluster-scoped objects there.
            Place::Nowhere => key_of(&resource, &self.core.control_plane()?.workspace, "", &at.name),
        };
        let task = self.core.table.task(&key)?;
        // An unmanaged object with the same name may have existed before.
        task.seen.as_ref().is_some_and(|seen| seen.uid == at.uid).then(|| task.target.clone())
    }

    /// Returns the controller of a Pod, ReplicaSet or Job.
    async fn owner(&self, namespace: &str, of: &Owner) -> Result<Option<Owner>, Status> {
        let Some(plural) = made(&of.api_version, &of.kind) else { return Ok(None) };
        if let Some(known) = self.state().owners.get(&of.uid) {
            return Ok(known.clone());
        }
        let base = if of.api_version.contains('/') { "/apis" } else { "/api" };
        let (version, name) = (&of.api_version, atoll_informer::encoded(&of.name));
        let path = format!("{base}/{version}/namespaces/{namespace}/{plural}/{name}");
        let Some(found) = self.core.below.get_metadata(&path).await? else { return Ok(None) };
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Location of an object in the cluster.
enum Place {
    /// In this namespace below, which stands for that one above.
    In(String, Locator),
    Nowhere,
}
