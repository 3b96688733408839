//! The annotation `atoll.dev/clusters`, with which users ask for clusters: its text must be valid, and what
//! it asks for must be within the placement policy of the object, unless the user has the verb `override` on
//! that policy. Overrides are recorded in an annotation that users cannot write.
//!
//! The annotation `atoll.dev/needs` must name objects that can be dependents.

use std::sync::Arc;

use atoll_authz::Target;
use atoll_meta::{Status, object};
use atoll_placement::intent::{ANNOTATION, Intent, IntentSource, OVERRIDE, Override};
use atoll_placement::needs::{self, NEEDS};
use atoll_placement::policy::{self, Excess, Policy, PolicyKind, PolicyTarget};
use atoll_registry::Row;
use atoll_registry::catalog::ATOLL;
use atoll_registry::placement::is_placeable;
use serde_json::Value;

use crate::{Operation, Plugin, Request};

pub struct ClusterIntent;

impl Plugin for ClusterIntent {
    fn handles(&self, request: &Request<'_>) -> bool {
        // Updates of the status can change annotations, too.
        let is_write = match request.operation {
            Operation::Create => request.subresource.is_empty(),
            Operation::Update => true,
            Operation::Delete | Operation::Connect => false,
        };
        is_write && (is_placeable(request.row) || is_namespace(request.row))
    }

    fn mutate(&self, request: &Request<'_>, object: &mut Value) -> Result<(), Status> {
        let before = request.old.and_then(|old| object::annotation(old, ANNOTATION));
        let kept = request.old.and_then(|old| object::annotation(old, OVERRIDE));
        let record = match object::annotation(object, ANNOTATION) {
            None => None,
            same if same == before => kept.map(str::to_string),
            Some(_) => check(request, object)?,
        };
        match record {
            Some(record) => object::set_annotation(object, OVERRIDE, &record),
            None if object::annotation(object, OVERRIDE).is_some() => {
                object::remove_annotation(object, OVERRIDE)
            }
            None => {}
        }
        Ok(())
    }

    fn validate(&self, request: &Request<'_>, object: &Value) -> Result<(), Status> {
        let of_old = |key: &str| request.old.and_then(|old| object::annotation(old, key));
        let is_new = object::annotation(object, ANNOTATION) != of_old(ANNOTATION);
        if is_new {
            if let Some(error) = Intent::validate(object) {
                let (row, name) = (request.row, request.display_name(object));
                return Err(Status::invalid(&row.group, &row.kind, name, vec![error]));
            }
            warn_of_unknown_clusters(request, object);
            warn_of_override(request, object);
        }
        let needs_others = object::annotation(object, NEEDS) != of_old(NEEDS);
        if let Some(error) = needs::validate(object).filter(|_| needs_others) {
            let (row, name) = (request.row, request.display_name(object));
            return Err(Status::invalid(&row.group, &row.kind, name, vec![error]));
        }
        if let Some(warning) = pinned(request, object, is_new) {
            (request.warn)(warning);
        }
        Ok(())
    }
}

fn is_namespace(row: &Row) -> bool {
    row.group.is_empty() && row.resource == "namespaces"
}

/// Returns the record of an override, if the intent of an object needs one.
fn check(request: &Request<'_>, object: &Value) -> Result<Option<String>, Status> {
    let Some(Ok(intent)) = Intent::on(object) else { return Ok(None) };
    let policies = request.registry.placement_policies(request.workspace, namespace_of(request, object));
    if policies.is_empty() || intent.is_none() {
        return Ok(None);
    }
    let namespace = match is_namespace(request.row) {
        true => None,
        false => request.namespace_object().map(|namespace| namespace.parse()).transpose()?,
    };
    let target = match is_namespace(request.row) {
        true => any_workload(object),
        false => PolicyTarget {
            group: &request.row.group,
            kind: &request.row.kind,
            namespace: request.namespace,
            is_custom: request.row.custom.is_some(),
            ..PolicyTarget::of(object, namespace.as_ref())
        },
    };
    let Some(policy) = policy::select(&policies, &target).winner else { return Ok(None) };
    let clusters = named_clusters(request, &intent);
    let excess = policy.check_intent(&intent, &clusters.iter().map(|cluster| &**cluster).collect::<Vec<_>>());
    if excess.is_empty() {
        return Ok(None);
    }
    if !may_override(request, policy) {
        return Err(request.forbidden(object, refusal(policy, &intent, &excess)));
    }
    let record = Override {
        uid: policy.uid.clone(),
        policy: policy.reference(),
        user: request.user.name.clone(),
        clusters: intent.to_string(),
        time: request.registry.now(),
    };
    Ok(Some(record.text()))
}

/// A Namespace asks for all of its workloads, whatever their kind, name and labels.
fn any_workload(namespace: &Value) -> PolicyTarget<'_> {
    PolicyTarget {
        group: "",
        kind: "",
        namespace: object::name(namespace),
        name: "",
        labels: None,
        namespace_labels: object::label_map(namespace),
        is_workload: true,
        is_custom: false,
    }
}

fn namespace_of<'a>(request: &Request<'a>, object: &'a Value) -> &'a str {
    if is_namespace(request.row) { object::name(object) } else { request.namespace }
}

/// Returns the clusters that an intent names and that serve the workspace.
fn named_clusters(request: &Request<'_>, intent: &Intent) -> Vec<Arc<Value>> {
    let registry = request.registry;
    let named = intent.clusters().filter_map(|name| registry.cluster(request.workspace, name, ""));
    named.filter(|one| registry.cluster_serves(request.workspace, one)).map(|one| one.cluster).collect()
}

fn resource_of(policy: &Policy) -> &'static str {
    match policy.kind {
        PolicyKind::PlacementPolicy => "placementpolicies",
        PolicyKind::ClusterPlacementPolicy => "clusterplacementpolicies",
    }
}

/// The right is needed where the policy is: a user with all rights in a workspace cannot override the
/// policies of the workspaces above.
fn may_override(request: &Request<'_>, policy: &Policy) -> bool {
    let target = Target::Resource {
        group: ATOLL,
        resource: resource_of(policy),
        subresource: "",
        namespace: &policy.namespace,
        name: &policy.name,
    };
    (request.authorize_above)(policy.distance, "override", target)
}

fn refusal(policy: &Policy, intent: &Intent, excess: &[Excess]) -> String {
    let reasons: Vec<String> = excess.iter().map(ToString::to_string).collect();
    let place = if policy.distance == 0 { "" } else { " in its workspace" };
    format!(
        "metadata.annotations[{ANNOTATION}]: {intent} is beyond {}: {}; this needs the verb override on {}.{ATOLL} {:?}{place}",
        policy.reference(),
        reasons.join("; "),
        resource_of(policy),
        policy.name,
    )
}

fn warn_of_unknown_clusters(request: &Request<'_>, object: &Value) {
    let Some(Ok(intent)) = Intent::on(object) else { return };
    if intent.is_none() {
        return;
    }
    let known = named_clusters(request, &intent);
    let is_known = |name: &&str| known.iter().any(|cluster| object::name(cluster) == *name);
    for name in intent.clusters().filter(|name| !is_known(name)) {
        (request.warn)(format!(
            "metadata.annotations[{ANNOTATION}] names {name:?}, which is not a cluster of this workspace; see: atoll cluster list"
        ));
    }
}

fn warn_of_override(request: &Request<'_>, object: &Value) {
    if let Some(record) = Override::of(object) {
        let Override { policy, user, .. } = record;
        (request.warn)(format!(
            "metadata.annotations[{ANNOTATION}] overrides {policy}; it is recorded that {user} did so"
        ));
    }
}

/// Returns a warning about a number of replicas that pins override: a changed one, or one that differs from
/// the pins in an object that is new or has new pins.
fn pinned(request: &Request<'_>, object: &Value, is_new: bool) -> Option<String> {
    let replicas = object["spec"]["replicas"].as_i64()?;
    let is_changed = match request.old {
        Some(old) => old["spec"]["replicas"].as_i64() != Some(replicas),
        None => false,
    };
    if !is_changed && !is_new && request.old.is_some() {
        return None;
    }
    let (intent, source) = intent_of(request, object)?;
    let total: i64 = intent.pins().map(|(_, pin)| pin).sum();
    let owner = match source {
        IntentSource::Object | IntentSource::Label => String::new(),
        IntentSource::Namespace => format!(" of the namespace {}", request.namespace),
    };
    match (intent.is_pinned(), intent.pins().next()) {
        (_, None) => None,
        (true, _) if !is_changed && replicas == total => None,
        (true, _) => {
            let (kind, name) = match source {
                IntentSource::Object | IntentSource::Label => {
                    (request.row.singular.as_str(), request.display_name(object))
                }
                IntentSource::Namespace => ("namespace", request.namespace),
            };
            let weights = intent.as_weights();
            Some(format!(
                "spec.replicas: {replicas} has no effect: {ANNOTATION}{owner} pins {intent}; to divide spec.replicas instead: kubectl \
                 annotate --overwrite {kind} {name} {ANNOTATION}={weights}"
            ))
        }
        (false, Some(_)) => {
            let pins: Vec<String> = intent.pins().map(|(cluster, pin)| format!("{cluster}=={pin}")).collect();
            Some(format!(
                "spec.replicas: {replicas} is divided between the other clusters only: {ANNOTATION}{owner} pins {}",
                pins.join(",")
            ))
        }
    }
}

fn intent_of(request: &Request<'_>, object: &Value) -> Option<(Intent, IntentSource)> {
    if let Some(own) = Intent::on(object) {
        return own.ok().map(|intent| (intent, IntentSource::Object));
    }
    let namespace = request.namespace_object().filter(|namespace| namespace.contains_text(ANNOTATION))?;
    let intent = Intent::on(&namespace.parse().ok()?)?.ok()?;
    Some((intent, IntentSource::Namespace))
}
