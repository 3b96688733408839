//! Whose claims and volumes are looked after here, where only some namespaces have their pods made here.

use std::sync::Arc;

use atoll_informer::Key;
use atoll_meta::object;
use serde_json::Value;

use super::Controller;
use super::claims::BOUND_BY_CONTROLLER;
use crate::context::Acts;
use crate::pods;

impl Controller {
    /// Pods that were made here get their volumes here, whatever their namespace says.
    pub(super) fn serves(&self, claim: &Value) -> bool {
        let is_used = || {
            let pods = self.pods.found(self.by_claim, &Key::of(claim).to_string());
            pods.iter().any(|pod| !pods::is_terminal(pod))
        };
        self.context.acts_on(claim) || is_used()
    }

    /// Volumes are looked after for their claims, and free ones for claims that wait.
    pub(super) fn looks_after(&self, volume: &Value, claim: Option<&Value>) -> bool {
        self.context.acts == Acts::Everywhere
            || object::annotation(volume, BOUND_BY_CONTROLLER).is_some()
            || match claim {
                Some(claim) => self.serves(claim),
                // Only who binds here knows the uid of the claim.
                None if volume["spec"]["claimRef"]["uid"].is_string() => true,
                None => self.context.acts_on(volume) || self.is_wanted(volume),
            }
    }

    fn is_wanted(&self, volume: &Value) -> bool {
        let waiting = || self.claims.found(self.unbound, &Key::of(volume).workspace);
        volume["spec"]["claimRef"].is_null() && waiting().iter().any(|claim| self.serves(claim))
    }

    /// Volumes that nobody has looked after may be wanted now.
    pub(super) fn offer(&self, workspace: &str) {
        if self.context.acts == Acts::OnPodGrain {
            let free = |volume: &&Arc<Value>| {
                volume["spec"]["claimRef"].is_null() && volume["status"]["phase"] != "Available"
            };
            for volume in self.volumes.list(workspace, "").iter().filter(free) {
                self.volume_queue.add(Key::of(volume));
            }
        }
    }
}
