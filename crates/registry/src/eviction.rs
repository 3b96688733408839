//! The eviction subresource, which deletes a Pod if its disruption budget allows it.

// upstream: pkg/registry/core/pod/storage/eviction.go

use std::sync::Arc;

use atoll_merge::apply::Author;
use atoll_meta::{LabelSelector, Status, object};
use atoll_watch::Object;
use serde_json::{Map, Value, json};

use crate::blocking::Stage;
use crate::delete::DeleteOptions;
use crate::modify::{Limits, Preconditions, set_condition};
use crate::row::{ObjectRef, Row};
use crate::{NoAdmission, Registry, parse, reset_fields};

const WOULD_VIOLATE: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
const CAUSE: &str = "DisruptionBudget";
/// Maximum number of evictions that the disruption controller has not confirmed yet.
const UNCONFIRMED: usize = 2000;
/// Number of attempts when the Pod changes concurrently.
const ATTEMPTS: usize = 20;

impl Registry {
    pub async fn evict(
        &self,
        pods: &Row,
        object_ref: &ObjectRef<'_>,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        let mut outcome = Ok(());
        for _ in 0..ATTEMPTS {
            outcome = self.try_evict(pods, object_ref, options).await;
            let changed = matches!(&outcome, Err(status) if status.reason() == "Conflict");
            if !changed || options.resource_version.is_some() {
                break;
            }
        }
        outcome
    }

    async fn try_evict(
        &self,
        pods: &Row,
        object_ref: &ObjectRef<'_>,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        let pod = parse(&self.get(pods, object_ref)?.json())?;
        let phase = pod["status"]["phase"].as_str().unwrap_or_default();
        let ending = matches!(phase, "Succeeded" | "Failed") || object::is_being_deleted(&pod);
        let guard = match () {
            () if ending => Guard::None,
            // The Pod is pending, so it may be evicted, but only while that is so.
            () if phase == "Pending" => Guard::Unchanged,
            () => self.take_from_budget(&pod, object_ref, options.dry_run).await?,
        };
        let mut options = options.clone();
        let own_revision = object::resource_version(&pod).to_string();
        if guard == Guard::Unchanged && options.resource_version.is_none() {
            options.resource_version = Some(own_revision);
        }
        if !options.dry_run {
            let expected = Preconditions {
                uid: options.uid.as_deref().unwrap_or_default(),
                resource_version: options.resource_version.as_deref().unwrap_or_default(),
            };
            let now = self.now();
            let announce = |pod: &mut Value| {
                let condition = json!({
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "EvictionByEvictionAPI",
                    "message": "Eviction API: evicting",
                    "lastProbeTime": null,
                });
                set_condition(pod, condition, &now);
                Ok(())
            };
            let marked = self.modify(pods, object_ref, expected, Limits::Count, false, &announce).await?;
            if options.resource_version.is_some() {
                options.resource_version = Some(object::resource_version(&marked).to_string());
            }
        }
        self.delete(pods, object_ref, &options, &NoAdmission).await.map(drop)
    }

    /// Takes one disruption from the budget of a running Pod.
    async fn take_from_budget(
        &self,
        pod: &Value,
        object_ref: &ObjectRef<'_>,
        dry_run: bool,
    ) -> Result<Guard, Status> {
        let Some(row) = self.catalog.stored("policy", "poddisruptionbudgets").cloned() else {
            return Ok(Guard::None);
        };
        let (snapshot, scope) =
            (self.snapshot(), row.scope(Some(object_ref.workspace), object_ref.namespace));
        let all: Vec<Arc<Object>> = snapshot.list(&scope, None).collect();
        let size = all.iter().map(|budget| budget.size()).sum();
        let find = || budgets_of(pod, &all);
        let mut budgets = self.run_sized(object_ref.workspace, size, Stage::Started, find).await??;
        let Some(budget) = budgets.pop() else { return Ok(Guard::None) };
        if !budgets.is_empty() {
            let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(Status::plain_internal(message));
        }
        if !is_ready(pod) {
            let count = |name: &str| budget["status"][name].as_i64().unwrap_or(0);
            let enough = count("desiredHealthy") > 0 && count("currentHealthy") >= count("desiredHealthy");
            if budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow" || enough {
                return Ok(Guard::Unchanged);
            }
        }
        let name = object::name(&budget).to_string();
        let now = self.now();
        let resets = reset_fields::of(&row, "status");
        let author = Author { manager: "kube-apiserver", subresource: "status", time: &now, resets };
        let take = |budget: &mut Value| {
            let before = budget.clone();
            take_disruption(budget, object_ref.name, &now)?;
            row.managed.record(&before, budget, &author);
            Ok(())
        };
        let budget_ref = ObjectRef { name: &name, ..*object_ref };
        self.modify(&row, &budget_ref, Preconditions::default(), Limits::Count, dry_run, &take).await?;
        Ok(Guard::None)
    }
}

/// The budgets whose selector matches this Pod.
fn budgets_of(pod: &Value, all: &[Arc<Object>]) -> Result<Vec<Value>, Status> {
    let mut found = Vec::new();
    for object in all {
        let budget = parse(&object.json())?;
        let Some(selector) = budget["spec"].get("selector") else { continue };
        let selects = LabelSelector::from_object(selector)
            .is_ok_and(|selector| selector.matches_labels(&object::label_map(pod)));
        if selects {
            found.push(budget);
        }
    }
    Ok(found)
}

/// The precondition of the deletion.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Guard {
    None,
    /// The Pod has not changed since it was read.
    Unchanged,
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|own| own["type"] == "Ready" && own["status"] == "True")
}

fn take_disruption(budget: &mut Value, pod: &str, now: &str) -> Result<(), Status> {
    let name = object::name(budget).to_string();
    let status = &budget["status"];
    let count = |field: &str| status[field].as_i64().unwrap_or(0);
    let refused = |message: &str| Status::forbidden("policy", "poddisruptionbudget", &name, message);
    if count("observedGeneration") < object::generation(budget) {
        let message = format!("The disruption budget {name} is still being processed by the server.");
        return Err(Status::too_many_requests(WOULD_VIOLATE, 10).with_cause(CAUSE, message, ""));
    }
    let allowed = count("disruptionsAllowed");
    if allowed < 0 {
        return Err(refused("pdb disruptions allowed is negative"));
    }
    if status["disruptedPods"].as_object().is_some_and(|pods| pods.len() > UNCONFIRMED) {
        return Err(refused(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ));
    }
    if allowed == 0 {
        let message = refusal_message(budget, &name);
        return Err(Status::too_many_requests(WOULD_VIOLATE, 0).with_cause(CAUSE, message, ""));
    }
    let observed = count("observedGeneration");
    budget["status"]["disruptionsAllowed"] = (allowed - 1).into();
    if allowed == 1 {
        let mut condition = json!({
            "type": "DisruptionAllowed",
            "status": "False",
            "reason": "InsufficientPods",
            "message": "",
        });
        if observed != 0 {
            condition["observedGeneration"] = observed.into();
        }
        set_condition(budget, condition, now);
    }
    let disrupted = &mut budget["status"]["disruptedPods"];
    if !disrupted.is_object() {
        *disrupted = Value::Object(Map::new());
    }
    disrupted[pod] = now.into();
    Ok(())
}

/// The reason why a budget allows no disruption.
fn refusal_message(budget: &Value, name: &str) -> String {
    let count = |field: &str| budget["status"][field].as_i64().unwrap_or(0);
    let conditions = budget["status"]["conditions"].as_array();
    let condition = conditions.into_iter().flatten().find(|own| own["type"] == "DisruptionAllowed");
    let text = |field: &str| condition.and_then(|own| own[field].as_str()).unwrap_or_default();
    let has_message = text("status") == "False" && !text("message").is_empty();
    let (desired, current) = (count("desiredHealthy"), count("currentHealthy"));
    let not_now = format!("The disruption budget {name} does not allow evicting pods currently");
    match () {
        () if has_message && text("reason") == "SyncFailed" => {
            format!("{not_now} because it failed sync: {}", text("message"))
        }
        () if current <= desired => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {current} currently")
        }
        () if has_message => format!("{not_now} ({}): {}", text("reason"), text("message")),
        () => not_now,
    }
}
