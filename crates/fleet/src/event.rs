//! Events of clusters as they are shown above: about the placed object, and with the name of the cluster.

use atoll_meta::text::clean;
use atoll_meta::time;
use serde_json::{Value, json};

use crate::marks;
use crate::view::EventReport;

/// Fields of an Event that are copied. Clusters and syncers may be hostile, so fields of another form are
/// dropped.
const EVENT_FIELDS: [(&str, Form); 10] = [
    ("reason", Form::Text(128)),
    ("type", Form::Text(64)),
    ("action", Form::Text(128)),
    ("count", Form::Number),
    ("firstTimestamp", Form::Time),
    ("lastTimestamp", Form::Time),
    ("eventTime", Form::Time),
    ("series", Form::Series),
    ("reportingComponent", Form::Text(253)),
    ("reportingInstance", Form::Text(128)),
];

#[derive(Clone, Copy)]
enum Form {
    /// Text of at most this number of bytes.
    Text(usize),
    Number,
    Time,
    /// A count and a time.
    Series,
}

impl Form {
    fn read(self, value: &Value) -> Option<Value> {
        match self {
            Form::Text(most) => {
                value.as_str().filter(|text| text.len() <= most).map(|text| clean(text, most).into())
            }
            Form::Number => value.as_i64().and_then(|number| i32::try_from(number).ok()).map(Value::from),
            Form::Time => value.as_str().filter(|text| time::parse(text).is_ok()).map(Value::from),
            Form::Series => {
                let (count, last) =
                    (Form::Number.read(&value["count"])?, Form::Time.read(&value["lastObservedTime"])?);
                Some(json!({ "count": count, "lastObservedTime": last }))
            }
        }
    }
}

/// Fields of the involved object that are copied.
const INVOLVED_FIELDS: [(&str, Form); 4] = [
    ("apiVersion", Form::Text(320)),
    ("kind", Form::Text(253)),
    ("name", Form::Text(253)),
    ("uid", Form::Text(128)),
];
/// Kinds that controllers in clusters create for other objects, whose Events are shown for the placed object:
/// API version, kind, plural.
pub const CREATED_KINDS: [(&str, &str, &str); 3] =
    [("v1", "Pod", "pods"), ("apps/v1", "ReplicaSet", "replicasets"), ("batch/v1", "Job", "jobs")];
/// Longest message.
const MESSAGE: usize = 1024;
/// Longest first part of an Event name.
const NAME: usize = 200;
/// Namespace of Events about cluster-scoped objects.
const DEFAULT_NAMESPACE: &str = "default";

/// Returns the plural of a kind that controllers in clusters create for other objects.
pub fn created_plural(api_version: &str, kind: &str) -> Option<&'static str> {
    let row = CREATED_KINDS.iter().find(|(version, name, _)| (*version, *name) == (api_version, kind));
    row.map(|(_, _, plural)| *plural)
}

impl EventReport {
    /// Returns the namespace of the Event above.
    pub fn namespace(&self) -> &str {
        match self.target.namespace.as_str() {
            "" => DEFAULT_NAMESPACE,
            namespace => namespace,
        }
    }

    /// Returns the name of the Event above, which is stable and different for each cluster.
    pub fn name(&self, cluster: &str) -> String {
        let about = self.about["name"].as_str().unwrap_or(&self.target.name);
        let is_plain = |letter: char| matches!(letter, 'a'..='z' | '0'..='9' | '-' | '.');
        let fits = about.len() <= NAME
            && about.chars().all(is_plain)
            && about.starts_with(|first: char| first.is_ascii_alphanumeric());
        let first = if fits { about } else { self.target.uid.as_str() };
        format!("{first}.{:016x}", hash(&[cluster, &self.target.uid, &self.id]))
    }

    /// Returns the Event as it is shown above.
    pub fn to_event(&self, cluster: &str) -> Value {
        let (target, event) = (&self.target, &self.event);
        let mut shown = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": self.name(cluster), "namespace": self.namespace(),
                "annotations": { marks::CLUSTER: cluster },
            },
        });
        for (field, form) in EVENT_FIELDS {
            if let Some(value) = event.get(field).and_then(|value| form.read(value)) {
                shown[field] = value;
            }
        }
        let mut involved = json!({});
        if self.about.is_object() {
            for (field, form) in INVOLVED_FIELDS {
                if let Some(value) = form.read(&self.about[field]) {
                    involved[field] = value;
                }
            }
        } else {
            let resource = &target.resource;
            let api_version = match resource.group.is_empty() {
                true => resource.version.clone(),
                false => format!("{}/{}", resource.group, resource.version),
            };
            involved = json!({ "apiVersion": api_version, "kind": resource.kind, "name": target.name, "uid": target.uid });
        }
        if !target.namespace.is_empty() {
            involved["namespace"] = target.namespace.as_str().into();
        }
        if let Some(path) = Form::Text(MESSAGE).read(&event["involvedObject"]["fieldPath"]) {
            involved["fieldPath"] = path;
        }
        shown["involvedObject"] = involved;
        let part = |field: &str| Form::Text(253).read(&event["source"][field]);
        let part =
            |field: &str| part(field).and_then(|text| text.as_str().map(str::to_string)).unwrap_or_default();
        let host = match part("host").as_str() {
            host if !host.is_empty() => format!("{cluster}/{host}"),
            _ => cluster.to_string(),
        };
        shown["source"] = json!({ "component": part("component"), "host": host });
        shown["message"] = message(cluster, event["message"].as_str().unwrap_or_default()).into();
        shown
    }
}

/// Prefixes a message with the cluster, because listings of Events show neither annotations nor sources.
fn message(cluster: &str, text: &str) -> String {
    clean(&format!("[{cluster}] {text}"), MESSAGE)
}

/// Returns the parts of an Event that are needed to show and identify it, to save memory until it is sent.
pub fn trim(event: &Value) -> Value {
    let pick = |from: &Value, fields: &[&str]| -> Value {
        let texts = fields
            .iter()
            .filter_map(|field| Some(((*field).to_string(), Form::Text(320).read(from.get(field)?)?)));
        texts.collect()
    };
    let mut kept = json!({
        "metadata": pick(&event["metadata"], &["name", "namespace", "uid", "resourceVersion"]),
        "involvedObject": pick(&event["involvedObject"], &["apiVersion", "kind", "namespace", "name", "uid"]),
        "source": pick(&event["source"], &["component", "host"]),
        "message": clean(event["message"].as_str().unwrap_or_default(), MESSAGE),
    });
    for (field, form) in EVENT_FIELDS {
        if let Some(value) = event.get(field).and_then(|value| form.read(value)) {
            kept[field] = value;
        }
    }
    if let Some(path) = Form::Text(MESSAGE).read(&event["involvedObject"]["fieldPath"]) {
        kept["involvedObject"]["fieldPath"] = path;
    }
    kept
}

/// FNV-1a, which never changes between versions.
fn hash(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{ObjectTarget, SyncResource};

    fn report() -> EventReport {
        let resource = SyncResource {
            group: "apps".into(),
            version: "v1".into(),
            resource: "deployments".into(),
            kind: "Deployment".into(),
            namespaced: true,
        };
        EventReport {
            target: ObjectTarget {
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
        let shown = report().to_event("east");
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
        assert_eq!(report().name("east"), name, "the name is stable");
        assert_ne!(report().name("west"), name);
    }

    #[test]
    fn pod_names_are_kept_and_hosts_have_the_cluster_name() {
        let mut report = report();
        report.about = json!({ "apiVersion": "v1", "kind": "Pod", "name": "web-1", "uid": "pod" });
        report.event["involvedObject"]["fieldPath"] = "spec.containers{web}".into();
        report.event["source"]["host"] = "node-1".into();
        report.event["message"] = "é".repeat(1000).into();
        let shown = report.to_event("east");
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
        report.about["name"] = "No_Name".into();
        assert!(report.name("east").starts_with("above."));
        report.target.namespace.clear();
        let shown = report.to_event("east");
        assert_eq!(shown["metadata"]["namespace"], "default");
        assert_eq!(shown["involvedObject"].get("namespace"), None);
    }

    #[test]
    fn trimmed_event_is_shown_the_same() {
        let whole = report();
        let mut trimmed_one = whole.clone();
        trimmed_one.event = trim(&whole.event);
        assert_eq!(trimmed_one.to_event("east"), whole.to_event("east"));
        assert_eq!(trim(&trimmed_one.event), trimmed_one.event);
        let large = json!({
            "metadata": { "uid": "u", "name": "x".repeat(1 << 20), "annotations": { "a": "x".repeat(1 << 20) } },
            "message": "\u{1b}[2J".repeat(1 << 18), "note": "x".repeat(1 << 20),
        });
        let kept = trim(&large).to_string();
        assert!(kept.len() < 4096 && !kept.contains("1b"), "{kept}");
        let mut hostile = report();
        hostile.event["message"] = "\u{1b}]0;title\u{7}\u{202e}".into();
        hostile.event["reason"] = "\u{9b}2J".into();
        let shown = hostile.to_event("east");
        assert_eq!((&shown["message"], &shown["reason"]), (&"[east] ]0;title".into(), &"2J".into()));
    }

    #[test]
    fn only_created_kinds_are_recognized() {
        assert_eq!(created_plural("v1", "Pod"), Some("pods"));
        assert_eq!(created_plural("batch/v1", "Job"), Some("jobs"));
        for (version, kind) in [("apps/v1", "Deployment"), ("v1", "Secret"), ("v1", "Job"), ("", "")] {
            assert_eq!(created_plural(version, kind), None, "{version} {kind}");
        }
    }

    #[test]
    fn malformed_fields_are_dropped() {
        let mut report = report();
        report.about = json!({ "apiVersion": 1, "kind": ["Pod"], "name": "web-1", "uid": { "a": 1 } });
        report.event = json!({
            "reason": { "a": 1 }, "type": "x".repeat(65), "count": 1u64 << 40, "firstTimestamp": "soon", "eventTime": 7,
            "series": { "count": "many" }, "message": ["no"], "source": "kubelet",
            "involvedObject": { "fieldPath": 3 }, "metadata": { "finalizers": ["never"] }, "extra": true,
        });
        let mut shown = report.to_event("east");
        shown.as_object_mut().unwrap().remove("metadata");
        let expected = json!({
            "apiVersion": "v1", "kind": "Event", "message": "[east] ",
            "involvedObject": { "name": "web-1", "namespace": "shop" }, "source": { "component": "", "host": "east" },
        });
        assert_eq!(shown, expected);
        report.event =
            json!({ "series": { "count": 3, "lastObservedTime": "2026-11-16T01:00:00.000001Z", "x": 1 } });
        let series = json!({ "count": 3, "lastObservedTime": "2026-11-16T01:00:00.000001Z" });
        assert_eq!(report.to_event("east")["series"], series);
    }
}
