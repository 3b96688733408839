//! API extensions: CustomResourceDefinitions, those of clusters, and APIServices.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/etcd.go
// upstream: staging/src/k8s.io/kube-aggregator/pkg/registry/apiservice/strategy.go

use atoll_fleet::marks::IMPORTED_FROM;
use atoll_meta::{names, object};
use serde_json::{Value, json};

use crate::definitions::{compile, reserved};
use crate::imports;
use crate::modify::set_condition;

use super::effects::Effects;
use super::{ONLY_STATUS, REVALIDATED, Strategy, field, spec_differs};

pub static DEFINITION: Strategy = Strategy {
    generation: true,
    raises_generation: spec_differs,
    prepare_create: |definition, _| make_own(definition),
    // A change of an inherited definition makes it one of the workspace.
    prepare_update: |new, _, _| make_own(new),
    validate: reserved::validate,
    unconditional_update: false,
    finalizer_names: false,
    custom_deletion: true,
    // Always mark the definition first, because its objects must be deleted before it.
    blocks_removal: |definition| !object::is_being_deleted(definition),
    begin_delete: mark_terminating,
    // The dependents of a definition are its objects, which are deleted in any case.
    propagates_deletion: false,
    stored_as_json: true,
    slow_validation: true,
    compile: Some(compile::definition),
    effects: Effects {
        check: Some(|registry, row, object_ref, new, old| match old {
            None => registry.check_definition(row, object_ref, new),
            Some(_) => Ok(()),
        }),
        after_write: Some(|registry, definition| {
            Box::pin(registry.update_definition_status(definition.workspace, definition.name))
        }),
        ..Effects::NONE
    },
    ..Strategy::GENERIC
};

/// ApiImports, written only for the reports of clusters.
pub static API_IMPORT: Strategy = Strategy {
    generation: true,
    raises_generation: spec_differs,
    compile: Some(imports::compiled),
    // Reports of clusters are compared with these: an ApiImport is not parsed for that.
    fields: &[
        field(imports::CLUSTER_UID),
        field(imports::DIGEST),
        field(imports::SERVED),
        field(imports::PROBLEM),
        field(imports::MISFIT),
    ],
    ..Strategy::GENERIC
};

/// Finalizer that keeps a definition until its objects are deleted.
pub const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

fn mark_terminating(definition: &mut Value) {
    let has_begun = object::finalizers(definition).any(|own| own == CLEANUP);
    if has_begun {
        return;
    }
    let mut finalizers: Vec<String> = object::finalizers(definition).map(str::to_string).collect();
    finalizers.push(CLEANUP.into());
    object::set_finalizers(definition, &finalizers);
    let now = object::deletion_timestamp(definition).unwrap_or_default().to_string();
    let condition = json!({
        "type": "Terminating",
        "status": "True",
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    });
    set_condition(definition, condition, &now);
}

pub static API_SERVICE: Strategy = Strategy {
    name_rule: names::name_is_path_segment,
    status_keeps: ONLY_STATUS,
    prepare_create: |service, context| {
        if !service["spec"].get("service").is_some_and(Value::is_object) {
            service["status"] = json!({ "conditions": [{
                "type": "Available",
                "status": "True",
                "lastTransitionTime": context.now,
                "reason": "Local",
                "message": "Local APIServices are always available",
            }] });
        }
    },
    finalizer_names: false,
    stored_as_json: true,
    ..REVALIDATED
};

/// Prepares a definition of the workspace itself, which is not imported.
fn make_own(definition: &mut Value) {
    object::remove_annotation(definition, IMPORTED_FROM);
    add_stored_version(definition);
}

/// Adds the storage version to `status.storedVersions`.
fn add_stored_version(definition: &mut Value) {
    let versions = definition["spec"]["versions"].as_array();
    let stored = versions.into_iter().flatten().find(|version| version["storage"] == true);
    let Some(name) = stored.map(|version| version["name"].clone()) else { return };
    match definition["status"].get_mut("storedVersions") {
        Some(Value::Array(known)) if known.contains(&name) => {}
        Some(Value::Array(known)) => known.push(name),
        _ => definition["status"]["storedVersions"] = json!([name]),
    }
}
