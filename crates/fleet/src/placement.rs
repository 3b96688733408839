//! Placements: the clusters that run an object.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::marks;

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
            "persistentvolumes",
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

/// Kinds whose work is done once: group, resource, kind, and the effect on several clusters. Until their
/// replicas, ordinals and completions are divided between clusters, each cluster of a placement does all of
/// it.
///
/// Pods are not listed because they are not placed at all, and PersistentVolumeClaims because a claim runs
/// nothing, and a Deployment on several clusters needs the claims that it mounts on each of them.
const RUN_ONCE: [(&str, &str, &str, &str); 3] = [
    ("apps", "statefulsets", "StatefulSet", "each would run Pods with the same ordinals"),
    ("batch", "cronjobs", "CronJob", "each would start every Job of the schedule"),
    ("batch", "jobs", "Job", "each would run all of its completions"),
];

/// Returns why an object (group, resource, namespace, name) may not be placed on these clusters: its kind
/// runs once, and a cluster is added to another one without `duplicate`. Removing clusters from a placement
/// is always possible.
pub fn duplicates(
    (group, resource, namespace, name): (&str, &str, &str, &str),
    current: &Placement,
    clusters: &[Share],
    duplicate: bool,
) -> Option<String> {
    let row = RUN_ONCE.iter().find(|row| (row.0, row.1) == (group, resource))?;
    let is_more = clusters.iter().any(|share| current.share(&share.name).is_none());
    if clusters.len() < 2 || duplicate || !is_more {
        return None;
    }
    let (_, _, kind, what) = row;
    let (count, names) = (clusters.len(), names_of(clusters));
    let command = crate::placed_condition::command(kind, namespace, name, &names);
    Some(format!(
        "a {kind} must not be duplicated, and of {count} clusters {what}; name one cluster, or set spec.duplicate to true if \
         that is what you want: {command} --duplicate"
    ))
}

/// Whether objects of a resource must not run on two clusters at once, not even while they move.
pub fn runs_once(group: &str, resource: &str) -> bool {
    RUN_ONCE.iter().any(|row| (row.0, row.1) == (group, resource))
}

/// Formats shares as `atoll place --on` accepts them.
pub fn names_of(shares: &[Share]) -> String {
    let text = |share: &Share| match share.replicas {
        Some(replicas) => format!("{}={replicas}", share.name),
        None => share.name.clone(),
    };
    shares.iter().map(text).collect::<Vec<_>>().join(",")
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
}

fn are_unknown(uids: &[String]) -> bool {
    uids.iter().all(String::is_empty)
}

impl From<Stored> for Placement {
    fn from(stored: Stored) -> Placement {
        let Stored { clusters, leaving, leaving_uids, by, duplicate } = stored;
        let uids = leaving_uids.into_iter().chain(std::iter::repeat(String::new()));
        let leaving = leaving.into_iter().zip(uids).map(|(name, uid)| Leaving { name, uid }).collect();
        Placement { clusters, leaving, by, duplicate }
    }
}

impl From<Placement> for Stored {
    fn from(placement: Placement) -> Stored {
        let Placement { clusters, leaving, by, duplicate } = placement;
        let (leaving, leaving_uids) = leaving.into_iter().map(|one| (one.name, one.uid)).unzip();
        Stored { clusters, leaving, leaving_uids, by, duplicate }
    }
}

/// A cluster that an object is being removed from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaving {
    pub name: String,
    /// Uid of the Cluster; empty in older placements.
    pub uid: String,
}

/// The part of a placement that belongs to one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    pub name: String,
    /// Uid of the Cluster, because several workspaces may have one with the same name. Empty in older
    /// placements, which refer to the nearest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Number of replicas, if they are divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
}

/// Whether two clusters may be the same one. Without a uid, the name decides.
fn is_same((name, uid): (&str, &str), (other, other_uid): (&str, &str)) -> bool {
    name == other && (uid.is_empty() || other_uid.is_empty() || uid == other_uid)
}

impl Share {
    pub fn is_of(&self, name: &str, uid: &str) -> bool {
        is_same((&self.name, &self.uid), (name, uid))
    }
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

    /// Returns shares that were removed, added, or have another number of replicas.
    pub fn changed_shares<'a>(&'a self, after: &'a Placement) -> Vec<&'a Share> {
        let differs = |share: &Share, other: &Placement| {
            other.share_of(&share.name, &share.uid).is_none_or(|same| same.replicas != share.replicas)
        };
        let before = self.clusters.iter().filter(|share| differs(share, after));
        before.chain(after.clusters.iter().filter(|share| differs(share, self))).collect()
    }

    /// Returns the placement after a new decision: clusters that are no longer in it are leaving until they
    /// confirm the removal.
    #[must_use]
    pub fn decided(&self, clusters: Vec<Share>, by: &str) -> Placement {
        let stays = |(name, uid): &(&str, &str)| clusters.iter().any(|share| share.is_of(name, uid));
        let leaves = self.cluster_refs().filter(|spot| !stays(spot));
        let leaving = leaves.map(|(name, uid)| Leaving { name: name.into(), uid: uid.into() }).collect();
        let by = if clusters.is_empty() { String::new() } else { by.to_string() };
        let duplicate = self.duplicate && !clusters.is_empty();
        Placement { clusters, leaving, by, duplicate }
    }

    /// Returns the placement of a namespace after an object in it was placed on another cluster.
    #[must_use]
    pub fn with_contents_on(&self, cluster: &str, uid: &str) -> Placement {
        let mut next = self.clone();
        if next.share_of(cluster, uid).is_none() {
            next.leaving.retain(|one| !one.is_of(cluster, uid));
            next.clusters.push(Share { name: cluster.to_string(), uid: uid.to_string(), replicas: None });
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
mod tests {
    use super::*;

    fn shares(names: &[&str]) -> Vec<Share> {
        names.iter().map(|name| Share { name: name.to_string(), ..Share::default() }).collect()
    }

    fn known(name: &str, uid: &str) -> Share {
        Share { name: name.into(), uid: uid.into(), replicas: None }
    }

    #[test]
    fn clusters_with_the_same_name_are_distinguished() {
        let first = Placement::default().decided(vec![known("a", "1")], "hand");
        assert_eq!(first.text().unwrap(), r#"{"clusters":[{"name":"a","uid":"1"}],"by":"hand"}"#);
        assert!(first.share_of("a", "1").is_some() && first.share_of("a", "2").is_none());
        let second = first.decided(vec![known("a", "2")], "hand");
        let text = r#"{"clusters":[{"name":"a","uid":"2"}],"leaving":["a"],"leavingUids":["1"],"by":"hand"}"#;
        assert_eq!(second.text().as_deref(), Some(text));
        assert_eq!(Placement::parse(text), Some(second.clone()));
        assert_eq!(second.confirm_removed("a", "2", false), second);
        assert_eq!(
            second.confirm_removed("a", "1", true).text().unwrap(),
            r#"{"clusters":[{"name":"a","uid":"2"}],"by":"hand"}"#
        );
        assert_eq!(first.changed_shares(&second).len(), 2);
    }

    #[test]
    fn placements_without_uids_match_clusters_by_name() {
        let old = Placement::parse(r#"{"clusters":[{"name":"a"}],"leaving":["b"],"by":"hand"}"#).unwrap();
        assert!(old.share_of("a", "1").is_some());
        // A uid that becomes known changes nothing.
        let filled = old.decided(vec![known("a", "1")], "hand");
        assert_eq!(filled.leaving, [Leaving { name: "b".into(), uid: String::new() }]);
        assert!(old.changed_shares(&filled).is_empty());
        assert!(filled.confirm_removed("b", "7", false).leaving.is_empty());
    }

    fn leaving(name: &str) -> Leaving {
        Leaving { name: name.into(), ..Leaving::default() }
    }

    #[test]
    fn removed_cluster_is_leaving_until_it_confirms() {
        let first = Placement::default().decided(shares(&["a", "b"]), "hand");
        assert_eq!(first.text().unwrap(), r#"{"clusters":[{"name":"a"},{"name":"b"}],"by":"hand"}"#);
        let second = first.decided(shares(&["b", "c"]), "hand");
        assert_eq!(second.leaving, [leaving("a")]);
        assert_eq!(second.decided(shares(&["a"]), "hand").leaving, [leaving("b"), leaving("c")]);
        assert_eq!(second.confirm_removed("a", "", false).leaving, []);
        assert_eq!(second.confirm_removed("b", "", false), second, "the cluster has a share");
        let gone = ["a", "b", "c"].iter().fold(second, |rest, name| rest.confirm_removed(name, "", true));
        assert_eq!((gone.is_empty(), gone.text()), (true, None));
        let nowhere = first.decided(Vec::new(), "hand");
        assert_eq!(nowhere.text().unwrap(), r#"{"leaving":["a","b"]}"#);
    }

    #[test]
    fn run_once_kinds_need_duplicate_for_several_clusters() {
        let on = |names: &[&str]| Placement { clusters: shares(names), ..Placement::default() };
        for (group, resource, current, wanted, duplicate, is_refused) in [
            ("apps", "statefulsets", on(&[]), &["a", "b"][..], false, true),
            ("batch", "jobs", on(&[]), &["a", "b"], false, true),
            ("batch", "cronjobs", on(&["a"]), &["a", "b"], false, true),
            ("apps", "statefulsets", on(&["a", "b"]), &["a", "c"], false, true),
            ("apps", "statefulsets", on(&[]), &["a", "b"], true, false),
            ("apps", "statefulsets", on(&[]), &["a"], false, false),
            ("apps", "statefulsets", on(&["a"]), &["b"], false, false),
            ("apps", "statefulsets", on(&["a"]), &[], false, false),
            // Placed by an older version, and with fewer clusters.
            ("apps", "statefulsets", on(&["a", "b"]), &["b", "a"], false, false),
            ("apps", "statefulsets", on(&["a", "b", "c"]), &["a", "b"], false, false),
            ("apps", "deployments", on(&[]), &["a", "b"], false, false),
            ("", "persistentvolumeclaims", on(&[]), &["a", "b"], false, false),
            ("example.com", "jobs", on(&[]), &["a", "b"], false, false),
        ] {
            let object = (group, resource, "shop", "db");
            let refused = duplicates(object, &current, &shares(wanted), duplicate);
            assert_eq!(
                refused.is_some(),
                is_refused,
                "{group}/{resource} {current:?} {wanted:?} {duplicate}"
            );
        }
        let mut wanted = shares(&["a", "b"]);
        wanted[1].replicas = Some(2);
        let refused = duplicates(("apps", "statefulsets", "shop", "db"), &on(&[]), &wanted, false).unwrap();
        assert!(
            refused.ends_with(": atoll place statefulset/db --namespace shop --on a,b=2 --duplicate"),
            "{refused}"
        );
        let said = Placement { duplicate: true, ..on(&["a", "b"]) };
        let text = r#"{"clusters":[{"name":"a"},{"name":"b"}],"duplicate":true}"#;
        assert_eq!((said.text().as_deref(), Placement::parse(text)), (Some(text), Some(said.clone())));
        assert!(said.decided(shares(&["a"]), "hand").duplicate);
        assert!(!said.decided(Vec::new(), "hand").duplicate);
    }

    #[test]
    fn namespace_is_placed_with_its_contents() {
        let first = Placement::default().with_contents_on("a", "1");
        assert_eq!(first.text().unwrap(), r#"{"clusters":[{"name":"a","uid":"1"}],"by":"contents"}"#);
        assert_eq!(first.with_contents_on("a", "1"), first);
        let both = first.with_contents_on("b", "2");
        assert_eq!(both.names().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(both.confirm_removed("a", "1", true), Placement::default().with_contents_on("b", "2"));
        assert_eq!(both.confirm_removed("a", "3", true), both, "another cluster with that name");
    }

    #[test]
    fn placements_round_trip() {
        let text = r#"{"clusters":[{"name":"a","replicas":3}],"leaving":["b"],"by":"hand"}"#;
        let placement = Placement::parse(text).unwrap();
        assert_eq!(placement.text().as_deref(), Some(text));
        assert_eq!(placement.share("a").unwrap().replicas, Some(3));
        assert_eq!(placement.names().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(Placement::parse("nonsense"), None);
        assert!(Placement::of(&serde_json::json!({})).is_empty());
    }
}
