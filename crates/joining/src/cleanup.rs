//! Deletes the objects that joining created in the cluster.

use atoll_client::kubeconfig::Kubeconfig;
use atoll_client::path::encoded;
use atoll_fleet::ClusterView;
use atoll_fleet::marks::{CLAIM, CONTROL_PLANE, LEASE, SYSTEM_NAMESPACE};
use atoll_meta::object::{self, uid};
use serde_json::Value;

use crate::api::Api;
use crate::claim::{self, Claim};
use crate::client::Problem;
use crate::rights::ACCOUNT;
use crate::{Failure, credential, join_names, locators};

/// The result of the cleanup.
pub enum Leftover {
    Nothing,
    Some(String),
}

/// The manual cleanup by an administrator of the cluster.
pub fn manual_cleanup() -> String {
    format!(
        "An administrator of the cluster can do it: kubectl delete namespace {SYSTEM_NAMESPACE} && kubectl delete \
         clusterrole,clusterrolebinding {ACCOUNT}"
    )
}

const KUBE_SYSTEM: &str = "/api/v1/namespaces/kube-system";

/// Connects to a cluster with the credential that joining stored, without checking the cluster's identity.
pub fn connect(secret: Option<&Value>) -> Result<Api, Failure> {
    let kubeconfig = secret.and_then(credential::kubeconfig_from_secret);
    let kubeconfig = kubeconfig.ok_or("there is no credential for it".to_string())?;
    let unreadable = |problem| format!("its credential cannot be read: {problem}");
    let config = Kubeconfig::parse(&kubeconfig).map_err(unreadable)?;
    let context = config.context(config.current(), None).map_err(unreadable)?;
    Api::below(&context, "kubectl get nodes".into())
}

/// Checks that the identity of a cluster has not changed since it joined.
pub async fn check_identity(cluster: &Value, api: &Api) -> Result<(), Failure> {
    let id = uid(&api.get(KUBE_SYSTEM).await?).to_string();
    match ClusterView::of(cluster).id() {
        Some(pinned) if pinned != id => Err(Failure::new(
            format!("its address now leads to another cluster: {id}, not {pinned}"),
            "if the cluster that has joined is lost permanently, add --lost",
        )),
        _ => Ok(()),
    }
}

/// Deletes the objects that the join created. Objects of other control planes stay, and so do those that the
/// credential may not delete: a retry would not help.
pub async fn clean(cluster: &Value, api: &Api) -> Result<Leftover, Failure> {
    let left = match api.get(KUBE_SYSTEM).await {
        // The credential was deleted with the namespace by an interrupted attempt, or it has expired.
        Err(problem) if problem.is("Unauthorized") => {
            "The cluster no longer accepts the credential, so it is unknown whether the objects that Atoll created there are gone."
        }
        _ => match delete_checked(api, cluster).await? {
            Err(problem) if problem.is("Forbidden") => {
                "Some objects that Atoll created in the cluster stay there: the credential may not delete them."
            }
            Err(problem) => return Err(problem.into()),
            Ok(leftover) => return Ok(leftover),
        },
    };
    Ok(Leftover::Some(format!("{left} {}", manual_cleanup())))
}

async fn delete_checked(api: &Api, cluster: &Value) -> Result<Result<Leftover, Problem>, Failure> {
    check_identity(cluster, api).await?;
    Ok(delete_join_objects(api, cluster).await)
}

async fn delete_join_objects(api: &Api, cluster: &Value) -> Result<Leftover, Problem> {
    let Some(config_map) = api.find(&claim::path()).await? else { return Ok(Leftover::Nothing) };
    let claim = Claim::of(&config_map);
    let is_claimed =
        claim.control_plane == claim::RELEASED || claim.cluster == uid(cluster) || cluster.is_null();
    if !is_claimed {
        return Ok(Leftover::Some(
            "The cluster now belongs to another control plane; nothing was changed there.".into(),
        ));
    }
    // Reported, but not a reason to keep the rest.
    let unmarked = locators::remove_locators(api, &claim.control_plane).await;
    let failed = |failure: &Failure| {
        format!("The annotations of some namespaces of the cluster cannot be removed: {failure}.")
    };
    let marked = unmarked.as_ref().err().map(failed);
    let path = format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}");
    let namespace = api.get(&path).await?;
    if let Some(mark) = namespace["metadata"]["labels"][CONTROL_PLANE].as_str() {
        let kept = remaining_namespaces(api, mark).await;
        // The ClusterRole and its binding are owned by the namespace and are deleted with it.
        api.delete(&path).await?;
        let left: Vec<String> = marked.into_iter().chain(kept).collect();
        return Ok(if left.is_empty() { Leftover::Nothing } else { Leftover::Some(left.join("\n")) });
    }
    for path in [
        format!("{path}/configmaps/{CLAIM}"),
        format!("/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases/{LEASE}"),
        format!("{path}/serviceaccounts/{ACCOUNT}"),
    ] {
        api.delete(&path).await?;
    }
    let stays = format!(
        "Namespace {SYSTEM_NAMESPACE} of the cluster existed before the join; it stays, with ClusterRole, ClusterRoleBinding, Role and \
         RoleBinding {ACCOUNT}. {}",
        manual_cleanup()
    );
    let left: Vec<String> = marked.into_iter().chain([stays]).collect();
    Ok(Leftover::Some(left.join("\n")))
}

/// Names the namespaces that Atoll created for objects. They stay, because they may contain other objects.
async fn remaining_namespaces(api: &Api, control_plane: &str) -> Option<String> {
    let list = api
        .get(&format!("/api/v1/namespaces?labelSelector={CONTROL_PLANE}%3D{}", encoded(control_plane)))
        .await
        .ok()?;
    let items = list["items"].as_array().into_iter().flatten();
    let names: Vec<&str> = items.map(object::name).filter(|name| *name != SYSTEM_NAMESPACE).collect();
    (!names.is_empty()).then(|| {
        format!(
            "Namespaces stay in the cluster, because they may contain other objects: {}. Delete them if they are not needed.",
            join_names(&names)
        )
    })
}
