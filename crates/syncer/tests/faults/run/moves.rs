//! Moves between clusters, as the scheduler performs them: step by step, each after what clusters have reported.

use atoll_fleet::Placement;
use atoll_fleet::placement::{Needed, Share};
use atoll_meta::object;
use serde_json::{Value, json};

use super::Simulation;
use crate::agreement::reported_state;
use crate::objects::{AboveState, CLUSTER_NAMES, ObjectRef};

/// An object that is placed on its new cluster in addition to the old ones.
#[derive(Debug)]
pub struct Move {
    object_ref: ObjectRef,
    uid: String,
    to: &'static str,
}

/// The clusters that were chosen for an object, without those that only need it.
fn chosen(object: &Value) -> Vec<Share> {
    let shares = Placement::of(object).clusters.into_iter();
    shares.filter(|share| share.needed != Some(Needed::Only)).collect()
}

fn as_values(shares: &[Share]) -> Vec<Value> {
    let value = |share: &Share| json!({ "name": share.name, "replicas": share.replicas });
    shares.iter().map(value).collect()
}

impl Simulation {
    /// A share of an object on a cluster: of workloads, sometimes with a number of replicas.
    pub(super) fn random_share(&mut self, object_ref: &ObjectRef, cluster: &str) -> Value {
        let replicas = self.random.below(7);
        match object_ref.kind.is_divided() && self.random.chance(50) {
            true => json!({ "name": cluster, "replicas": replicas }),
            false => json!({ "name": cluster }),
        }
    }

    /// Gives an object any clusters at once, or none.
    pub(super) async fn rearrange(&mut self) {
        let Some(object_ref) = self.random_existing(|object| !chosen(object).is_empty()).await else {
            return;
        };
        let mut shares = Vec::new();
        for cluster in CLUSTER_NAMES {
            if self.random.chance(35) && (shares.is_empty() || !object_ref.kind.runs_once()) {
                shares.push(self.random_share(&object_ref, cluster));
            }
        }
        self.place(&object_ref, shares.into()).await;
    }

    /// Begins to move an object to another cluster. What runs once leaves its cluster in the same step, and the
    /// server keeps it from the new one until that is confirmed.
    pub(super) async fn begin_move(&mut self) {
        let Some(object_ref) = self.random_existing(|object| !chosen(object).is_empty()).await else {
            return;
        };
        let to = *self.random.pick(&CLUSTER_NAMES);
        let share = self.random_share(&object_ref, to);
        if object_ref.kind.runs_once() {
            return self.place(&object_ref, json!([share])).await;
        }
        let objects = AboveState::read(&self.above).await.objects;
        let Some(object) = objects.get(&object_ref) else { return };
        let mut shares = as_values(&chosen(object));
        if shares.iter().all(|known| known["name"] != to) {
            shares.push(share);
            self.place(&object_ref, shares.into()).await;
        }
        let uid = object::uid(object).to_string();
        self.moves.retain(|other| other.uid != uid);
        self.moves.push(Move { object_ref, uid, to });
    }

    /// Ends moves whose objects have arrived, and gives up those that cannot arrive. Some get another target.
    pub(super) async fn advance_moves(&mut self) {
        for moving in std::mem::take(&mut self.moves) {
            let Move { object_ref, uid, to } = &moving;
            let objects = AboveState::read(&self.above).await.objects;
            let is_same = |object: &&Value| object::uid(object) == uid && !object::is_being_deleted(object);
            let Some(object) = objects.get(object_ref).filter(is_same) else { continue };
            let shares = chosen(object);
            // Another action may have decided otherwise.
            let Some(share) = shares.iter().find(|share| share.name == *to) else { continue };
            let (state, _) = reported_state(&self.above, to, object_ref, object).await;
            match state.as_str() {
                "Applied" => {
                    self.place(object_ref, as_values(std::slice::from_ref(share)).into()).await;
                    self.done.moves += usize::from(shares.len() > 1);
                }
                // An object of another user has the name there.
                "Conflict" => {}
                _ => self.moves.push(moving),
            }
        }
    }
}
