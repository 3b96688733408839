//! The plan of an adoption: the objects to adopt, and the obstacles.

use std::collections::BTreeSet;

use atoll_client::path;
use atoll_fleet::adoption::{Obstacle, obstacle, portable};
use atoll_fleet::namespaces::is_consented;
use atoll_fleet::{Locator, Placement, marks, references};
use atoll_meta::object;
use serde_json::Value;

use super::obstacles::{
    in_namespace, is_kubernetes, name_failure, namespace_flag, obstacle_failure, unknown_resource,
};
use super::sent_objects::{self, SentObject, dependent_resources};
use crate::advice::{Failure, invocation};
use crate::cluster::connection::ClusterConnection;
use crate::cluster::object_release::{REFERRERS, list_namespaces};
use crate::command::AdoptOptions;
use crate::place::resources::{self, ApiResource};
use crate::place::{DEFAULT_NAMESPACE, discover, parse_object_arg};
use crate::workspace::session::encoded;

/// Maximum number of objects in one adoption.
const MAX_OBJECTS: usize = 5000;

/// The reason for adopting an object.
#[derive(Debug, PartialEq, Eq)]
pub enum AdoptionReason {
    Requested,
    /// An adopted workload refers to it, so that it is placed on the same clusters as a dependent.
    Dependent(String),
    /// An adopted object refers to it, but objects of that kind have no dependents.
    Referenced(String),
}

/// An object to adopt.
pub struct Item {
    pub resource: ApiResource,
    /// The object in the cluster.
    pub found: Value,
    /// The object's namespace in the workspace.
    pub namespace: String,
    /// The object in the workspace, if it exists.
    pub above: Option<Value>,
    pub why: AdoptionReason,
    /// Whether the object is already managed by Atoll and placed on the cluster.
    pub is_done: bool,
}

impl Item {
    pub fn name(&self) -> &str {
        object::name(&self.found)
    }

    /// The path in the workspace.
    pub fn path_above(&self) -> String {
        path(&self.resource, &self.namespace, self.name())
    }

    /// The path in the cluster.
    pub fn path_below(&self) -> String {
        path(&self.resource, object::namespace(&self.found), self.name())
    }

    /// Kind and name for messages.
    pub fn shown(&self) -> String {
        shown(&self.resource.kind, &self.found)
    }

    /// The object's name in the workspace, if its namespace differs from that in the cluster.
    pub fn alias(&self) -> Option<String> {
        (self.namespace != object::namespace(&self.found))
            .then(|| format!("{}/{}", self.namespace, self.name()))
    }
}

pub fn shown(kind: &str, found: &Value) -> String {
    match object::namespace(found) {
        "" => format!("{kind} {}", object::name(found)),
        namespace => format!("{kind} {namespace}/{}", object::name(found)),
    }
}

/// A namespace of the cluster that will be used for a namespace of the workspace.
pub struct PlannedNamespace {
    /// Name in the cluster.
    pub name: String,
    /// Name of the namespace in the workspace.
    pub above: String,
    /// Whether the namespace exists in the workspace.
    pub exists_above: bool,
    /// Whether the namespace in the cluster already has this locator.
    pub has_locator: bool,
    pub found: Value,
    pub locator: Locator,
}

#[derive(Default)]
pub struct Plan {
    pub planned_namespace: Option<PlannedNamespace>,
    /// Referenced objects come before the objects that refer to them.
    pub items: Vec<Item>,
    /// Messages about objects that are left out.
    pub notes: Vec<String>,
    /// Objects of the control plane that will be sent to the cluster, because adopted objects refer to them.
    pub sent: Vec<SentObject>,
    /// Resources of objects that are placed by reference, in the control plane.
    pub dependent_resources: Vec<ApiResource>,
    /// Paths in the cluster of the objects that have been examined.
    known: BTreeSet<String>,
}

impl Plan {
    pub async fn make(connection: &ClusterConnection, options: &AdoptOptions) -> Result<Plan, Failure> {
        let context = connection.fleet.session.config.context()?;
        let namespace =
            options.namespace.as_deref().or(context.namespace.as_deref()).unwrap_or(DEFAULT_NAMESPACE);
        let (above, below) = (discover(&connection.fleet.api).await?, discover(&connection.below).await?);
        let is_served = |wanted: &ApiResource| {
            below.iter().any(|it| {
                (&it.group, &it.version, &it.name) == (&wanted.group, &wanted.version, &wanted.name)
            })
        };
        let common: Vec<ApiResource> = above.iter().filter(|resource| is_served(resource)).cloned().collect();
        let plan = Plan { dependent_resources: dependent_resources(&above), ..Plan::default() };
        let into = options.into.as_deref();
        let mut planner = Planner { connection, resources: &common, namespace, into, plan };
        planner.select(&above, options).await?;
        let mut plan = planner.plan;
        plan.order();
        let adopted = plan.items.iter().map(|item| {
            let above = item.above.clone().unwrap_or_else(|| portable(&item.found));
            (item, above)
        });
        let sent = plan.sent_with(connection, &adopted.collect::<Vec<_>>()).await?;
        if !sent.is_empty() && !options.with_dependents {
            return Err(sent_objects::not_allowed(&sent, &connection.name));
        }
        plan.sent = sent;
        Ok(plan)
    }

    /// Returns the objects of the control plane that would be sent to the cluster with adopted ones: the items, and
    /// what they are or will be in the control plane.
    pub async fn sent_with(
        &self,
        connection: &ClusterConnection,
        adopted: &[(&Item, Value)],
    ) -> Result<Vec<SentObject>, Failure> {
        let is_left_out = |resource: &ApiResource, name: &str| {
            self.known.contains(&path(resource, self.namespace_name(), name))
        };
        sent_objects::find(connection, &self.dependent_resources, adopted, is_left_out).await
    }

    /// Whether nothing remains to be done.
    pub fn is_finished(&self) -> bool {
        let is_usable = self
            .planned_namespace
            .as_ref()
            .is_none_or(|planned_namespace| planned_namespace.exists_above && planned_namespace.has_locator);
        is_usable && self.items.iter().all(|item| item.is_done)
    }

    pub fn namespace_name(&self) -> &str {
        self.planned_namespace.as_ref().map_or("", |planned_namespace| &planned_namespace.name)
    }

    /// Moves referenced objects to the front.
    fn order(&mut self) {
        self.items.sort_by_key(|item| match item.resource.name.as_str() {
            "configmaps" | "secrets" => 0,
            "serviceaccounts" | "persistentvolumeclaims" => 1,
            _ => 2,
        });
    }
}

struct Planner<'a> {
    connection: &'a ClusterConnection,
    /// Resources that both the control plane and the cluster serve.
    resources: &'a [ApiResource],
    /// The namespace in the cluster.
    namespace: &'a str,
    /// The namespace in the workspace, if it is another one.
    into: Option<&'a str>,
    plan: Plan,
}

impl Planner<'_> {
    async fn select(&mut self, above: &[ApiResource], options: &AdoptOptions) -> Result<(), Failure> {
        let is_many = options.all || options.selector.is_some();
        if options.objects.is_empty() {
            let all = self.resources.iter().enumerate().filter(|(position, resource)| {
                let is_first = |it: &ApiResource| (&it.group, &it.name) == (&resource.group, &resource.name);
                resource.placeable
                    && resource.namespaced
                    && is_kubernetes(&resource.group)
                    && !self.resources[..*position].iter().any(is_first)
            });
            for resource in all.map(|(_, resource)| resource.clone()).collect::<Vec<_>>() {
                self.add_listed(&resource, options.selector.as_deref()).await?;
            }
            return Ok(());
        }
        for word in &options.objects {
            match word.contains('/') {
                true if is_many => {
                    return Err(Failure::new(
                        format!("{word:?} names one object"),
                        "omit --all and --selector, or name only the resource",
                    ));
                }
                true => {
                    let (resource, name) = parse_object_arg(above, word)?;
                    self.add_named(resource, name).await?;
                }
                false if is_many => {
                    let resource =
                        resources::resolve(above, word).ok_or_else(|| unknown_resource(word))?.clone();
                    self.check_placeable(&resource)?;
                    self.add_listed(&resource, options.selector.as_deref()).await?;
                }
                false => {
                    return Err(Failure::new(
                        format!("{word:?} does not name an object"),
                        format!("use {word}/NAME, or add --all or --selector to adopt several"),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Adds an object that was named on the command line.
    async fn add_named(&mut self, resource: &ApiResource, name: &str) -> Result<(), Failure> {
        if (resource.group.as_str(), resource.name.as_str()) == ("", "namespaces") {
            return self.plan_namespace(name).await;
        }
        self.check_placeable(resource)?;
        let namespace = if resource.namespaced { self.namespace } else { "" };
        let found = self.connection.below.find(&path(resource, namespace, name)).await?;
        let Some(found) = found else {
            return Err(Failure::new(
                format!(
                    "{} has no {} {name}{}",
                    self.connection.name,
                    resource.kind,
                    in_namespace(namespace)
                ),
                format!(
                    "list the objects there with: kubectl get {}{}",
                    resource.qualified(),
                    namespace_flag(namespace)
                ),
            ));
        };
        self.add(resource, found, AdoptionReason::Requested, true).await
    }

    /// Adds all adoptable objects of a resource.
    async fn add_listed(&mut self, resource: &ApiResource, selector: Option<&str>) -> Result<(), Failure> {
        let namespace = if resource.namespaced { self.namespace } else { "" };
        let selector = selector.map(encoded).unwrap_or_default();
        let mut next = String::new();
        loop {
            let collection = resource.collection(namespace);
            let path = format!("{collection}?limit=500&labelSelector={selector}{next}");
            let list = match self.connection.below.get(&path).await {
                Ok(list) => list,
                Err(problem) if problem.is("Forbidden") => {
                    self.plan.notes.push(format!(
                        "{} are left out: Atoll may not list them in the cluster",
                        resource.qualified()
                    ));
                    return Ok(());
                }
                Err(problem) => return Err(problem.into()),
            };
            for found in list["items"].as_array().into_iter().flatten() {
                self.add(resource, found.clone(), AdoptionReason::Requested, false).await?;
            }
            match object::continuation(&list) {
                Some(token) => next = format!("&continue={}", encoded(token)),
                None => return Ok(()),
            }
        }
    }

    fn check_placeable(&self, resource: &ApiResource) -> Result<(), Failure> {
        let is_served = self.resources.iter().any(|it| it == resource);
        let is_home =
            self.connection.registering_workspace.session.current == self.connection.fleet.session.current;
        match () {
            () if resource.name == "pods" && resource.group.is_empty() => Err(Failure::new(
                "pods cannot be adopted",
                "adopt their controller, such as the Deployment; a Pod without a controller stays as it is",
            )),
            () if !resource.placeable => Err(Failure::new(
                format!("{} cannot be placed on clusters, so they cannot be adopted", resource.qualified()),
                "adopt their owner instead",
            )),
            () if !is_served => Err(Failure::new(
                format!(
                    "{} does not serve {} in version {}",
                    self.connection.name,
                    resource.qualified(),
                    resource.version
                ),
                "the control plane and the cluster must serve the same version of the resource",
            )),
            () if !resource.namespaced && !is_home => Err(Failure::new(
                format!("{} is cluster-scoped", resource.kind),
                format!(
                    "such objects belong to the workspace that the cluster joined: {} workspace use {}",
                    invocation(),
                    self.connection.registering_workspace.session.current
                ),
            )),
            () => Ok(()),
        }
    }

    /// Adds an object and the objects that it refers to. An obstacle is a failure if `strictly`; otherwise
    /// the object is left out.
    async fn add(
        &mut self,
        resource: &ApiResource,
        found: Value,
        why: AdoptionReason,
        strictly: bool,
    ) -> Result<(), Failure> {
        let mut open = vec![(resource.clone(), found, why, strictly)];
        while let Some((resource, mut found, why, strictly)) = open.pop() {
            object::set_type(&mut found, &resource.api_version(), &resource.kind);
            if !self.plan.known.insert(path(&resource, object::namespace(&found), object::name(&found))) {
                continue;
            }
            if self.plan.known.len() > MAX_OBJECTS {
                return Err(Failure::new(
                    format!("there are more than {MAX_OBJECTS} objects"),
                    "adopt them in several steps, with --selector",
                ));
            }
            let (connection, shown) = (self.connection, shown(&resource.kind, &found));
            if let Some(obstacle) = obstacle(&found, &connection.control_plane, &connection.workspace) {
                let is_harmless = matches!(obstacle, Obstacle::Generated | Obstacle::Owned { .. });
                match (strictly, is_harmless) {
                    (true, _) => return Err(obstacle_failure(&shown, &obstacle)),
                    (false, true) => {}
                    (false, false) => {
                        self.plan
                            .notes
                            .push(format!("{}; left out.", obstacle_failure(&shown, &obstacle).message));
                    }
                }
                continue;
            }
            match name_failure(&shown, &found) {
                Some(failure) if strictly => return Err(failure),
                Some(failure) => {
                    self.plan.notes.push(format!("{}; left out.", failure.message));
                    continue;
                }
                None => {}
            }
            if resource.namespaced {
                self.plan_namespace(object::namespace(&found)).await?;
            }
            let takes_along = REFERRERS.contains(&(&resource.group, &resource.name));
            for (resource, needed) in self.referenced_objects(&resource, &found).await? {
                // A referenced object that cannot be adopted stays in the cluster unmanaged.
                let why = if takes_along {
                    AdoptionReason::Dependent(shown.clone())
                } else {
                    AdoptionReason::Referenced(shown.clone())
                };
                open.push((resource, needed, why, false));
            }
            let namespace = match resource.namespaced {
                true => self.into.unwrap_or(object::namespace(&found)).to_string(),
                false => String::new(),
            };
            let above = connection.fleet.api.find(&path(&resource, &namespace, object::name(&found))).await?;
            let is_done = above.as_ref().is_some_and(|above| {
                object::annotation(&found, marks::UID) == Some(object::uid(above))
                    && object::label(&found, marks::CONTROL_PLANE).is_some()
                    && object::annotation(&found, marks::RELEASED).is_none()
                    && Placement::of(above).share(&connection.name).is_some()
            });
            if above.as_ref().is_some_and(object::is_being_deleted) {
                return Err(Failure::new(
                    format!("{shown} is being deleted in {}", connection.fleet.session.current),
                    "wait until it is gone, then try again",
                ));
            }
            self.plan.items.push(Item { resource, found, namespace, above, why, is_done });
        }
        Ok(())
    }

    /// Returns the existing objects that an object refers to.
    async fn referenced_objects(
        &self,
        resource: &ApiResource,
        found: &Value,
    ) -> Result<Vec<(ApiResource, Value)>, Failure> {
        let mut needed = Vec::new();
        if !resource.namespaced {
            return Ok(needed);
        }
        for reference in references(found) {
            let is_it = |it: &&ApiResource| it.group.is_empty() && it.name == reference.resource;
            let Some(resource) = self.resources.iter().find(is_it) else { continue };
            let path = path(resource, object::namespace(found), &reference.name);
            if let Some(found) = self.connection.below.find(&path).await? {
                needed.push((resource.clone(), found));
            }
        }
        Ok(needed)
    }

    /// Plans to use a namespace of the cluster for one of the workspace.
    async fn plan_namespace(&mut self, name: &str) -> Result<(), Failure> {
        if self.plan.planned_namespace.is_some() {
            return Ok(());
        }
        let connection = self.connection;
        let above = self.into.unwrap_or(name);
        let locator = Locator {
            control_plane: connection.control_plane.clone(),
            workspace: connection.workspace.clone(),
            namespace: above.to_string(),
        };
        if above == marks::SYSTEM_NAMESPACE {
            return Err(Failure::new(
                format!("namespace {above} is reserved for Atoll"),
                "choose another namespace with --into",
            ));
        }
        if name.starts_with("kube-") || name == marks::SYSTEM_NAMESPACE {
            return Err(Failure::new(
                format!("namespace {name} belongs to the cluster itself"),
                "its objects cannot be adopted",
            ));
        }
        let all = list_namespaces(&connection.below).await?;
        let stands = |namespace: &&Value| {
            Locator::of(namespace).is_some_and(|existing| existing.as_ref() == Ok(&locator))
        };
        if let Some(other) = all.iter().find(stands).map(object::name).filter(|other| *other != name) {
            return Err(Failure::new(
                format!("in {}, namespace {other} is already used for {above}", connection.name),
                "a namespace here corresponds to one namespace there: adopt into another one with --into NAMESPACE",
            ));
        }
        let Some(found) = all.iter().find(|namespace| object::name(namespace) == name) else {
            return Err(Failure::new(
                format!("{} has no namespace {name}", connection.name),
                "name the namespace with --namespace",
            ));
        };
        if object::is_being_deleted(found) {
            return Err(Failure::new(
                format!("namespace {name} of {} is being deleted", connection.name),
                "its objects cannot be adopted",
            ));
        }
        let is_home = connection.registering_workspace.session.current == connection.fleet.session.current;
        let has_locator = match Locator::of(found) {
            None if !is_home && !is_consented(found, &connection.workspace) => {
                return Err(Failure::new(
                    format!(
                        "namespace {name} of {} may not be used by {}: the cluster is registered in {}",
                        connection.name,
                        connection.fleet.session.current,
                        connection.registering_workspace.session.current
                    ),
                    format!(
                        "an administrator of the cluster allows it with: kubectl label namespace {name} {}={}",
                        marks::WORKSPACE,
                        connection.workspace
                    ),
                ));
            }
            None => false,
            Some(Ok(existing)) if existing == locator => true,
            Some(Ok(existing))
                if (&existing.control_plane, &existing.workspace)
                    == (&locator.control_plane, &locator.workspace) =>
            {
                return Err(Failure::new(
                    format!(
                        "namespace {name} of {} is already used for {}",
                        connection.name, existing.namespace
                    ),
                    format!("adopt its objects into that namespace: --into {}", existing.namespace),
                ));
            }
            Some(_) => {
                return Err(Failure::new(
                    format!("namespace {name} of {} is already used for another namespace", connection.name),
                    "another workspace or control plane uses it; release it there first",
                ));
            }
        };
        let exists_above =
            connection.fleet.api.find(&format!("/api/v1/namespaces/{}", encoded(above))).await?.is_some();
        let (name, above, found) = (name.to_string(), above.to_string(), found.clone());
        self.plan.planned_namespace =
            Some(PlannedNamespace { name, above, exists_above, has_locator, found, locator });
        Ok(())
    }
}

pub fn path(resource: &ApiResource, namespace: &str, name: &str) -> String {
    path::object(&resource.collection(namespace), name)
}
