//! `atoll cluster join`: a sequence of steps, each of which can be repeated.

pub mod administrator;
pub mod agent;
mod heartbeat;
pub mod pull;
mod registration;
mod waiting;

use std::time::Duration;

use atoll_fleet::ClusterView;
use atoll_fleet::marks::SYSTEM_NAMESPACE;
use atoll_meta::object;
use serde_json::{Value, json};

use super::control_plane_connection::{CLUSTERS, ControlPlaneConnection, uid};
use super::step_printer::StepPrinter;
use crate::advice::{Failure, invocation, pluralize};
use crate::command::{Connection, JoinOptions, Mode};
use crate::output;
use atoll_joining::claim::{self, Claim};
use atoll_joining::rights::{self, Access};
use atoll_joining::{JoiningCluster, admin_failure, version};

struct Join<'a> {
    options: &'a JoinOptions,
    access: Access,
    fleet: ControlPlaneConnection,
    below: JoiningCluster,
    /// The objects created so far, which remain if a later step fails.
    made: Vec<&'static str>,
}

/// The state before any change.
struct JoinState {
    /// The cluster's identity: the uid of its namespace kube-system.
    id: String,
    /// The Cluster object, if the cluster has joined before.
    cluster: Option<Value>,
    control_plane: Option<String>,
    workspace: Option<String>,
}

pub async fn run(options: JoinOptions) -> Result<(), Failure> {
    if options.kubeconfig.is_none() && options.mode == Some(Mode::Pull) {
        return pull::print_manifest(&options, &control_plane(&options)?).await;
    }
    let mut join = Join::open(&options)?;
    let title = format!(
        "Joining {} ({}) to {}.",
        options.name,
        join.below.api.client().origin,
        join.fleet.session.current
    );
    let outcome = join.run_steps(&mut StepPrinter::start(&title)).await;
    outcome.map_err(|failure| with_created_objects(failure, &join.made))
}

/// Joins a cluster without printing progress.
pub async fn join_quietly(options: &JoinOptions) -> Result<(), Failure> {
    Join::open(options)?.run_steps(&mut StepPrinter::silent()).await
}

impl<'a> Join<'a> {
    fn open(options: &'a JoinOptions) -> Result<Join<'a>, Failure> {
        let kubeconfig = options.kubeconfig.as_deref().ok_or_else(|| {
            Failure::new(
                "the cluster is not named",
                "name its kubeconfig with --kubeconfig, or use --mode pull",
            )
        })?;
        Ok(Join {
            access: if options.observe { Access::Observe } else { Access::Manage },
            below: administrator::open(kubeconfig, options.context.as_deref())?,
            fleet: control_plane(options)?,
            options,
            made: Vec::new(),
        })
    }
}

/// Opens the control plane that the cluster joins.
fn control_plane(options: &JoinOptions) -> Result<ControlPlaneConnection, Failure> {
    let control_plane = Connection {
        kubeconfig: options.control_plane_kubeconfig.clone(),
        context: options.control_plane_context.clone(),
    };
    ControlPlaneConnection::open(&control_plane).map_err(with_join_flags)
}

/// Replaces the names of the flags for the control plane, which differ in this command.
fn with_join_flags(failure: Failure) -> Failure {
    let hint = failure.hint.map(|next| {
        let next = next.replace("--kubeconfig", "--control-plane-kubeconfig");
        next.replace("--context", "--control-plane-context")
    });
    Failure { hint, ..failure }
}

/// Prints the rights that are about to be granted.
fn show_rights(groups: &[String], steps: &StepPrinter) -> Result<(), Failure> {
    steps.print_line(&format!(
        "    These rights are requested, in namespace {SYSTEM_NAMESPACE} and in the whole cluster:"
    ));
    let mut role = rights::cluster_role(Access::Observe, groups, &Value::Null);
    // The owner reference matters for deletion only and grants nothing.
    if let Some(metadata) = role["metadata"].as_object_mut() {
        metadata.remove("ownerReferences");
    }
    for document in [rights::role(Access::Observe), role] {
        steps.print_line("    ---");
        output::yaml(&document)?.lines().for_each(|line| steps.print_line(&format!("    {line}")));
    }
    Ok(())
}

/// Adds to a failure which objects were created: they remain and are found by the next attempt.
fn with_created_objects(failure: Failure, made: &[&str]) -> Failure {
    if made.is_empty() {
        return failure;
    }
    let rest =
        format!("created so far and kept: {}; run the same command again to continue", made.join(", "));
    let hint = match failure.hint {
        Some(next) => format!("{next}\n      {rest}"),
        None => rest,
    };
    Failure { message: failure.message, hint: Some(hint) }
}

impl Join<'_> {
    async fn run_steps(&mut self, steps: &mut StepPrinter) -> Result<(), Failure> {
        let name = self.options.name.as_str();
        let version = steps.step("reaching the cluster", self.below.version()).await?;
        if let Some(note) = version::note(&version) {
            steps.note(&note);
        }
        let found = steps.step("identifying the cluster", self.identify()).await?;
        steps.step("checking for other claims", self.check_claim(&found)).await?;

        let groups = self.below.requested_groups(&self.options.groups).await?;
        if self.access == Access::Observe {
            show_rights(&groups, steps)?;
        }
        let namespace =
            steps.step("creating the namespace", self.below.ensure_namespace(&found.control_plane)).await?;
        self.made.push("namespace atoll-system in the cluster");
        steps.step("granting rights", self.below.grant_rights(self.access, &groups, &namespace)).await?;
        self.made.push("ServiceAccount atoll-syncer with its roles");
        // An agent in the cluster needs no credential in the control plane.
        let credential = match self.mode(&found) {
            Some(Mode::Pull) => None,
            _ => {
                let token = steps.step("requesting a token", self.below.request_token()).await?;
                let verifying = self.below.verify_token(name, &token, &found.id);
                Some((steps.step("verifying the token", verifying).await?, token))
            }
        };

        // As soon as the cluster is registered, the scheduler begins to place what waits.
        let waiting = match &found.cluster {
            Some(_) => None,
            None => waiting::count(&self.fleet.api).await.ok(),
        };
        if let Some((kubeconfig, token)) = &credential {
            steps.step("storing the credential", self.store(&found, kubeconfig, token)).await?;
            self.made.push("Secret in the control plane");
        }
        let registering = self.register(&found, &version, credential.is_some());
        let cluster = steps.step("registering the cluster", registering).await?;
        self.made.push("Cluster in the control plane");
        if let (Some(control_plane), Some(workspace)) = (&found.control_plane, &found.workspace) {
            let claim = Claim {
                control_plane: control_plane.clone(),
                workspace: workspace.clone(),
                cluster: uid(&cluster).to_string(),
                address: self.fleet.session.client.origin.clone(),
                name: name.to_string(),
            };
            steps.step("claiming the cluster", self.below.write_claim(&claim)).await?;
        }
        // Clusters that the control plane does not sync itself need an agent.
        let mode = ClusterView::of(&cluster).mode();
        if mode == Mode::Pull.name() {
            pull::install(self.options, &self.fleet, &cluster, self.access, &self.below, steps).await?;
            steps.print_line(&format!(
                "Cluster {name} has joined. Its agent connects when it runs; see its state with: {} cluster list",
                invocation()
            ));
            self.print_state(waiting, steps);
            return Ok(());
        }
        if let Some((kubeconfig, _)) = credential.as_ref().filter(|_| mode != Mode::Push.name()) {
            let line = agent::prepare(self.options, &self.fleet, kubeconfig, steps).await?;
            steps.print_line(&format!(
                "Cluster {name} has joined. It is not synced until you run, on any machine:\n  {line}"
            ));
            self.print_state(waiting, steps);
            return Ok(());
        }
        // A cluster that only got a new credential has already sent heartbeats.
        let is_heard = found.cluster.as_ref().is_some_and(|cluster| cluster["status"]["syncer"].is_object());
        if self.options.wait > 0 && !is_heard {
            let wait = Duration::from_secs(self.options.wait.into());
            steps.step("waiting for the first heartbeat", heartbeat::first(&self.fleet, name, wait)).await?;
        }
        let again = if found.cluster.is_some() { "has a new credential" } else { "has joined" };
        steps.print_line(&format!(
            "Cluster {name} {again}. See its state with: {} cluster list",
            invocation()
        ));
        self.print_state(waiting, steps);
        Ok(())
    }

    /// Prints how many objects waited for a cluster, and the command that opens a cordoned one.
    fn print_state(&self, waiting: Option<u64>, steps: &StepPrinter) {
        if let Some(count) = waiting.filter(|count| *count > 0) {
            let (what, verb) = (pluralize(count, "workload"), if count == 1 { "waits" } else { "wait" });
            steps.print_line(&format!("{what} of {} {verb} for a cluster.", self.fleet.session.current));
        }
        if self.options.cordoned {
            let name = &self.options.name;
            steps.print_line(&format!(
                "It is cordoned, so nothing is placed on it; open it with: {} cluster uncordon {name}",
                invocation()
            ));
        }
    }

    /// Identifies the cluster by the uid of a namespace, independent of its address.
    async fn identify(&self) -> Result<(String, JoinState), Failure> {
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
        let pinned = cluster.as_ref().and_then(|cluster| ClusterView::of(cluster).id());
        if pinned.is_some_and(|pinned| pinned != id) {
            return Err(different_cluster(name, pinned.unwrap_or_default(), &id));
        }
        let same = clusters()
            .find(|other| ClusterView::of(other).id() == Some(id.as_str()) && object::name(other) != name);
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
        let message = match &cluster {
            Some(_) => format!("identified the cluster: {id}, which has joined as {name}"),
            None => format!("identified the cluster: {id}, which has not joined yet"),
        };
        Ok((message, JoinState { id, cluster, control_plane, workspace }))
    }

    async fn check_claim(&self, found: &JoinState) -> Result<(String, ()), Failure> {
        let config_map = self.below.api.find(&claim::path()).await.map_err(admin_failure)?;
        let Some(config_map) = config_map else { return Ok(("the cluster is unclaimed".into(), ())) };
        let claim = Claim::of(&config_map);
        let state = claim.state(found.control_plane.as_deref(), found.workspace.as_deref());
        match claim.conflict(&state, &self.below.kubectl) {
            Some(refusal) => Err(refusal),
            None => Ok(("no other control plane claims the cluster".into(), ())),
        }
    }
}

fn different_cluster(name: &str, pinned: &str, found: &str) -> Failure {
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
        assert_eq!(with_created_objects(failure.clone(), &[]), failure);
        let failure = with_created_objects(failure, &["a", "b"]);
        assert_eq!(
            failure.hint.as_deref(),
            Some("look\n      created so far and kept: a, b; run the same command again to continue")
        );
        let failure = with_created_objects("it broke".to_string().into(), &["a"]);
        assert_eq!(
            failure.hint.as_deref(),
            Some("created so far and kept: a; run the same command again to continue")
        );
    }

    #[test]
    fn hints_name_the_flags_of_join() {
        let failure = with_join_flags(Failure::new("no", "try --kubeconfig or --context x"));
        assert_eq!(
            failure.hint.as_deref(),
            Some("try --control-plane-kubeconfig or --control-plane-context x")
        );
    }
}
