//! Normalized state of endpoints.

use std::collections::{BTreeMap, BTreeSet};

use atoll_testkit::Client;
use serde_json::{Value, json};

const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// State by object.
pub type Snapshot = BTreeMap<String, Value>;

pub async fn list(client: &Client, path: &str) -> Vec<Value> {
    let answer = client.get(path).await.json();
    answer["items"].as_array().cloned().unwrap_or_default()
}

pub const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/test/endpointslices";
pub const ENDPOINTS: &str = "/api/v1/namespaces/test/endpoints";
pub const EVENTS: &str = "/api/v1/namespaces/test/events";

/// Endpoints and EndpointSlices.
pub struct EndpointState {
    endpoints: Vec<Value>,
    slices: Vec<Value>,
}

pub async fn take(client: &Client) -> EndpointState {
    EndpointState { endpoints: list(client, ENDPOINTS).await, slices: list(client, SLICES).await }
}

impl EndpointState {
    /// Returns the complete state.
    pub fn whole(&self) -> Snapshot {
        self.form(&["creationTimestamp", "managedFields", "name", "resourceVersion", "uid", "generation"])
    }

    /// Returns the state without history: trigger times and generated names.
    pub fn lasting(&self) -> Snapshot {
        let own = ["creationTimestamp", "managedFields", "name", "resourceVersion", "uid", "generation"];
        self.form(&[&own[..], &[TRIGGER, "generateName"]].concat())
    }

    fn form(&self, without: &[&str]) -> Snapshot {
        let metadata = |object: &Value| {
            let mut metadata = object["metadata"].clone();
            let annotations = metadata["annotations"].as_object_mut();
            let is_left = annotations.is_some_and(|annotations| {
                without.iter().for_each(|name| drop(annotations.remove(*name)));
                !annotations.is_empty()
            });
            let fields = metadata.as_object_mut().expect("metadata");
            let gone = if is_left { &[][..] } else { &["annotations"] };
            without.iter().chain(gone).for_each(|name| drop(fields.remove(*name)));
            metadata
        };
        let mut snapshot = Snapshot::new();
        for endpoints in &self.endpoints {
            let name = format!("Endpoints {}", endpoints["metadata"]["name"].as_str().unwrap_or_default());
            snapshot.insert(name, json!({"metadata": metadata(endpoints), "subsets": endpoints["subsets"]}));
        }
        // The distribution over several slices is random.
        let mut groups: BTreeMap<String, (Vec<usize>, Vec<Value>)> = BTreeMap::new();
        for slice in &self.slices {
            let endpoints = slice["endpoints"].as_array().cloned().unwrap_or_default();
            let of = slice["metadata"]["labels"]["kubernetes.io/service-name"].as_str().unwrap_or_default();
            let about = format!(
                "EndpointSlices {of} {} {}: {}",
                slice["addressType"].as_str().unwrap_or_default(),
                slice["ports"],
                metadata(slice)
            );
            let (sizes, all) = groups.entry(about).or_default();
            sizes.push(endpoints.len());
            all.extend(endpoints);
        }
        for (about, (mut sizes, mut endpoints)) in groups {
            sizes.sort_unstable();
            // The choice of endpoints with hints for another zone is random.
            let mut hints: BTreeMap<String, usize> = BTreeMap::new();
            if about.starts_with("EndpointSlices topology-") {
                for endpoint in endpoints.iter_mut().filter_map(Value::as_object_mut) {
                    let hint = endpoint.remove("hints").unwrap_or_default();
                    *hints.entry(hint.to_string()).or_default() += 1;
                }
            }
            endpoints.sort_by_cached_key(Value::to_string);
            snapshot.insert(about, json!({"sizes": sizes, "hints": hints, "endpoints": endpoints}));
        }
        snapshot
    }
}

/// Returns the events of controllers.
pub async fn events(client: &Client) -> BTreeSet<String> {
    let events = list(client, EVENTS).await;
    let events_text = events.iter().map(|event| {
        let about = &event["involvedObject"];
        json!([
            event["source"],
            event["type"],
            event["reason"],
            event["message"],
            about["kind"],
            about["name"]
        ])
    });
    events_text.map(|events_text| events_text.to_string()).collect()
}

/// Describes the differences.
pub fn difference(upstream: &Snapshot, atoll: &Snapshot) -> Vec<String> {
    let abouts: BTreeSet<&String> = upstream.keys().chain(atoll.keys()).collect();
    let mut differences = Vec::new();
    for about in abouts {
        let (one, other) = (flat(upstream.get(about)), flat(atoll.get(about)));
        if one != other {
            let lines = |of: &BTreeSet<String>, without: &BTreeSet<String>| {
                of.difference(without).map(|line| format!("\n    {line}")).collect::<String>()
            };
            differences.push(format!(
                "{about}\n  upstream:{}\n  atoll:{}",
                lines(&one, &other),
                lines(&other, &one)
            ));
        }
    }
    differences
}

/// Returns every leaf with its path.
fn flat(value: Option<&Value>) -> BTreeSet<String> {
    fn walk(value: &Value, path: String, lines: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                fields.iter().for_each(|(field, value)| walk(value, format!("{path}.{field}"), lines));
            }
            Value::Array(items) if !items.is_empty() => {
                items
                    .iter()
                    .enumerate()
                    .for_each(|(place, value)| walk(value, format!("{path}[{place}]"), lines));
            }
            leaf => drop(lines.insert(format!("{path}: {leaf}"))),
        }
    }
    let mut lines = BTreeSet::new();
    if let Some(value) = value {
        walk(value, String::new(), &mut lines);
    }
    lines
}
