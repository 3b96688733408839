//! The objects of a namespace after a step, and the releases that Helm stores there.

use std::collections::BTreeMap;
use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use serde_json::{Value, json};

use super::site::Site;

/// Every resource of which the chart has objects.
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

/// Returns all objects of the chart without fields that differ from run to run.
pub async fn state(site: &Site) -> State {
    let client = site.client();
    let mut found = State::new();
    for path in RESOURCES {
        let (version, resource) = path.rsplit_once('/').unwrap();
        let selector = "labelSelector=app.kubernetes.io/managed-by%3DHelm";
        let path = format!("/{version}/namespaces/{}/{resource}?{selector}", site.namespace);
        let answer = client.get(&path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        let Value::Array(items) = answer.json()["items"].take() else { panic!("no items in {path}") };
        for object in items {
            let name = object["metadata"]["name"].as_str().unwrap();
            found.insert(format!("{resource}/{name}"), normalized(&object));
        }
    }
    found
}

fn normalized(object: &Value) -> Value {
    let uid = object["metadata"]["uid"].as_str().unwrap();
    let mut object: Value = serde_json::from_str(&object.to_string().replace(uid, "UID")).unwrap();
    for field in ["resourceVersion", "creationTimestamp"] {
        assert!(object["metadata"].as_object_mut().unwrap().remove(field).is_some(), "{field}: {object}");
    }
    if let Some(Value::Array(managers)) = object["metadata"].get_mut("managedFields") {
        for manager in managers.iter_mut() {
            manager["time"].take();
        }
        // Managers are ordered by time in whole seconds, so their order may differ.
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

/// Asserts that both servers have the same objects.
#[track_caller]
pub fn assert_same(step: &str, on_atoll: &State, on_upstream: &State) {
    let names = |state: &State| state.keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        names(on_atoll),
        names(on_upstream),
        "after {step}, Atoll has the first and kube-apiserver the second"
    );
    let mut differences = Vec::new();
    for (name, object) in on_atoll {
        collect_differences(name, object, &on_upstream[name], &mut differences);
    }
    assert!(
        differences.is_empty(),
        "after {step}, Atoll has the first and kube-apiserver the second:\n{}",
        differences.join("\n")
    );
}

/// Collects the paths at which two values differ.
fn collect_differences(path: &str, on_atoll: &Value, on_upstream: &Value, differences: &mut Vec<String>) {
    match (on_atoll, on_upstream) {
        (Value::Object(on_atoll), Value::Object(on_upstream)) => {
            for name in on_atoll.keys().chain(on_upstream.keys().filter(|name| !on_atoll.contains_key(*name)))
            {
                let of = |side: &serde_json::Map<String, Value>| side.get(name).cloned().unwrap_or_default();
                collect_differences(&format!("{path}.{name}"), &of(on_atoll), &of(on_upstream), differences);
            }
        }
        (Value::Array(on_atoll), Value::Array(on_upstream)) if on_atoll.len() == on_upstream.len() => {
            for (index, (on_atoll, on_upstream)) in on_atoll.iter().zip(on_upstream).enumerate() {
                collect_differences(&format!("{path}[{index}]"), on_atoll, on_upstream, differences);
            }
        }
        _ if on_atoll == on_upstream => {}
        _ => differences.push(format!("{path}: {on_atoll} and {on_upstream}")),
    }
}

/// Decodes the Secrets in which Helm stores a release. Returns revisions and their statuses.
pub async fn releases(site: &Site, release: &str) -> Vec<(u64, String)> {
    let path = format!(
        "/api/v1/namespaces/{}/secrets?fieldSelector=type%3Dhelm.sh%2Frelease.v1&labelSelector=owner%3Dhelm,name%3D{release}",
        site.namespace
    );
    let list = site.client().get(&path).await.json();
    let mut releases = Vec::new();
    for secret in list["items"].as_array().unwrap() {
        let stored = decode_release(secret["data"]["release"].as_str().unwrap());
        let revision = stored["version"].as_u64().unwrap();
        let status = stored["info"]["status"].as_str().unwrap().to_owned();
        let labels = &secret["metadata"]["labels"];
        // The name, the labels that Helm selects by, and the data must agree.
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

/// Decodes a release. Helm stores it as JSON, gzip and base64, and the data of a Secret adds another base64.
fn decode_release(data: &str) -> Value {
    let packed = STANDARD.decode(STANDARD.decode(data).unwrap()).unwrap();
    let mut text = String::new();
    GzDecoder::new(packed.as_slice()).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}
