//! Capabilities of a cluster: the APIs that it serves, the syncer's rights to them, and names of classes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_meta::object;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use crate::connections::cluster_client::ClusterClient;
use crate::syncer::Syncer;

/// Number of heartbeat intervals between two readings.
const INTERVALS: u32 = 6;
/// When the APIs are read again after definitions have changed: a server takes a moment to serve them.
const AFTER_CHANGE: [Duration; 3] =
    [Duration::from_millis(300), Duration::from_secs(2), Duration::from_secs(8)];
/// Maximum number of resources and of classes of a kind that are reported.
const RESOURCES: usize = 1_000;
const CLASSES: usize = 128;
/// Maximum number of classes that are read.
const READ_CLASSES: usize = 500;
/// Longest name.
const NAME: usize = 253;
/// Verbs that a syncer needs for a resource.
const NEEDED: [&str; 3] = ["get", "create", "patch"];
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";

/// Kinds of classes: field, API and resource.
const CLASS_KINDS: [(&str, &str, &str); 4] = [
    ("priority", "scheduling.k8s.io", "priorityclasses"),
    ("storage", "storage.k8s.io", "storageclasses"),
    ("runtime", "node.k8s.io", "runtimeclasses"),
    ("ingress", "networking.k8s.io", "ingressclasses"),
];

#[derive(Default)]
pub struct Capabilities {
    known: Mutex<Known>,
    /// Notified when the cluster may serve other APIs than before.
    definitions_changed: Notify,
}

#[derive(Default)]
struct Known {
    apis: Option<(Vec<Value>, usize)>,
    /// Names of classes by field.
    classes: BTreeMap<&'static str, Vec<String>>,
    missing: BTreeSet<String>,
}

impl Capabilities {
    /// Lets the APIs of the cluster be read again soon.
    pub fn definitions_changed(&self) {
        self.definitions_changed.notify_one();
    }

    /// Records whether the syncer lacks a right.
    pub fn set_missing(&self, right: &str, is_missing: bool) {
        let mut known = self.known();
        match is_missing {
            true => drop(known.missing.insert(right.to_string())),
            false => drop(known.missing.remove(right)),
        }
    }

    /// Adds what is known to the status of the Cluster.
    pub fn add_to(&self, status: &mut Map<String, Value>) {
        let known = self.known();
        let mut cut = Map::new();
        if let Some((apis, omitted)) = &known.apis {
            status.insert("apis".into(), apis.clone().into());
            if *omitted > 0 {
                cut.insert("apis".into(), (*omitted).into());
            }
        }
        if !known.classes.is_empty() {
            let names = known.classes.iter().map(|(field, names)| {
                let names: Vec<&String> = names.iter().take(CLASSES).collect();
                ((*field).to_string(), json!(names))
            });
            status.insert("classes".into(), names.collect());
            let omitted: usize =
                known.classes.values().map(|names| names.len().saturating_sub(CLASSES)).sum();
            if omitted > 0 {
                cut.insert("classes".into(), omitted.into());
            }
        }
        if !known.missing.is_empty() {
            status.insert("missingRights".into(), json!(known.missing));
        }
        if !cut.is_empty()
            && let Some(all) = status.entry("cut").or_insert_with(|| json!({})).as_object_mut()
        {
            all.extend(cut);
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the capabilities of the cluster for as long as it is polled.
pub async fn run(syncer: &Arc<Syncer>) {
    tokio::join!(read_periodically(syncer), follow_definitions(syncer));
}

async fn read_periodically(syncer: &Arc<Syncer>) {
    let registration = syncer.registration().await;
    let is_observing = syncer.is_observing(&registration);
    loop {
        read_apis_again(syncer).await;
        for (field, group, resource) in CLASS_KINDS {
            let path = format!("/apis/{group}/v1/{resource}?limit={READ_CLASSES}");
            let right = format!("list {resource}.{group}");
            let found = syncer.below.list_metadata(&path).await;
            let is_missing = found.as_ref().is_err_and(|status| status.code() == 403);
            syncer.capabilities.set_missing(&right, is_missing && !is_observing);
            match found {
                Ok(list) => drop(syncer.capabilities.known().classes.insert(field, names_of(&list))),
                Err(status) if status.code() == 404 => {
                    syncer.capabilities.known().classes.insert(field, Vec::new());
                }
                Err(_) => {}
            }
        }
        let interval = syncer.connection.interval(&syncer.settings) * INTERVALS;
        tokio::time::sleep(syncer.settings.jitter(interval)).await;
    }
}

/// Reads the APIs whenever definitions have changed, and reports them at once.
async fn follow_definitions(syncer: &Arc<Syncer>) {
    let mut delays = [].iter();
    loop {
        let next: Option<&Duration> = delays.as_slice().first();
        // Polled in a fixed order, so that test runs are reproducible.
        tokio::select! {
            biased;
            () = syncer.capabilities.definitions_changed.notified() => delays = AFTER_CHANGE.iter(),
            () = tokio::time::sleep(next.copied().unwrap_or_default()), if next.is_some() => {
                delays.next();
                if read_apis_again(syncer).await {
                    syncer.gate.recheck.notify_one();
                }
            }
        }
    }
}

/// Reads the served APIs. Returns whether they have changed.
async fn read_apis_again(syncer: &Arc<Syncer>) -> bool {
    let Some(apis) = read_apis(&syncer.below).await else { return false };
    let mut known = syncer.capabilities.known();
    let is_changed = known.apis.as_ref() != Some(&apis);
    known.apis = Some(apis);
    is_changed
}

fn names_of(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().into_iter().flatten();
    let names = items.map(object::name).filter(|name| !name.is_empty() && name.len() <= NAME);
    names.map(str::to_string).collect()
}

/// Returns the served APIs and how many resources are left out; `None` if they cannot be read. Servers before
/// Kubernetes 1.30 may not have all groups in one document.
async fn read_apis(below: &ClusterClient) -> Option<(Vec<Value>, usize)> {
    let mut groups = Vec::new();
    for path in ["/api", "/apis"] {
        let mut found = match below.get_discovery(path).await {
            Ok(found) => found,
            Err(status) => {
                // There are no smaller pages of these documents.
                if let Some(budget) = below.client.budget() {
                    budget.note(&status);
                }
                return None;
            }
        };
        if found["kind"] != "APIGroupDiscoveryList" {
            return None;
        }
        if let Value::Array(items) = found["items"].take() {
            groups.extend(items);
        }
    }
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": { "namespace": "default" },
    });
    let rules = below.review(REVIEWS, &review).await.unwrap_or_default();
    Some(apis(&groups, &rules["status"]))
}

/// Returns groups with their versions and resources. Without complete rules, all rights are assumed.
fn apis(groups: &[Value], rules: &Value) -> (Vec<Value>, usize) {
    let (mut found, mut left, mut omitted) = (Vec::new(), RESOURCES, 0);
    for group in groups {
        let name = object::name(group);
        let mut versions = Vec::new();
        let mut resources = BTreeSet::new();
        for version in items(&group["versions"]) {
            versions.extend(version["version"].as_str().filter(|version| version.len() <= NAME));
            let placeable = items(&version["resources"]).filter(|resource| {
                let has = |verb: &str| items(&resource["verbs"]).any(|one| one == verb);
                NEEDED.iter().all(|verb| has(verb))
            });
            resources.extend(placeable.filter_map(|resource| resource["resource"].as_str()));
        }
        let total = resources.len();
        let kept: Vec<&str> = resources.into_iter().filter(|name| name.len() <= NAME).take(left).collect();
        omitted += total - kept.len();
        left -= kept.len();
        if kept.is_empty() || name.len() > NAME {
            continue;
        }
        let (allowed, refused): (Vec<&str>, Vec<&str>) =
            kept.into_iter().partition(|resource| may_write(rules, name, resource));
        let mut said = json!({ "group": name, "versions": versions, "resources": allowed });
        if !refused.is_empty() {
            said["refused"] = json!(refused);
        }
        found.push(said);
    }
    (found, omitted)
}

/// Whether rules allow everything that a syncer needs for a resource.
fn may_write(rules: &Value, group: &str, resource: &str) -> bool {
    if rules["resourceRules"].as_array().is_none_or(Vec::is_empty) || rules["incomplete"] == true {
        return true;
    }
    let contains = |list: &Value, wanted: &str| items(list).any(|one| one == "*" || one == wanted);
    let mut matching = items(&rules["resourceRules"]).filter(|rule| {
        items(&rule["resourceNames"]).next().is_none()
            && contains(&rule["apiGroups"], group)
            && contains(&rule["resources"], resource)
    });
    let matching: Vec<&Value> = matching.by_ref().collect();
    NEEDED.iter().all(|verb| matching.iter().any(|rule| contains(&rule["verbs"], verb)))
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(name: &str, verbs: &[&str]) -> Value {
        json!({ "resource": name, "verbs": verbs })
    }

    #[test]
    fn apis_have_rights() {
        let all = ["create", "delete", "get", "list", "patch", "update", "watch"];
        let groups = [
            json!({ "metadata": { "name": "" }, "versions": [
                { "version": "v1", "resources": [resource("configmaps", &all), resource("bindings", &["create"])] },
            ] }),
            json!({ "metadata": { "name": "apps" }, "versions": [
                { "version": "v1", "resources": [resource("deployments", &all), resource("daemonsets", &all)] },
                { "version": "v1beta1", "resources": [resource("deployments", &all)] },
            ] }),
            json!({ "metadata": { "name": "metrics.k8s.io" }, "versions": [
                { "version": "v1beta1", "resources": [resource("pods", &["get", "list"])] },
            ] }),
        ];
        let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({ "apiGroups": [group], "resources": resources, "verbs": verbs });
        let rules = json!({ "resourceRules": [
            rule("", &["*"], &["*"]), rule("apps", &["deployments"], &["get", "create"]), rule("apps", &["deployments"], &["patch"]),
            rule("apps", &["daemonsets"], &["get", "list", "watch"]),
        ] });
        let core = json!({ "group": "", "versions": ["v1"], "resources": ["configmaps"] });
        let apps = |resources: &[&str], refused: &[&str]| {
            let mut said = json!({ "group": "apps", "versions": ["v1", "v1beta1"], "resources": resources });
            if !refused.is_empty() {
                said["refused"] = json!(refused);
            }
            said
        };
        let expected = vec![core.clone(), apps(&["deployments"], &["daemonsets"])];
        assert_eq!(apis(&groups, &rules), (expected, 0));
        // Unknown rights are assumed.
        let unknown = vec![core, apps(&["daemonsets", "deployments"], &[])];
        for rules in [json!(null), json!({ "resourceRules": [rule("", &["*"], &["*"])], "incomplete": true })]
        {
            assert_eq!(apis(&groups, &rules), (unknown.clone(), 0));
        }
    }

    #[test]
    fn number_of_names_is_limited() {
        let resources: Vec<Value> =
            (0..RESOURCES + 5).map(|at| resource(&format!("r{at}"), &["create", "get", "patch"])).collect();
        let group =
            json!({ "metadata": { "name": "g" }, "versions": [{ "version": "v1", "resources": resources }] });
        let (found, omitted) = apis(&[group.clone(), group], &Value::Null);
        assert_eq!((found.len(), omitted), (1, RESOURCES + 10));
        let capabilities = Capabilities::default();
        capabilities.known().apis = Some((found, omitted));
        capabilities.known().classes.insert("storage", (0..CLASSES + 3).map(|at| at.to_string()).collect());
        capabilities.set_missing("list pods", true);
        let mut status = Map::new();
        status.insert("cut".into(), json!({ "nodes": 1 }));
        capabilities.add_to(&mut status);
        assert_eq!(status["cut"], json!({ "nodes": 1, "apis": RESOURCES + 10, "classes": 3 }));
        assert_eq!(status["missingRights"], json!(["list pods"]));
        assert_eq!(status["classes"]["storage"].as_array().map(Vec::len), Some(CLASSES));
        capabilities.set_missing("list pods", false);
        let mut status = Map::new();
        capabilities.add_to(&mut status);
        assert_eq!(status.get("missingRights"), None);
    }
}
