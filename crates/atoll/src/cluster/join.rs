//! `atoll cluster join`: a sequence of steps, each of which can be repeated.

pub mod below;
pub mod by_hand;
mod heartbeat;
mod version;

use std::time::Duration;

use atoll_fleet::marks::SYSTEM_NAMESPACE;
use atoll_meta::object;
use serde_json::{Value, json};

use self::below::Below;
use super::claim::{self, Claim};
use super::credential::{self, Token};
use super::fleet::{self, CLUSTERS, Fleet, uid};
use super::rights::{self, Access};
use super::steps::Steps;
use crate::advice::{Failure, invocation};
use crate::command::{Connection, JoinOptions, Mode};
use crate::output;

struct Join<'a> {
    options: &'a JoinOptions,
    access: Access,
    fleet: Fleet,
    below: Below,
    /// The objects created so far, which remain if a later step fails.
    made: Vec<&'static str>,
}

/// The state before any change.
struct Found {
    /// The cluster's identity: the uid of its namespace kube-system.
    id: String,
    /// The Cluster object, if the cluster has joined before.
    cluster: Option<Value>,
    control_plane: Option<String>,
    workspace: Option<String>,
}

pub async fn run(options: JoinOptions) -> Result<(), Failure> {
    let mut join = Join::open(&options)?;
    let title = format!(
        "Joining {} ({}) to {}.",
        options.name,
        join.below.api.client().origin,
        join.fleet.session.current
    );
    let outcome = join.all(&mut Steps::begin(&title)).await;
    outcome.map_err(|failure| unfinished(failure, &join.made))
}

/// Joins a cluster without printing progress.
pub async fn quietly(options: &JoinOptions) -> Result<(), Failure> {
    Join::open(options)?.all(&mut Steps::silent()).await
}

impl<'a> Join<'a> {
    fn open(options: &'a JoinOptions) -> Result<Join<'a>, Failure> {
        let control_plane = Connection {
            kubeconfig: options.control_plane_kubeconfig.clone(),
            context: options.control_plane_context.clone(),
        };
        Ok(Join {
            access: if options.observe { Access::Observe } else { Access::Manage },
            below: Below::open(&options.kubeconfig, options.context.as_deref())?,
            fleet: Fleet::open(&control_plane).map_err(for_join)?,
            options,
            made: Vec::new(),
        })
    }
}

/// Replaces the names of the flags for the control plane, which differ in this command.
fn for_join(failure: Failure) -> Failure {
    let next = failure.next.map(|next| {
        let next = next.replace("--kubeconfig", "--control-plane-kubeconfig");
        next.replace("--context", "--control-plane-context")
    });
    Failure { next, ..failure }
}

/// Prints the rights that are about to be granted.
fn show_rights(groups: &[String], steps: &Steps) -> Result<(), Failure> {
    steps.say(&format!(
        "    These rights are requested, in namespace {SYSTEM_NAMESPACE} and in the whole cluster:"
    ));
    let mut role = rights::cluster_role(Access::Observe, groups, &Value::Null);
    // The owner reference matters for deletion only and grants nothing.
    if let Some(metadata) = role["metadata"].as_object_mut() {
        metadata.remove("ownerReferences");
    }
    for document in [rights::role(Access::Observe), role] {
        steps.say("    ---");
        output::yaml(&document)?.lines().for_each(|line| steps.say(&format!("    {line}")));
    }
    Ok(())
}

/// Adds to a failure which objects were created: they remain and are found by the next attempt.
fn unfinished(failure: Failure, made: &[&str]) -> Failure {
    if made.is_empty() {
        return failure;
    }
    let rest = format!("created so far and kept: {}; run the same command again to continue", made.join(", "));
    let next = match failure.next {
        Some(next) => format!("{next}\n      {rest}"),
        None => rest,
    };
    Failure { what: failure.what, next: Some(next) }
}

impl Join<'_> {
    async fn all(&mut self, steps: &mut Steps) -> Result<(), Failure> {
        let name = self.options.name.as_str();
        let version = steps.step("reaching the cluster", self.below.version()).await?;
        if let Some(note) = version::note(&version) {
            steps.note(&note);
        }
        let found = steps.step("identifying the cluster", self.identify()).await?;
        steps.step("checking for other claims", self.check_claim(&found)).await?;

        let groups = self.below.groups(&self.options.groups).await?;
        if self.access == Access::Observe {
            show_rights(&groups, steps)?;
        }
        let namespace =
            steps.step("creating the namespace", self.below.namespace(&found.control_plane)).await?;
        self.made.push("namespace atoll-system in the cluster");
        steps.step("granting rights", self.below.rights(self.access, &groups, &namespace)).await?;
        self.made.push("ServiceAccount atoll-syncer with its roles");
        let token = steps.step("requesting a token", self.below.token()).await?;
        let kubeconfig = steps.step("verifying the token", self.below.tried(name, &token, &found.id)).await?;

        steps.step("storing the credential", self.store(&found, &kubeconfig, &token)).await?;
        self.made.push("Secret in the control plane");
        let cluster = steps.step("registering the cluster", self.register(&found, &version)).await?;
        self.made.push("Cluster in the control plane");
        if let (Some(control_plane), Some(workspace)) = (&found.control_plane, &found.workspace) {
            let claim = Claim {
                control_plane: control_plane.clone(),
                workspace: workspace.clone(),
                cluster: uid(&cluster).to_string(),
                address: self.fleet.session.client.origin.clone(),
                name: name.to_string(),
            };
            steps.step("claiming the cluster", self.below.claim(&claim)).await?;
        }
        // Clusters that the control plane does not sync itself need an agent.
        if cluster["spec"]["mode"] != Mode::Push.name() {
            let line = by_hand::prepare(self.options, &self.fleet, &kubeconfig, steps).await?;
            steps.say(&format!(
                "Cluster {name} has joined. It is not synced until you run, on any machine:\n  {line}"
            ));
            return Ok(());
        }
        // A cluster that only got a new credential has already sent heartbeats.
        let is_heard = found.cluster.as_ref().is_some_and(|cluster| cluster["status"]["syncer"].is_object());
        if self.options.wait > 0 && !is_heard {
            let wait = Duration::from_secs(self.options.wait.into());
            steps.step("waiting for the first heartbeat", heartbeat::first(&self.fleet, name, wait)).await?;
        }
        let again = if found.cluster.is_some() { "has a new credential" } else { "has joined" };
        steps.say(&format!("Cluster {name} {again}. See its state with: {} cluster list", invocation()));
        Ok(())
    }

    /// Identifies the cluster by the uid of a namespace, independent of its address.
    async fn identify(&self) -> Result<(String, Found), Failure> {
        let name = self.options.name.as_str();
        let id = self.below.identity().await?;
        let list = self.fleet.list().await?;
        let clusters = || list["items"].as_array().into_iter().flatten();
        let cluster = clusters().find(|cluster| object::name(cluster) == name).cloned();
        let control_plane = self.fleet.control_plane().await?;
        let workspace = self.fleet.workspace_id().await?;
        if control_plane.as_deref() == Some(id.as_str()) {
            return Err(Failure::new(
                "this is the control plane itself: it cannot join itself",
                "name the kubeconfig of a cluster with --kubeconfig",
            ));
        }
        let pinned = cluster.as_ref().and_then(|cluster| cluster["status"]["id"].as_str());
        if pinned.is_some_and(|pinned| pinned != id) {
            return Err(another(name, pinned.unwrap_or_default(), &id));
        }
        let same =
            clusters().find(|other| other["status"]["id"] == id.as_str() && object::name(other) != name);
        if let Some(same) = same {
            let known = object::name(same);
            return Err(Failure::new(
                format!("this cluster has already joined as {known}"),
                format!(
                    "renew its credential with the name {known}, or remove it first: {} cluster remove {known}",
                    invocation()
                ),
            ));
        }
        if cluster.is_none() {
            // Check that the name is valid and allowed before anything is created.
            let wanted = json!({
                "apiVersion": "atoll.dev/v1alpha1", "kind": "Cluster", "metadata": { "name": name },
            });
            self.fleet.api.create(&format!("{CLUSTERS}?dryRun=All"), &wanted).await?;
        }
        let said = match &cluster {
            Some(_) => format!("identified the cluster: {id}, which has joined as {name}"),
            None => format!("identified the cluster: {id}, which has not joined yet"),
        };
        Ok((said, Found { id, cluster, control_plane, workspace }))
    }

    async fn check_claim(&self, found: &Found) -> Result<(String, ()), Failure> {
        let config_map = self.below.api.find(&claim::path()).await.map_err(below::administrator)?;
        let Some(config_map) = config_map else { return Ok(("the cluster is unclaimed".into(), ())) };
        let claim = Claim::of(&config_map);
        let verdict = claim.verdict(found.control_plane.as_deref(), found.workspace.as_deref());
        match claim.refusal(&verdict, &self.below.kubectl) {
            Some(refusal) => Err(refusal),
            None => Ok(("no other control plane claims the cluster".into(), ())),
        }
    }

    async fn store(&self, found: &Found, kubeconfig: &str, token: &Token) -> Result<(String, ()), Failure> {
        let name = self.options.name.as_str();
        let api = &self.fleet.api;
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": SYSTEM_NAMESPACE } });
        api.create_if_absent("/api/v1/namespaces", &namespace).await?;
        let (path, secret) =
            (credential::secret_path(name), credential::secret(name, kubeconfig, &token.expires));
        let said = format!("stored the credential in Secret {SYSTEM_NAMESPACE}/{}", credential::secret_name(name));
        match api.find(&path).await? {
            None => {
                let collection = format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/secrets");
                api.create(&collection, &secret).await?;
            }
            Some(other)
                if other["metadata"]["labels"][credential::CLUSTER] != name && found.cluster.is_none() =>
            {
                let secret = credential::secret_name(name);
                return Err(Failure::new(
                    format!("Secret {SYSTEM_NAMESPACE}/{secret} exists and is not a cluster's credential"),
                    "join under another name, or delete the Secret if it is not needed",
                ));
            }
            Some(_) => drop(api.merge(&path, &secret).await?),
        }
        Ok((said, ()))
    }

    async fn register(&self, found: &Found, version: &str) -> Result<(String, Value), Failure> {
        let name = self.options.name.as_str();
        let api = &self.fleet.api;
        let secret = json!({ "namespace": SYSTEM_NAMESPACE, "name": credential::secret_name(name) });
        let mut spec = json!({ "access": self.access.name(), "credentials": { "secret": secret } });
        let mode = match (self.options.mode, &found.cluster) {
            (Some(mode), _) => Some(mode),
            (None, None) => Some(Mode::Push),
            (None, Some(_)) => None,
        };
        if let Some(mode) = mode {
            spec["mode"] = mode.name().into();
        }
        let cluster = match found.cluster {
            Some(_) => self.fleet.change(name, &json!({ "spec": spec })).await?,
            None => {
                let cluster = json!({
                    "apiVersion": "atoll.dev/v1alpha1", "kind": "Cluster",
                    "metadata": { "name": name }, "spec": spec,
                });
                api.create(CLUSTERS, &cluster).await?
            }
        };
        let status = json!({ "status": { "id": found.id, "kubernetesVersion": version } });
        api.merge(&format!("{}/status", fleet::path(name)), &status).await?;
        let how = match self.access {
            Access::Manage => "",
            Access::Observe => ", to be observed only",
        };
        Ok((format!("registered Cluster {name} in {}{how}", self.fleet.session.current), cluster))
    }
}

fn another(name: &str, pinned: &str, found: &str) -> Failure {
    Failure::new(
        format!("{name} is another cluster: it joined as {pinned}, and this one is {found}"),
        format!(
            "use the kubeconfig of the cluster that has joined; or join this one under another name; or, if this one \
             replaces it, remove the old one first: {} cluster remove {name} --lost",
            invocation()
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_list_the_created_objects() {
        let failure = Failure::new("it broke", "look");
        assert_eq!(unfinished(failure.clone(), &[]), failure);
        let failure = unfinished(failure, &["a", "b"]);
        assert_eq!(
            failure.next.as_deref(),
            Some("look\n      created so far and kept: a, b; run the same command again to continue")
        );
        let failure = unfinished("it broke".to_string().into(), &["a"]);
        assert_eq!(
            told.next.as_deref(),
            Some("created so far and kept: a; run the same command again to continue")
        );
    }

    #[test]
    fn hints_name_the_flags_of_join() {
        let failure = for_join(Failure::new("no", "try --kubeconfig or --context x"));
        assert_eq!(
            failure.next.as_deref(),
            Some("try --control-plane-kubeconfig or --control-plane-context x")
        );
    }
}
