//! Executes the plan, and records events.

// upstream: pkg/controller/statefulset/stateful_pod_control.go

use std::sync::Arc;

use atoll_informer::{DeleteOptions, Key, resources};
use atoll_meta::{Status, object};
use serde_json::Value;

use super::Controller;
use super::reconcile::{Claims, Counts, Plan, PodStep};
use crate::shared::pods::slow_start_batch;

impl Controller {
    pub(super) async fn execute(
        self: &Arc<Self>,
        set: &Arc<Value>,
        plan: Plan,
        counts: &mut Counts,
    ) -> Result<(), Status> {
        for phase in plan.phases {
            match plan.parallel {
                true => self.parallel(set, phase).await?,
                false => {
                    for step in phase.into_iter().flatten() {
                        self.execute_step(set, step).await?;
                    }
                }
            }
        }
        if let Some(pod) = plan.outdated {
            self.delete(set, &pod).await?;
            counts.current -= 1;
        }
        Ok(())
    }

    async fn parallel(self: &Arc<Self>, set: &Arc<Value>, phase: Vec<Vec<PodStep>>) -> Result<(), Status> {
        let phase = Arc::new(phase);
        let (_, outcome) = slow_start_batch(phase.len(), |slot| {
            let (controller, set, phase) = (self.clone(), set.clone(), phase.clone());
            async move {
                for step in &phase[slot] {
                    controller.execute_step(&set, step.clone()).await?;
                }
                Ok(())
            }
        })
        .await;
        outcome
    }

    async fn execute_step(&self, set: &Value, step: PodStep) -> Result<(), Status> {
        match step {
            PodStep::Create(pod, claims) => self.create(set, &pod, claims).await,
            PodStep::CreateClaims(pod, claims) => {
                self.create_claims(set, &pod, &claims).await?;
                let outcome = self.update_claim_owners(set, &claims).await;
                outcome.inspect_err(|status| self.record_pod_event(set, "Update", &pod, Some(status)))
            }
            PodStep::Update(pod, claims) => {
                let outcome = self.update(set, &pod, claims).await;
                self.record_pod_event(set, "Update", &pod, outcome.as_ref().err());
                outcome
            }
            PodStep::UpdateClaimOwners(_, claims) => self.update_claim_owners(set, &claims).await,
            PodStep::Delete(pod) => self.delete(set, &pod).await,
        }
    }

    async fn create(&self, set: &Value, pod: &Value, claims: Claims) -> Result<(), Status> {
        let provided = self.create_claims(set, pod, &claims).await;
        provided.inspect_err(|status| self.record_pod_event(set, "Create", pod, Some(status)))?;
        let slot = Key::of(set);
        let created = self.api.create(&resources::PODS, &slot.workspace, &slot.namespace, pod).await;
        match &created {
            Ok(created) => self.pods.wrote(created),
            // Another pod has the name, or the cache has not seen this one yet.
            Err(status) if status.reason() == "AlreadyExists" => return created.map(drop),
            Err(_) => {}
        }
        let ownership = self.update_claim_owners(set, &claims).await;
        ownership.inspect_err(|status| self.record_pod_event(set, "Update", pod, Some(status)))?;
        self.record_pod_event(set, "Create", pod, created.as_ref().err());
        created.map(drop)
    }

    async fn update(&self, set: &Value, pod: &Value, claims: Claims) -> Result<(), Status> {
        self.create_claims(set, pod, &claims).await?;
        self.update_claim_owners(set, &claims).await?;
        let updated = self.api.update(&resources::PODS, pod).await?;
        self.pods.wrote(&updated);
        Ok(())
    }

    pub(super) async fn delete(&self, set: &Value, pod: &Value) -> Result<(), Status> {
        let (key, uid) = (Key::of(pod), object::uid(pod));
        let options = DeleteOptions { uid: Some(uid), ..DeleteOptions::default() };
        match self.api.delete(&resources::PODS, &key, options).await {
            Err(status) if status.reason() != "NotFound" => {
                self.record_pod_event(set, "Delete", pod, Some(&status));
                Err(status)
            }
            _ => {
                self.pods.deleting(&key, uid);
                self.record_pod_event(set, "Delete", pod, None);
                Ok(())
            }
        }
    }

    /// Creates the volume claims of a pod. Tries all of them.
    async fn create_claims(&self, set: &Value, pod: &Value, claims: &Claims) -> Result<(), Status> {
        let (slot, mut failures) = (Key::of(set), Vec::new());
        for claim in &claims.create {
            let resource = &resources::PERSISTENT_VOLUME_CLAIMS;
            let created = self.api.create(resource, &slot.workspace, &slot.namespace, claim).await;
            if let Ok(created) = &created {
                self.claims.wrote(created);
            }
            let error = created.as_ref().err();
            if error.is_none_or(|status| status.reason() != "AlreadyExists") {
                self.record_claim_event(set, pod, claim, error);
            }
            if let Some(status) = error {
                failures.push(format!("failed to create PVC {}: {status}", object::name(claim)));
            }
        }
        failures.extend(claims.terminating.iter().map(|name| format!("pvc {name} is being deleted")));
        match failures.as_slice() {
            [] => Ok(()),
            [one] => Err(Status::plain_internal(one.clone())),
            many => Err(Status::plain_internal(format!("[{}]", many.join(", ")))),
        }
    }

    /// Sets the owners of volume claims.
    async fn update_claim_owners(&self, set: &Value, claims: &Claims) -> Result<(), Status> {
        for name in &claims.conflicting {
            let message = format!(
                "PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a manging controller, \
                 the retention policy is ignored for this claim"
            );
            self.recorder.warning(&resources::STATEFUL_SETS, set, "ConflictingController", message);
        }
        for claim in &claims.update {
            match self.api.update(&resources::PERSISTENT_VOLUME_CLAIMS, claim).await {
                Ok(updated) => self.claims.wrote(&updated),
                Err(status) => {
                    let name = object::name(claim);
                    let message =
                        format!("could not update claim {name} for delete policy ownerRefs: {status}");
                    return Err(status.with_message(message));
                }
            }
        }
        Ok(())
    }

    fn record_pod_event(&self, set: &Value, verb: &str, pod: &Value, error: Option<&Status>) {
        let subject = format!("{verb} Pod {} in StatefulSet {}", object::name(pod), object::name(set));
        self.record(set, verb, error, |outcome| format!("{subject} {outcome}"), "successful");
    }

    fn record_claim_event(&self, set: &Value, pod: &Value, claim: &Value, error: Option<&Status>) {
        let (claim, pod, name) = (object::name(claim), object::name(pod), object::name(set));
        let joint = if error.is_none() { "" } else { "for " };
        let subject = format!("Create Claim {claim} {joint}Pod {pod} in StatefulSet {name}");
        self.record(set, "Create", error, |outcome| format!("{subject} {outcome}"), "success");
    }

    fn record(
        &self,
        set: &Value,
        verb: &str,
        error: Option<&Status>,
        message: impl Fn(&str) -> String,
        success: &str,
    ) {
        let kind = &resources::STATEFUL_SETS;
        match error {
            None => self.recorder.normal(kind, set, &format!("Successful{verb}"), message(success)),
            Some(status) => {
                let message = message(&format!("failed error: {status}"));
                self.recorder.warning(kind, set, &format!("Failed{verb}"), message);
            }
        }
    }
}
