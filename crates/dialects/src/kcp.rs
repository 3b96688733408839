//! The kcp dialect: kcp's API of 2022.
//!
//! ```text
//!   definitions: Cluster and WorkloadCluster of workload.kcp.dev
//!   kubeconfig: spec.kubeconfig is a sealed field     labels: the clusters that an object asks for
//!   controller: a Cluster of atoll.dev for each kcp cluster, and its status
//!   shown: a kcp cluster for each Cluster of atoll.dev that joined by other means
//! ```

mod controller;
mod definitions;
mod evict;
mod finalize;
mod join;
mod kubeconfig;
mod labels;
mod shown;
mod status;

use std::sync::Arc;

use atoll_meta::{Status, object};
use atoll_registry::dialect::{
    Dialect, DialectTexts, DialectView, DialectWrite, Intent, ProtectedMetadata, SealedField, ShareMetadata,
    ShareTarget,
};
use serde_json::{Value, json};

use crate::{DialectController, Registration, intents};

/// The name of the dialect.
pub const NAME: &str = "kcp";
/// The name of the policy for objects that are not divided.
const OBJECTS: &str = "kcp-objects";
pub const GROUP: &str = "workload.kcp.dev";
pub const VERSION: &str = "v1alpha1";
/// Both names of the kind: plural and kind. Objects are stored under the first.
pub const KINDS: [(&str, &str); 2] = [("clusters", "Cluster"), ("workloadclusters", "WorkloadCluster")];

/// The value of `by` in placements by label.
const BY: &str = "label";

const HELP: &str = "\
    With kcp, \"kubectl apply\" accepts Clusters and WorkloadClusters of workload.kcp.dev/v1alpha1. Such a cluster joins \
    automatically, as with \"atoll cluster join\": its kubeconfig is moved to a Secret before it is stored, is used once to \
    create the syncer's account, and is then deleted; spec.kubeconfig reads as empty. An object with the label \
    workloads.kcp.dev/cluster: NAME is placed on that cluster, unless its annotation atoll.dev/clusters says otherwise or it is placed as a dependent. \
    Other Deployments are divided evenly between the clusters, by the ClusterPlacementPolicy kcp, and custom objects \
    go to a cluster that serves their kind, by the ClusterPlacementPolicy kcp-objects.";

const CONTROLLERS: &[DialectController] = &[
    DialectController {
        name: "kcp-cluster-controller",
        alias: "kcpcluster",
        run: |context| Box::pin(controller::run(context)),
    },
    DialectController {
        name: "kcp-placement-controller",
        alias: "kcpplacement",
        run: |context| Box::pin(intents::run(context)),
    },
];

pub struct Kcp;

/// The dialect with its controllers.
pub fn registration() -> Registration {
    Registration { dialect: Arc::new(Kcp), controllers: CONTROLLERS }
}

impl Dialect for Kcp {
    fn name(&self) -> &'static str {
        NAME
    }

    fn definitions(&self) -> Vec<Value> {
        definitions::all()
    }

    /// Both names of the kind are two forms of one object.
    fn views(&self) -> Vec<DialectView> {
        let [(stored, _), (view, _)] = KINDS;
        vec![DialectView {
            group: GROUP,
            resource: view,
            stored: (GROUP, stored),
            to_stored: |_| {},
            to_view: |_| {},
        }]
    }

    fn protected(&self, group: &str, resource: &str) -> ProtectedMetadata {
        match group == GROUP && KINDS.iter().any(|(plural, _)| *plural == resource) {
            true => ProtectedMetadata { annotations: &[shown::SHOWS], ..ProtectedMetadata::default() },
            false => ProtectedMetadata::default(),
        }
    }

    fn validate(&self, write: &DialectWrite<'_>, new: &Value) -> Result<(), Status> {
        shown::validate(write, new)
    }

    fn is_reflection(&self, object: &Value) -> bool {
        shown::is_shown(object)
    }

    fn sealed_fields(&self) -> Vec<SealedField> {
        kubeconfig::sealed_fields()
    }

    fn placed_by(&self) -> Option<&'static str> {
        Some(BY)
    }

    fn intents<'a>(&self, object: &'a Value) -> Vec<Intent<'a>> {
        labels::intents(object)
    }

    /// kcp's splitter divides Deployments evenly between all clusters; a DaemonSet is then on each of them. Objects of
    /// all other types that it is to schedule are whole: each goes to one cluster.
    fn policies(&self) -> Vec<Value> {
        let policy = |name: &str, kinds: &[&str], spec: Value| {
            let objects: Vec<Value> = kinds.iter().map(|kind| json!({ "kind": kind })).collect();
            let mut policy = json!({
                "apiVersion": "atoll.dev/v1alpha1", "kind": "ClusterPlacementPolicy",
                "metadata": { "name": name }, "spec": spec,
            });
            policy["spec"]["objects"] = objects.into();
            policy
        };
        vec![
            policy(NAME, &["Deployment", "DaemonSet"], json!({ "replicas": { "division": "Even" } })),
            policy(OBJECTS, &["StatefulSet", "PersistentVolume", "*"], json!({})),
        ]
    }

    /// In kcp, the part of an object on a cluster has a label with the cluster's name.
    fn share_metadata(&self, share: &ShareTarget<'_>, _object: &Value) -> ShareMetadata {
        let cluster = object::name(share.cluster).to_string();
        ShareMetadata { labels: vec![(labels::CLUSTER.to_string(), cluster)], ..ShareMetadata::default() }
    }

    fn texts(&self) -> DialectTexts {
        DialectTexts {
            about: "Clusters with an inline kubeconfig, and the label workloads.kcp.dev/cluster",
            help: HELP,
            serves: "workload.kcp.dev/v1alpha1",
            enabled: "Clusters and WorkloadClusters of workload.kcp.dev/v1alpha1 are served there. The \
                      ClusterPlacementPolicy kcp divides Deployments evenly between clusters, as kcp does, and \
                      kcp-objects places objects of other kinds; change them with: kubectl edit \
                      clusterplacementpolicy kcp kcp-objects",
            disabled: "Objects that a label has placed stay where they are; change that with: {atoll} place. The \
                       ClusterPlacementPolicies kcp and kcp-objects stay as well; delete them with: kubectl delete \
                       clusterplacementpolicy kcp kcp-objects",
            objects: "clusters",
        }
    }
}
