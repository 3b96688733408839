//! What a namespace holds after a step, and the releases that Helm keeps there.

use std::collections::BTreeMap;
use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use serde_json::{Value, json};

use super::site::Site;

/// Every resource that the chart has objects of.
const RESOURCES: [&str; 16] = [
    "api/v1/configmaps",
    "api/v1/persistentvolumeclaims",
    "api/v1/pods",
    "api/v1/secrets",
    "api/v1/serviceaccounts",
    "api/v1/services",
    "apis/apps/v1/deployments",
    "apis/apps/v1/statefulsets",
    "apis/autoscaling/v2/horizontalpodautoscalers",
    "apis/batch/v1/cronjobs",
    "apis/batch/v1/jobs",
    "apis/networking.k8s.io/v1/ingresses",
    "apis/networking.k8s.io/v1/networkpolicies",
    "apis/policy/v1/poddisruptionbudgets",
    "apis/rbac.authorization.k8s.io/v1/rolebindings",
    "apis/rbac.authorization.k8s.io/v1/roles",
];

/// Objects by `resource/name`.
pub type State = BTreeMap<String, Value>;

/// All objects of the chart, without what differs from run to run.
pub async fn state(site: &Site) -> State {
    let client = site.client();
    let mut found = State::new();
    for path in RESOURCES {
        let (version, resource) = path.rsplit_once('/').unwrap();
        let selector = "labelSelector=app.kubernetes.io/managed-by%3DHelm";
        let path = format!("/{version}/namespaces/{}/{resource}?{selector}", site.namespace);
        let answer = client.get(&path).await.unwrap();
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        let Value::Array(items) = answer.json()["items"].take() else { panic!("no items in {path}") };
        for object in items {
            let name = object["metadata"]["name"].as_str().unwrap();
            found.insert(format!("{resource}/{name}"), comparable(&object));
        }
    }
    found
}

fn comparable(object: &Value) -> Value {
    let uid = object["metadata"]["uid"].as_str().unwrap();
    let mut object: Value = serde_json::from_str(&object.to_string().replace(uid, "UID")).unwrap();
    for field in ["resourceVersion", "creationTimestamp"] {
        assert!(object["metadata"].as_object_mut().unwrap().remove(field).is_some(), "{field}: {object}");
    }
    if let Some(Value::Array(managers)) = object["metadata"].get_mut("managedFields") {
        for manager in managers.iter_mut() {
            manager["time"].take();
        }
        // Their order is that of their times, in whole seconds.
        managers.sort_by_cached_key(|manager| {
            ["manager", "operation", "subresource"].map(|field| manager[field].to_string())
        });
    }
    if object["spec"]["clusterIP"].as_str().is_some_and(|address| address != "None") {
        object["spec"]["clusterIP"] = "ADDRESS".into();
        object["spec"]["clusterIPs"] = json!(["ADDRESS"]);
    }
    object
}

/// Fails unless both servers hold the same.
#[track_caller]
pub fn assert_same(step: &str, ours: &State, theirs: &State) {
    let names = |state: &State| state.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(ours), names(theirs), "after {step}, Atoll has the first and kube-apiserver the second");
    let mut differences = Vec::new();
    for (name, object) in ours {
        differ(name, object, &theirs[name], &mut differences);
    }
    assert!(
        differences.is_empty(),
        "after {step}, Atoll has the first and kube-apiserver the second:\n{}",
        differences.join("\n")
    );
}

/// Says where two values differ, as deep as it can.
fn differ(path: &str, ours: &Value, theirs: &Value, differences: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for name in ours.keys().chain(theirs.keys().filter(|name| !ours.contains_key(*name))) {
                let of = |side: &serde_json::Map<String, Value>| side.get(name).cloned().unwrap_or_default();
                differ(&format!("{path}.{name}"), &of(ours), &of(theirs), differences);
            }
        }
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                differ(&format!("{path}[{index}]"), ours, theirs, differences);
            }
        }
        _ if ours == theirs => {}
        _ => differences.push(format!("{path}: {ours} and {theirs}")),
    }
}

/// The Secrets in which Helm keeps a release, decoded: revisions and their statuses.
pub async fn releases(site: &Site, release: &str) -> Vec<(u64, String)> {
    let path = format!(
        "/api/v1/namespaces/{}/secrets?fieldSelector=type%3Dhelm.sh%2Frelease.v1&labelSelector=owner%3Dhelm,name%3D{release}",
        site.namespace
    );
    let list = site.client().get(&path).await.unwrap().json();
    let mut releases = Vec::new();
    for secret in list["items"].as_array().unwrap() {
        let stored = decoded(secret["data"]["release"].as_str().unwrap());
        let revision = stored["version"].as_u64().unwrap();
        let status = stored["info"]["status"].as_str().unwrap().to_owned();
        let labels = &secret["metadata"]["labels"];
        // The same three times: in the name, in the labels that Helm selects by, and in what is stored.
        assert_eq!(secret["metadata"]["name"], format!("sh.helm.release.v1.{release}.v{revision}"));
        assert_eq!(labels["version"], revision.to_string(), "{labels}");
        assert_eq!(labels["status"], status, "{labels}");
        assert_eq!(stored["name"], release);
        assert_eq!(stored["namespace"], site.namespace);
        assert_eq!(stored["chart"]["metadata"]["name"], "shop");
        releases.push((revision, status));
    }
    releases.sort_unstable();
    releases
}

/// Helm packs a release as JSON, gzip and base64; being a Secret's data adds another base64.
fn decoded(data: &str) -> Value {
    let packed = STANDARD.decode(STANDARD.decode(data).unwrap()).unwrap();
    let mut text = String::new();
    GzDecoder::new(packed.as_slice()).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}
