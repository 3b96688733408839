//! Decides which claims and volumes are managed here, where only some workloads have their pods created here.

use std::sync::Arc;

use atoll_informer::Key;
use atoll_meta::object;
use serde_json::Value;

use super::Controller;
use super::claims::BOUND_BY_CONTROLLER;
use crate::context::WorkloadScope;
use crate::shared::pods;

impl Controller {
    /// Whether a claim is managed here. Pods that were created here get their volumes here, whatever the
    /// grain of the claim.
    pub(super) fn manages_claim(&self, claim: &Value) -> bool {
        let is_used = || {
            let pods = self.pods.by_index(self.by_claim, &Key::of(claim).to_string());
            pods.iter().any(|pod| !pods::is_terminal(pod))
        };
        self.context.manages(claim) || is_used()
    }

    /// Whether a volume is managed here: because of its claim, or because a pending claim could use it.
    pub(super) fn manages_volume(&self, volume: &Value, claim: Option<&Value>) -> bool {
        self.context.workloads == WorkloadScope::All
            || object::annotation(volume, BOUND_BY_CONTROLLER).is_some()
            || match claim {
                Some(claim) => self.manages_claim(claim),
                // Only a controller that binds here writes the uid of the claim.
                None if volume["spec"]["claimRef"]["uid"].is_string() => true,
                None => self.context.manages(volume) || self.is_wanted(volume),
            }
    }

    fn is_wanted(&self, volume: &Value) -> bool {
        let waiting = || self.claims.by_index(self.unbound, &Key::of(volume).workspace);
        volume["spec"]["claimRef"].is_null() && waiting().iter().any(|claim| self.manages_claim(claim))
    }

    /// Enqueues unmanaged volumes, which a pending claim may need now.
    pub(super) fn enqueue_unmanaged_volumes(&self, workspace: &str) {
        if self.context.workloads == WorkloadScope::PodGrain {
            let free = |volume: &&Arc<Value>| {
                volume["spec"]["claimRef"].is_null() && volume["status"]["phase"] != "Available"
            };
            for volume in self.volumes.list(workspace, "").iter().filter(free) {
                self.volume_queue.add(Key::of(volume));
            }
        }
    }
}
