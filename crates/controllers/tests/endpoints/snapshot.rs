//! What endpoints say, in a form in which the same looks the same.

use std::collections::{BTreeMap, BTreeSet};

use atoll_testkit::Client;
use serde_json::{Value, json};

const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// By what they are about.
pub type Snapshot = BTreeMap<String, Value>;

pub async fn list(client: &Client, path: &str) -> Vec<Value> {
    let answer = client.get(path).await.expect("an answer").json();
    answer["items"].as_array().cloned().unwrap_or_default()
}

pub const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/test/endpointslices";
pub const ENDPOINTS: &str = "/api/v1/namespaces/test/endpoints";
pub const EVENTS: &str = "/api/v1/namespaces/test/events";

/// Endpoints and EndpointSlices as they are.
pub struct Seen {
    endpoints: Vec<Value>,
    slices: Vec<Value>,
}

pub async fn take(client: &Client) -> Seen {
    Seen { endpoints: list(client, ENDPOINTS).await, slices: list(client, SLICES).await }
}

impl Seen {
    /// All that they say.
    pub fn whole(&self) -> Snapshot {
        self.form(&["creationTimestamp", "managedFields", "name", "resourceVersion", "uid", "generation"])
    }

    /// Without what tells what they were before: when something last changed, and whether a name was generated.
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
        // Which endpoints are together in a slice is chance where there are too many for one.
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
            // Which endpoints stand in for those that another zone lacks is chance.
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

/// What controllers have to say.
pub async fn events(client: &Client) -> BTreeSet<String> {
    let events = list(client, EVENTS).await;
    let told = events.iter().map(|event| {
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
    told.map(|told| told.to_string()).collect()
}

/// What is not the same, in words.
pub fn difference(theirs: &Snapshot, ours: &Snapshot) -> Vec<String> {
    let abouts: BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
    let mut differences = Vec::new();
    for about in abouts {
        let (one, other) = (flat(theirs.get(about)), flat(ours.get(about)));
        if one != other {
            let lines = |of: &BTreeSet<String>, without: &BTreeSet<String>| {
                of.difference(without).map(|line| format!("\n    {line}")).collect::<String>()
            };
            differences.push(format!(
                "{about}\n  theirs:{}\n  ours:{}",
                lines(&one, &other),
                lines(&other, &one)
            ));
        }
    }
    differences
}

/// Every leaf of it with the way to it.
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
