//! The joining cluster, accessed as its administrator.

use std::sync::Arc;
use std::time::Duration;

use atoll_client::dialing::TenantAddresses;
use atoll_client::kubeconfig::Context;
use atoll_fleet::api_groups::is_built_in;
use atoll_fleet::marks::{CONTROL_PLANE, SYSTEM_NAMESPACE};
use atoll_meta::object::uid;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::Api;
use crate::claim::{self, Claim};
use crate::client::Problem;
use crate::credential::{self, ServiceAccountToken};
use crate::rights::{self, ACCOUNT, Access};
use crate::{Failure, version};

const IDENTITY: &str = "/api/v1/namespaces/kube-system";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Time for the cluster's API servers to accept a new token.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(250);

pub struct JoiningCluster {
    pub api: Api,
    context: Context,
    /// The kubectl command line that reaches the cluster.
    pub kubectl: String,
    /// The allowed addresses, if a tenant has chosen the cluster's address.
    tenants: Option<Arc<TenantAddresses>>,
}

impl JoiningCluster {
    /// Accesses a cluster with a context of its administrator. `kubectl` is the command line that reaches it.
    pub fn with_context(context: Context, kubectl: String) -> Result<JoiningCluster, Failure> {
        let api = Api::below(&context, format!("{kubectl} get nodes"))?;
        Ok(JoiningCluster { api, context, kubectl, tenants: None })
    }

    /// Accesses a cluster with a kubeconfig context that may come from a tenant.
    pub fn of(context: Context, tenants: Option<Arc<TenantAddresses>>) -> Result<JoiningCluster, Failure> {
        let api = Api::below(&context, "kubectl get nodes".into())?.restricted(&tenants);
        Ok(JoiningCluster { api, context, kubectl: "kubectl".into(), tenants })
    }

    pub async fn version(&self) -> Result<(String, String), Failure> {
        let answer = self.api.get("/version").await.map_err(admin_failure)?;
        let found = answer["gitVersion"].as_str().unwrap_or_default().to_string();
        version::check(&found)?;
        Ok((format!("reached the cluster: Kubernetes {found}"), found))
    }

    pub async fn identity(&self) -> Result<String, Failure> {
        let namespace = self.api.get(IDENTITY).await.map_err(admin_failure)?;
        match uid(&namespace) {
            "" => Err("the cluster's namespace kube-system has no uid".to_string().into()),
            id => Ok(id.to_string()),
        }
    }

    /// Creates Atoll's namespace in the cluster. An existing one is used, but not marked.
    pub async fn ensure_namespace(&self, control_plane: &Option<String>) -> Result<(String, Value), Failure> {
        let mut namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": SYSTEM_NAMESPACE } });
        if let Some(id) = control_plane {
            namespace["metadata"]["labels"] = json!({ CONTROL_PLANE: id });
        }
        match self.api.create("/api/v1/namespaces", &namespace).await {
            Ok(created) => Ok((format!("created namespace {SYSTEM_NAMESPACE} there"), created)),
            Err(problem) if problem.is("AlreadyExists") => {
                let path = format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}");
                let found = self.api.get(&path).await.map_err(admin_failure)?;
                if found["metadata"]["deletionTimestamp"].is_string() {
                    return Err(Failure::new(
                        format!("namespace {SYSTEM_NAMESPACE} of the cluster is being deleted"),
                        "wait until it is gone, then try again",
                    ));
                }
                Ok((format!("found namespace {SYSTEM_NAMESPACE} there"), found))
            }
            Err(problem) => Err(admin_failure(problem)),
        }
    }

    /// The API groups that were requested now, or else those that an earlier join requested.
    pub async fn requested_groups(&self, wanted: &[String]) -> Result<Vec<String>, Failure> {
        if !wanted.is_empty() {
            return Ok(wanted.to_vec());
        }
        let role = self.api.find(&format!("{ROLES}/clusterroles/{ACCOUNT}")).await.map_err(admin_failure)?;
        Ok(role.map(|role| rights::groups_of(&role)).unwrap_or_default())
    }

    /// The cluster's API groups that are not built into Kubernetes.
    async fn defined_groups(&self) -> Result<Vec<String>, Failure> {
        let found = self.api.get("/apis").await.map_err(admin_failure)?;
        let names =
            found["groups"].as_array().into_iter().flatten().filter_map(|group| group["name"].as_str());
        Ok(names.filter(|name| !is_built_in(name)).map(str::to_string).collect())
    }

    /// Whether the user may create ClusterRoleBindings in the cluster.
    pub async fn can_grant_rights(&self) -> Result<bool, Failure> {
        let attributes = json!({
            "verb": "create", "group": "rbac.authorization.k8s.io", "resource": "clusterrolebindings",
        });
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": { "resourceAttributes": attributes },
        });
        let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        Ok(self.api.create(reviews, &review).await?["status"]["allowed"] == true)
    }

    pub async fn grant_rights(
        &self,
        access: Access,
        groups: &[String],
        namespace: &Value,
    ) -> Result<(String, ()), Failure> {
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": { "name": ACCOUNT, "namespace": SYSTEM_NAMESPACE },
        });
        let accounts = format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/serviceaccounts");
        self.api.create_if_absent(&accounts, &account).await.map_err(admin_failure)?;
        let namespaced = format!("{ROLES}/namespaces/{SYSTEM_NAMESPACE}");
        let mut role = rights::cluster_role(access, groups, namespace);
        if access == Access::Manage {
            rights::add_list_rules(&mut role, &self.defined_groups().await?);
        }
        for (path, object) in [
            (format!("{ROLES}/clusterroles/{ACCOUNT}"), role),
            (format!("{ROLES}/clusterrolebindings/{ACCOUNT}"), rights::binding(Some(namespace))),
            (format!("{namespaced}/roles/{ACCOUNT}"), rights::role(access)),
            (format!("{namespaced}/rolebindings/{ACCOUNT}"), rights::binding(None)),
        ] {
            self.api.apply(&path, &object).await.map_err(admin_failure)?;
        }
        let what = match access {
            Access::Manage => "do only what a syncer needs",
            Access::Observe => "only read",
        };
        Ok((format!("created ServiceAccount {SYSTEM_NAMESPACE}/{ACCOUNT}; it may {what}"), ()))
    }

    pub async fn request_token(&self) -> Result<(String, ServiceAccountToken), Failure> {
        let token = credential::request_token(&self.api, ACCOUNT).await.map_err(admin_failure)?;
        Ok((format!("received a token for it, valid until {}", token.expires), token))
    }

    /// Waits until the cluster accepts the token. Returns a kubeconfig with it.
    pub async fn verify_token(
        &self,
        name: &str,
        token: &ServiceAccountToken,
        id: &str,
    ) -> Result<(String, String), Failure> {
        let context = credential::context(&self.context, &self.context.server, &token.token);
        let api = Api::below(&context, format!("{} get nodes", self.kubectl))?.restricted(&self.tenants);
        let deadline = Instant::now() + TOKEN_TIMEOUT;
        let namespace = loop {
            match api.get(IDENTITY).await {
                Ok(namespace) => break namespace,
                // API servers learn of new accounts and roles at different times.
                Err(problem) if problem.is("Unauthorized") || problem.is("Forbidden") => {
                    if Instant::now() >= deadline {
                        return Err(token_rejected(problem));
                    }
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                Err(problem) => return Err(problem.into()),
            }
        };
        if uid(&namespace) != id {
            return Err(Failure::new(
                "the address of this cluster now leads to another cluster",
                "does a proxy serve several clusters there? Use the address of a single cluster in the kubeconfig",
            ));
        }
        Ok(("verified the token".into(), credential::kubeconfig(name, ACCOUNT, &context)))
    }

    pub async fn write_claim(&self, claim: &Claim) -> Result<(String, ()), Failure> {
        self.api.apply(&claim::path(), &claim.config_map()).await.map_err(admin_failure)?;
        Ok(("claimed the cluster for this control plane".into(), ()))
    }
}

/// Explains that joining requires an administrator of the cluster.
pub fn admin_failure(problem: Problem) -> Failure {
    match &problem {
        Problem::Refused(status) if status.reason() == "Forbidden" => Failure::new(
            format!("the cluster refused: {}", status.message()),
            "joining needs an administrator of the cluster, who may create namespaces and ClusterRoles and has all rights that these grant",
        ),
        Problem::Refused(status) if status.code() == 401 => Failure::new(
            "the cluster rejects the credential",
            "the certificate or token in the file of --kubeconfig is not valid there or has expired; get a new one",
        ),
        _ => problem.into(),
    }
}

fn token_rejected(problem: Problem) -> Failure {
    let failure = Failure::from(problem);
    Failure::new(
        format!("the cluster rejects the token that it has issued: {}", failure.message),
        "do all API servers of the cluster have the same ServiceAccount keys, and RBAC enabled?",
    )
}
