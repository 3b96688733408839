//! `atoll release`: ends Atoll's management of objects and leaves them in their clusters, without marks.

mod dependents;

use std::collections::HashSet;

use atoll_client::path;
use atoll_fleet::view::ObjectTarget;
use atoll_fleet::{Locator, Placement, marks};
use atoll_meta::object;
use serde_json::{Value, json};

use self::dependents::Dependents;
use crate::adopt::shown;
use crate::advice::{Failure, invocation, join_names};
use crate::cluster::connection::ClusterConnection;
use crate::cluster::control_plane_connection::{ControlPlaneConnection, uid};
use crate::cluster::copied_marks;
use crate::cluster::marked_objects;
use crate::cluster::object_release;
use crate::cluster::placed_objects;
use crate::command::ReleaseOptions;
use crate::place::resources::ApiResource;
use crate::place::{DEFAULT_NAMESPACE, discover, intent, parse_object_arg};
use crate::workspace::session::encoded;
use crate::{output, process};

const NAMESPACES: &str = "/api/v1/namespaces";

pub fn run(options: ReleaseOptions) -> Result<(), String> {
    process::run_command(async { release(&options).await.map_err(String::from) })
}

async fn release(options: &ReleaseOptions) -> Result<(), Failure> {
    let fleet = ControlPlaneConnection::open(&options.connection)?;
    let context = fleet.session.config.context()?;
    let namespace =
        options.namespace.as_deref().or(context.namespace.as_deref()).unwrap_or(DEFAULT_NAMESPACE);
    let resources = discover(&fleet.api).await?;
    // Resolve all arguments before the first release.
    let mut wanted = Vec::new();
    for word in &options.objects {
        let (resource, name) = parse_object_arg(&resources, word)?;
        let namespace = if resource.namespaced { namespace } else { "" };
        let mut object = fleet.api.get(&path(resource, namespace, name)).await?;
        object::set_type(&mut object, &resource.api_version(), &resource.kind);
        wanted.push((resource, object));
    }
    for (resource, object) in wanted {
        let clusters = clusters(&fleet, options, resource, &object).await?;
        let at = path(resource, object::namespace(&object), object::name(&object));
        let above = dependents::autoscalers_above(&fleet.api, &resources, &object).await?;
        let kind = (resource.group.as_str(), resource.name.as_str());
        intent::take_from_scheduler(&fleet.api, kind, &at, &clusters).await?;
        for cluster in &clusters {
            let connection = ClusterConnection::open(&options.connection, cluster).await?;
            let release = ObjectRelease { connection: &connection, resources: &resources };
            release.run(resource, &object).await.map_err(with_continuation)?;
        }
        intent::give_back(&fleet.api, &at).await?;
        let shown = shown(&resource.kind, &object);
        let here = &fleet.session.current;
        for name in above.iter().filter(|_| !clusters.is_empty()) {
            output::print(&format!(
                "HorizontalPodAutoscaler {}/{name} acted in {here} and is in no cluster; create one there if it is to be scaled.\n",
                object::namespace(&object)
            ));
        }
        if options.delete {
            let this = json!({ "uid": uid(&object) });
            fleet.api.delete_this(&at, this).await?;
            output::print(&format!("{shown} was deleted in {here}.\n"));
        } else {
            output::print(&format!(
                "{shown} stays in {here}; delete it there if it is not needed, or place it on other clusters.\n"
            ));
        }
    }
    Ok(())
}

/// The clusters to release the object in.
async fn clusters(
    fleet: &ControlPlaneConnection,
    options: &ReleaseOptions,
    resource: &ApiResource,
    object: &Value,
) -> Result<Vec<String>, Failure> {
    let placement = Placement::of(object);
    let names: Vec<String> = placement.clusters.iter().map(|share| share.name.clone()).collect();
    let shown = shown(&resource.kind, object);
    match &options.cluster {
        Some(cluster) => Ok(vec![cluster.clone()]),
        None if names.is_empty() && !options.delete => Err(Failure::new(
            format!("{shown} is placed on no cluster"),
            placement_hint(fleet, &placement, resource, object).await,
        )),
        None => Ok(names),
    }
}

/// The hint for an object without placement that a cluster may still have: a cluster that it is leaving, or
/// any other.
async fn placement_hint(
    fleet: &ControlPlaneConnection,
    placement: &Placement,
    resource: &ApiResource,
    object: &Value,
) -> String {
    let mut names: Vec<String> = placement.leaving.iter().map(|one| one.name.clone()).collect();
    if names.is_empty() {
        let list = fleet.list_serving("application/json").await.unwrap_or_default();
        let items = list["items"].as_array().into_iter().flatten();
        names = items.map(|cluster| object::name(cluster).to_string()).collect();
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (invocation, kind) = (invocation(), resource.kind.to_lowercase());
    let Some(first) = names.first() else {
        return format!("list the clusters with: {invocation} cluster list");
    };
    let namespace = match object::namespace(object) {
        "" => String::new(),
        namespace => format!(" --namespace {namespace}"),
    };
    let command = format!("{invocation} release {kind}/{}{namespace} --cluster", object::name(object));
    match names.len() {
        1 => format!("if {first} still has it: {command} {first}"),
        _ => format!(
            "if one of {} still has it, name that cluster, as in: {command} {first}",
            join_names(&names)
        ),
    }
}

/// Adds to a failure that the release can be continued.
fn with_continuation(failure: Failure) -> Failure {
    let again = "nothing was deleted in the cluster; run the same command again with --cluster to continue";
    let hint = match failure.hint {
        Some(next) => format!("{next}\n      {again}"),
        None => again.to_string(),
    };
    Failure { message: failure.message, hint: Some(hint) }
}

fn path(resource: &ApiResource, namespace: &str, name: &str) -> String {
    path::object(&resource.collection(namespace), name)
}

/// An object above and its copy in the cluster.
struct ObjectPair {
    above: String,
    target: ObjectTarget,
    /// Path and uid in the cluster, if it exists there with the mark of this control plane.
    below: Option<(String, String)>,
}

struct ObjectRelease<'a> {
    connection: &'a ClusterConnection,
    resources: &'a [ApiResource],
}

impl ObjectRelease<'_> {
    async fn run(&self, resource: &ApiResource, object: &Value) -> Result<(), Failure> {
        let (connection, name) = (self.connection, &self.connection.name);
        let namespace_below = self.namespace_below(object::namespace(object)).await?;
        let main = self.pair(resource, object, namespace_below.as_deref()).await?;
        let shown_main = shown(&resource.kind, object);
        let is_placed = Placement::of(object).names().any(|cluster| cluster == name);
        if !is_placed && main.below.is_none() {
            // An earlier attempt may have been interrupted.
            if let Some(namespace_below) = &namespace_below {
                copied_marks::remove(
                    &connection.below,
                    namespace_below,
                    &HashSet::from([main.target.uid]),
                    &[],
                )
                .await?;
            }
            return Err(Failure::new(
                format!("{shown_main} does not exist in {name}"),
                format!(
                    "see where it is with: kubectl get {}/{} -o yaml",
                    resource.qualified(),
                    object::name(object)
                ),
            ));
        }
        // Removing it from the placement would delete the copy in another namespace.
        if main.below.is_none() {
            let all = marked_objects::find(&connection.below, &connection.control_plane, "").await?;
            if let Some(other) = all.iter().find(|other| other.target().uid == main.target.uid) {
                return Err(Failure::new(
                    format!("{shown_main} is in another namespace of {name} than its locator says"),
                    format!(
                        "check the annotation atoll.dev/namespace of namespace {} in the cluster",
                        object::namespace(&other.found)
                    ),
                ));
            }
        }
        object_release::check_unplace(&connection.fleet.api, name, &main.above).await?;
        let mut pairs = vec![main];
        let dependents = Dependents::find(connection, self.resources, resource, object).await?;
        for (resource, dependent) in &dependents.released {
            output::print(&format!(
                "{} is released as well: only {shown_main} needs it.\n",
                shown(&resource.kind, dependent)
            ));
            pairs.push(self.pair(resource, dependent, namespace_below.as_deref()).await?);
        }
        let referrer = format!("{}/{}", resource.qualified(), object::name(object));
        for (kept, dependent) in &dependents.kept {
            let pair = self.pair(kept, dependent, namespace_below.as_deref()).await?;
            if let Some((path, uid)) = &pair.below {
                object_release::add_keep_mark(&connection.below, path, uid, &referrer).await?;
            }
            output::print(&format!(
                "{} stays managed, because other objects there need it; when it is removed, it is released in {name} instead of being deleted.\n",
                shown(&kept.kind, dependent)
            ));
        }
        for (path, uid) in pairs.iter().filter_map(|pair| pair.below.as_ref()) {
            object_release::mark_released(&connection.below, path, uid).await?;
        }
        for pair in &pairs {
            object_release::unplace(
                &connection.fleet.api,
                &connection.registering_workspace,
                name,
                &pair.above,
                &pair.target,
            )
            .await?;
        }
        for (path, uid) in pairs.iter().filter_map(|pair| pair.below.as_ref()) {
            object_release::remove_marks(&connection.below, path, uid).await?;
        }
        if let (Some((path, _)), Some(namespace_below)) = (&pairs[0].below, &namespace_below) {
            let uids = pairs.iter().map(|pair| pair.target.uid.clone()).collect();
            let deployments = copied_marks::is_deployments(resource).then(|| path.clone());
            copied_marks::remove(&connection.below, namespace_below, &uids, deployments.as_slice()).await?;
        }
        match pairs[0].below.is_some() {
            true => output::print(&format!(
                "{shown_main} keeps running in {name} and is no longer managed by Atoll.\n"
            )),
            false => output::print(&format!("{shown_main} was not in {name}; nothing was changed there.\n")),
        }
        if let Some(namespace_below) = namespace_below.filter(|_| resource.namespaced) {
            self.release_namespace(object::namespace(object), &namespace_below).await?;
        }
        Ok(())
    }

    /// The namespace in the cluster that is used for a namespace above.
    async fn namespace_below(&self, namespace: &str) -> Result<Option<String>, Failure> {
        if namespace.is_empty() {
            return Ok(None);
        }
        let locator = Locator {
            control_plane: self.connection.control_plane.clone(),
            workspace: self.connection.workspace.clone(),
            namespace: namespace.to_string(),
        };
        let all = object_release::list_namespaces(&self.connection.below).await?;
        let stands = |found: &&Value| Locator::of(found).is_some_and(|found| found.as_ref() == Ok(&locator));
        Ok(all.iter().find(stands).map(|found| object::name(found).to_string()))
    }

    async fn pair(
        &self,
        resource: &ApiResource,
        object: &Value,
        namespace_below: Option<&str>,
    ) -> Result<ObjectPair, Failure> {
        let (namespace, name) = (object::namespace(object), object::name(object));
        let target = resource.target(&self.connection.workspace, namespace, name, uid(object));
        let path_below = path(resource, namespace_below.unwrap_or(namespace), name);
        let found = self.connection.below.find(&path_below).await?;
        let is_copy = |found: &Value| {
            object::label(found, marks::CONTROL_PLANE) == Some(&self.connection.control_plane)
                && object::annotation(found, marks::UID) == Some(&target.uid)
        };
        let below = found.filter(is_copy).map(|found| (path_below, uid(&found).to_string()));
        Ok(ObjectPair { above: path(resource, namespace, name), target, below })
    }

    /// Removes the locator from a namespace of the cluster that has no more objects of this control plane.
    async fn release_namespace(&self, namespace: &str, namespace_below: &str) -> Result<(), Failure> {
        let connection = self.connection;
        let placed = placed_objects::read(&connection.registering_workspace, &connection.name).await?;
        let is_here =
            |target: &ObjectTarget| target.workspace == connection.workspace && target.namespace == namespace;
        if placed.assigned.iter().chain(&placed.leaving).any(is_here)
            || !marked_objects::find(&connection.below, &connection.control_plane, namespace_below)
                .await?
                .is_empty()
        {
            return Ok(());
        }
        let path = format!("{NAMESPACES}/{}", encoded(namespace_below));
        if let Some(found) = connection.below.find(&path).await? {
            object_release::remove_marks(&connection.below, &path, uid(&found)).await?;
            output::print(&format!(
                "Namespace {namespace_below} of {} has no more objects of Atoll.\n",
                connection.name
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_say_how_to_continue() {
        let failure = with_continuation(Failure::new("it broke", "look"));
        assert!(
            failure.hint.is_some_and(|next| next.starts_with("look\n") && next.contains("with --cluster"))
        );
    }
}
