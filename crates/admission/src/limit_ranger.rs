//! LimitRanges: defaults and limits of Pods and volume claims in a namespace.

// upstream: plugin/pkg/admission/limitranger/admission.go

use atoll_meta::quantity::Quantity;
use atoll_meta::{Status, object};
use serde_json::Value;

use crate::resource_list::{self, ResourceList, containers};
use crate::{Operation, Plugin, Request};

pub struct LimitRanger;

/// The parts of a limit, each of which has an amount by resource.
const PARTS: [&str; 5] = ["default", "defaultRequest", "max", "maxLimitRequestRatio", "min"];
const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// Maximum number of limits that are compared with or set in containers, for all of them. More would take seconds.
const MAX_COMPARISONS: usize = 100_000;
/// The largest number of units that fits into thousandths.
const MAX_MILLI_UNITS: i64 = i64::MAX / 1000;

impl Plugin for LimitRanger {
    fn handles(&self, request: &Request<'_>) -> bool {
        match request.operation {
            Operation::Create => {
                request.is_about("", "pods", "") || request.is_about("", "persistentvolumeclaims", "")
            }
            Operation::Update => {
                request.is_about("", "pods", "resize") || request.is_about("", "persistentvolumeclaims", "")
            }
            Operation::Delete | Operation::Connect => false,
        }
    }

    fn mutate(&self, request: &Request<'_>, pod: &mut Value) -> Result<(), Status> {
        if request.row.resource == "pods" {
            let ranges = ranges(request)?;
            check_cost(request, pod, &ranges)?;
            ranges.iter().for_each(|range| complete(pod, range));
        }
        Ok(())
    }

    fn validate(&self, request: &Request<'_>, object: &Value) -> Result<(), Status> {
        for range in ranges(request)? {
            let mut problems = match request.row.resource.as_str() {
                "pods" => pod_problems(object, &range),
                _ => claim_problems(object, &range),
            };
            // Report each problem once.
            let mut seen = std::collections::BTreeSet::new();
            problems.retain(|problem| seen.insert(problem.clone()));
            match problems.as_slice() {
                [] => {}
                [problem] => return Err(request.forbidden(object, problem)),
                all => return Err(request.forbidden(object, format!("[{}]", all.join(", ")))),
            }
        }
        Ok(())
    }
}

/// Returns the LimitRanges of the namespace. Objects that are being deleted are exempt.
fn ranges(request: &Request<'_>) -> Result<Vec<Value>, Status> {
    if request.old.is_some_and(object::is_being_deleted) {
        return Ok(Vec::new());
    }
    let found = request.list("", "limitranges", request.namespace);
    found.iter().map(crate::StoredObject::parse).collect()
}

/// Refuses a Pod with too many containers for the number of limits in its namespace.
fn check_cost(request: &Request<'_>, pod: &Value, ranges: &[Value]) -> Result<(), Status> {
    let lists = ["containers", "initContainers"];
    let containers: usize = lists.iter().map(|list| containers(&pod["spec"], list).count()).sum();
    let limits = ranges.iter().flat_map(|range| items(range, "Container"));
    let limits: usize = limits
        .flat_map(|item| PARTS.iter().filter_map(|part| item[part].as_object()))
        .map(serde_json::Map::len)
        .sum();
    if containers.saturating_mul(limits) <= MAX_COMPARISONS {
        return Ok(());
    }
    let message = format!(
        "the LimitRanges of the namespace have {limits} limits of containers, and the Pod has {containers} containers; their \
         product must be at most {MAX_COMPARISONS}"
    );
    Err(request.forbidden(pod, message))
}

/// Returns the items of a range with a type.
fn items<'a>(range: &'a Value, kind: &'static str) -> impl Iterator<Item = &'a Value> {
    let items = range["spec"]["limits"].as_array().into_iter().flatten();
    items.filter(move |item| item["type"] == kind)
}

/// Sets default requests and limits of containers, and records that in an annotation.
fn complete(pod: &mut Value, range: &Value) {
    let (mut requests, mut limits) = (ResourceList::new(), ResourceList::new());
    for item in items(range, "Container") {
        requests.append(&mut resource_list::read(&item["defaultRequest"]));
        limits.append(&mut resource_list::read(&item["default"]));
    }
    if requests.is_empty() && limits.is_empty() {
        return;
    }
    let mut notes = Vec::new();
    for (list, kind_name) in [("containers", "container"), ("initContainers", "init container")] {
        for container in pod["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let name = container["name"].as_str().unwrap_or_default().to_owned();
            let mut set = |part: &str, word: &str, defaults: &ResourceList| {
                if defaults.is_empty() {
                    return;
                }
                let given = &mut container["resources"][part];
                let missing: Vec<&String> = defaults.keys().filter(|key| given.get(key).is_none()).collect();
                for key in &missing {
                    given[key.as_str()] = defaults[*key].to_string().into();
                }
                if !missing.is_empty() {
                    let missing = missing.iter().map(|key| key.as_str()).collect::<Vec<_>>().join(", ");
                    notes.push(format!("{missing} {word} for {kind_name} {name}"));
                }
            };
            set("requests", "request", &requests);
            set("limits", "limit", &limits);
        }
    }
    if !notes.is_empty() {
        let note = format!("LimitRanger plugin set: {}", notes.join("; "));
        object::set_annotation(pod, ANNOTATION, &note);
    }
}

fn pod_problems(pod: &Value, range: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    for item in range["spec"]["limits"].as_array().into_iter().flatten() {
        match item["type"].as_str() {
            Some("Container") => {
                let spec = &pod["spec"];
                for container in containers(spec, "containers").chain(containers(spec, "initContainers")) {
                    let resources = &container["resources"];
                    let requests = resource_list::read(&resources["requests"]);
                    let limits = resource_list::read(&resources["limits"]);
                    item_problems(&mut problems, item, "Container", &requests, &limits);
                }
            }
            Some("Pod") => {
                let requests = resource_list::of_pod(pod, "requests");
                let limits = resource_list::of_pod(pod, "limits");
                item_problems(&mut problems, item, "Pod", &requests, &limits);
            }
            _ => {}
        }
    }
    problems
}

fn item_problems(
    problems: &mut Vec<String>,
    item: &Value,
    kind: &str,
    requests: &ResourceList,
    limits: &ResourceList,
) {
    for (part, check) in
        [("min", too_little as Check), ("max", too_much), ("maxLimitRequestRatio", too_far_apart)]
    {
        for (name, enforced) in resource_list::read(&item[part]) {
            let usage = Usage { kind, name: &name, request: requests.get(&name), limit: limits.get(&name) };
            problems.extend(check(&usage, &enforced));
        }
    }
}

fn claim_problems(claim: &Value, range: &Value) -> Vec<String> {
    let requests = resource_list::read(&claim["spec"]["resources"]["requests"]);
    let kind = "PersistentVolumeClaim";
    let mut problems = Vec::new();
    for item in items(range, kind) {
        for (name, enforced) in resource_list::read(&item["min"]) {
            let usage = Usage { kind, name: &name, request: requests.get(&name), limit: None };
            problems.extend(too_little(&usage, &enforced));
        }
        for (name, enforced) in resource_list::read(&item["max"]) {
            // A claim has no limits, so its requests are compared.
            let usage = Usage { kind, name: &name, request: None, limit: None };
            let problem = match requests.get(&name) {
                None => Some(usage.message("maximum", &enforced, ".  No request is specified")),
                Some(request) if comparable([Some(request), None, Some(&enforced)]).is_over(0) => {
                    Some(usage.message("maximum", &enforced, &format!(", but request is {request}")))
                }
                Some(_) => None,
            };
            problems.extend(problem);
        }
    }
    problems
}

type Check = fn(&Usage<'_>, &Quantity) -> Option<String>;

/// Request and limit of one resource.
struct Usage<'a> {
    kind: &'a str,
    name: &'a str,
    request: Option<&'a Quantity>,
    limit: Option<&'a Quantity>,
}

impl Usage<'_> {
    fn message(&self, bound: &str, enforced: &Quantity, rest: &str) -> String {
        format!("{bound} {} usage per {} is {enforced}{rest}", self.name, self.kind)
    }
}

/// Request, limit and bound in the same unit: thousandths, if all of them fit.
struct Numbers([i64; 3]);

fn comparable(amounts: [Option<&Quantity>; 3]) -> Numbers {
    let units = amounts.map(|amount| amount.map_or(0, Quantity::units));
    match units.iter().all(|units| *units <= MAX_MILLI_UNITS) {
        true => Numbers(amounts.map(|amount| amount.map_or(0, Quantity::millis))),
        false => Numbers(units),
    }
}

impl Numbers {
    fn is_over(&self, index: usize) -> bool {
        self.0[index] > self.0[2]
    }

    fn is_under(&self, index: usize) -> bool {
        self.0[index] < self.0[2]
    }
}

fn too_little(usage: &Usage<'_>, enforced: &Quantity) -> Option<String> {
    let numbers = comparable([usage.request, usage.limit, Some(enforced)]);
    let message = |rest: &str| Some(usage.message("minimum", enforced, rest));
    match (usage.request, usage.limit) {
        (None, _) => message(".  No request is specified"),
        (Some(request), _) if numbers.is_under(0) => message(&format!(", but request is {request}")),
        (_, Some(limit)) if numbers.is_under(1) => message(&format!(", but limit is {limit}")),
        _ => None,
    }
}

fn too_much(usage: &Usage<'_>, enforced: &Quantity) -> Option<String> {
    let numbers = comparable([usage.request, usage.limit, Some(enforced)]);
    let message = |rest: &str| Some(usage.message("maximum", enforced, rest));
    match (usage.limit, usage.request) {
        (None, _) => message(".  No limit is specified"),
        (Some(limit), _) if numbers.is_over(1) => message(&format!(", but limit is {limit}")),
        (_, Some(request)) if numbers.is_over(0) => message(&format!(", but request is {request}")),
        _ => None,
    }
}

fn too_far_apart(usage: &Usage<'_>, enforced: &Quantity) -> Option<String> {
    let Numbers([request, limit, _]) = comparable([usage.request, usage.limit, Some(enforced)]);
    let message = |rest: &str| {
        let (name, kind) = (usage.name, usage.kind);
        Some(format!("{name} max limit to request ratio per {kind} is {enforced}, but {rest}"))
    };
    if request == 0 {
        return message("no request is specified or request is 0");
    }
    if limit == 0 {
        return message("no limit is specified or limit is 0");
    }
    let ratio = limit as f64 / request as f64;
    let over = match enforced.units() <= MAX_MILLI_UNITS {
        true => ratio * 1000.0 > enforced.millis() as f64,
        false => ratio > enforced.units() as f64,
    };
    if over { message(&format!("provided ratio is {ratio:.6}")) } else { None }
}

#[cfg(test)]
mod tests;
