//! Executes an adoption plan step by step. If a step fails, the completed steps are undone.

use atoll_fleet::adoption::{differences, portable};
use atoll_fleet::marks::{ADOPTER, KEEP, MANAGER, NAMESPACE, RELEASED, STANDS_FOR};
use atoll_fleet::placement::Placement;
use atoll_fleet::view::Target;
use atoll_fleet::{Overrides, shape};
use atoll_meta::object;
use atoll_syncer::adoption;
use serde_json::{Value, json};

use super::plan::{Item, Plan, Space, Why};
use crate::advice::Failure;
use crate::client::Problem;
use crate::cluster::fleet::uid;
use crate::cluster::letting_go;
use crate::cluster::reach::Reached;
use crate::output::complain;
use crate::workspace::session::encoded;

const NAMESPACES: &str = "/api/v1/namespaces";
/// Value of `by` in placements that a person has made.
const BY_HAND: &str = "hand";
/// Annotation that says whether a workload is placed as one object or pod by pod.
const GRAIN: &str = "atoll.dev/grain";

pub struct Act<'a> {
    reached: &'a Reached,
    plan: &'a Plan,
    overrides: Overrides,
    done: Done,
}

/// The completed steps, which are undone if a later step fails.
#[derive(Default)]
struct Done {
    /// Paths and uids of the objects that were created above.
    made: Vec<(String, String)>,
    namespace: Option<(String, String)>,
    /// Whether the locator was written to the namespace in the cluster.
    located: bool,
    marked: Vec<Ready>,
    placed: Vec<Target>,
}

/// An object whose adoption has passed the dry run.
#[derive(Clone)]
struct Ready {
    /// Path in the workspace.
    above: String,
    /// Path in the cluster.
    path: String,
    uid: String,
    target: Target,
    /// The configuration that is applied in the cluster.
    configuration: Value,
    /// Whether the object is a dependent. The dependents controller places it once the object that needs it
    /// is placed; before that, the controller would remove the placement again.
    follows: bool,
}

impl<'a> Act<'a> {
    pub fn new(reached: &'a Reached, plan: &'a Plan) -> Result<Act<'a>, Failure> {
        let overrides = Overrides::of(&reached.cluster).map_err(|problem| {
            Failure::new(
                format!("the overrides of {} cannot be read: {problem}", reached.name),
                "correct them first",
            )
        })?;
        Ok(Act { reached, plan, overrides, done: Done::default() })
    }

    fn open(&self) -> impl Iterator<Item = &'a Item> + use<'a> {
        self.plan.items.iter().filter(|item| !item.is_done)
    }

    /// Performs a dry run of all steps.
    pub async fn rehearse(&self) -> Result<(), Failure> {
        let is_here = self.plan.space.as_ref().is_none_or(|space| space.is_here);
        for item in self.open() {
            let above = match &item.above {
                Some(above) => above.clone(),
                None if is_here => self.create(item, true).await?,
                // Objects cannot be created in a namespace that does not exist, not even as a dry run.
                None => portable(&item.found),
            };
            self.ready(item, &above).await?;
        }
        Ok(())
    }

    pub async fn perform(&mut self) -> Result<(), Failure> {
        match self.perform_all().await {
            Ok(()) => {
                self.unhold().await;
                Ok(())
            }
            Err(failure) => Err(self.undo(failure).await),
        }
    }

    async fn perform_all(&mut self) -> Result<(), Failure> {
        if let Some(space) = self.plan.space.as_ref().filter(|space| !space.is_here) {
            let namespace =
                json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": space.above } });
            let made = self.reached.fleet.api.create(NAMESPACES, &namespace).await?;
            self.done.namespace = Some((format!("{NAMESPACES}/{}", space.above), uid(&made).to_string()));
        }
        let mut ready = Vec::new();
        for item in self.open() {
            let above = match &item.above {
                Some(above) => above.clone(),
                None => {
                    let made = self.create(item, false).await?;
                    self.done.made.push((item.path_above(), uid(&made).to_string()));
                    made
                }
            };
            ready.push(self.ready(item, &above).await?);
        }
        if let Some(space) = self.plan.space.as_ref().filter(|space| !space.is_located) {
            self.locate(space).await?;
            self.done.located = true;
        }
        for one in &ready {
            let applied = self.reached.below.apply_as(&one.path, MANAGER, &one.configuration, false).await;
            let applied = applied.map_err(|problem| changed(&one.target, problem))?;
            self.done.marked.push(one.clone());
            // An earlier release may have been interrupted: remove its annotation.
            let released = object::annotation(&applied, RELEASED).is_some();
            if released {
                let unsaid = json!({ "metadata": { "annotations": { RELEASED: null } } });
                self.reached.below.merge(&one.path, &unsaid).await?;
            }
        }
        for one in ready.iter().filter(|one| !one.follows) {
            let above = &self.reached.fleet.api;
            if letting_go::place(above, &self.reached.name, &one.above, &one.target.uid, BY_HAND).await? {
                self.done.placed.push(one.target.clone());
            }
        }
        Ok(())
    }

    /// Removes the readopted objects from the keep annotations of the objects that they refer to. A failure
    /// is harmless: the annotation only prevents a deletion.
    async fn unhold(&self) {
        let names: Vec<String> = self
            .plan
            .items
            .iter()
            .map(|item| format!("{}/{}", item.resource.qualified(), item.name()))
            .collect();
        let is_back = |name: &str| names.iter().any(|back| back == name);
        let held = |item: &&Item| object::annotation(&item.found, KEEP).is_some();
        for item in self.plan.items.iter().filter(held) {
            let outcome =
                letting_go::unhold(&self.reached.below, &item.path_below(), uid(&item.found), is_back).await;
            if let Err(failure) = outcome {
                complain!("the annotation {KEEP} of {} cannot be updated: {failure}", item.shown());
            }
        }
    }

    /// Creates an object of the cluster in the workspace.
    async fn create(&self, item: &Item, dry_run: bool) -> Result<Value, Failure> {
        let mut wanted = portable(&item.found);
        if item.resource.namespaced {
            object::set_namespace(&mut wanted, &item.namespace);
        }
        let made = self.reached.fleet.api.apply_as(&item.path_above(), ADOPTER, &wanted, dry_run).await;
        let made = made.map_err(|problem| {
            let failure = Failure::from(problem);
            Failure {
                what: format!("{} cannot be created here: {}", item.shown(), failure.what),
                next: failure.next,
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
                self.reached.fleet.api.delete_this(&item.path_above(), this).await?;
            }
            return Err(Failure::new(
                format!(
                    "{} would also run above: this namespace has the grain pod",
                    item.shown()
                ),
                "adopt it into a workspace or a namespace with the grain object",
            ));
        }
        Ok(made)
    }

    /// Checks with a dry run that the adoption changes nothing in the cluster.
    async fn ready(&self, item: &Item, above: &Value) -> Result<Ready, Failure> {
        let (reached, resource) = (self.reached, &item.resource);
        let target = resource.target(&reached.workspace, &item.namespace, item.name(), uid(above));
        let mut above = above.clone();
        object::set_type(&mut above, &resource.api_version(), &resource.kind);
        let share = Placement::of(&above).share(&reached.name).and_then(|share| share.replicas);
        let mut shaped = shape(&above, &reached.name, share);
        self.overrides.apply(&mut shaped).map_err(|problem| {
            Failure::new(
                format!("the overrides of {} do not fit {}: {problem}", reached.name, item.shown()),
                "change them first",
            )
        })?;
        let generation = object::generation(&above);
        let configuration = adoption(&shaped, &item.found, &target, &reached.control_plane, generation);
        let tried = reached.below.apply_as(&item.path_below(), MANAGER, &configuration, true).await;
        let tried = match tried {
            Ok(tried) => tried,
            Err(Problem::Refused(status)) if status.has_cause("FieldManagerConflict") => {
                let causes = status.details().map(|details| details.causes.clone()).unwrap_or_default();
                let fields: Vec<String> = causes.into_iter().map(|cause| cause.field).collect();
                return Err(self.differs(item, &fields));
            }
            Err(problem) => return Err(changed(&target, problem)),
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
            return Err(self.differs(item, &fields));
        }
        let follows = matches!(item.why, Why::Needed(_));
        let (path, uid) = (item.path_below(), object::uid(&item.found).to_string());
        Ok(Ready { above: item.path_above(), path, uid, target, configuration, follows })
    }

    fn differs(&self, item: &Item, fields: &[String]) -> Failure {
        const MOST: usize = 5;
        let mut shown = fields.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
        if fields.len() > MOST {
            shown.push_str(&format!(" and {} more", fields.len() - MOST));
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
                    self.reached.name
                ),
                "change the overrides, or the object in the cluster, first",
            ),
            (None, true) => (
                format!("{} would be changed in {}", item.shown(), self.reached.name),
                "this control plane and the cluster default or validate it differently; nothing was changed",
            ),
        };
        Failure::new(format!("{what}: {shown}"), next)
    }

    /// Writes the locator to the namespace in the cluster.
    async fn locate(&self, space: &Space) -> Result<(), Failure> {
        let mut patch = json!({ "metadata": {
            "uid": uid(&space.found), "resourceVersion": object::resource_version(&space.found),
            "annotations": { NAMESPACE: space.locator.text() },
        } });
        if space.name != space.above {
            patch["metadata"]["labels"] = json!({ STANDS_FOR: space.locator.below(false) });
        }
        let path = format!("{NAMESPACES}/{}?fieldManager={ADOPTER}", encoded(&space.name));
        self.reached.below.merge(&path, &patch).await?;
        Ok(())
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
        let (above, below) = (&self.reached.fleet.api, &self.reached.below);
        let mut is_disowned = true;
        for one in done.marked.iter().filter(|_| !done.placed.is_empty()) {
            let disowned = letting_go::disown(below, &one.path, &one.uid).await.map(drop);
            is_disowned &= disowned.is_ok();
            note(format!("the marks of {} in {}", one.path, self.reached.name), disowned);
        }
        // Objects that still have marks would be deleted in the cluster once they are no longer placed.
        for one in done.marked.iter().filter(|one| is_disowned && done.placed.contains(&one.target)) {
            let name = &self.reached.name;
            let gone = letting_go::unplace(above, &self.reached.home, name, &one.above, &one.target).await;
            note(format!("the placement of {}", one.above), gone);
        }
        for one in done.marked.iter().filter(|_| is_disowned) {
            let stripped = letting_go::strip(below, &one.path, &one.uid).await;
            note(format!("the marks of {} in {}", one.path, self.reached.name), stripped);
        }
        for (path, uid) in done.made.iter().filter(|_| is_disowned).rev() {
            let gone = above.delete_this(path, json!({ "uid": uid })).await.map_err(Failure::from);
            note(format!("{path} in {}", self.reached.fleet.session.current), gone);
        }
        if let Some(space) = self.plan.space.as_ref().filter(|_| done.located) {
            let path = format!("{NAMESPACES}/{}", encoded(&space.name));
            let gone = letting_go::strip(below, &path, uid(&space.found)).await;
            note(format!("the annotation of namespace {} in {}", space.name, self.reached.name), gone);
        }
        if let Some((path, uid)) = done.namespace.as_ref().filter(|_| is_disowned) {
            let gone = above.delete_this(path, json!({ "uid": uid })).await.map_err(Failure::from);
            note(format!("{path} in {}", self.reached.fleet.session.current), gone);
        }
        explained(failure, &left)
    }
}

/// Adds to a failure which objects remain.
fn explained(failure: Failure, left: &[String]) -> Failure {
    let state = match left {
        [] => "nothing was adopted, and nothing was changed".to_string(),
        left => format!(
            "not everything could be undone; still there: {}. Run the same command again to go on",
            left.join("; ")
        ),
    };
    let next = match failure.next {
        Some(next) => format!("{next}\n      {state}"),
        None => state,
    };
    Failure { what: failure.what, next: Some(next) }
}

/// The failure for an object that cannot be marked in the cluster.
fn changed(target: &Target, problem: Problem) -> Failure {
    let what = format!("{} {}", target.resource.kind, target.name);
    if problem.is("Conflict") {
        return Failure::new(format!("{what} was changed in the cluster at the same time"), "try again");
    }
    let failure = Failure::from(problem);
    Failure {
        what: format!("the cluster refuses to mark {what}: {}", failure.what),
        next: failure.next,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_list_the_objects_that_remain() {
        let failure = explained(Failure::new("it broke", "look"), &[]);
        assert_eq!(failure.next.as_deref(), Some("look\n      nothing was adopted, and nothing was changed"));
        let failure = explained("it broke".to_string().into(), &["a".into(), "b".into()]);
        assert!(failure.next.is_some_and(|next| next.contains("still there: a; b. Run the same command again")));
    }
}
