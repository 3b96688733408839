//! Joining in pull mode: the rights of the agent, a join token, and a manifest.
//!
//! ```text
//!   Cluster (mode pull) ─► role of the agent ─► join token, bound to a Secret ─► manifest
//! ```

use atoll_fleet::agent::{self, AGENT, CLUSTER_UID};
use atoll_fleet::marks::SYSTEM_NAMESPACE;
use atoll_joining::JoiningCluster;
use atoll_joining::admin_failure;
use atoll_joining::credential;
use atoll_joining::manifest::AgentManifest;
use atoll_joining::rights::{self, ACCOUNT, Access};
use atoll_meta::object;
use serde_json::{Value, json};

use super::super::control_plane_connection::{CLUSTERS, ControlPlaneConnection, uid};
use super::super::step_printer::StepPrinter;
use super::agent::role_name;
use crate::advice::{Failure, invocation};
use crate::command::{JoinOptions, Mode};
use crate::output::{self, errln};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1";
const GROUP: &str = "rbac.authorization.k8s.io";
/// Lifetime of a join token, the shortest that servers grant.
const TOKEN_SECONDS: u32 = 600;
/// The image that `cargo xtask dist` writes.
pub const IMAGE: &str = "localhost/atoll:1";

/// The address and the credential that an agent joins with.
pub struct JoiningAgent {
    server: String,
    authority_pem: Vec<u8>,
    user: String,
    token: String,
    /// Expiry of the token.
    pub expires: String,
}

/// Registers a cluster and prints the manifest of its agent.
pub async fn print_manifest(options: &JoinOptions, fleet: &ControlPlaneConnection) -> Result<(), Failure> {
    let access = if options.observe { Access::Observe } else { Access::Manage };
    let cluster = register(options, fleet, access).await?;
    let (_, agent) = prepare(options, fleet, &cluster).await?;
    for object in agent.manifest(options).objects(access, &options.groups) {
        output::print(&format!("---\n{}", output::yaml(&object)?));
    }
    errln!(
        "This manifest contains a credential: a join token, which is valid until {} and for one agent. Keep it \
         private, and apply it to the cluster before then. See the state of the cluster with: {} cluster describe {}",
        agent.expires,
        invocation(),
        options.name
    );
    Ok(())
}

/// Registers the cluster, or changes its mode.
async fn register(
    options: &JoinOptions,
    fleet: &ControlPlaneConnection,
    access: Access,
) -> Result<Value, Failure> {
    let name = options.name.as_str();
    let mut spec = json!({ "access": access.name(), "mode": Mode::Pull.name() });
    if options.cordoned {
        spec["unschedulable"] = true.into();
    }
    match fleet.find(name).await? {
        Some(_) => {
            spec["credentials"] = Value::Null;
            let cluster = fleet.change(name, &json!({ "spec": spec })).await?;
            delete_credential(name, fleet).await?;
            Ok(cluster)
        }
        None => {
            let cluster = json!({
                "apiVersion": "atoll.dev/v1alpha1", "kind": "Cluster",
                "metadata": { "name": name }, "spec": spec,
            });
            Ok(fleet.api.create(CLUSTERS, &cluster).await?)
        }
    }
}

/// Deletes the credential of the cluster in the control plane, which another mode has used.
pub async fn delete_credential(name: &str, fleet: &ControlPlaneConnection) -> Result<(), Failure> {
    let path = credential::secret_path(name);
    let secret = fleet.api.find(&path).await?;
    if secret.is_some_and(|secret| secret["metadata"]["labels"][credential::CLUSTER] == name) {
        fleet.api.delete(&path).await?;
    }
    Ok(())
}

/// Creates the rights of the agent and a join token for it.
pub async fn prepare(
    options: &JoinOptions,
    fleet: &ControlPlaneConnection,
    cluster: &Value,
) -> Result<(String, JoiningAgent), Failure> {
    let (name, api) = (options.name.as_str(), &fleet.api);
    let admin = fleet.session.config.context()?;
    let authority_pem = admin.authority_pem.clone().ok_or_else(|| {
        Failure::new(
            "the kubeconfig of the control plane names no certificate authority, which the agent needs",
            "use a kubeconfig with certificate-authority-data: --control-plane-kubeconfig FILE",
        )
    })?;
    let (account, user) = (agent::join_account(name), agent::user(name, uid(cluster)));
    let owners = json!([{
        "apiVersion": "atoll.dev/v1alpha1", "kind": "Cluster", "name": name, "uid": uid(cluster),
    }]);
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": SYSTEM_NAMESPACE } });
    api.create_if_absent("/api/v1/namespaces", &namespace).await?;
    let (view, certificate) =
        (format!("/services/sync/{name}"), format!("/services/sync/{name}/certificate"));
    let subjects = [
        (
            role_name(name),
            json!([
                { "nonResourceURLs": [view], "verbs": ["get", "post"] },
                { "nonResourceURLs": [certificate], "verbs": ["post"] },
            ]),
            json!({ "kind": "User", "apiGroup": GROUP, "name": user }),
        ),
        (
            format!("atoll:join:{name}"),
            json!([{ "nonResourceURLs": [certificate], "verbs": ["post"] }]),
            json!({ "kind": "ServiceAccount", "name": account, "namespace": SYSTEM_NAMESPACE }),
        ),
    ];
    for (role, rules, subject) in subjects {
        let metadata = json!({ "name": role, "ownerReferences": owners });
        let object = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole", "metadata": metadata, "rules": rules,
        });
        api.apply(&format!("{ROLES}/clusterroles/{role}"), &object).await?;
        let object = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRoleBinding", "metadata": metadata,
            "roleRef": { "apiGroup": GROUP, "kind": "ClusterRole", "name": role }, "subjects": [subject],
        });
        api.apply(&format!("{ROLES}/clusterrolebindings/{role}"), &object).await?;
    }
    let in_system = format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}");
    let metadata = json!({ "name": account, "namespace": SYSTEM_NAMESPACE, "ownerReferences": owners });
    let object = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata,
        "automountServiceAccountToken": false,
    });
    api.apply(&format!("{in_system}/serviceaccounts/{account}"), &object).await?;
    // An earlier token ends with its Secret.
    match api.delete(&format!("{in_system}/secrets/{account}")).await {
        Err(problem) if !problem.is("NotFound") => return Err(problem.into()),
        _ => {}
    }
    let mut secret = json!({ "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata });
    object::set_annotation(&mut secret, CLUSTER_UID, uid(cluster));
    let secret = api.create(&format!("{in_system}/secrets"), &secret).await?;
    let bound = json!({ "apiVersion": "v1", "kind": "Secret", "name": account, "uid": uid(&secret) });
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": { "expirationSeconds": TOKEN_SECONDS, "boundObjectRef": bound },
    });
    let answer = api.create(&format!("{in_system}/serviceaccounts/{account}/token"), &request).await?;
    let text = |field: &str| answer["status"][field].as_str().unwrap_or_default().to_string();
    let agent = JoiningAgent {
        server: admin.server.clone(),
        authority_pem,
        user,
        token: text("token"),
        expires: text("expirationTimestamp"),
    };
    let message = format!("created a join token for the agent, valid until {}", agent.expires);
    Ok((message, agent))
}

impl JoiningAgent {
    fn manifest<'a>(&'a self, options: &'a JoinOptions) -> AgentManifest<'a> {
        AgentManifest {
            cluster: &options.name,
            image: options.image.as_deref().unwrap_or(IMAGE),
            server: &self.server,
            authority_pem: &self.authority_pem,
            user: &self.user,
            token: &self.token,
        }
    }

    /// Installs the agent in the cluster.
    pub async fn install(
        &self,
        options: &JoinOptions,
        access: Access,
        below: &JoiningCluster,
    ) -> Result<(String, ()), Failure> {
        let manifest = self.manifest(options);
        let in_system = format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}");
        let apps = format!("/apis/apps/v1/namespaces/{SYSTEM_NAMESPACE}");
        for (path, object) in [
            (format!("{ROLES}/namespaces/{SYSTEM_NAMESPACE}/roles/{ACCOUNT}"), rights::agent_role(access)),
            (format!("{in_system}/secrets/{AGENT}"), manifest.secret()),
            (format!("{apps}/deployments/{AGENT}"), manifest.deployment()),
        ] {
            below.api.apply(&path, &object).await.map_err(admin_failure)?;
        }
        let message = format!("installed the agent there: Deployment {SYSTEM_NAMESPACE}/{AGENT}");
        Ok((message, ()))
    }
}

/// Prepares and installs the agent of a registered cluster.
pub async fn install(
    options: &JoinOptions,
    fleet: &ControlPlaneConnection,
    cluster: &Value,
    access: Access,
    below: &JoiningCluster,
    steps: &mut StepPrinter,
) -> Result<(), Failure> {
    let agent = steps.step("creating a join token", prepare(options, fleet, cluster)).await?;
    steps.step("installing the agent", agent.install(options, access, below)).await
}
