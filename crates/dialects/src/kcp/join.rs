//! Joins a kcp cluster with its kubeconfig, as `atoll cluster join` does.

use std::sync::Arc;
use std::time::Duration;

use atoll_client::dialing::TenantAddresses;
use atoll_client::kubeconfig::{Context, Kubeconfig};
use atoll_fleet::marks::SYSTEM_NAMESPACE;
use atoll_informer::{Key, resources};
use atoll_joining::claim::{self, Claim};
use atoll_joining::rights::Access;
use atoll_joining::{Failure, JoiningCluster, credential};
use atoll_meta::{Status, names, object};
use serde_json::{Value, json};

use super::controller::{KcpCluster, KcpController, MADE_FROM, ignore_not_found};
use super::status::Readiness;

/// The id of the root workspace.
const ROOT: &str = "root";

/// Timeout of the whole join.
const TIMEOUT: Duration = Duration::from_secs(60);

/// State of the cluster before any change.
struct ClusterFacts {
    id: String,
    version: String,
    control_plane: String,
}

impl KcpController {
    /// Joins the cluster. Returns the Atoll Cluster, or the readiness to report.
    pub(super) async fn join(
        &self,
        subject: &KcpCluster<'_>,
        kubeconfig: &str,
        cluster: Option<&Value>,
    ) -> Result<Value, Readiness> {
        let name = &*subject.at.name;
        if !names::name_is_dns_label(name, false).is_empty() {
            let message = "the name is not valid for a cluster: it must have at most 63 characters, which are lower case letters, digits and -";
            return Err(Readiness::not_ready("InvalidName", message));
        }
        if cluster.is_some_and(|cluster| !subject.owns(cluster)) {
            let message = format!(
                "cluster {name} already exists and was not created from this object; remove it first, or choose another name"
            );
            return Err(Readiness::not_ready("NameTaken", message));
        }
        let context = parse_kubeconfig(kubeconfig)
            .map_err(|problem| Readiness::not_ready("InvalidKubeConfig", problem))?;
        let below = JoiningCluster::of(context, self.tenant_addresses(subject))
            .map_err(|failure| Readiness::not_ready("ErrorCreatingClient", failure.message))?;
        let joining = self.join_cluster(subject, &below, kubeconfig, cluster);
        let problem = match tokio::time::timeout(TIMEOUT, joining).await {
            Ok(Ok(joined)) => return Ok(joined),
            Ok(Err(failure)) => failure.message,
            Err(_) => "the cluster does not respond in time".to_string(),
        };
        tracing::warn!(cluster = name, "kcp cluster cannot join: {problem}");
        Err(Readiness::not_ready("ErrorStartingSyncer", format!("{problem}; will retry")))
    }

    /// The allowed addresses, unless the object is in root, where no tenant can write it.
    pub(super) fn tenant_addresses(&self, subject: &KcpCluster<'_>) -> Option<Arc<TenantAddresses>> {
        (*subject.at.workspace != *ROOT).then(|| self.context.tenants.clone())
    }

    async fn join_cluster(
        &self,
        subject: &KcpCluster<'_>,
        below: &JoiningCluster,
        kubeconfig: &str,
        cluster: Option<&Value>,
    ) -> Result<Value, Failure> {
        let (_, version) = below.version().await?;
        let id = below.identity().await?;
        let system = self.api().get(&resources::NAMESPACES, &Key::new(ROOT, "", "kube-system")).await?;
        let found = ClusterFacts { id, version, control_plane: object::uid(&system).to_string() };
        self.check(subject, below, &found, cluster).await?;
        let (text, expires) = match below.can_grant_rights().await? {
            true => {
                let (_, namespace) = below.ensure_namespace(&Some(found.control_plane.clone())).await?;
                let groups = below.requested_groups(&[]).await?;
                below.grant_rights(Access::Manage, &groups, &namespace).await?;
                let (_, token) = below.request_token().await?;
                let (_, text) = below.verify_token(&subject.at.name, &token, &found.id).await?;
                (text, token.expires)
            }
            // A user who may not grant rights is not an administrator: use the kubeconfig as it is.
            false => (kubeconfig.to_string(), String::new()),
        };
        self.store(subject, &text, &expires).await?;
        let cluster = self.register(subject, &found, cluster).await?;
        let claim = Claim {
            control_plane: found.control_plane,
            workspace: subject.at.workspace.to_string(),
            cluster: object::uid(&cluster).to_string(),
            address: self.context.address.clone(),
            name: subject.at.name.to_string(),
        };
        if !expires.is_empty() {
            below.write_claim(&claim).await?;
        }
        Ok(cluster)
    }

    /// Checks that the cluster is the same as before, and that no other control plane or workspace has
    /// claimed it.
    async fn check(
        &self,
        subject: &KcpCluster<'_>,
        below: &JoiningCluster,
        found: &ClusterFacts,
        cluster: Option<&Value>,
    ) -> Result<(), Failure> {
        let refuse = |message: String| Failure { message, hint: None };
        if found.control_plane == found.id {
            return Err(refuse("this is the control plane itself: it cannot join itself".into()));
        }
        let pinned = cluster.and_then(|cluster| cluster["status"]["id"].as_str()).filter(|id| !id.is_empty());
        if let Some(pinned) = pinned.filter(|pinned| *pinned != found.id) {
            return Err(refuse(format!(
                "the cluster joined with the identity {pinned}, and this kubeconfig leads to {}",
                found.id
            )));
        }
        let same = self
            .clusters
            .list(&subject.at.workspace, "")
            .into_iter()
            .find(|other| other["status"]["id"] == *found.id && object::name(other) != &*subject.at.name);
        if let Some(same) = same {
            return Err(refuse(format!("this cluster has already joined as {}", object::name(&same))));
        }
        if cluster.is_none() {
            // Check that the name is valid and allowed before anything is created.
            let collection = self.api().collection(&self.clusters.resource, &subject.at.workspace, "")?;
            self.api()
                .client()
                .create(&format!("{collection}?dryRun=All"), &self.atoll_cluster_spec(subject))
                .await?;
        }
        let claim = below.api.find(&claim::path()).await?.map(|found| Claim::of(&found));
        let refusal = claim.and_then(|claim| {
            let state = claim.state(Some(&found.control_plane), Some(&subject.at.workspace));
            claim.conflict(&state, "kubectl")
        });
        refusal.map_or(Ok(()), Err)
    }

    async fn store(&self, subject: &KcpCluster<'_>, kubeconfig: &str, expires: &str) -> Result<(), Failure> {
        let name = &*subject.at.name;
        let secret = credential::secret(name, kubeconfig, expires);
        let at = subject.system_key(&credential::secret_name(name));
        match ignore_not_found(self.api().get(&resources::SECRETS, &at).await)? {
            None => {
                let created =
                    self.api().create(&resources::SECRETS, &subject.at.workspace, SYSTEM_NAMESPACE, &secret);
                created.await?;
            }
            Some(other) if other["metadata"]["labels"][credential::CLUSTER] != *name => {
                let message =
                    format!("Secret {SYSTEM_NAMESPACE}/{} exists and is not a cluster's credential", at.name);
                return Err(Failure { message, hint: None });
            }
            Some(_) => drop(self.api().patch(&resources::SECRETS, &at, "", &secret).await?),
        }
        Ok(())
    }

    /// The Atoll Cluster that is created from a kcp object.
    fn atoll_cluster_spec(&self, subject: &KcpCluster<'_>) -> Value {
        let (resource, name) = (&self.clusters.resource, &*subject.at.name);
        let secret = json!({ "namespace": SYSTEM_NAMESPACE, "name": credential::secret_name(name) });
        let labels = subject.object["metadata"].get("labels").cloned().unwrap_or_default();
        json!({
            "apiVersion": resource.api_version(), "kind": resource.kind,
            "metadata": { "name": name, "labels": labels, "annotations": { MADE_FROM: subject.origin() } },
            "spec": { "mode": "push", "access": "manage", "credentials": { "secret": secret } },
        })
    }

    async fn register(
        &self,
        subject: &KcpCluster<'_>,
        found: &ClusterFacts,
        cluster: Option<&Value>,
    ) -> Result<Value, Status> {
        let resource = &self.clusters.resource;
        let registered = match cluster {
            Some(cluster) => cluster.clone(),
            None => {
                let cluster = self.atoll_cluster_spec(subject);
                self.api().create(resource, &subject.at.workspace, "", &cluster).await?
            }
        };
        let status = json!({ "status": { "id": found.id, "kubernetesVersion": found.version } });
        self.api().patch(resource, &subject.at, "status", &status).await?;
        Ok(registered)
    }
}

/// Parses a kubeconfig from a client, which must not use files or programs of this machine.
fn parse_kubeconfig(kubeconfig: &str) -> Result<Context, String> {
    let config = Kubeconfig::parse(kubeconfig).map_err(|problem| problem.to_string())?;
    let context = config.context(config.current(), None).map_err(|problem| problem.to_string())?;
    // A password in the address would appear in messages.
    if context.server.contains('@') {
        return Err("the address of the server has a user in it; put credentials under users".into());
    }
    if context.insecure {
        return Err("it skips TLS verification; give it certificate-authority-data instead".into());
    }
    Ok(Context { control: None, ..context })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubeconfigs_with_files_or_programs_are_refused() {
        let with = |server: &str, cluster: &str, user: &str| {
            format!(
                "current-context: a\nclusters: [{{ name: a, cluster: {{ server: '{server}'{cluster} }} }}]\n\
                 users: [{{ name: a, user: {{ {user} }} }}]\ncontexts: [{{ name: a, context: {{ cluster: a, user: a }} }}]\n"
            )
        };
        let at = "https://a:6443";
        assert_eq!(
            parse_kubeconfig(&with(at, "", "token: t")).expect("it is good").token.as_deref(),
            Some("t")
        );
        for (text, expected) in [
            ("[]".to_string(), "it is not a kubeconfig"),
            ("users: s3cr3t".to_string(), "no such context"),
            ("{ s3cr3t".to_string(), "it is not YAML at line 1"),
            (with(at, "", "exec: { command: sh }"), "credentials come from an exec plugin or auth provider"),
            (with(at, "", "tokenFile: /etc/passwd"), "tokenFile names a file; put its content inline"),
            (
                with(at, ", insecure-skip-tls-verify: true", "token: t"),
                "it skips TLS verification; give it certificate-authority-data instead",
            ),
            (
                with("https://me:s3cr3t@a:6443", "", "token: t"),
                "the address of the server has a user in it; put credentials under users",
            ),
        ] {
            assert_eq!(parse_kubeconfig(&text).err().as_deref(), Some(expected));
        }
    }
}
