//! Events of clusters as they are shown above: about the object that people know, and with the name of the cluster.

use serde_json::{Value, json};

use crate::marks;
use crate::view::Happening;

/// What an Event says of what happened, and is the same above.
const SAID: [&str; 10] = [
    "reason",
    "type",
    "action",
    "count",
    "firstTimestamp",
    "lastTimestamp",
    "eventTime",
    "series",
    "reportingComponent",
    "reportingInstance",
];
/// As long as a message may be.
const MESSAGE: usize = 1024;
/// As long as the first part of a name may be.
const NAME: usize = 200;
/// Where events are that are about something in no namespace.
const NOWHERE: &str = "default";

impl Happening {
    /// Where the Event is above.
    pub fn namespace(&self) -> &str {
        match self.target.namespace.as_str() {
            "" => NOWHERE,
            namespace => namespace,
        }
    }

    /// What the Event is called above: the same whenever it is heard of, and different for each cluster.
    pub fn name(&self, cluster: &str) -> String {
        let about = self.about["name"].as_str().unwrap_or(&self.target.name);
        let is_plain = |letter: char| matches!(letter, 'a'..='z' | '0'..='9' | '-' | '.');
        let fits = about.len() <= NAME
            && about.chars().all(is_plain)
            && about.starts_with(|first: char| first.is_ascii_alphanumeric());
        let first = if fits { about } else { self.target.uid.as_str() };
        format!("{first}.{:016x}", hash(&[cluster, &self.target.uid, &self.id]))
    }

    /// The Event as it is shown above.
    pub fn shown(&self, cluster: &str) -> Value {
        let (target, event) = (&self.target, &self.event);
        let mut shown = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": self.name(cluster), "namespace": self.namespace(),
                "annotations": { marks::CLUSTER: cluster },
            },
        });
        for field in SAID {
            if let Some(value) = event.get(field).filter(|value| !value.is_null()) {
                shown[field] = value.clone();
            }
        }
        let mut involved = match &self.about {
            Value::Object(about) => json!({
                "apiVersion": about.get("apiVersion"), "kind": about.get("kind"), "name": about.get("name"),
                "uid": about.get("uid"),
            }),
            _ => {
                let resource = &target.resource;
                let api_version = match resource.group.is_empty() {
                    true => resource.version.clone(),
                    false => format!("{}/{}", resource.group, resource.version),
                };
                json!({ "apiVersion": api_version, "kind": resource.kind, "name": target.name, "uid": target.uid })
            }
        };
        if !target.namespace.is_empty() {
            involved["namespace"] = target.namespace.as_str().into();
        }
        if let Some(path) = event["involvedObject"].get("fieldPath") {
            involved["fieldPath"] = path.clone();
        }
        shown["involvedObject"] = involved;
        let host = match event["source"]["host"].as_str() {
            Some(host) if !host.is_empty() => format!("{cluster}/{host}"),
            _ => cluster.to_string(),
        };
        shown["source"] =
            json!({ "component": event["source"]["component"].as_str().unwrap_or_default(), "host": host });
        shown["message"] = message(cluster, event["message"].as_str().unwrap_or_default()).into();
        shown
    }
}

/// Whoever lists events sees neither annotations nor who says it, and wants to know where it was.
fn message(cluster: &str, text: &str) -> String {
    let mut message = format!("[{cluster}] {text}");
    if message.len() > MESSAGE {
        let end = (0..=MESSAGE).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
        message.truncate(end);
    }
    message
}

/// FNV-1a, which will be the same in any version.
fn hash(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{Resource, Target};

    fn happening() -> Happening {
        let resource = Resource {
            group: "apps".into(),
            version: "v1".into(),
            resource: "deployments".into(),
            kind: "Deployment".into(),
            namespaced: true,
        };
        Happening {
            target: Target {
                resource,
                workspace: "w".into(),
                namespace: "shop".into(),
                name: "web".into(),
                uid: "above".into(),
            },
            id: "e1".into(),
            about: Value::Null,
            event: json!({
                "metadata": { "name": "web.17", "namespace": "shop-x", "uid": "e1" },
                "involvedObject": { "kind": "Deployment", "namespace": "shop-x", "name": "web", "uid": "below" },
                "reason": "ScalingReplicaSet", "message": "Scaled up", "type": "Normal", "count": 3,
                "firstTimestamp": "2026-11-16T01:00:00Z", "lastTimestamp": "2026-11-16T01:02:00Z", "eventTime": null,
                "source": { "component": "deployment-controller" }, "reportingComponent": "deployment-controller",
                "reportingInstance": "",
            }),
        }
    }

    #[test]
    fn events_are_about_the_object_above() {
        let shown = happening().shown("east");
        let name = shown["metadata"]["name"].as_str().unwrap().to_string();
        assert_eq!(
            shown,
            json!({
                "apiVersion": "v1", "kind": "Event",
                "metadata": { "name": name, "namespace": "shop", "annotations": { "atoll.dev/cluster": "east" } },
                "involvedObject": {
                    "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web", "uid": "above",
                },
                "reason": "ScalingReplicaSet", "message": "[east] Scaled up", "type": "Normal", "count": 3,
                "firstTimestamp": "2026-11-16T01:00:00Z", "lastTimestamp": "2026-11-16T01:02:00Z",
                "source": { "component": "deployment-controller", "host": "east" },
                "reportingComponent": "deployment-controller", "reportingInstance": "",
            })
        );
        assert!(name.starts_with("web.") && name.len() == "web.".len() + 16, "{name}");
        assert_eq!(happening().name("east"), name, "it is the same one each time");
        assert_ne!(happening().name("west"), name);
    }

    #[test]
    fn pods_keep_their_names_and_nodes_are_of_clusters() {
        let mut happening = happening();
        happening.about = json!({ "apiVersion": "v1", "kind": "Pod", "name": "web-1", "uid": "pod" });
        happening.event["involvedObject"]["fieldPath"] = "spec.containers{web}".into();
        happening.event["source"]["host"] = "node-1".into();
        happening.event["message"] = "é".repeat(1000).into();
        let shown = happening.shown("east");
        assert_eq!(
            shown["involvedObject"],
            json!({
                "apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "web-1", "uid": "pod",
                "fieldPath": "spec.containers{web}",
            })
        );
        assert_eq!(shown["source"]["host"], "east/node-1");
        let message = shown["message"].as_str().unwrap();
        assert!(message.len() <= 1024 && message.starts_with("[east] éé"), "{message}");
        happening.about["name"] = "No_Name".into();
        assert!(happening.name("east").starts_with("above."));
        happening.target.namespace.clear();
        let shown = happening.shown("east");
        assert_eq!(shown["metadata"]["namespace"], "default");
        assert_eq!(shown["involvedObject"].get("namespace"), None);
    }
}
