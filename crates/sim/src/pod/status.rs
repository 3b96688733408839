//! The status of a pod, as kubelets write it.

// upstream: pkg/kubelet/status/generate.go
// upstream: pkg/kubelet/kubelet_pods.go

use atoll_meta::{object, time};
use serde_json::{Value, json};

use super::container::{Container, ContainerState};
use super::{NodeEnvironment, Pod, SimTime, is_restarted};

/// Returns the new status, if it differs.
pub fn changed(object: &Value, pod: &Pod, now: SimTime, environment: &NodeEnvironment<'_>) -> Option<Value> {
    let old = &object["status"];
    let mut new = old.clone();
    if !new.is_object() {
        new = json!({});
    }
    let phase = phase(object, pod);
    new["phase"] = phase.into();
    new["observedGeneration"] = object::generation(object).into();
    if old.get("startTime").is_none() {
        new["startTime"] = time::format(now.seconds).into();
    }
    if let Some((reason, message)) = pod.refused {
        new["reason"] = reason.into();
        new["message"] = message.into();
    }
    new["hostIP"] = environment.host.into();
    new["hostIPs"] = json!([{"ip": environment.host}]);
    if pod.refused.is_none() && !pod.is_new() {
        let address =
            if object["spec"]["hostNetwork"] == true { environment.host } else { environment.address };
        new["podIP"] = address.into();
        new["podIPs"] = json!([{"ip": address}]);
    }
    if pod.refused.is_none() || !pod.is_new() {
        statuses(object, pod, &mut new);
    }
    conditions(object, pod, phase, now, &mut new);
    (!same(&new, old)).then_some(new)
}

/// Whether two values are equal if null and empty fields count as missing.
fn same(one: &Value, other: &Value) -> bool {
    let is_nothing = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let covers = |one: &serde_json::Map<String, Value>, other: &serde_json::Map<String, Value>| {
                one.iter().all(|(field, value)| match other.get(field) {
                    Some(other) => same(value, other),
                    None => is_nothing(value),
                })
            };
            covers(one, other)
                && other.iter().all(|(field, value)| one.contains_key(field) || is_nothing(value))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        _ => one == other || (is_nothing(one) && is_nothing(other)),
    }
}

fn specs<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object["spec"][field].as_array().map_or(&[][..], Vec::as_slice)
}

fn statuses(object: &Value, pod: &Pod, new: &mut Value) {
    let waits_for = if pod.inits.is_empty() { "ContainerCreating" } else { "PodInitializing" };
    let of = |containers: &[Container], field: &str| -> Vec<Value> {
        let each = containers.iter().zip(specs(object, field));
        each.map(|(container, spec)| container.status(spec, &pod.uid, waits_for)).collect()
    };
    new["containerStatuses"] = of(&pod.containers, "containers").into();
    if !pod.inits.is_empty() {
        new["initContainerStatuses"] = of(&pod.inits, "initContainers").into();
    }
}

fn is_sidecar(spec: &Value) -> bool {
    spec["restartPolicy"] == "Always"
}

/// Whether all init containers have finished or, as sidecars, started.
fn is_initialized(object: &Value, pod: &Pod) -> bool {
    pod.inits.iter().zip(specs(object, "initContainers")).all(|(container, spec)| match is_sidecar(spec) {
        true => container.started || matches!(container.state, ContainerState::Ended(_)),
        false => container.exit_code() == Some(0),
    })
}

fn phase(object: &Value, pod: &Pod) -> &'static str {
    if pod.refused.is_some() {
        return "Failed";
    }
    let policy = object["spec"]["restartPolicy"].as_str().unwrap_or("Always");
    let is_ending = object::is_being_deleted(object);
    let for_good = |spec: &Value, code: i32| is_ending || !is_restarted(spec, policy, code);
    if !is_initialized(object, pod) {
        let failed = pod.inits.iter().zip(specs(object, "initContainers")).any(|(container, spec)| {
            !is_sidecar(spec)
                && container.exit_code().is_some_and(|code| code != 0 && (is_ending || policy == "Never"))
        });
        return if failed { "Failed" } else { "Pending" };
    }
    if pod.containers.iter().any(|container| container.state == ContainerState::Waiting) {
        return if is_ending { "Failed" } else { "Pending" };
    }
    let codes = pod.containers.iter().zip(specs(object, "containers"));
    let codes: Option<Vec<i32>> =
        codes.map(|(container, spec)| container.exit_code().filter(|code| for_good(spec, *code))).collect();
    match codes {
        None => "Running",
        Some(codes) if codes.iter().all(|code| *code == 0) => "Succeeded",
        Some(_) => "Failed",
    }
}

fn conditions(object: &Value, pod: &Pod, phase: &str, now: SimTime, new: &mut Value) {
    let is_over = match phase {
        "Succeeded" => Some("PodCompleted"),
        "Failed" => Some("PodFailed"),
        _ => None,
    };
    let unready = unready(object, pod);
    let containers_ready = match is_over {
        Some(reason) => ("False", reason, String::new()),
        None if unready.is_empty() => ("True", "", String::new()),
        None => (
            "False",
            "ContainersNotReady",
            format!("containers with unready status: [{}]", unready.join(" ")),
        ),
    };
    let gates = gates(object);
    let ready = match containers_ready.0 {
        "True" if !gates.is_empty() => ("False", "ReadinessGatesNotReady", gates.join(", ")),
        _ => containers_ready.clone(),
    };
    let incomplete: Vec<&str> = pod
        .inits
        .iter()
        .zip(specs(object, "initContainers"))
        .filter(|(container, spec)| if is_sidecar(spec) { !container.started } else { !container.ready })
        .map(|(container, _)| container.name.as_str())
        .collect();
    let has_started = pod.containers.iter().any(|container| container.state != ContainerState::Waiting);
    let initialized = match (phase, incomplete.is_empty() || has_started) {
        ("Succeeded", _) => ("True", "PodCompleted", String::new()),
        (_, true) => ("True", "", String::new()),
        _ => (
            "False",
            "ContainersNotInitialized",
            format!("containers with incomplete status: [{}]", incomplete.join(" ")),
        ),
    };
    let has_sandbox = !pod.is_new() && is_over.is_none();
    let sandbox = (if has_sandbox { "True" } else { "False" }, "", String::new());
    for (r#type, (status, reason, message)) in [
        ("PodReadyToStartContainers", sandbox),
        ("Initialized", initialized),
        ("Ready", ready),
        ("ContainersReady", containers_ready),
        ("PodScheduled", ("True", "", String::new())),
    ] {
        set_condition(new, r#type, status, reason, &message, object::generation(object), now);
    }
}

fn unready<'a>(object: &Value, pod: &'a Pod) -> Vec<&'a str> {
    let sidecars = pod.inits.iter().zip(specs(object, "initContainers"));
    let sidecars = sidecars.filter(|(_, spec)| is_sidecar(spec)).map(|(container, _)| container);
    let all = sidecars.chain(&pod.containers);
    all.filter(|container| !container.ready).map(|container| container.name.as_str()).collect()
}

/// Returns the messages about readiness gates that are not met.
fn gates(object: &Value) -> Vec<String> {
    let conditions = object["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let wanted = object["spec"]["readinessGates"].as_array().into_iter().flatten();
    wanted
        .filter_map(|gate| gate["conditionType"].as_str())
        .filter_map(|wanted| match conditions.iter().find(|condition| condition["type"] == wanted) {
            None => Some(format!("corresponding condition of pod readiness gate {wanted:?} does not exist.")),
            Some(condition) if condition["status"] == "True" => None,
            Some(condition) => {
                let status = condition["status"].as_str().unwrap_or_default();
                Some(format!("the status of pod readiness gate {wanted:?} is not \"True\", but {status}"))
            }
        })
        .collect()
}

/// Sets a condition; its transition time changes only with its status.
fn set_condition(
    status: &mut Value,
    r#type: &str,
    value: &str,
    reason: &str,
    message: &str,
    generation: i64,
    now: SimTime,
) {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(all) = status["conditions"].as_array_mut() else { return };
    let position = all.iter().position(|condition| condition["type"] == r#type);
    let old = position.map(|position| &all[position]);
    let since = match old.filter(|old| old["status"] == value) {
        Some(old) => old["lastTransitionTime"].clone(),
        None => time::format(now.seconds).into(),
    };
    let mut new = json!({
        "type": r#type,
        "status": value,
        "lastProbeTime": null,
        "lastTransitionTime": since,
        "observedGeneration": generation,
    });
    for (field, text) in [("reason", reason), ("message", message)] {
        if !text.is_empty() {
            new[field] = text.into();
        }
    }
    match position {
        Some(position) => all[position] = new,
        None => all.push(new),
    }
}
