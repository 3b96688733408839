//! Placements: the clusters that run an object.

mod decisions;
mod left_out;
mod needed;
mod run_once;
mod share;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::marks;

pub use decisions::{MAX_DECISIONS, MAX_DECISIONS_BYTES, PlacementDecision, is_printable};
pub use left_out::{LeftOut, MAX_LEFT_OUT, text as left_out_text};
pub use needed::{are_same, next_needed, with_decided, with_needed};
pub use run_once::{duplicates, is_divided, runs_once};
pub use share::{Needed, Share, ShareNumbers};

/// Longest `by`, in characters.
pub const LONGEST_BY: usize = 253;

/// Resources that are never placed, because clusters generate them or they are valid only in a workspace.
const NEVER_PLACED: [(&str, &[&str]); 14] = [
    (
        "",
        &[
            "bindings",
            "componentstatuses",
            "endpoints",
            "events",
            "namespaces",
            "nodes",
            "podtemplates",
            "pods",
        ],
    ),
    ("apps", &["controllerrevisions"]),
    ("coordination.k8s.io", &[]),
    ("discovery.k8s.io", &[]),
    ("events.k8s.io", &[]),
    ("rbac.authorization.k8s.io", &[]),
    ("authentication.k8s.io", &[]),
    ("authorization.k8s.io", &[]),
    ("certificates.k8s.io", &[]),
    ("metrics.k8s.io", &[]),
    ("atoll.dev", &[]),
    // These affect everything in a cluster.
    ("admissionregistration.k8s.io", &[]),
    ("apiregistration.k8s.io", &[]),
    ("flowcontrol.apiserver.k8s.io", &[]),
];

/// Whether objects of a resource are never placed.
pub fn is_never_placed(group: &str, resource: &str) -> bool {
    NEVER_PLACED
        .iter()
        .any(|(of, resources)| group == *of && (resources.is_empty() || resources.contains(&resource)))
}

/// Formats shares as `atoll place --on` accepts them.
pub fn names_of(shares: &[Share]) -> String {
    let text = |share: &Share| match share.replicas {
        Some(replicas) => format!("{}={replicas}", share.name),
        None => share.name.clone(),
    };
    shares.iter().map(text).collect::<Vec<_>>().join(",")
}

/// Whether two lists name the same clusters, so that at most their numbers differ.
pub fn have_same_clusters(shares: &[Share], others: &[Share]) -> bool {
    let has_other = |share: &Share| others.iter().any(|other| other.is_of(&share.name, &share.uid));
    shares.len() == others.len() && shares.iter().all(has_other)
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub struct Placement {
    pub clusters: Vec<Share>,
    /// Clusters that were removed and have not yet confirmed that the object is gone.
    pub leaving: Vec<Leaving>,
    /// The decision maker: a user, a policy or a dialect.
    pub by: String,
    /// Whether each cluster may run all of a workload that otherwise runs once, see [`duplicates`].
    pub duplicate: bool,
    /// The current step of a move; empty if nothing moves.
    pub phase: String,
    /// The shares that a move leads to.
    pub target: Vec<Share>,
    /// Number of replicas that no cluster has room for.
    pub missing: i64,
    /// The reason why replicas stay on a cluster that they are to leave; empty if they need not or can leave.
    pub blocked: String,
    /// Clusters that its intent names and that take nothing, in the order of their names.
    pub left_out: Vec<LeftOut>,
    /// The last decisions, oldest first.
    pub decisions: Vec<PlacementDecision>,
    /// Where the HorizontalPodAutoscaler of the object acts, see [`crate::autoscaling`]; empty if it has none.
    pub autoscaler: String,
}

/// Value of `by` in the placement of a namespace, which follows from the objects in it.
pub const BY_CONTENTS: &str = "contents";

/// The annotation's form of a placement. `leaving` is a list of names, for programs that do not know uids.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Stored {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    clusters: Vec<Share>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    leaving: Vec<String>,
    /// Uids of the clusters in `leaving`, in the same order.
    #[serde(skip_serializing_if = "are_unknown")]
    leaving_uids: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    by: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    duplicate: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    phase: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    target: Vec<Share>,
    #[serde(skip_serializing_if = "is_zero")]
    missing: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    blocked: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<LeftOut>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    decisions: Vec<PlacementDecision>,
    #[serde(skip_serializing_if = "String::is_empty")]
    autoscaler: String,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

fn are_unknown(uids: &[String]) -> bool {
    uids.iter().all(String::is_empty)
}

/// Builds one of the two forms from the other and the fields that differ.
macro_rules! converted {
    ($from:ident to $form:ident, $($differs:ident),+) => {
        $form {
            clusters: $from.clusters,
            by: $from.by,
            duplicate: $from.duplicate,
            phase: $from.phase,
            target: $from.target,
            missing: $from.missing,
            blocked: $from.blocked,
            left_out: $from.left_out,
            decisions: $from.decisions,
            autoscaler: $from.autoscaler,
            $($differs),+
        }
    };
}

impl From<Stored> for Placement {
    fn from(stored: Stored) -> Placement {
        let uids = stored.leaving_uids.into_iter().chain(std::iter::repeat(String::new()));
        let leaving = stored.leaving.into_iter().zip(uids).map(|(name, uid)| Leaving { name, uid }).collect();
        converted!(stored to Placement, leaving)
    }
}

impl From<Placement> for Stored {
    fn from(placement: Placement) -> Stored {
        let (leaving, leaving_uids) = placement.leaving.into_iter().map(|one| (one.name, one.uid)).unzip();
        converted!(placement to Stored, leaving, leaving_uids)
    }
}

/// A cluster that an object is being removed from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaving {
    pub name: String,
    /// Uid of the Cluster; empty in older placements.
    pub uid: String,
}

/// Whether two clusters may be the same one. Without a uid, the name decides.
fn is_same((name, uid): (&str, &str), (other, other_uid): (&str, &str)) -> bool {
    name == other && (uid.is_empty() || other_uid.is_empty() || uid == other_uid)
}

impl Leaving {
    pub fn is_of(&self, name: &str, uid: &str) -> bool {
        is_same((&self.name, &self.uid), (name, uid))
    }
}

impl Placement {
    /// Reads the placement of an object; empty if it has none.
    pub fn of(object: &Value) -> Placement {
        let text = object["metadata"]["annotations"][marks::PLACEMENT].as_str();
        text.and_then(Placement::parse).unwrap_or_default()
    }

    pub fn parse(text: &str) -> Option<Placement> {
        serde_json::from_str(text).ok()
    }

    /// Returns the value of the annotation; `None` for an empty placement.
    pub fn text(&self) -> Option<String> {
        if self.is_empty() { None } else { serde_json::to_string(self).ok() }
    }

    /// Whether no cluster has, or will have, the object.
    pub fn is_empty(&self) -> bool {
        self.clusters.is_empty() && self.leaving.is_empty()
    }

    /// Names of all clusters that have the object or may still have it.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.cluster_refs().map(|(name, _)| name)
    }

    /// Names and uids, if known, of these clusters.
    pub fn cluster_refs(&self) -> impl Iterator<Item = (&str, &str)> {
        let shares = self.clusters.iter().map(|share| (share.name.as_str(), share.uid.as_str()));
        shares.chain(self.leaving.iter().map(|one| (one.name.as_str(), one.uid.as_str())))
    }

    /// Returns the share of the cluster with this name.
    pub fn share(&self, cluster: &str) -> Option<&Share> {
        self.clusters.iter().find(|share| share.name == cluster)
    }

    /// Returns the share of the cluster with this uid.
    pub fn share_of(&self, name: &str, uid: &str) -> Option<&Share> {
        self.clusters.iter().find(|share| share.is_of(name, uid))
    }

    /// Returns shares that were removed or added. Other numbers of the same clusters are no move.
    pub fn moved_shares<'a>(&'a self, after: &'a Placement) -> Vec<&'a Share> {
        let is_missing = |share: &Share, other: &Placement| other.share_of(&share.name, &share.uid).is_none();
        let before = self.clusters.iter().filter(|share| is_missing(share, after));
        before.chain(after.clusters.iter().filter(|share| is_missing(share, self))).collect()
    }

    /// Returns shares whose numbers change in another way than the object's number of replicas does: replicas move
    /// between them, or start in addition.
    pub fn moved_replicas<'a>(&self, after: &'a Placement, replicas: i64) -> Vec<&'a Share> {
        let change = |share: &Share| {
            let before = self.share_of(&share.name, &share.uid)?;
            Some(share.replicas? - before.replicas?)
        };
        let changed: Vec<(&Share, i64)> =
            after.clusters.iter().filter_map(|share| Some((share, change(share)?))).collect();
        let changed: Vec<(&Share, i64)> = changed.into_iter().filter(|(_, change)| *change != 0).collect();
        let distance = |placement: &Placement| {
            let sum: i64 = placement.clusters.iter().filter_map(|share| share.replicas).sum();
            (sum - replicas).abs()
        };
        let has_one_direction =
            changed.iter().all(|(_, change)| *change > 0) || changed.iter().all(|(_, change)| *change < 0);
        // Each of several clusters may run all of them.
        let are_copies = changed.iter().all(|(share, _)| share.replicas == Some(replicas));
        if has_one_direction && (are_copies || distance(after) < distance(self)) {
            return Vec::new();
        }
        changed.into_iter().map(|(share, _)| share).collect()
    }

    /// Returns the placement after a new decision: clusters that are no longer in it are leaving until they
    /// confirm the removal. A move that was under way has ended.
    #[must_use]
    pub fn decided(&self, clusters: Vec<Share>, by: &str) -> Placement {
        let stays = |(name, uid): &(&str, &str)| clusters.iter().any(|share| share.is_of(name, uid));
        let leaves = self.cluster_refs().filter(|spot| !stays(spot));
        let leaving = leaves.map(|(name, uid)| Leaving { name: name.into(), uid: uid.into() }).collect();
        let by = if clusters.is_empty() { String::new() } else { by.to_string() };
        let duplicate = self.duplicate && !clusters.is_empty();
        let decisions = self.decisions.clone();
        Placement { clusters, leaving, by, duplicate, decisions, ..Placement::default() }
    }

    /// Returns the placement of a namespace after an object in it was placed on another cluster.
    #[must_use]
    pub fn with_contents_on(&self, cluster: &str, uid: &str) -> Placement {
        let mut next = self.clone();
        if next.share_of(cluster, uid).is_none() {
            next.leaving.retain(|one| !one.is_of(cluster, uid));
            next.clusters.push(Share::on(cluster, uid));
            next.by = BY_CONTENTS.into();
        }
        next
    }

    /// Returns the placement after a cluster has confirmed that the object is gone. If the object is
    /// `being_deleted`, its share is removed too; otherwise only a leaving cluster.
    #[must_use]
    pub fn confirm_removed(&self, name: &str, uid: &str, being_deleted: bool) -> Placement {
        let mut next = self.clone();
        next.leaving.retain(|one| !one.is_of(name, uid));
        if being_deleted {
            next.clusters.retain(|share| !share.is_of(name, uid));
        }
        next
    }
}

#[cfg(test)]
mod tests;
