//! `atoll cluster join`: step by step, each of which can be done again.

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
    /// What has been made so far, as far as it stays if the next step fails.
    made: Vec<&'static str>,
}

/// What there is before anything is done.
struct Found {
    /// The cluster's identity.
    id: String,
    /// It has joined before.
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

/// The same without a word.
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

/// The flags for the control plane are called otherwise here.
fn for_join(failure: Failure) -> Failure {
    let next = failure.next.map(|next| {
        let next = next.replace("--kubeconfig", "--control-plane-kubeconfig");
        next.replace("--context", "--control-plane-context")
    });
    Failure { next, ..failure }
}

/// The rights that are asked for, before they are given.
fn show_rights(groups: &[String], steps: &Steps) -> Result<(), Failure> {
    steps.say(&format!(
        "    These rights are asked for, in namespace {SYSTEM_NAMESPACE} and in the whole cluster:"
    ));
    let mut role = rights::cluster_role(Access::Observe, groups, &Value::Null);
    // Whose it is has to do with how it goes, not with what it gives.
    if let Some(metadata) = role["metadata"].as_object_mut() {
        metadata.remove("ownerReferences");
    }
    for document in [rights::role(Access::Observe), role] {
        steps.say("    ---");
        output::yaml(&document)?.lines().for_each(|line| steps.say(&format!("    {line}")));
    }
    Ok(())
}

/// What was made stays, and is found again by the next attempt.
fn unfinished(failure: Failure, made: &[&str]) -> Failure {
    if made.is_empty() {
        return failure;
    }
    let rest = format!("made so far, and kept: {}; run the same command again to go on", made.join(", "));
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
        let found = steps.step("finding out which cluster it is", self.identify()).await?;
        steps.step("looking for claims of others", self.check_claim(&found)).await?;

        let groups = self.below.groups(&self.options.groups).await?;
        if self.access == Access::Observe {
            show_rights(&groups, steps)?;
        }
        let namespace =
            steps.step("making the namespace", self.below.namespace(&found.control_plane)).await?;
        self.made.push("namespace atoll-system in the cluster");
        steps.step("giving rights", self.below.rights(self.access, &groups, &namespace)).await?;
        self.made.push("ServiceAccount atoll-syncer with its roles");
        let token = steps.step("asking for a token", self.below.token()).await?;
        let kubeconfig = steps.step("trying the token", self.below.tried(name, &token, &found.id)).await?;

        steps.step("storing it", self.store(&found, &kubeconfig, &token)).await?;
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
            steps.step("claiming it", self.below.claim(&claim)).await?;
        }
        // Others run the syncer of a cluster that is not pushed to.
        if cluster["spec"]["mode"] != Mode::Push.name() {
            let line = by_hand::prepare(self.options, &self.fleet, &kubeconfig, steps).await?;
            steps.say(&format!(
                "Cluster {name} has joined. Nobody syncs it until you run, from wherever you like:\n  {line}"
            ));
            return Ok(());
        }
        // One that only gets a new credential was heard of before.
        let is_heard = found.cluster.as_ref().is_some_and(|cluster| cluster["status"]["syncer"].is_object());
        if self.options.wait > 0 && !is_heard {
            let wait = Duration::from_secs(self.options.wait.into());
            steps.step("waiting for the first heartbeat", heartbeat::first(&self.fleet, name, wait)).await?;
        }
        let again = if found.cluster.is_some() { "has a new credential" } else { "has joined" };
        steps.say(&format!("Cluster {name} {again}. See how it fares with: {} cluster list", invocation()));
        Ok(())
    }

    /// The cluster is known by the uid of one of its namespaces, whatever address it has.
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
                    "renew its credential with the name {known}, or take it out first: {} cluster remove {known}",
                    invocation()
                ),
            ));
        }
        if cluster.is_none() {
            // Whether it can have the name is found out before anything is made.
            let wanted = json!({
                "apiVersion": "atoll.dev/v1alpha1", "kind": "Cluster", "metadata": { "name": name },
            });
            self.fleet.api.create(&format!("{CLUSTERS}?dryRun=All"), &wanted).await?;
        }
        let said = match &cluster {
            Some(_) => format!("it is the cluster that has joined as {name}: {id}"),
            None => format!("it is a cluster that is not known yet: {id}"),
        };
        Ok((said, Found { id, cluster, control_plane, workspace }))
    }

    async fn check_claim(&self, found: &Found) -> Result<(String, ()), Failure> {
        let config_map = self.below.api.find(&claim::path()).await.map_err(below::administrator)?;
        let Some(config_map) = config_map else { return Ok(("nobody claims it".into(), ())) };
        let claim = Claim::of(&config_map);
        let verdict = claim.verdict(found.control_plane.as_deref(), found.workspace.as_deref());
        match claim.refusal(&verdict, &self.below.kubectl) {
            Some(refusal) => Err(refusal),
            None => Ok(("nobody else claims it".into(), ())),
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
        let said = format!("stored it in Secret {SYSTEM_NAMESPACE}/{}", credential::secret_name(name));
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
                    format!("there is a Secret {SYSTEM_NAMESPACE}/{secret} that is not of a cluster"),
                    "join under another name, or delete the Secret if nobody needs it",
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
            Access::Observe => ", to be looked at only",
        };
        Ok((format!("registered Cluster {name} in {}{how}", self.fleet.session.current), cluster))
    }
}

fn another(name: &str, pinned: &str, found: &str) -> Failure {
    Failure::new(
        format!("{name} is another cluster: it joined as {pinned}, and this one is {found}"),
        format!(
            "use the kubeconfig of the cluster that has joined; or join this one under another name; or, if this one \
             replaces it, take the old one out first: {} cluster remove {name} --lost",
            invocation()
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_cannot_go_on_is_told_what_there_is() {
        let failure = Failure::new("it broke", "look");
        assert_eq!(unfinished(failure.clone(), &[]), failure);
        let told = unfinished(failure, &["a", "b"]);
        assert_eq!(
            told.next.as_deref(),
            Some("look\n      made so far, and kept: a, b; run the same command again to go on")
        );
        let told = unfinished("it broke".to_string().into(), &["a"]);
        assert_eq!(
            told.next.as_deref(),
            Some("made so far, and kept: a; run the same command again to go on")
        );
    }

    #[test]
    fn advice_names_the_flags_of_this_command() {
        let failure = for_join(Failure::new("no", "try --kubeconfig or --context x"));
        assert_eq!(
            failure.next.as_deref(),
            Some("try --control-plane-kubeconfig or --control-plane-context x")
        );
    }
}
