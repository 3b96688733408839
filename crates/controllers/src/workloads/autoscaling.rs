//! HorizontalPodAutoscalers: scales the target to the number of pods that its metrics call for.
//!
//! ```text
//!   every few seconds: scale of the target ─► metrics ─► usage (how many pods) ─► proposal (of all metrics)
//!                                                                                     │
//!        scale of the target, status, events ◄── behaviour (how fast, how far) ◄──────┘
//! ```
//!
//! Targets that are divided between clusters are scaled by the usage that the clusters report (`placed`, `merged`).

// upstream: pkg/controller/podautoscaler/horizontal.go

mod behaviour;
mod merged;
mod metrics;
mod placed;
mod proposal;
mod usage;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atoll_informer::{Cache, Key, Next, Queue, Recorder, Resource, resources};
use atoll_meta::time::Timestamp;
use atoll_meta::{LabelSelector, Status, object};
use serde_json::{Value, json};

use crate::context::Context;
use crate::shared::conditions;
use crate::workloads::scale;
use behaviour::{History, ScaleRequest};
use metrics::Metrics;
use placed::PlacedTargets;
use proposal::{Failure, ProposalResult};
use usage::{ReplicaCalculator, StartupDelays, Tolerance, fraction};

/// Number of autoscalers that are reconciled concurrently.
const WORKERS: usize = 5;
/// Number of attempts to write a scale that another writer keeps changing.
const ATTEMPTS: usize = 5;
/// Maximum number of metrics of an autoscaler that are evaluated.
const MAX_METRICS: usize = 100;
const ABLE: &str = "AbleToScale";
const ACTIVE: &str = "ScalingActive";
const LIMITED: &str = "ScalingLimited";

pub async fn run(context: Context) {
    let controller = Arc::new(Controller {
        autoscalers: context.informers.of(&resources::HORIZONTAL_POD_AUTOSCALERS),
        pods: context.informers.of(&resources::PODS),
        state: Mutex::default(),
        recorder: context.events.recorder("horizontal-pod-autoscaler"),
        placed: PlacedTargets::new(&context),
        context,
    });
    controller.autoscalers.synced().await;
    controller.pods.synced().await;
    if let Some(placed) = &controller.placed {
        placed.synced().await;
    }
    let queue = Queue::new();
    controller.autoscalers.listen({
        let (queue, is_handled) = (queue.clone(), controller.clone());
        move |change| {
            let spec = |object: &Option<Arc<Value>>| object.as_ref().map(|object| object["spec"].clone());
            if is_handled.handles(change.object()) && spec(&change.old) != spec(&change.new) {
                queue.add(change.key.clone());
            }
        }
    });
    queue
        .work("autoscalers", WORKERS, move |key| {
            let controller = controller.clone();
            async move { Ok(controller.sync(&key).await) }
        })
        .await;
}

struct Controller {
    autoscalers: Arc<Cache>,
    pods: Arc<Cache>,
    state: Mutex<HashMap<Key, AutoscalerState>>,
    recorder: Recorder,
    /// Targets whose pods are created in clusters, if there are any.
    placed: Option<PlacedTargets>,
    context: Context,
}

#[derive(Default)]
struct AutoscalerState {
    history: History,
    /// Selector of the target's pods.
    selector: Option<LabelSelector>,
}

/// State of one reconciliation of an autoscaler.
struct Reconciliation {
    key: Key,
    /// The autoscaler with the status that will be written.
    autoscaler: Value,
    now: Timestamp,
}

impl Reconciliation {
    fn set(&mut self, r#type: &str, status: bool, reason: &str, message: impl Into<String>) {
        let condition = json!({
            "type": r#type,
            "status": if status { "True" } else { "False" },
            "reason": reason,
            "message": message.into(),
        });
        conditions::set_in(&mut self.autoscaler, condition, &self.now.to_time());
    }

    fn set_counts(&mut self, current: i64, desired: i64, statuses: Option<Vec<Value>>, rescaled: bool) {
        let old = self.autoscaler["status"].take();
        let mut status = json!({"currentReplicas": current, "desiredReplicas": desired});
        status["currentMetrics"] = statuses.map_or(Value::Null, Value::from);
        for field in ["lastScaleTime", "conditions"] {
            if let Some(value) = old.get(field) {
                status[field] = value.clone();
            }
        }
        if rescaled {
            status["lastScaleTime"] = self.now.to_time().into();
        }
        self.autoscaler["status"] = status;
    }
}

/// Compares two statuses. A missing field equals one that is zero or empty.
fn is_same_status(one: &Value, other: &Value) -> bool {
    let set_fields = |status: &Value| -> Vec<(String, Value)> {
        let fields = status.as_object().into_iter().flatten();
        let is_set = |value: &Value| match value {
            Value::Null => false,
            Value::Array(values) => !values.is_empty(),
            value => *value != 0,
        };
        fields
            .filter(|(_, value)| is_set(value))
            .map(|(field, value)| (field.clone(), value.clone()))
            .collect()
    };
    set_fields(one) == set_fields(other)
}

impl Controller {
    fn state(&self) -> MutexGuard<'_, HashMap<Key, AutoscalerState>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the target of an autoscaler is scaled here, always or while it is divided between clusters.
    fn handles(&self, autoscaler: &Value) -> bool {
        self.placed.is_some() || self.context.manages(autoscaler)
    }

    async fn sync(&self, key: &Key) -> Next {
        let Some(autoscaler) = self.autoscalers.get(key).filter(|found| self.handles(found)) else {
            self.state().remove(key);
            return Next::Done;
        };
        if !self.context.manages(&autoscaler) {
            return self.sync_placed(key, autoscaler).await;
        }
        let reconciliation = self.begin(key, &autoscaler);
        self.finish(reconciliation, &autoscaler, None).await;
        Next::After(self.context.settings.horizontal_pod_autoscaler_sync_period)
    }

    fn begin(&self, key: &Key, autoscaler: &Value) -> Reconciliation {
        let now = self.context.clock.now();
        let mut reconciliation = Reconciliation { key: key.clone(), autoscaler: autoscaler.clone(), now };
        if !reconciliation.autoscaler["status"].is_object() {
            reconciliation.autoscaler["status"] = json!({});
        }
        reconciliation
    }

    /// Rescales the target and writes the status. `placed` is the target if it is placed on clusters.
    async fn finish(&self, mut reconciliation: Reconciliation, autoscaler: &Value, placed: Option<&Value>) {
        if let Err(problem) = self.scale(&mut reconciliation, placed).await {
            let key = &reconciliation.key;
            tracing::debug!(%problem, %key, "HorizontalPodAutoscaler could not be reconciled completely");
        }
        self.write_status(&reconciliation, autoscaler).await;
    }

    async fn write_status(&self, reconciliation: &Reconciliation, before: &Value) {
        if is_same_status(&reconciliation.autoscaler["status"], &before["status"]) {
            return;
        }
        let kind = &resources::HORIZONTAL_POD_AUTOSCALERS;
        match self.context.api().update_status(kind, &reconciliation.autoscaler).await {
            Ok(written) => self.autoscalers.wrote(&written),
            Err(status) if matches!(status.reason(), "NotFound" | "Conflict") => {}
            Err(status) => self.warn(reconciliation, "FailedUpdateStatus", status.message()),
        }
    }

    fn warn(&self, reconciliation: &Reconciliation, reason: &str, message: &str) {
        self.recorder.warning(
            &resources::HORIZONTAL_POD_AUTOSCALERS,
            &reconciliation.autoscaler,
            reason,
            message,
        );
    }

    /// Rescales the target. The error is also reported in events and conditions.
    async fn scale(&self, reconciliation: &mut Reconciliation, placed: Option<&Value>) -> Result<(), String> {
        let (resource, target, scale) = match self.target(reconciliation).await {
            Ok(found) => found,
            Err(problem) => {
                self.warn(reconciliation, "FailedGetScale", &problem);
                let message =
                    format!("the HPA controller was unable to get the target's current scale: {problem}");
                reconciliation.set(ABLE, false, "FailedGetScale", message);
                return Err(problem);
            }
        };
        let message = "the HPA controller was able to get the target's current scale";
        reconciliation.set(ABLE, true, "SucceededGetScale", message);
        let current = scale["spec"]["replicas"].as_i64().unwrap_or(0);
        self.state()
            .entry(reconciliation.key.clone())
            .or_default()
            .history
            .record_initial_recommendation(current, reconciliation.now);
        let spec = reconciliation.autoscaler["spec"].clone();
        let least = spec["minReplicas"].as_i64().unwrap_or(1);
        let most = spec["maxReplicas"].as_i64().unwrap_or(0);
        let mut problem = None;
        let mut statuses = None;
        let (desired, reason) = match () {
            () if current == 0 => {
                let message = "scaling is disabled since the replica count of the target is zero";
                reconciliation.set(ACTIVE, false, "ScalingDisabled", message);
                (0, String::new())
            }
            () if current > most => (most, "Current number of replicas above Spec.MaxReplicas".into()),
            () if current < least => (least, "Current number of replicas below Spec.MinReplicas".into()),
            () => {
                let proposals = match placed {
                    Some(target) => self.wanted_of_clusters(reconciliation, &spec, target, current),
                    None => self.wanted_of_pods(reconciliation, &spec, &scale, current).await,
                };
                let wanted = proposals.and_then(|proposals| {
                    self.combined(reconciliation, proposals, current, &mut statuses, &mut problem)
                });
                let (wanted, metric) = match wanted {
                    Ok(found) => found,
                    Err(problem) => {
                        let before =
                            reconciliation.autoscaler["status"]["desiredReplicas"].as_i64().unwrap_or(0);
                        reconciliation.set_counts(current, before, statuses, false);
                        self.warn(reconciliation, "FailedComputeMetricsReplicas", &problem);
                        return Err(problem);
                    }
                };
                let reason = match wanted.cmp(&current) {
                    Ordering::Greater => format!("{metric} above target"),
                    Ordering::Less => "All metrics below target".into(),
                    // No change by the metrics: the recommendations of the stabilization window decide.
                    Ordering::Equal => String::new(),
                };
                (
                    self.normalize(
                        reconciliation,
                        &spec,
                        ScaleRequest { current, desired: wanted, least, most },
                    ),
                    reason,
                )
            }
        };
        if desired == current {
            reconciliation.set_counts(current, current, statuses, false);
            return problem.map_or(Ok(()), Err);
        }
        let rescaled = match placed {
            Some(_) => self.rescale_placed(&resource, &target, &reconciliation.key, desired).await,
            None => self.rescale(&resource, &target, scale, desired).await,
        };
        if let Err(status) = rescaled {
            let error = status.message();
            let message = format!("New size: {desired}; reason: {reason}; error: {error}");
            self.warn(reconciliation, "FailedRescale", &message);
            let message = format!("the HPA controller was unable to update the target scale: {error}");
            reconciliation.set(ABLE, false, "FailedUpdateScale", message);
            let before = reconciliation.autoscaler["status"]["desiredReplicas"].as_i64().unwrap_or(0);
            reconciliation.set_counts(current, before, statuses, false);
            return Err(error.to_string());
        }
        let message = format!("the HPA controller was able to update the target scale to {desired}");
        reconciliation.set(ABLE, true, "SucceededRescale", message);
        let message = format!("New size: {desired}; reason: {reason}");
        let kind = &resources::HORIZONTAL_POD_AUTOSCALERS;
        self.recorder.normal(kind, &reconciliation.autoscaler, "SuccessfulRescale", message);
        let behaviour = &spec["behavior"];
        self.state().entry(reconciliation.key.clone()).or_default().history.store_scale_event(
            behaviour,
            current,
            desired,
            reconciliation.now,
        );
        reconciliation.set_counts(current, desired, statuses, true);
        problem.map_or(Ok(()), Err)
    }

    async fn target(&self, reconciliation: &Reconciliation) -> Result<(Resource, Key, Value), String> {
        let api = self.context.api();
        let reference = &reconciliation.autoscaler["spec"]["scaleTargetRef"];
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        let (kind, api_version) = (text("kind"), text("apiVersion"));
        let Some((group, _)) = object::split_api_version(api_version) else {
            return Err(format!("unexpected GroupVersion string: {api_version}"));
        };
        let resource = scale::resource_of_kind(api, &reconciliation.key.workspace, group, kind).await?;
        let target = reconciliation.key.sibling(text("name"));
        match scale::read(api, &resource, &target).await {
            Ok(mut scale) => {
                let selector_text = scale["status"]["selector"].as_str().unwrap_or_default();
                scale["status"]["selector"] = scale::plain_selector(selector_text)
                    .map_err(|problem| {
                        let error = "received an object from a /scale endpoint which was not convertible to autoscaling Scale";
                        format!("{error}: failed to parse target selector: {problem}")
                    })?
                    .into();
                Ok((resource, target, scale))
            }
            Err(status) => Err(status.message().to_string()),
        }
    }

    /// Returns the number of pods that each metric calls for.
    async fn wanted_of_pods(
        &self,
        reconciliation: &mut Reconciliation,
        spec: &Value,
        scale: &Value,
        current: i64,
    ) -> Result<Vec<ProposalResult>, String> {
        let selector_text = scale["status"]["selector"].as_str().unwrap_or_default();
        let selector = self.selector(reconciliation, selector_text)?;
        let mut pods = self.pods.list(&reconciliation.key.workspace, &reconciliation.key.namespace);
        pods.retain(|pod| selector.matches_labels(&object::label_map(pod)));
        self.check_ambiguous_selector(reconciliation, selector_text, selector, &pods)?;
        let settings = &self.context.settings;
        let tolerance = |rules: &Value| {
            fraction(&rules["tolerance"]).unwrap_or(settings.horizontal_pod_autoscaler_tolerance)
        };
        let rules = &spec["behavior"];
        let calculator = ReplicaCalculator {
            pods: &pods,
            current,
            tolerance: Tolerance { down: tolerance(&rules["scaleDown"]), up: tolerance(&rules["scaleUp"]) },
            start: StartupDelays {
                initialization: settings.horizontal_pod_autoscaler_cpu_initialization_period,
                readiness_delay: settings.horizontal_pod_autoscaler_initial_readiness_delay,
            },
            now: reconciliation.now,
        };
        let metrics = Metrics { api: self.context.api(), autoscaler: &reconciliation.key };
        let replicas = scale["status"]["replicas"].as_i64().unwrap_or(0);
        let mut proposals = Vec::new();
        for metric in spec["metrics"].as_array().into_iter().flatten().take(MAX_METRICS) {
            proposals.push(proposal::compute(&metrics, &calculator, metric, replicas, selector_text).await);
        }
        Ok(proposals)
    }

    /// Returns the number of pods that the metrics call for, and the metric that calls for it.
    fn combined(
        &self,
        reconciliation: &mut Reconciliation,
        proposals: Vec<ProposalResult>,
        current: i64,
        statuses: &mut Option<Vec<Value>>,
        problem: &mut Option<String>,
    ) -> Result<(i64, String), String> {
        for failure in proposals.iter().filter_map(|proposal| proposal.as_ref().err()) {
            let Failure { reason, problem, .. } = failure;
            self.warn(reconciliation, reason, problem);
        }
        let summary = proposal::combine(proposals, current);
        *statuses = Some(summary.statuses);
        match summary.outcome {
            Ok((replicas, metric)) => {
                let message =
                    format!("the HPA was able to successfully calculate a replica count from {metric}");
                reconciliation.set(ACTIVE, true, "ValidMetricFound", message);
                *problem = summary.problem;
                Ok((replicas, metric))
            }
            Err(failure) => {
                let message = format!("the HPA was unable to compute the replica count: {}", failure.problem);
                reconciliation.set(ACTIVE, false, failure.reason, message);
                Err(summary.problem.unwrap_or_default())
            }
        }
    }

    fn selector(
        &self,
        reconciliation: &mut Reconciliation,
        selector_text: &str,
    ) -> Result<LabelSelector, String> {
        if selector_text.is_empty() {
            let problem = "selector is required";
            self.warn(reconciliation, "SelectorRequired", problem);
            reconciliation.set(
                ACTIVE,
                false,
                "InvalidSelector",
                "the HPA target's scale is missing a selector",
            );
            return Err(problem.into());
        }
        LabelSelector::parse(selector_text).map_err(|problem| {
            let problem =
                format!("couldn't convert selector into a corresponding internal selector object: {problem}");
            self.warn(reconciliation, "InvalidSelector", &problem);
            reconciliation.set(ACTIVE, false, "InvalidSelector", problem.clone());
            problem
        })
    }

    /// Fails if another autoscaler selects the same pods.
    fn check_ambiguous_selector(
        &self,
        reconciliation: &mut Reconciliation,
        selector_text: &str,
        selector: LabelSelector,
        pods: &[Arc<Value>],
    ) -> Result<(), String> {
        let target = reconciliation.autoscaler["spec"]["scaleTargetRef"].clone();
        let autoscalers_of_pods: Vec<String> = {
            let mut state = self.state();
            state.entry(reconciliation.key.clone()).or_default().selector = Some(selector);
            let selects = |other: &Arc<Value>| {
                // An autoscaler that was not reconciled yet has no selector: compare its target.
                let selector = state.get(&Key::of(other)).and_then(|remembered| remembered.selector.as_ref());
                other["spec"]["scaleTargetRef"] == target
                    || selector
                        .is_some_and(|own| pods.iter().any(|pod| own.matches_labels(&object::label_map(pod))))
            };
            let all = self.autoscalers.list(&reconciliation.key.workspace, &reconciliation.key.namespace);
            let place = |other: &Arc<Value>| format!("{}/{}", object::namespace(other), object::name(other));
            all.iter().filter(|other| !pods.is_empty() && selects(other)).map(place).collect()
        };
        if autoscalers_of_pods.len() < 2 {
            return Ok(());
        }
        let problem = format!(
            "pods by selector {selector_text} are controlled by multiple HPAs: [{}]",
            autoscalers_of_pods.join(" ")
        );
        self.warn(reconciliation, "AmbiguousSelector", &problem);
        reconciliation.set(ACTIVE, false, "AmbiguousSelector", problem.clone());
        Err(problem)
    }

    fn normalize(&self, reconciliation: &mut Reconciliation, spec: &Value, request: ScaleRequest) -> i64 {
        let window = self.context.settings.horizontal_pod_autoscaler_downscale_stabilization;
        let decision = {
            let mut state = self.state();
            let history = &mut state.entry(reconciliation.key.clone()).or_default().history;
            history.normalize(request, &spec["behavior"], window, reconciliation.now)
        };
        reconciliation.set(ABLE, true, decision.able.0, decision.able.1);
        let (limited, reason, message) = decision.limited;
        reconciliation.set(LIMITED, limited, reason, message);
        decision.replicas
    }

    async fn rescale(
        &self,
        resource: &Resource,
        target: &Key,
        mut scale: Value,
        desired: i64,
    ) -> Result<(), Status> {
        let api = self.context.api();
        let mut outcome = Ok(());
        for _ in 0..ATTEMPTS {
            scale["spec"]["replicas"] = desired.into();
            outcome = match scale::write(api, resource, target, &scale).await {
                Err(status) if status.reason() == "Conflict" => Err(status),
                other => return other.map(drop),
            };
            scale = scale::read(api, resource, target).await?;
        }
        outcome
    }
}
