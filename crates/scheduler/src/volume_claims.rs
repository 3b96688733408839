//! Volume claims that workloads mount: their storage classes decide which clusters can run a workload.

use std::sync::Arc;

use atoll_informer::{Cache, Change, Key, Resource};
use atoll_meta::object;
use atoll_placement::demand::{Demand, claim_names, storage_class};
use serde_json::Value;

use crate::workloads;

/// The volume claims of all workspaces, and the workloads that mount them.
pub struct VolumeClaims {
    pub cache: Arc<Cache>,
    /// Indexes of the caches of workloads by the claims that they mount, in the order of [`workloads::kinds`].
    by_claim: Vec<usize>,
}

/// Index functions of workloads, in the order of [`workloads::kinds`].
const BY_CLAIM: [fn(&Value) -> Vec<String>; 7] = [
    |object| claim_keys(0, object),
    |object| claim_keys(1, object),
    |object| claim_keys(2, object),
    |object| claim_keys(3, object),
    |object| claim_keys(4, object),
    |object| claim_keys(5, object),
    |object| claim_keys(6, object),
];

/// The index keys of the claims that a workload mounts.
fn claim_keys(kind: usize, object: &Value) -> Vec<String> {
    let names: Vec<&str> = mounted(workloads::kinds()[kind], object).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let at = Key::of(object);
    names.into_iter().map(|name| claim_key(&at.sibling(name))).collect()
}

fn claim_key(claim: &Key) -> String {
    format!("{}/{}/{}", claim.workspace, claim.namespace, claim.name)
}

fn mounted<'a>(resource: &Resource, object: &'a Value) -> impl Iterator<Item = &'a str> {
    claim_names((&resource.group, &resource.plural), object)
}

impl VolumeClaims {
    pub fn new(cache: Arc<Cache>, workloads: &[Arc<Cache>]) -> VolumeClaims {
        let by_claim = workloads.iter().zip(BY_CLAIM).map(|(cache, index)| cache.index(index)).collect();
        VolumeClaims { cache, by_claim }
    }

    /// Adds the storage classes of the claims that a workload mounts. A claim that does not exist yet needs none.
    pub fn add_classes(&self, resource: &Resource, at: &Key, object: &Value, demand: &mut Demand) {
        let claims = mounted(resource, object).filter_map(|name| self.cache.get(&at.sibling(name)));
        demand.need_storage(claims.filter_map(|claim| storage_class(&claim).map(str::to_string)));
    }

    /// Whether workloads mount a claim whose storage class has changed.
    pub fn is_mounted(&self, change: &Change, workloads: &[Arc<Cache>]) -> bool {
        let class = |claim: &Option<Arc<Value>>| {
            let claim = claim.as_deref().filter(|claim| !object::is_being_deleted(claim))?;
            Some(storage_class(claim)?.to_string())
        };
        let key = claim_key(&change.key);
        class(&change.old) != class(&change.new)
            && workloads
                .iter()
                .zip(&self.by_claim)
                .any(|(cache, index)| cache.count_by_index(*index, &key) > 0)
    }

    /// The workloads that mount a claim, with the numbers of their kinds.
    pub fn mounting(&self, claim: &Key, workloads: &[Arc<Cache>]) -> Vec<(usize, Vec<Arc<Value>>)> {
        let key = claim_key(claim);
        let caches = workloads.iter().zip(&self.by_claim).enumerate();
        caches.map(|(kind, (cache, index))| (kind, cache.by_index(*index, &key))).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn workloads_are_found_by_the_claims_that_they_mount() {
        let volumes = json!([{ "persistentVolumeClaim": { "claimName": "data" } }, { "emptyDir": {} }]);
        let pod = json!({ "spec": { "volumes": volumes } });
        let metadata = json!({ "namespace": "n", "annotations": { atoll_informer::WORKSPACE: "w" } });
        for (kind, resource) in workloads::kinds().into_iter().enumerate() {
            let spec = match &*resource.plural {
                "cronjobs" => json!({ "jobTemplate": { "spec": { "template": pod } } }),
                _ => json!({ "template": pod }),
            };
            let object = json!({ "metadata": metadata, "spec": spec });
            assert_eq!(BY_CLAIM[kind](&object), ["w/n/data"], "{}", resource.plural);
        }
        assert_eq!(BY_CLAIM[2](&json!({ "metadata": metadata, "spec": {} })), [""; 0]);
    }
}
