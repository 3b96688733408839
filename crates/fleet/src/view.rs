//! The sync view: the lines that a server sends to a syncer, and the reports that it receives.

mod bounded;
mod endpoints;
mod pod_counts;

use std::collections::BTreeMap;

use atoll_meta::object;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cluster::ClusterView;
use crate::{marks, pod_security};

pub use bounded::{LARGEST_STATUS, LONGEST_MESSAGE, LONGEST_REASON};
pub use endpoints::{Endpoint, EndpointGroup, EndpointPort, MAX_ENDPOINTS, ServiceEndpoints};
pub use pod_counts::{PodCounts, PodRequests, PodUsage};

/// The resource of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SyncResource {
    #[serde(default)]
    pub group: String,
    pub version: String,
    pub resource: String,
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub namespaced: bool,
}

/// An object above.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectTarget {
    pub resource: SyncResource,
    /// Workspace id.
    pub workspace: String,
    #[serde(default)]
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl ObjectTarget {
    /// Returns the target of a namespace above.
    pub fn namespace(workspace: &str, name: &str, uid: &str) -> ObjectTarget {
        ObjectTarget {
            resource: SyncResource {
                group: String::new(),
                version: "v1".into(),
                resource: "namespaces".into(),
                kind: "Namespace".into(),
                namespaced: false,
            },
            workspace: workspace.into(),
            namespace: String::new(),
            name: name.into(),
            uid: uid.into(),
        }
    }

    pub fn is_namespace(&self) -> bool {
        self.resource.group.is_empty() && self.resource.resource == "namespaces"
    }

    pub fn is_service(&self) -> bool {
        self.resource.group.is_empty() && self.resource.resource == "services"
    }
}

/// Policy for changes of other writers to fields that the syncer owns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Drift {
    #[default]
    Correct,
    /// Left as it is, and reported.
    Report,
}

impl Drift {
    /// All values as they are written.
    pub const NAMES: [&str; 2] = ["correct", "report"];

    /// Returns the policy of an object on a cluster: the annotation of the object comes first.
    pub fn of(cluster: &Value, object: &Value) -> Drift {
        let own = object::annotation(object, marks::DRIFT).and_then(Drift::parse);
        own.or_else(|| ClusterView::of(cluster).drift().and_then(Drift::parse)).unwrap_or_default()
    }

    fn parse(text: &str) -> Option<Drift> {
        match text {
            "correct" => Some(Drift::Correct),
            "report" => Some(Drift::Report),
            _ => None,
        }
    }

    fn is_corrected(&self) -> bool {
        *self == Drift::Correct
    }
}

/// A line of the sync view. It contains the latest state of an object: a syncer that was disconnected misses
/// only intermediate states.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum SyncLine {
    /// The object must exist with this shape.
    Object {
        #[serde(flatten)]
        target: ObjectTarget,
        generation: i64,
        /// The shape: no status, no defaults, no marks.
        object: Value,
        #[serde(default, skip_serializing_if = "Drift::is_corrected")]
        drift: Drift,
        /// Whether the Pod template that was applied last must be kept, because the turn of the cluster in a
        /// rollout has not come.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        held: bool,
    },
    /// The object must be deleted, if it exists and has the marks.
    Remove {
        #[serde(flatten)]
        target: ObjectTarget,
        /// Revision at which the removal was requested; the report about it refers to it.
        #[serde(default, skip_serializing_if = "is_zero")]
        since: u64,
    },
    /// The object is no longer known; nothing must be done.
    Forget {
        #[serde(flatten)]
        target: ObjectTarget,
    },
    /// Required labels and name of the namespace below. Sent before any object in it, unless there are none.
    Namespace {
        workspace: String,
        namespace: String,
        #[serde(flatten)]
        labels: pod_security::Labels,
        /// The name below, if one is prescribed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        below: Option<String>,
    },
    /// A namespace above is being deleted with all objects in it.
    Ending {
        workspace: String,
        namespace: String,
        /// Uid, if its deletion waits until the cluster reports that the namespace below is gone.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        uid: String,
        /// Revision at which the deletion was requested.
        #[serde(default, skip_serializing_if = "is_zero")]
        since: u64,
    },
    /// Whether creations and deletions are paused, and why.
    Paused {
        /// The paused workspace; empty for all.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        workspace: String,
        paused: bool,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        why: String,
    },
    /// The view is complete.
    Synced {
        #[serde(rename = "controlPlane")]
        control_plane: String,
        /// Uid of the Cluster.
        uid: String,
        /// Ids of all workspaces with objects on the cluster.
        workspaces: Vec<String>,
        /// Id of the registering workspace.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        workspace: String,
        /// Pinned uid of the cluster's namespace `kube-system`, if known; a syncer must not write to another
        /// cluster.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        id: String,
        /// Whether the cluster is read-only.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        observe: bool,
    },
    Alive,
}

impl SyncLine {
    pub fn parse(line: &[u8]) -> Option<SyncLine> {
        serde_json::from_slice(line).ok()
    }

    /// Returns the line with its newline.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }
}

/// State of an object in a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    #[default]
    Applied,
    /// An object with this name exists and is not managed.
    Conflict,
    /// The cluster rejects it.
    Refused,
    /// It no longer exists.
    Gone,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    #[serde(flatten)]
    pub target: ObjectTarget,
    /// Generation above that was applied last.
    #[serde(default)]
    pub generation: i64,
    pub state: State,
    /// Message about a failure.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Whether the status is about the last applied shape.
    #[serde(default)]
    pub observed: bool,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub status: Value,
    /// For a removed object, the revision at which the removal was requested; 0 if unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub since: u64,
    /// Whether the object has an earlier Pod template, because its share is held.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// The Pods of a workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodCounts>,
    /// The endpoints of a Service, if they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<ServiceEndpoints>,
    /// `spec.replicas` of the object in the cluster, which an autoscaler there may have set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Prefix of the message of a record about drift that is left as it is.
pub const DRIFT_PREFIX: &str = "changes of others are left: ";
/// Prefix of the message of a record about an object that stays in the cluster although the control plane may
/// forget it.
pub const RETAINED_PREFIX: &str = "retained: ";

impl Record {
    /// Returns why an object that is no longer placed on a cluster stays there, if it does.
    pub fn retained(&self) -> Option<&str> {
        self.message.strip_prefix(RETAINED_PREFIX).filter(|_| self.state == State::Gone)
    }

    /// Returns the reported drift, if it is left as it is.
    pub fn drift(&self) -> Option<&str> {
        self.message.strip_prefix(DRIFT_PREFIX).filter(|_| self.state == State::Applied)
    }
}

/// An Event about a placed object, or about an object that it owns in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EventReport {
    /// The placed object.
    #[serde(flatten)]
    pub target: ObjectTarget,
    /// Uid of the Event in the cluster.
    pub id: String,
    /// Reference to the involved object, if that is not the placed object.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub about: Value,
    /// The Event in the cluster.
    pub event: Value,
}

/// The CustomResourceDefinitions of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DefinitionReport {
    /// The digests of all definitions by name, as far as they are reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digests: Option<BTreeMap<String, String>>,
    /// Number of definitions that are not reported.
    #[serde(skip_serializing_if = "is_none_left")]
    pub omitted: usize,
    /// Definitions that the control plane has asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub complete: Vec<ReportedDefinition>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReportedDefinition {
    pub digest: String,
    pub definition: Value,
}

fn is_none_left(count: &usize) -> bool {
    *count == 0
}

/// A report of a syncer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<Record>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventReport>,
    /// Fields of the status of the Cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<Value>,
    /// Instance of a syncer that stops.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub farewell: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub definitions: Option<DefinitionReport>,
    /// Random number of a syncer's run and number of the report in it; see [`crate::report_order`].
    #[serde(skip_serializing_if = "is_zero")]
    pub run: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub number: u64,
}

/// Response to a report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReportResponse {
    /// Heartbeat interval that the control plane requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat_milliseconds: Option<u64>,
    /// Names of definitions that the control plane asks for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wanted_definitions: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_round_trip() {
        let resource = SyncResource {
            group: "apps".into(),
            version: "v1".into(),
            resource: "deployments".into(),
            kind: "Deployment".into(),
            namespaced: true,
        };
        let target = ObjectTarget {
            resource,
            workspace: "w".into(),
            namespace: "n".into(),
            name: "a".into(),
            uid: "u".into(),
        };
        for line in [
            SyncLine::Object {
                target: target.clone(),
                generation: 4,
                object: serde_json::json!({ "spec": {} }),
                drift: Drift::Report,
                held: true,
            },
            SyncLine::Remove { target: target.clone(), since: 7 },
            SyncLine::Forget { target },
            SyncLine::Namespace {
                workspace: "w".into(),
                namespace: "n".into(),
                labels: pod_security::Labels::fallback(false),
                below: Some("m".into()),
            },
            SyncLine::Ending { workspace: "w".into(), namespace: "n".into(), uid: String::new(), since: 0 },
            SyncLine::Ending { workspace: "w".into(), namespace: "n".into(), uid: "u".into(), since: 7 },
            SyncLine::Paused { workspace: "w".into(), paused: true, why: "incident".into() },
            SyncLine::Synced {
                control_plane: "c".into(),
                uid: "u".into(),
                workspaces: vec!["w".into()],
                workspace: "w".into(),
                id: "i".into(),
                observe: true,
            },
            SyncLine::Alive,
        ] {
            assert_eq!(SyncLine::parse(line.bytes().trim_ascii_end()).as_ref(), Some(&line));
        }
        assert_eq!(SyncLine::Alive.bytes(), b"{\"type\":\"Alive\"}\n");
        assert_eq!(SyncLine::parse(b"{}"), None);
    }

    #[test]
    fn drift_policy_of_the_object_comes_first() {
        let cluster = |drift: &str| serde_json::json!({ "spec": { "drift": drift } });
        let object =
            |drift: &str| serde_json::json!({ "metadata": { "annotations": { "atoll.dev/drift": drift } } });
        for (cluster, object, expected) in [
            (Value::Null, Value::Null, Drift::Correct),
            (cluster("report"), Value::Null, Drift::Report),
            (cluster("report"), object("correct"), Drift::Correct),
            (cluster("correct"), object("report"), Drift::Report),
            (cluster("report"), object("nonsense"), Drift::Report),
        ] {
            assert_eq!(Drift::of(&cluster, &object), expected, "{cluster} {object}");
        }
        let record = Record { message: format!("{DRIFT_PREFIX}a changed b"), ..Record::default() };
        assert_eq!(record.drift(), Some("a changed b"));
        assert_eq!(Record { state: State::Refused, ..record }.drift(), None);
    }
}
