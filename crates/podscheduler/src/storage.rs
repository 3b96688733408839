//! Volume claims and volumes: whether a Pod can use its volumes on a node.

// upstream: pkg/scheduler/framework/plugins/volumebinding/binder.go
// upstream: pkg/scheduler/framework/plugins/volumebinding/volume_binding.go
// upstream: pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go
// upstream: pkg/scheduler/framework/plugins/volumezone/volume_zone.go

mod objects;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

pub use objects::{Claim, StorageClass, Volume};

use crate::node::Node;
use crate::pod::Pod;
use crate::refusal::{Plugin, VolumeConflict};

type Name = (Arc<str>, Box<str>);

/// The claims, volumes and storage classes of a cluster.
#[derive(Debug, Default)]
pub struct Storage {
    claims: HashMap<Name, Claim>,
    volumes: HashMap<Box<str>, Volume>,
    classes: HashMap<Box<str>, StorageClass>,
    /// Number of assigned Pods that use a claim.
    users: HashMap<Name, usize>,
}

/// PreFilter failure: why the volumes of a Pod exclude every node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreFilterFailure {
    pub plugin: Plugin,
    pub message: String,
}

/// The claims of a Pod.
#[derive(Clone, Debug, Default)]
pub struct PodClaims {
    bound: Vec<Name>,
    /// Claims that are bound when the Pod is scheduled, the smallest first.
    waiting: Vec<Name>,
    /// Claims with the access mode `ReadWriteOncePod`.
    exclusive: Vec<Box<str>>,
    /// How many of these other Pods use.
    pub in_use: i64,
    /// Zones of the volumes, by label.
    zones: Vec<(&'static str, Vec<Box<str>>)>,
}

/// Volume bindings that must be made before a Pod is bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bindings {
    /// Claims with the volumes that they are bound to (`StaticBindings`).
    pub static_bindings: Vec<(Box<str>, Box<str>)>,
    /// Claims for which a volume is provisioned (`DynamicProvisions`).
    pub provisions: Vec<Box<str>>,
}

impl Bindings {
    pub fn is_empty(&self) -> bool {
        self.static_bindings.is_empty() && self.provisions.is_empty()
    }
}

impl Storage {
    pub fn set_claim(&mut self, claim: &Value) {
        let (namespace, name, mut claim) = Claim::of(claim);
        let key = (namespace, name);
        claim.was_selected =
            claim.selected_node.is_some() || self.claims.get(&key).is_some_and(|old| old.was_selected);
        self.claims.insert(key, claim);
    }

    pub fn remove_claim(&mut self, namespace: &str, name: &str) {
        self.claims.remove(&(namespace.into(), name.into()));
    }

    pub fn set_volume(&mut self, volume: &Value) {
        let (name, volume) = Volume::of(volume);
        self.volumes.insert(name, volume);
    }

    pub fn remove_volume(&mut self, name: &str) {
        self.volumes.remove(name);
    }

    pub fn set_class(&mut self, class: &Value) {
        let (name, class) = StorageClass::of(class);
        self.classes.insert(name, class);
    }

    pub fn remove_class(&mut self, name: &str) {
        self.classes.remove(name);
    }

    pub fn add_pod(&mut self, pod: &Pod) {
        for claim in &pod.demand.claims {
            *self.users.entry((pod.namespace().clone(), claim.name.clone())).or_default() += 1;
        }
    }

    pub fn remove_pod(&mut self, pod: &Pod) {
        for claim in &pod.demand.claims {
            let key = (pod.namespace().clone(), claim.name.clone());
            if let Some(users) = self.users.get_mut(&key) {
                *users -= 1;
                if *users == 0 {
                    self.users.remove(&key);
                }
            }
        }
    }

    /// Whether a claim is bound.
    ///
    /// # Errors
    ///
    /// Provisioning for this node has failed.
    pub fn is_ready(&self, namespace: &Arc<str>, name: &str, node: &str) -> Result<bool, String> {
        let Some(claim) = self.claims.get(&(namespace.clone(), name.into())) else {
            return Err(format!("binding volumes: {}", not_found(name)));
        };
        let has_failed = !claim.is_bound
            && claim.was_selected
            && claim.selected_node.as_ref().is_none_or(|selected| **selected != *node);
        match has_failed {
            true => Err(format!("binding volumes: provisioning failed for PVC \"{name}\"")),
            false => Ok(claim.is_bound),
        }
    }

    /// Checks the claims of a Pod before any node is filtered.
    pub fn prefilter(&self, pod: &Pod) -> Result<PodClaims, PreFilterFailure> {
        let mut found = PodClaims::default();
        if pod.demand.claims.is_empty() {
            return Ok(found);
        }
        let reject = |plugin, message| Err(PreFilterFailure { plugin, message });
        let key = |name: &str| (pod.namespace().clone(), name.into());
        for reference in pod.demand.claims.iter().filter(|reference| !reference.is_ephemeral) {
            let key = key(&reference.name);
            let Some(claim) = self.claims.get(&key) else {
                return reject(Plugin::VolumeRestrictions, not_found(&reference.name));
            };
            if claim.access_modes.iter().any(|mode| &**mode == "ReadWriteOncePod") {
                found.in_use += i64::from(self.users.contains_key(&key));
                found.exclusive.push(reference.name.clone());
            }
        }
        for reference in &pod.demand.claims {
            let name = &reference.name;
            let message = match self.claims.get(&key(name)) {
                None if reference.is_ephemeral => {
                    format!(
                        "waiting for ephemeral volume controller to create the persistentvolumeclaim \"{name}\""
                    )
                }
                None => not_found(name),
                Some(claim) if claim.is_lost => format!(
                    "persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{}\"",
                    claim.volume
                ),
                Some(claim) if claim.is_terminating => {
                    format!("persistentvolumeclaim \"{name}\" is being deleted")
                }
                Some(claim) if reference.is_ephemeral && claim.owner.as_deref() != Some(&*pod.uid) => {
                    let namespace = pod.namespace();
                    format!(
                        "PVC {namespace}/{name} was not created for pod {namespace}/{} (pod is not owner)",
                        pod.name
                    )
                }
                Some(_) => continue,
            };
            return reject(Plugin::VolumeBinding, message);
        }
        for reference in &pod.demand.claims {
            let key = key(&reference.name);
            let Some(claim) = self.claims.get(&key) else { continue };
            if claim.is_bound {
                found.bound.push(key);
                continue;
            }
            let waits = self.classes.get(&claim.class).is_some_and(|class| class.waits_for_pod);
            if !waits || !claim.volume.is_empty() {
                let message = "pod has unbound immediate PersistentVolumeClaims".to_owned();
                return reject(Plugin::VolumeBinding, message);
            }
            found.waiting.push(key);
        }
        found.waiting.sort_by_cached_key(|key| self.claims.get(key).map(|claim| claim.size.clone()));
        for reference in pod.demand.claims.iter().filter(|reference| !reference.is_ephemeral) {
            let claim = self.claims.get(&key(&reference.name)).filter(|claim| !claim.volume.is_empty());
            let Some(claim) = claim else { continue };
            let Some(volume) = self.volumes.get(&claim.volume) else {
                return reject(
                    Plugin::VolumeZone,
                    format!("persistentvolume \"{}\" not found", claim.volume),
                );
            };
            found.zones.extend(volume.zones.iter().cloned());
        }
        Ok(found)
    }

    /// Returns the volume conflicts of a Pod on a node.
    pub fn conflict(&self, claims: &PodClaims, node: &Node) -> VolumeConflict {
        let mut conflict = VolumeConflict::default();
        for key in &claims.bound {
            let Some(claim) = self.claims.get(key) else { continue };
            match self.volumes.get(&claim.volume) {
                None => conflict.missing = true,
                Some(volume) if !volume.is_reachable_from(node) => conflict.unreachable = true,
                Some(_) => continue,
            }
            break;
        }
        conflict.none_to_bind = self.bindings(claims, node).is_none();
        conflict
    }

    /// Returns the bindings that a Pod needs on a node; `None` if they are not possible there.
    pub fn bindings(&self, claims: &PodClaims, node: &Node) -> Option<Bindings> {
        let mut bindings = Bindings::default();
        let mut chosen = HashSet::new();
        for key in &claims.waiting {
            let claim = self.claims.get(key)?;
            if let Some(selected) = &claim.selected_node {
                if **selected != *node.name {
                    return None;
                }
            } else if let Some(volume) = self.matching_volume(key, claim, node, &chosen) {
                chosen.insert(volume);
                bindings.static_bindings.push((key.1.clone(), volume.into()));
                continue;
            }
            if !self.classes.get(&claim.class).is_some_and(|class| class.can_make_volume_at(node)) {
                return None;
            }
            bindings.provisions.push(key.1.clone());
        }
        Some(bindings)
    }

    /// Returns the smallest volume that a claim can use on a node.
    fn matching_volume(
        &self,
        key: &Name,
        claim: &Claim,
        node: &Node,
        chosen: &HashSet<&str>,
    ) -> Option<&str> {
        let mut smallest: Option<(&str, &Volume)> = None;
        for (name, volume) in self.volumes.iter().map(|(name, volume)| (&**name, volume)) {
            let is_mine = volume.claim.as_ref().is_some_and(|owner| owner.is(&key.0, &key.1, &claim.uid));
            let fits = volume.class == claim.class
                && volume.capacity >= claim.size
                && volume.mode == claim.mode
                && volume.attributes == claim.attributes
                && !volume.is_terminating
                && !chosen.contains(name)
                && (is_mine || volume.claim.is_none());
            if !fits {
                continue;
            }
            let is_reachable = volume.is_reachable_from(node);
            if is_mine {
                return is_reachable.then_some(name);
            }
            let fits = is_reachable
                && volume.is_available
                && claim.selector.as_ref().is_none_or(|selector| volume.labels.selected_by(selector))
                && claim.access_modes.iter().all(|mode| volume.access_modes.contains(mode));
            let is_smaller =
                |other: &(&str, &Volume)| (&volume.capacity, name) < (&other.1.capacity, other.0);
            if fits && smallest.as_ref().is_none_or(is_smaller) {
                smallest = Some((name, volume));
            }
        }
        smallest.map(|(name, _)| name)
    }

    /// Assumes the bindings of a Pod, so that no other Pod uses the volumes.
    pub fn assume(&mut self, pod: &Pod, node: &Arc<str>, bindings: &Bindings) {
        for (claim, volume) in &bindings.static_bindings {
            let uid =
                self.claims.get(&(pod.namespace().clone(), claim.clone())).map(|claim| claim.uid.clone());
            if let (Some(volume), Some(uid)) = (self.volumes.get_mut(volume), uid) {
                volume.claim =
                    Some(objects::ClaimRef { namespace: pod.namespace().clone(), name: claim.clone(), uid });
            }
        }
        for claim in &bindings.provisions {
            if let Some(claim) = self.claims.get_mut(&(pod.namespace().clone(), claim.clone())) {
                claim.selected_node = Some(node.clone());
            }
        }
    }
}

impl PodClaims {
    /// Whether the node has zone labels that differ from those of the volumes.
    pub fn is_elsewhere(&self, node: &Node) -> bool {
        if self.zones.is_empty() || !objects::ZONES.iter().any(|key| node.labels.get(key).is_some()) {
            return false;
        }
        self.zones.iter().any(|(key, values)| {
            let own = node.labels.get(key).or_else(|| node.labels.get(objects::successor(key)));
            own.is_none_or(|own| !values.iter().any(|value| **value == **own))
        })
    }

    /// Returns how many claims with exclusive access another Pod uses.
    pub fn shared_with(&self, pod: &Pod, namespace: &Arc<str>) -> i64 {
        if self.exclusive.is_empty() || pod.namespace() != namespace {
            return 0;
        }
        pod.demand.claims.iter().filter(|claim| self.exclusive.contains(&claim.name)).count() as i64
    }

    pub fn is_empty(&self) -> bool {
        self.bound.is_empty() && self.waiting.is_empty()
    }
}

fn not_found(claim: &str) -> String {
    format!("persistentvolumeclaim \"{claim}\" not found")
}
