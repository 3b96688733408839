//! Resolution of priority class names to priorities.

// upstream: plugin/pkg/admission/priority/admission.go

use atoll_meta::{Status, object};
use serde_json::Value;

use crate::{Operation, Plugin, Request};

pub struct Priority;

const GROUP: &str = "scheduling.k8s.io";
const CLASSES: &str = "priorityclasses";

impl Plugin for Priority {
    fn handles(&self, request: &Request<'_>) -> bool {
        matches!(request.operation, Operation::Create | Operation::Update)
            && (request.is_about("", "pods", "") || request.is_about(GROUP, CLASSES, ""))
    }

    fn mutate(&self, request: &Request<'_>, object: &mut Value) -> Result<(), Status> {
        match (request.row.resource.as_str(), request.old) {
            ("pods", None) => resolve(request, object),
            ("pods", Some(old)) => {
                keep_priority(object, old);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn validate(&self, request: &Request<'_>, class: &Value) -> Result<(), Status> {
        if request.row.resource != CLASSES || class["globalDefault"] != true {
            return Ok(());
        }
        match default_class(request)? {
            Some(other)
                if request.operation == Operation::Create || object::name(&other) != object::name(class) =>
            {
                let name = object::name(&other);
                let message =
                    format!("PriorityClass {name} is already marked as default. Only one default can exist");
                Err(request.forbidden(class, message))
            }
            _ => Ok(()),
        }
    }
}

/// Keeps the resolved priority of an existing Pod.
fn keep_priority(pod: &mut Value, old: &Value) {
    for field in ["priority", "preemptionPolicy"] {
        let before = old["spec"].get(field).filter(|before| !before.is_null());
        if let (Some(before), true) = (before, pod["spec"].get(field).is_none_or(Value::is_null)) {
            pod["spec"][field] = before.clone();
        }
    }
}

fn resolve(request: &Request<'_>, pod: &mut Value) -> Result<(), Status> {
    let name = pod["spec"]["priorityClassName"].as_str().unwrap_or_default();
    let class = match name {
        "" => default_class(request)?,
        name => match request.find(GROUP, CLASSES, "", name) {
            Some(class) => Some(class.parse()?),
            None => {
                let message = format!("no PriorityClass with name {name} was found");
                return Err(request.forbidden(pod, message));
            }
        },
    };
    let (name, priority, policy) = match &class {
        Some(class) => {
            (object::name(class), class["value"].as_i64().unwrap_or(0), class["preemptionPolicy"].as_str())
        }
        None => ("", 0, Some("PreemptLowerPriority")),
    };
    if let Some(given) = pod["spec"]["priority"].as_i64().filter(|given| *given != priority) {
        let message = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {priority} from the given PriorityClass name"
        );
        return Err(request.forbidden(pod, message));
    }
    if let (Some(policy), Some(given)) = (policy, pod["spec"]["preemptionPolicy"].as_str())
        && given != policy
    {
        let message = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
             controller computed {policy} from the given PriorityClass name"
        );
        return Err(request.forbidden(pod, message));
    }
    let spec = &mut pod["spec"];
    if !name.is_empty() {
        spec["priorityClassName"] = name.into();
    }
    spec["priority"] = priority.into();
    if let Some(policy) = policy {
        spec["preemptionPolicy"] = policy.into();
    }
    Ok(())
}

/// Returns the class of Pods without a class: the lowest default if there are several.
fn default_class(request: &Request<'_>) -> Result<Option<Value>, Status> {
    let mut lowest: Option<Value> = None;
    for class in request.list(GROUP, CLASSES, "") {
        if !class.contains_text("\"globalDefault\":true") {
            continue;
        }
        let class = class.parse()?;
        let value = |class: &Value| class["value"].as_i64().unwrap_or(0);
        if class["globalDefault"] == true && lowest.as_ref().is_none_or(|own| value(own) > value(&class)) {
            lowest = Some(class);
        }
    }
    Ok(lowest)
}
