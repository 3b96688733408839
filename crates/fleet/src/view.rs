//! What a server tells a syncer, line by line, and what it hears from it.

mod bounded;

use atoll_meta::object;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{marks, pod_security};

pub use bounded::{LARGEST_STATUS, LONGEST_MESSAGE};

/// Which resource something is one of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Resource {
    #[serde(default)]
    pub group: String,
    pub version: String,
    pub resource: String,
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub namespaced: bool,
}

/// Which object, above.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Target {
    pub resource: Resource,
    /// Id of the workspace.
    pub workspace: String,
    #[serde(default)]
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl Target {
    /// A namespace above.
    pub fn namespace(workspace: &str, name: &str, uid: &str) -> Target {
        Target {
            resource: Resource {
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
}

/// What becomes of changes that others make in the cluster to what we set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Drift {
    #[default]
    Correct,
    /// Left, and told above.
    Report,
}

impl Drift {
    /// All that there are, as they are written.
    pub const NAMES: [&str; 2] = ["correct", "report"];

    /// For an object on a cluster: the object itself comes first.
    pub fn of(cluster: &Value, object: &Value) -> Drift {
        let own = object::annotation(object, marks::DRIFT).and_then(Drift::parse);
        own.or_else(|| cluster["spec"]["drift"].as_str().and_then(Drift::parse)).unwrap_or_default()
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

/// One line of the view of a cluster. The latest state of each object: a syncer that was away misses nothing but what
/// was no longer so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Line {
    /// It shall be there, and look like this.
    Object {
        #[serde(flatten)]
        target: Target,
        generation: i64,
        /// What is to be applied, without anything that is not to be: no status, no defaults, no marks.
        object: Value,
        #[serde(default, skip_serializing_if = "Drift::is_corrected")]
        drift: Drift,
    },
    /// It shall go, if it is there and carries our mark.
    Remove {
        #[serde(flatten)]
        target: Target,
        /// The revision since which that is so. Who says that it is gone says it of this.
        #[serde(default, skip_serializing_if = "is_zero")]
        since: u64,
    },
    /// Nothing is known of it any longer, and nothing is to be done.
    Forget {
        #[serde(flatten)]
        target: Target,
    },
    /// What the namespace below that stands for one above has to enforce. Said before any object that is in it, unless that
    /// goes without saying.
    Namespace {
        workspace: String,
        namespace: String,
        #[serde(flatten)]
        labels: pod_security::Labels,
    },
    /// A namespace above is being deleted, and with it all that was said to be in it.
    Ending {
        workspace: String,
        namespace: String,
        /// Its uid, if it is held until the cluster has none for it: whoever has seen to that reports that it is gone.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        uid: String,
        /// The revision since which that is so.
        #[serde(default, skip_serializing_if = "is_zero")]
        since: u64,
    },
    /// Whether nothing is to be made or deleted for now, and why.
    Paused {
        /// Only what is from this workspace; everything if there is none.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        workspace: String,
        paused: bool,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        why: String,
    },
    /// Everything was said once.
    Synced {
        #[serde(rename = "controlPlane")]
        control_plane: String,
        /// Of the Cluster.
        uid: String,
        /// Ids of all workspaces that have something there.
        workspaces: Vec<String>,
        /// Id of the workspace that it is registered in.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        workspace: String,
        /// Which cluster it is, once that is known: whoever finds another one there leaves it alone.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        id: String,
        /// Whether it is only to be looked at.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        observe: bool,
    },
    Alive,
}

impl Line {
    pub fn parse(line: &[u8]) -> Option<Line> {
        serde_json::from_slice(line).ok()
    }

    /// With its end.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }
}

/// How an object fares in a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    #[default]
    Applied,
    /// Something of that name is there that is not ours.
    Conflict,
    /// The cluster does not take it.
    Refused,
    /// It is there no longer.
    Gone,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    #[serde(flatten)]
    pub target: Target,
    /// The generation above that was applied last.
    #[serde(default)]
    pub generation: i64,
    pub state: State,
    /// What is wrong, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Whether the status is about what was applied last.
    #[serde(default)]
    pub observed: bool,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub status: Value,
    /// Of what is gone: since when it was to go. Without it that is not asked.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub since: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// How a record begins that tells of changes that are left as they are.
pub const LEFT: &str = "changes of others are left: ";
/// How the record of an object begins that the control plane may forget although it stays in the cluster.
pub const RETAINED: &str = "retained: ";

impl Record {
    /// Why an object that is no longer placed on a cluster stays there, if it does.
    pub fn retained(&self) -> Option<&str> {
        self.message.strip_prefix(RETAINED).filter(|_| self.state == State::Gone)
    }

    /// Who has changed what in the cluster, where that is only told.
    pub fn drift(&self) -> Option<&str> {
        self.message.strip_prefix(LEFT).filter(|_| self.state == State::Applied)
    }
}

/// Something that happened in a cluster to an object, or to what was made of it there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Happening {
    /// The object above.
    #[serde(flatten)]
    pub target: Target,
    /// The uid of the Event there.
    pub id: String,
    /// What it happened to, if that is not the object itself: what an Event says of it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub about: Value,
    /// The Event as it is there.
    pub event: Value,
}

/// What a syncer has to say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<Record>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Happening>,
    /// Fields of the status of the Cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<Value>,
    /// Who says this for the last time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub farewell: Option<String>,
    /// Which start of a syncer this is of, and how many reports it had sent by then; see [`crate::order`].
    #[serde(skip_serializing_if = "is_zero")]
    pub run: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub number: u64,
}

/// What a syncer is answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Answer {
    /// How often the control plane wants to hear of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat_milliseconds: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written() {
        let resource = Resource {
            group: "apps".into(),
            version: "v1".into(),
            resource: "deployments".into(),
            kind: "Deployment".into(),
            namespaced: true,
        };
        let target = Target {
            resource,
            workspace: "w".into(),
            namespace: "n".into(),
            name: "a".into(),
            uid: "u".into(),
        };
        for line in [
            Line::Object {
                target: target.clone(),
                generation: 4,
                object: serde_json::json!({ "spec": {} }),
                drift: Drift::Report,
            },
            Line::Remove { target: target.clone(), since: 7 },
            Line::Forget { target },
            Line::Namespace {
                workspace: "w".into(),
                namespace: "n".into(),
                labels: pod_security::Labels::unsaid(false),
            },
            Line::Ending { workspace: "w".into(), namespace: "n".into(), uid: String::new(), since: 0 },
            Line::Ending { workspace: "w".into(), namespace: "n".into(), uid: "u".into(), since: 7 },
            Line::Paused { workspace: "w".into(), paused: true, why: "storm".into() },
            Line::Synced {
                control_plane: "c".into(),
                uid: "u".into(),
                workspaces: vec!["w".into()],
                workspace: "w".into(),
                id: "i".into(),
                observe: true,
            },
            Line::Alive,
        ] {
            assert_eq!(Line::parse(line.bytes().trim_ascii_end()).as_ref(), Some(&line));
        }
        assert_eq!(Line::Alive.bytes(), b"{\"type\":\"Alive\"}\n");
        assert_eq!(Line::parse(b"{}"), None);
    }

    #[test]
    fn an_object_says_itself_what_becomes_of_changes() {
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
        let record = Record { message: format!("{LEFT}a changed b"), ..Record::default() };
        assert_eq!(record.drift(), Some("a changed b"));
        assert_eq!(Record { state: State::Refused, ..record }.drift(), None);
    }
}
