//! Pod Security Standards, enforced by labels of namespaces.

// upstream: plugin/pkg/admission/security/podsecurity/admission.go
// upstream: staging/src/k8s.io/pod-security-admission/admission/admission.go

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use atoll_meta::{Status, object};
use atoll_podsecurity::{self as checks, Level, LevelVersion, Policy, Violations};
use atoll_registry::run_in_place;
use serde_json::Value;

use crate::resource_list::containers;
use crate::{Operation, Plugin, Request, StoredObject};

pub struct PodSecurity;

/// Subresources of Pods that do not affect security.
const HARMLESS: [&str; 8] =
    ["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];
/// Limits on checking existing Pods when the labels of their namespace change.
const MAX_PODS: usize = 3000;
const MAX_DURATION: Duration = Duration::from_secs(1);
/// Locked during a check of existing Pods.
static CHECKS: Mutex<()> = Mutex::new(());

impl Plugin for PodSecurity {
    fn handles(&self, request: &Request<'_>) -> bool {
        matches!(request.operation, Operation::Create | Operation::Update) && concern(request).is_some()
    }

    fn validate(&self, request: &Request<'_>, object: &Value) -> Result<(), Status> {
        match concern(request) {
            Some(Concern::Namespace) => check_namespace(request, object),
            Some(Concern::Pod) => check_pod(request, object),
            Some(Concern::Template(path)) => {
                warn_about_template(request, object.pointer(path));
                Ok(())
            }
            None => Ok(()),
        }
    }
}

enum Concern {
    Namespace,
    Pod,
    Template(&'static str),
}

fn concern(request: &Request<'_>) -> Option<Concern> {
    let (row, whole) = (request.row, request.subresource.is_empty());
    match (row.group.as_str(), row.resource.as_str()) {
        ("", "namespaces") => whole.then_some(Concern::Namespace),
        ("", "pods") => (!HARMLESS.contains(&request.subresource)).then_some(Concern::Pod),
        (group, resource) => checks::template(group, resource).filter(|_| whole).map(Concern::Template),
    }
}

/// Validates the labels, and warns about existing Pods that violate a stricter level.
fn check_namespace(request: &Request<'_>, namespace: &Value) -> Result<(), Status> {
    let (policy, errors) = Policy::from_labels(|label| object::label(namespace, label));
    let old = request.old.map(|old| Policy::from_labels(|label| object::label(old, label)));
    let known = |(_, before): &(Policy, Vec<_>)| *before == errors;
    if !errors.is_empty() && !old.as_ref().is_some_and(known) {
        return Err(Status::invalid("", "Namespace", request.name, errors));
    }
    let Some((old, _)) = old else { return Ok(()) };
    let (new, old) = (policy.enforce, old.enforce);
    let relaxed = new.version == old.version && new.level <= old.level;
    if new != old && new.level != Level::Privileged && !relaxed {
        warn_about_pods(request, object::name(namespace), new);
    }
    Ok(())
}

fn warn_about_pods(request: &Request<'_>, namespace: &str, rule: LevelVersion) {
    let pods = request.list("", "pods", namespace);
    let size = pods.iter().map(|pod| pod.0.size()).sum();
    // One check at a time: each may take a second, and its warnings are only a help.
    let turn = CHECKS.try_lock();
    let (checked, found) = match turn {
        Ok(_) => run_in_place(size, || check_pods(&pods, rule)),
        Err(_) => (0, ViolatingPods::new()),
    };
    let total = pods.len();
    if checked < total {
        (request.warn)(format!(
            "new PodSecurity enforce level only checked against the first {checked} of {total} existing pods"
        ));
    }
    if !found.is_empty() {
        (request.warn)(format!(
            "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level {:?}",
            rule.to_string()
        ));
    }
    let mut lines: Vec<String> = found
        .into_iter()
        .map(|(reasons, (pod, count))| match count {
            1 => format!("{pod}: {reasons}"),
            2 => format!("{pod} (and 1 other pod): {reasons}"),
            _ => format!("{pod} (and {} other pods): {reasons}", count - 1),
        })
        .collect();
    lines.sort();
    lines.into_iter().for_each(request.warn);
}

/// Violations, with the first Pod and the number of Pods.
type ViolatingPods = BTreeMap<String, (String, usize)>;

/// Checks Pods within the limits of number and time. Returns how many were checked. One Pod of each controller comes
/// first, because Pods of one controller are alike.
fn check_pods(pods: &[StoredObject], rule: LevelVersion) -> (usize, ViolatingPods) {
    let started = Instant::now();
    let (mut checked, mut found) = (0, ViolatingPods::new());
    let mut is_over = |pod: &Value| {
        checked += 1;
        let violations = checks::evaluate(rule, &pod["metadata"], &pod["spec"]);
        if !violations.is_empty() {
            let name = object::name(pod);
            let (first, count) = found.entry(violations.reasons()).or_insert_with(|| (name.to_owned(), 0));
            if name < first.as_str() {
                *first = name.to_owned();
            }
            *count += 1;
        }
        checked >= MAX_PODS || started.elapsed() > MAX_DURATION
    };
    let (mut owners, mut alike) = (HashSet::new(), Vec::new());
    for stored in pods {
        let Ok(pod) = stored.parse() else { continue };
        // The others are parsed again later, because all of them may need much memory.
        if object::controller_of(&pod).is_some_and(|owner| !owners.insert(owner.uid.to_owned())) {
            alike.push(stored);
            if started.elapsed() > MAX_DURATION {
                return (checked, found);
            }
        } else if is_over(&pod) {
            return (checked, found);
        }
    }
    let _ = alike.into_iter().filter_map(|stored| stored.parse().ok()).any(|pod| is_over(&pod));
    (checked, found)
}

fn check_pod(request: &Request<'_>, pod: &Value) -> Result<(), Status> {
    let Some(namespace) = request.namespace_object() else {
        let message = format!("failed to lookup namespace {:?}", request.namespace);
        return Err(Status::internal_error(message));
    };
    let (policy, errors) = Policy::from_labels(|label| namespace.label(label));
    if errors.is_empty() && policy.allows_all() {
        return Ok(());
    }
    if request.old.is_some_and(|old| !changes_images(pod, old)) {
        return Ok(());
    }
    let enforced = checks::evaluate(policy.enforce, &pod["metadata"], &pod["spec"]);
    if !enforced.is_empty() {
        let message =
            format!("violates PodSecurity {:?}: {}", policy.enforce.to_string(), enforced.details());
        return Err(Status::forbidden("", "pods", request.name, message));
    }
    if policy.warn != policy.enforce {
        warn(request, policy.warn, &checks::evaluate(policy.warn, &pod["metadata"], &pod["spec"]));
    }
    Ok(())
}

fn warn_about_template(request: &Request<'_>, template: Option<&Value>) {
    let Some(template) = template.filter(|template| template.is_object()) else { return };
    let Some(namespace) = request.namespace_object() else { return };
    let (policy, _) = Policy::from_labels(|label| namespace.label(label));
    warn(request, policy.warn, &checks::evaluate(policy.warn, &template["metadata"], &template["spec"]));
}

fn warn(request: &Request<'_>, rule: LevelVersion, violations: &Violations) {
    if !violations.is_empty() {
        (request.warn)(format!("would violate PodSecurity {:?}: {}", rule.to_string(), violations.details()));
    }
}

/// Updates of a Pod are checked only if they change images or add containers.
fn changes_images(pod: &Value, old: &Value) -> bool {
    let images = |pod: &'_ Value, list: &str| -> Vec<String> {
        let image = |container: &Value| container["image"].as_str().unwrap_or_default().to_owned();
        containers(&pod["spec"], list).map(image).collect()
    };
    let differ = |list: &str| images(pod, list) != images(old, list);
    let is_new = |container: &Value| {
        let mut before = containers(&old["spec"], "ephemeralContainers");
        before
            .find(|old| old["name"] == container["name"])
            .is_none_or(|old| old["image"] != container["image"])
    };
    differ("containers")
        || differ("initContainers")
        || containers(&pod["spec"], "ephemeralContainers").any(is_new)
}
