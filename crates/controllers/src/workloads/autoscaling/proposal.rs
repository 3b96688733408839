//! Computes the proposal of each metric of an autoscaler, and combines them.

// upstream: pkg/controller/podautoscaler/horizontal.go

use atoll_meta::quantity::{Format, Quantity};
use serde_json::{Value, json};

use super::merged::{CurrentReplicas, MergedPods};
use super::metrics::Metrics;
use super::usage::{ReplicaCalculator, amount};
use crate::shared::go_print;

/// Number of pods that a metric calls for.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    pub replicas: i64,
    /// The metric's description for messages.
    pub metric: String,
    /// The metric's entry in the autoscaler's status.
    pub status: Value,
}

/// Error of a metric for which no proposal could be computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub reason: &'static str,
    pub problem: String,
    /// The problem with the context that the error over all metrics adds.
    pub wrapped: String,
}

pub type ProposalResult = Result<Proposal, Failure>;

fn milli(value: i64, format: Format) -> Value {
    Quantity::from_millis(value, format).canonical().into()
}

/// Returns the quantity format of a resource.
fn format(resource: &str) -> Format {
    if resource == "memory" { Format::BinarySi } else { Format::DecimalSi }
}

/// Computes the proposal of one metric. `replicas` is the target's status.replicas; `selector` selects its
/// pods.
pub async fn compute(
    metrics: &Metrics<'_>,
    calculator: &ReplicaCalculator<'_>,
    spec: &Value,
    replicas: i64,
    selector: &str,
) -> ProposalResult {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let source = |field: &str| &spec[field];
    match spec["type"].as_str().unwrap_or_default() {
        "Resource" => {
            let source = source("resource");
            let name = text(&source["name"]);
            let found = of_resource(metrics, calculator, source, selector, "").await;
            found.map_err(|problem| Failure {
                reason: "FailedGetResourceMetric",
                wrapped: format!("failed to get {name} resource metric value: {problem}"),
                problem,
            })
        }
        "ContainerResource" => {
            let source = source("containerResource");
            let container = text(&source["container"]);
            let found = of_resource(metrics, calculator, source, selector, &container).await;
            found.map_err(|problem| Failure {
                reason: "FailedGetContainerResourceMetric",
                wrapped: format!("failed to get {container} container metric value: {problem}"),
                problem,
            })
        }
        "Pods" => of_pods(metrics, calculator, source("pods"), selector).await.map_err(|problem| Failure {
            reason: "FailedGetPodsMetric",
            wrapped: format!("failed to get pods metric value: {problem}"),
            problem,
        }),
        "Object" => {
            of_object(metrics, calculator, source("object"), replicas).await.map_err(|(problem, wrapped)| {
                Failure {
                    reason: "FailedGetObjectMetric",
                    wrapped: format!(
                        "failed to get object metric value: {}",
                        wrapped.unwrap_or_else(|| problem.clone())
                    ),
                    problem,
                }
            })
        }
        "External" => {
            let source = source("external");
            let name = text(&source["metric"]["name"]);
            external(metrics, calculator, source, replicas).await.map_err(|(problem, wrapped)| Failure {
                reason: "FailedGetExternalMetric",
                wrapped: format!(
                    "failed to get {name} external metric value: {}",
                    wrapped.unwrap_or_else(|| problem.clone())
                ),
                problem,
            })
        }
        other => {
            let problem = format!("unknown metric source type \"{other}\"");
            Err(Failure { reason: "InvalidMetricSourceType", wrapped: problem.clone(), problem })
        }
    }
}

async fn of_resource(
    metrics: &Metrics<'_>,
    calculator: &ReplicaCalculator<'_>,
    source: &Value,
    selector: &str,
    container: &str,
) -> Result<Proposal, String> {
    let resource = source["name"].as_str().unwrap_or_default();
    let target = &source["target"];
    let by_average = amount(&target["averageValue"]);
    let by_utilization = target["averageUtilization"].as_i64();
    let measure = if by_average.is_some() { "usage" } else { "utilization" };
    if by_average.is_none() && by_utilization.is_none() {
        return Err("invalid resource metric source: neither an average utilization target nor an average value (usage) target was set".into());
    }
    let samples = metrics.of_resource(resource, selector, container).await.map_err(|problem| {
        format!(
            "failed to get {resource} {measure}: unable to get metrics for resource {resource}: {problem}"
        )
    })?;
    let failed = |problem: String| format!("failed to get {resource} {measure}: {problem}");
    let (replicas, metric, current) = match (by_average, by_utilization) {
        (Some(average), _) => {
            let (replicas, usage) = calculator.by_average(samples, average, resource).map_err(failed)?;
            let current = json!({"averageValue": milli(usage, format(resource))});
            (replicas, format!("{resource} resource"), current)
        }
        (None, part) => {
            let (replicas, part, usage) = calculator
                .by_utilization(samples, part.unwrap_or_default(), resource, container)
                .map_err(failed)?;
            let current = json!({"averageUtilization": part, "averageValue": milli(usage, format(resource))});
            let of = if container.is_empty() { "resource" } else { "container resource" };
            (replicas, format!("{resource} {of} utilization (percentage of request)"), current)
        }
    };
    let status = match container {
        "" => json!({"type": "Resource", "resource": {"name": resource, "current": current}}),
        container => json!({
            "type": "ContainerResource",
            "containerResource": {"name": resource, "container": container, "current": current},
        }),
    };
    Ok(Proposal { replicas, metric, status })
}

/// Computes the proposal of one metric of a target that is placed on several clusters. `pods` has the usage of a
/// resource in all of them; clusters report no other metrics.
pub fn of_clusters(
    spec: &Value,
    pods: &dyn Fn(&str) -> MergedPods,
    current: CurrentReplicas,
) -> ProposalResult {
    let refusal = |reason: &'static str, kind: &str, hint: &str| {
        let problem = format!(
            "metrics of type {kind} are not supported for a target that is divided between clusters: clusters report the CPU and memory of whole pods; {hint}"
        );
        Err(Failure { reason, wrapped: problem.clone(), problem })
    };
    let hint = "use a metric of type Resource, or place the target on one cluster";
    match spec["type"].as_str().unwrap_or_default() {
        "Resource" => {}
        "ContainerResource" => {
            return refusal("ContainerResourceMetricNotSupported", "ContainerResource", hint);
        }
        "Pods" => return refusal("PodsMetricNotSupported", "Pods", hint),
        "Object" => return refusal("ObjectMetricNotSupported", "Object", hint),
        "External" => return refusal("ExternalMetricNotSupported", "External", hint),
        other => {
            let problem = format!("unknown metric source type \"{other}\"");
            return Err(Failure { reason: "InvalidMetricSourceType", wrapped: problem.clone(), problem });
        }
    }
    let source = &spec["resource"];
    let resource = source["name"].as_str().unwrap_or_default();
    let failure = |problem: String| Failure {
        reason: "FailedGetResourceMetric",
        wrapped: format!("failed to get {resource} resource metric value: {problem}"),
        problem,
    };
    let target = &source["target"];
    let pods = pods(resource);
    let (replicas, metric, current) = match (amount(&target["averageValue"]), &target["averageUtilization"]) {
        (Some(average), _) => {
            let failed = |problem| failure(format!("failed to get {resource} usage: {problem}"));
            let (replicas, usage) = pods.by_average(average.max(1), current).map_err(failed)?;
            let value = json!({"averageValue": milli(usage, format(resource))});
            (replicas, format!("{resource} resource"), value)
        }
        (None, part) => {
            let failed = |problem| failure(format!("failed to get {resource} utilization: {problem}"));
            let target = part.as_i64().ok_or_else(|| failed("no target was set".to_string()))?;
            let (replicas, part, usage) =
                pods.by_utilization(target.max(1), resource, current).map_err(failed)?;
            let value = json!({"averageUtilization": part, "averageValue": milli(usage, format(resource))});
            (replicas, format!("{resource} resource utilization (percentage of request)"), value)
        }
    };
    let status = json!({"type": "Resource", "resource": {"name": resource, "current": current}});
    Ok(Proposal { replicas, metric, status })
}

/// Returns name and selector of a metric for the status.
fn identity(metric: &Value) -> Value {
    let mut identity = json!({"name": metric["name"]});
    if let Some(selector) = metric.get("selector") {
        identity["selector"] = selector.clone();
    }
    identity
}

async fn of_pods(
    metrics: &Metrics<'_>,
    calculator: &ReplicaCalculator<'_>,
    source: &Value,
    selector: &str,
) -> Result<Proposal, String> {
    let metric = &source["metric"];
    let name = metric["name"].as_str().unwrap_or_default();
    let samples = metrics
        .of_pods(name, selector, &metric["selector"])
        .await
        .map_err(|problem| format!("unable to get metric {name}: {problem}"))?;
    let target = amount(&source["target"]["averageValue"]).unwrap_or_default();
    let (replicas, usage) = calculator.by_average(samples, target, "")?;
    let current = json!({"averageValue": milli(usage, Format::DecimalSi)});
    let status = json!({"type": "Pods", "pods": {"metric": identity(metric), "current": current}});
    Ok(Proposal { replicas, metric: format!("pods metric {name}"), status })
}

/// A problem, and its text in the error over all metrics if that differs.
type Wrapped = (String, Option<String>);

async fn of_object(
    metrics: &Metrics<'_>,
    calculator: &ReplicaCalculator<'_>,
    source: &Value,
    replicas: i64,
) -> Result<Proposal, Wrapped> {
    let (metric, target, described) = (&source["metric"], &source["target"], &source["describedObject"]);
    let name = metric["name"].as_str().unwrap_or_default();
    let text = |field: &str| described[field].as_str().unwrap_or_default();
    let get = async {
        metrics.of_object(name, described, &metric["selector"]).await.map_err(|problem| {
            // Upstream has its arguments in this order, too.
            let namespace = &metrics.autoscaler.namespace;
            format!("unable to get metric {name}: {} on {namespace} {}/{problem}", text("kind"), text("name"))
        })
    };
    let status = |current: Value| {
        let object = json!({"metric": identity(metric), "current": current, "describedObject": described});
        json!({"type": "Object", "object": object})
    };
    match (target["type"].as_str(), amount(&target["value"]), amount(&target["averageValue"])) {
        (Some("Value"), Some(value), _) => {
            let plain = |problem| (problem, None);
            let usage = get.await.map_err(plain)?;
            Ok(Proposal {
                replicas: calculator.by_value(usage, value).map_err(plain)?,
                metric: format!("{} metric {name}", text("kind")),
                status: status(json!({"value": milli(usage, Format::DecimalSi)})),
            })
        }
        (Some("AverageValue"), _, Some(average)) => {
            let usage = get.await.map_err(|problem| {
                let wrapped = format!("failed to get {name} object metric: {problem}");
                (problem, Some(wrapped))
            })?;
            let (replicas, share) = calculator.by_average_of_total(usage, average, replicas);
            Ok(Proposal {
                replicas,
                metric: format!("external metric {name}({})", go_print::label_selector(&metric["selector"])),
                status: status(json!({"averageValue": milli(share, Format::DecimalSi)})),
            })
        }
        _ => {
            let problem =
                "invalid object metric source: neither a value target nor an average value target was set";
            Err((problem.into(), None))
        }
    }
}

async fn external(
    metrics: &Metrics<'_>,
    calculator: &ReplicaCalculator<'_>,
    source: &Value,
    replicas: i64,
) -> Result<Proposal, Wrapped> {
    let (metric, target) = (&source["metric"], &source["target"]);
    let name = metric["name"].as_str().unwrap_or_default();
    let printed = go_print::label_selector(&metric["selector"]);
    let get = async {
        let values = metrics.external(name, &metric["selector"]).await.map_err(|problem| {
            format!(
                "unable to get external metric {}/{name}/{printed}: {problem}",
                metrics.autoscaler.namespace
            )
        })?;
        Ok(values.into_iter().fold(0, i64::saturating_add))
    };
    let status = |current: Value| json!({"type": "External", "external": {"metric": identity(metric), "current": current}});
    let description = format!("external metric {name}({printed})");
    match (amount(&target["averageValue"]), amount(&target["value"])) {
        (Some(average), _) => {
            let usage: i64 = get.await.map_err(|problem: String| {
                let wrapped = format!("failed to get {name} external metric: {problem}");
                (problem, Some(wrapped))
            })?;
            let (replicas, share) = calculator.by_average_of_total(usage, average, replicas);
            Ok(Proposal {
                replicas,
                metric: description,
                status: status(json!({"averageValue": milli(share, Format::DecimalSi)})),
            })
        }
        (None, Some(value)) => {
            let wrap = |problem: String| {
                let wrapped = format!("failed to get external metric {name}: {problem}");
                (problem, Some(wrapped))
            };
            let usage: i64 = get.await.map_err(wrap)?;
            Ok(Proposal {
                replicas: calculator.by_value(usage, value).map_err(wrap)?,
                metric: description,
                status: status(json!({"value": milli(usage, Format::DecimalSi)})),
            })
        }
        (None, None) => {
            let problem =
                "invalid external metric source: neither a value target nor an average value target was set";
            Err((problem.into(), None))
        }
    }
}

/// Combined proposal of all metrics: the highest count. If some metrics failed, the count is never below the
/// current one.
#[derive(Debug, PartialEq)]
pub struct Summary {
    /// The number of pods and the metric that calls for it, or the first failure.
    pub outcome: Result<(i64, String), Failure>,
    /// Error over the metrics that failed.
    pub problem: Option<String>,
    pub statuses: Vec<Value>,
}

pub fn combine(proposals: Vec<ProposalResult>, current: i64) -> Summary {
    let all = proposals.len();
    let (mut best, mut first, mut failures): (Option<(i64, String)>, Option<Failure>, usize) =
        (None, None, 0);
    let mut statuses = Vec::with_capacity(all);
    for metric in proposals {
        match metric {
            Ok(proposal) => {
                statuses.push(proposal.status);
                if best.as_ref().is_none_or(|(most, _)| *most == 0 || proposal.replicas > *most) {
                    best = Some((proposal.replicas, proposal.metric));
                }
            }
            Err(failure) => {
                statuses.push(json!({"type": ""}));
                failures += 1;
                first.get_or_insert(failure);
            }
        }
    }
    let problem = first.as_ref().map(|failure| {
        format!("invalid metrics ({failures} invalid out of {all}), first error is: {}", failure.wrapped)
    });
    let outcome = match (best, first) {
        (Some((replicas, _)), Some(failure)) if replicas < current => Err(failure),
        (Some(best), _) => Ok(best),
        (None, Some(failure)) => Err(failure),
        (None, None) => Ok((0, String::new())),
    };
    Summary { outcome, problem, statuses }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposal(replicas: i64) -> ProposalResult {
        Ok(Proposal { replicas, metric: format!("m{replicas}"), status: json!({"type": "Pods"}) })
    }

    fn failure(wrapped: &str) -> ProposalResult {
        Err(Failure { reason: "FailedGetPodsMetric", problem: "p".into(), wrapped: wrapped.into() })
    }

    #[test]
    fn highest_proposal_wins_unless_a_metric_failed() {
        let unknown = |count: usize, of: usize| {
            Some(format!("invalid metrics ({count} invalid out of {of}), first error is: a"))
        };
        for (proposals, expected, problem) in [
            (vec![proposal(3), proposal(7), proposal(5)], Some(7), None),
            (vec![proposal(7), failure("a")], Some(7), unknown(1, 2)),
            (vec![failure("a"), proposal(4)], None, unknown(1, 2)),
            (vec![failure("a"), failure("b")], None, unknown(2, 2)),
        ] {
            let summary = combine(proposals, 5);
            assert_eq!(summary.outcome.ok().map(|(replicas, _)| replicas), expected);
            assert_eq!(summary.problem, problem);
        }
    }
}
