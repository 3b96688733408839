//! Executes an adoption plan step by step. If a step fails, the completed steps are undone.

use atoll_fleet::adoption::{differences, differences_if_applied, portable};
use atoll_fleet::marks::{ADOPTED_TEMPLATES, ADOPTER, KEEP, MANAGER, NAMESPACE, RELEASED, STANDS_FOR};
use atoll_fleet::placement::{Placement, Share};
use atoll_fleet::view::ObjectTarget;
use atoll_fleet::{Overrides, api_access, placed_by, shape};
use atoll_meta::object;
use atoll_syncer::adoption;
use serde_json::{Value, json};

use super::plan::{AdoptionReason, Item, Plan, PlannedNamespace};
use super::sent_objects;
use crate::advice::Failure;
use crate::cluster::connection::ClusterConnection;
use crate::cluster::control_plane_connection::uid;
use crate::cluster::object_release;
use crate::output::errln;
use crate::place::intent;
use crate::workspace::session::encoded;
use atoll_joining::client::Problem;

const NAMESPACES: &str = "/api/v1/namespaces";
/// Annotation that says whether a workload is placed as one object or pod by pod.
const GRAIN: &str = "atoll.dev/grain";

pub struct Executor<'a> {
    connection: &'a ClusterConnection,
    plan: &'a Plan,
    overrides: Overrides,
    done: CompletedSteps,
}

/// The completed steps, which are undone if a later step fails.
#[derive(Default)]
struct CompletedSteps {
    /// Paths and uids of the objects that were created above.
    made: Vec<(String, String)>,
    namespace: Option<(String, String)>,
    /// Whether the locator was written to the namespace in the cluster.
    located: bool,
    marked: Vec<PreparedObject>,
    placed: Vec<ObjectTarget>,
}

/// An object that has passed the dry run of its adoption.
#[derive(Clone)]
struct PreparedObject {
    /// Path in the workspace.
    above: String,
    /// Path in the cluster.
    path: String,
    uid: String,
    target: ObjectTarget,
    /// The configuration that is applied in the cluster.
    configuration: Value,
    /// Annotation above that keeps the Pod template in the cluster as it is.
    adopted_template: Option<String>,
    /// Whether the object is a dependent. The dependents controller places it once the object that needs it
    /// is placed; before that, the controller would remove the placement again.
    is_dependent: bool,
}

impl<'a> Executor<'a> {
    pub fn new(connection: &'a ClusterConnection, plan: &'a Plan) -> Result<Executor<'a>, Failure> {
        let overrides = Overrides::of(&connection.cluster).map_err(|problem| {
            Failure::new(
                format!("the overrides of {} cannot be read: {problem}", connection.name),
                "correct them first",
            )
        })?;
        Ok(Executor { connection, plan, overrides, done: CompletedSteps::default() })
    }

    fn pending(&self) -> impl Iterator<Item = &'a Item> + use<'a> {
        self.plan.items.iter().filter(|item| !item.is_done)
    }

    /// Performs a dry run of all steps.
    pub async fn dry_run(&self) -> Result<(), Failure> {
        let exists_above = self
            .plan
            .planned_namespace
            .as_ref()
            .is_none_or(|planned_namespace| planned_namespace.exists_above);
        for item in self.pending() {
            let above = match &item.above {
                Some(above) => above.clone(),
                None if exists_above => self.create(item, true).await?,
                // Objects cannot be created in a namespace that does not exist, not even as a dry run.
                None => portable(&item.found),
            };
            self.prepare(item, &above).await?;
        }
        Ok(())
    }

    pub async fn perform(&mut self) -> Result<(), Failure> {
        match self.perform_all().await {
            Ok(()) => {
                self.remove_keep_marks().await;
                Ok(())
            }
            Err(failure) => Err(self.undo(failure).await),
        }
    }

    async fn perform_all(&mut self) -> Result<(), Failure> {
        if let Some(planned_namespace) =
            self.plan.planned_namespace.as_ref().filter(|planned_namespace| !planned_namespace.exists_above)
        {
            let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": planned_namespace.above } });
            let made = self.connection.fleet.api.create(NAMESPACES, &namespace).await?;
            self.done.namespace =
                Some((format!("{NAMESPACES}/{}", encoded(&planned_namespace.above)), uid(&made).to_string()));
        }
        let (mut ready, mut adopted) = (Vec::new(), Vec::new());
        for item in self.pending() {
            let above = match &item.above {
                Some(above) => above.clone(),
                None => {
                    let made = self.create(item, false).await?;
                    self.done.made.push((item.path_above(), uid(&made).to_string()));
                    made
                }
            };
            ready.push(self.prepare(item, &above).await?);
            adopted.push((item, above));
        }
        self.check_sent(&adopted).await?;
        if let Some(planned_namespace) =
            self.plan.planned_namespace.as_ref().filter(|planned_namespace| !planned_namespace.has_locator)
        {
            self.set_locator(planned_namespace).await?;
            self.done.located = true;
        }
        for prepared in &ready {
            let applied =
                self.connection.below.apply_as(&prepared.path, MANAGER, &prepared.configuration, false).await;
            let applied = applied.map_err(|problem| marking_failure(&prepared.target, problem))?;
            self.done.marked.push(prepared.clone());
            // An earlier release may have been interrupted: remove its annotation.
            let released = object::annotation(&applied, RELEASED).is_some();
            if released {
                let unsaid = json!({ "metadata": { "annotations": { RELEASED: null } } });
                self.connection.below.merge(&prepared.path, &unsaid).await?;
            }
        }
        for prepared in &ready {
            if let Some(adopted) = &prepared.adopted_template {
                let path = format!("{}?fieldManager={ADOPTER}", prepared.above);
                let kept = json!({ "metadata": { "annotations": { ADOPTED_TEMPLATES: adopted } } });
                self.connection.fleet.api.merge(&path, &kept).await?;
            }
        }
        for prepared in ready.iter().filter(|prepared| !prepared.is_dependent) {
            let (above, name) = (&self.connection.fleet.api, &self.connection.name);
            let item = self.pending().find(|item| item.path_above() == prepared.above);
            let is_scheduled = match item {
                Some(item) => intent::add_cluster(above, &item.resource, &prepared.above, name).await?,
                None => false,
            };
            if is_scheduled {
                // The scheduler may be faster than the next step.
                self.done.placed.push(prepared.target.clone());
            }
            let by = if is_scheduled { placed_by::ANNOTATION } else { placed_by::HAND };
            let (path, uid) = (&prepared.above, &prepared.target.uid);
            let is_added = object_release::add_to_placement(above, name, path, uid, by).await?;
            if is_added && !is_scheduled {
                self.done.placed.push(prepared.target.clone());
            }
            if let Some(item) = item.filter(|_| !is_scheduled) {
                intent::write_cluster(above, &item.resource, path, name).await?;
            }
        }
        Ok(())
    }

    /// Removes the readopted objects from the keep annotations of the objects that they refer to. A failure
    /// is harmless: the annotation only prevents a deletion.
    async fn remove_keep_marks(&self) {
        let names: Vec<String> = self
            .plan
            .items
            .iter()
            .map(|item| format!("{}/{}", item.resource.qualified(), item.name()))
            .collect();
        let is_back = |name: &str| names.iter().any(|back| back == name);
        let held = |item: &&Item| object::annotation(&item.found, KEEP).is_some();
        for item in self.plan.items.iter().filter(held) {
            let outcome = object_release::remove_keep_marks(
                &self.connection.below,
                &item.path_below(),
                uid(&item.found),
                is_back,
            )
            .await;
            if let Err(failure) = outcome {
                errln!("the annotation {KEEP} of {} cannot be updated: {failure}", item.shown());
            }
        }
    }

    /// Creates an object of the cluster in the workspace.
    async fn create(&self, item: &Item, dry_run: bool) -> Result<Value, Failure> {
        let mut wanted = portable(&item.found);
        if item.resource.namespaced {
            object::set_namespace(&mut wanted, &item.namespace);
        }
        // The scheduler must not place it before the copy in the cluster is marked.
        if intent::is_scheduled(&self.connection.fleet.api, &item.resource).await? {
            intent::set_none(&mut wanted);
        }
        let made = self.connection.fleet.api.apply_as(&item.path_above(), ADOPTER, &wanted, dry_run).await;
        let made = made.map_err(|problem| {
            let failure = Failure::from(problem);
            Failure {
                message: format!("{} cannot be created here: {}", item.shown(), failure.message),
                hint: failure.hint,
            }
        })?;
        let managers = made["metadata"]["managedFields"].as_array().into_iter().flatten();
        if managers.into_iter().any(|entry| entry["manager"] != ADOPTER) {
            return Err(Failure::new(
                format!("another client has created {} at the same time", item.shown()),
                "try again",
            ));
        }
        if object::annotation(&made, GRAIN) == Some("pod") {
            // The workload must not remain above, because its pods would be created above.
            if !dry_run {
                let this = json!({ "uid": uid(&made) });
                self.connection.fleet.api.delete_this(&item.path_above(), this).await?;
            }
            return Err(Failure::new(
                format!("{} would also run above: this namespace has the grain pod", item.shown()),
                "adopt it into a workspace or a namespace with the grain object",
            ));
        }
        Ok(made)
    }

    /// Checks that nothing will be sent to the cluster that is not in the plan. Admission may have added references to
    /// the created objects, and referenced objects may have been created in the meantime.
    async fn check_sent(&self, adopted: &[(&Item, Value)]) -> Result<(), Failure> {
        let done = self.plan.items.iter().filter(|item| item.is_done).map(|item| (item, Value::Null));
        let all: Vec<(&Item, Value)> = adopted.iter().cloned().chain(done).collect();
        let mut sent = self.plan.sent_with(self.connection, &all).await?;
        sent.retain(|one| !self.plan.sent.contains(one));
        match sent.is_empty() {
            true => Ok(()),
            false => Err(sent_objects::not_allowed(&sent, &self.connection.name)),
        }
    }

    /// Checks with a dry run that the adoption changes nothing in the cluster.
    async fn prepare(&self, item: &Item, above: &Value) -> Result<PreparedObject, Failure> {
        let (connection, resource) = (self.connection, &item.resource);
        let target = resource.target(&connection.workspace, &item.namespace, item.name(), uid(above));
        let mut above = above.clone();
        object::set_type(&mut above, &resource.api_version(), &resource.kind);
        let share = Placement::of(&above).share(&connection.name).map(Share::numbers);
        let mut shaped = shape(&above, &connection.name, share.unwrap_or_default());
        let adopted_template = api_access::with_adopted_template(&above, &shaped, &connection.name);
        self.overrides.apply(&mut shaped).map_err(|problem| {
            Failure::new(
                format!("the overrides of {} do not fit {}: {problem}", connection.name, item.shown()),
                "change them first",
            )
        })?;
        // The cluster sees what is applied as a dry run, so secret contents are compared here.
        if matches!((resource.group.as_str(), resource.name.as_str()), ("", "secrets" | "configmaps")) {
            let fields = differences_if_applied(&item.found, &shaped);
            if !fields.is_empty() {
                return Err(self.difference_failure(item, &fields));
            }
        }
        let generation = object::generation(&above);
        let configuration = adoption(&shaped, &item.found, &target, &connection.control_plane, generation);
        let tried = connection.below.apply_as(&item.path_below(), MANAGER, &configuration, true).await;
        let tried = match tried {
            Ok(tried) => tried,
            Err(Problem::Refused(status)) if status.has_cause("FieldManagerConflict") => {
                let causes = status.details().map(|details| details.causes.clone()).unwrap_or_default();
                let fields: Vec<String> = causes.into_iter().map(|cause| cause.field).collect();
                return Err(self.difference_failure(item, &fields));
            }
            Err(problem) => return Err(marking_failure(&target, problem)),
        };
        let mut fields = differences(&item.found, &tried);
        // Deployments also increment their generation for changes of annotations, which do not affect the
        // pods.
        let counts_marks = (resource.group.as_str(), resource.name.as_str()) == ("apps", "deployments");
        let is_counted = object::generation(&tried) != object::generation(&item.found);
        if fields.is_empty() && is_counted && !counts_marks {
            fields.push("metadata.generation".into());
        }
        if !fields.is_empty() {
            return Err(self.difference_failure(item, &fields));
        }
        let is_dependent = matches!(item.why, AdoptionReason::Dependent(_));
        let (path, uid) = (item.path_below(), object::uid(&item.found).to_string());
        Ok(PreparedObject {
            above: item.path_above(),
            path,
            uid,
            target,
            configuration,
            adopted_template,
            is_dependent,
        })
    }

    fn difference_failure(&self, item: &Item, fields: &[String]) -> Failure {
        const MAX_SHOWN: usize = 5;
        let mut shown = fields.iter().take(MAX_SHOWN).cloned().collect::<Vec<_>>().join(", ");
        if fields.len() > MAX_SHOWN {
            shown.push_str(&format!(" and {} more", fields.len() - MAX_SHOWN));
        }
        let (what, next) = match (&item.above, self.overrides.is_empty()) {
            (Some(_), true) => (
                format!("{} already exists here with other contents", item.shown()),
                "make both the same, or delete or rename one of them",
            ),
            (_, false) => (
                format!(
                    "{} would be changed in {}, perhaps by the overrides of the Cluster",
                    item.shown(),
                    self.connection.name
                ),
                "change the overrides, or the object in the cluster, first",
            ),
            (None, true) => (
                format!("{} would be changed in {}", item.shown(), self.connection.name),
                "this control plane and the cluster default or validate it differently; nothing was changed",
            ),
        };
        Failure::new(format!("{what}: {shown}"), next)
    }

    /// Writes the locator to the namespace in the cluster.
    async fn set_locator(&self, planned_namespace: &PlannedNamespace) -> Result<(), Failure> {
        let mut patch = json!({ "metadata": {
            "uid": uid(&planned_namespace.found), "resourceVersion": object::resource_version(&planned_namespace.found),
            "annotations": { NAMESPACE: planned_namespace.locator.text() },
        } });
        if planned_namespace.name != planned_namespace.above {
            patch["metadata"]["labels"] = json!({ STANDS_FOR: planned_namespace.locator.below(false) });
        }
        let path = format!("{NAMESPACES}/{}?fieldManager={ADOPTER}", encoded(&planned_namespace.name));
        self.connection.below.merge(&path, &patch).await?;
        Ok(())
    }

    /// Removes the cluster from the intent and the placement of an object that is not managed there any more.
    async fn unplace(&self, prepared: &PreparedObject) -> Result<(), Failure> {
        let (above, name) = (&self.connection.fleet.api, &self.connection.name);
        let (path, target) = (&prepared.above, &prepared.target);
        let resource = (target.resource.group.as_str(), target.resource.resource.as_str());
        intent::take_from_scheduler(above, resource, path, std::slice::from_ref(name)).await?;
        object_release::unplace(above, &self.connection.registering_workspace, name, path, target).await?;
        Ok(intent::give_back(above, path).await?)
    }

    /// Undoes the completed steps and adds to the failure what could not be undone.
    async fn undo(&mut self, failure: Failure) -> Failure {
        let done = std::mem::take(&mut self.done);
        let mut left = Vec::new();
        let mut note = |what: String, outcome: Result<(), Failure>| {
            if let Err(failure) = outcome {
                left.push(format!("{what} ({failure})"));
            }
        };
        let (above, below) = (&self.connection.fleet.api, &self.connection.below);
        let mut is_disowned = true;
        for prepared in done.marked.iter().filter(|_| !done.placed.is_empty()) {
            let disowned =
                object_release::mark_released(below, &prepared.path, &prepared.uid).await.map(drop);
            is_disowned &= disowned.is_ok();
            note(format!("the marks of {} in {}", prepared.path, self.connection.name), disowned);
        }
        // Objects that still have marks would be deleted in the cluster once they are no longer placed.
        for prepared in
            done.marked.iter().filter(|prepared| is_disowned && done.placed.contains(&prepared.target))
        {
            note(format!("the placement of {}", prepared.above), self.unplace(prepared).await);
        }
        for prepared in done.marked.iter().filter(|_| is_disowned) {
            let stripped = object_release::remove_marks(below, &prepared.path, &prepared.uid).await;
            note(format!("the marks of {} in {}", prepared.path, self.connection.name), stripped);
        }
        for (path, uid) in done.made.iter().filter(|_| is_disowned).rev() {
            let gone = above.delete_this(path, json!({ "uid": uid })).await.map_err(Failure::from);
            note(format!("{path} in {}", self.connection.fleet.session.current), gone);
        }
        if let Some(planned_namespace) = self.plan.planned_namespace.as_ref().filter(|_| done.located) {
            let path = format!("{NAMESPACES}/{}", encoded(&planned_namespace.name));
            let gone = object_release::remove_marks(below, &path, uid(&planned_namespace.found)).await;
            note(
                format!("the annotation of namespace {} in {}", planned_namespace.name, self.connection.name),
                gone,
            );
        }
        if let Some((path, uid)) = done.namespace.as_ref().filter(|_| is_disowned) {
            let gone = above.delete_this(path, json!({ "uid": uid })).await.map_err(Failure::from);
            note(format!("{path} in {}", self.connection.fleet.session.current), gone);
        }
        with_rollback_state(failure, &left)
    }
}

/// Adds to a failure which objects remain.
fn with_rollback_state(failure: Failure, left: &[String]) -> Failure {
    let state = match left {
        [] => "nothing was adopted, and nothing was changed".to_string(),
        left => format!(
            "not everything could be undone; still there: {}. Run the same command again to continue",
            left.join("; ")
        ),
    };
    let hint = match failure.hint {
        Some(next) => format!("{next}\n      {state}"),
        None => state,
    };
    Failure { message: failure.message, hint: Some(hint) }
}

/// The failure for an object that cannot be marked in the cluster.
fn marking_failure(target: &ObjectTarget, problem: Problem) -> Failure {
    let what = format!("{} {}", target.resource.kind, target.name);
    if problem.is("Conflict") {
        return Failure::new(format!("{what} was changed in the cluster at the same time"), "try again");
    }
    let failure = Failure::from(problem);
    Failure {
        message: format!("the cluster refuses to mark {what}: {}", failure.message),
        hint: failure.hint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_list_the_objects_that_remain() {
        let failure = with_rollback_state(Failure::new("it broke", "look"), &[]);
        assert_eq!(failure.hint.as_deref(), Some("look\n      nothing was adopted, and nothing was changed"));
        let failure = with_rollback_state("it broke".to_string().into(), &["a".into(), "b".into()]);
        assert!(
            failure.hint.is_some_and(|next| next.contains("still there: a; b. Run the same command again"))
        );
    }
}
