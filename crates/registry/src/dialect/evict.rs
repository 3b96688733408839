//! Removes a cluster from all placements.

use atoll_fleet::Placement;
use atoll_fleet::pause::CAUSE;
use atoll_fleet::placement::Share;
use atoll_meta::{Status, object};
use atoll_store::Key;
use serde_json::Value;

use crate::Registry;
use crate::placement::is_placeable;
use crate::row::{ObjectRef, SharedRow};

/// Dependents are removed by the controller that placed them.
const DEPENDENT: &str = "reference";

impl Registry {
    /// Removes a cluster that is registered in workspace `home` from the placements of all objects on it.
    /// Paused objects keep their placement, and failed writes return an error; both are retried by the next
    /// call.
    pub async fn remove_cluster_from_placements(&self, home: &str, cluster: &str) -> Result<(), Status> {
        let mut outcome = Ok(());
        for (key, _) in self.placements.on(cluster) {
            match self.remove_from_placement(&key, home, cluster).await {
                // The object was deleted or changed concurrently, or is paused.
                Err(status) if matches!(status.code(), 404 | 409) || status.has_cause(CAUSE) => {}
                written => outcome = outcome.and(written),
            }
        }
        outcome
    }

    async fn remove_from_placement(&self, key: &Key, home: &str, cluster: &str) -> Result<(), Status> {
        let Some(parts) = key.parts() else { return Ok(()) };
        let Some(registered) = self.cluster(home, cluster, "").filter(|found| found.workspace == home) else {
            return Ok(());
        };
        let uid = object::uid(&registered.cluster);
        let is_there = |share: &Share| {
            share.name == cluster && self.is_share_on(home, cluster, uid, parts.workspace, &share.uid)
        };
        let Some((row, found)) = self.placeable_object(key)? else { return Ok(()) };
        if without(&Placement::of(&found), &is_there).is_none() {
            return Ok(());
        }
        let object_ref =
            ObjectRef { workspace: parts.workspace, namespace: parts.namespace, name: parts.name };
        let change = |_: &Value, current: &Placement| {
            let decided = without(current, &is_there).unwrap_or_else(|| current.clone());
            self.unless_paused(&row, &object_ref, current, decided)
        };
        self.place(&row, &object_ref, Some(object::uid(&found)), false, &change).await.map(|_| ())
    }

    /// A placeable object and its row.
    pub(crate) fn placeable_object(&self, key: &Key) -> Result<Option<(SharedRow, Value)>, Status> {
        let Some((parts, found)) = key.parts().zip(self.snapshot().get(key)) else { return Ok(None) };
        let found = crate::parse(&found.json())?;
        let version = object::api_version(&found).rsplit('/').next().unwrap_or_default();
        let row = self.find_stored(&parts, version);
        Ok(row.filter(|row| is_placeable(row)).map(|row| (row, found)))
    }

    /// Returns the placement unless changes are paused.
    pub(super) fn unless_paused(
        &self,
        row: &crate::Row,
        object_ref: &ObjectRef<'_>,
        current: &Placement,
        decided: Placement,
    ) -> Result<Placement, Status> {
        match self.paused(object_ref.workspace, current, &decided) {
            None => Ok(decided),
            Some(why) => Err(Status::forbidden(&row.group, &row.resource, object_ref.name, &why).with_cause(
                CAUSE,
                &why,
                "spec.clusters",
            )),
        }
    }
}

/// The placement without a cluster, if the cluster is in it and is to be removed here.
fn without(current: &Placement, is_there: &dyn Fn(&Share) -> bool) -> Option<Placement> {
    if current.by == DEPENDENT || !current.clusters.iter().any(is_there) {
        return None;
    }
    let rest: Vec<Share> = current.clusters.iter().filter(|share| !is_there(share)).cloned().collect();
    Some(current.decided(rest, &current.by))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_removed_from_placements_and_others_stay() {
        let parse = |text: &str| Placement::parse(text).expect("it is a placement");
        for (current, expected) in [
            (r#"{"clusters":[{"name":"east"}],"by":"label"}"#, Some(r#"{"leaving":["east"]}"#)),
            (
                r#"{"clusters":[{"name":"east","replicas":2},{"name":"west","replicas":1}],"by":"hand"}"#,
                Some(r#"{"clusters":[{"name":"west","replicas":1}],"leaving":["east"],"by":"hand"}"#),
            ),
            (r#"{"clusters":[{"name":"west"}],"leaving":["east"],"by":"hand"}"#, None),
            (r#"{"clusters":[{"name":"east"}],"by":"reference"}"#, None),
        ] {
            let next = without(&parse(current), &|share| share.name == "east");
            assert_eq!(next.and_then(|next| next.text()).as_deref(), expected);
        }
    }
}
