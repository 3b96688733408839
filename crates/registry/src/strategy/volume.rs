//! PersistentVolumes and PersistentVolumeClaims.

// upstream: pkg/registry/core/persistentvolume/strategy.go
// upstream: pkg/registry/core/persistentvolumeclaim/strategy.go

use serde_json::{Value, json};

use super::{Context, REVALIDATED, Strategy, text};

pub static VOLUME: Strategy = Strategy {
    returns_deleted: true,
    prepare_create: |volume, context| {
        volume["status"] = json!({ "phase": "Pending", "lastPhaseTransitionTime": context.now });
    },
    prepare_subresource: volume_status,
    ..REVALIDATED
};

pub static CLAIM: Strategy = Strategy {
    returns_deleted: true,
    prepare_create: |claim, _| {
        claim["status"] = json!({ "phase": "Pending" });
        sync_data_source(&mut claim["spec"], None);
    },
    prepare_update: |new, old, _| sync_data_source(&mut new["spec"], old.get("spec")),
    ..REVALIDATED
};

const TIME: &str = "lastPhaseTransitionTime";

/// Sets the time of a phase change, unless the client sets it.
fn volume_status(_: &str, new: &mut Value, old: &Value, context: &Context<'_>) {
    let changed = text(new, "status.phase") != text(old, "status.phase");
    let (status, before) = (&mut new["status"], old["status"].get(TIME).filter(|time| !time.is_null()));
    let unset = status.get(TIME).is_none_or(Value::is_null);
    match before {
        _ if changed && (unset || status.get(TIME) == before) => status[TIME] = context.now.into(),
        Some(before) if unset => status[TIME] = before.clone(),
        _ => {}
    }
}

/// Synchronises `dataSource` and `dataSourceRef`.
fn sync_data_source(spec: &mut Value, old: Option<&Value>) {
    const SOURCE: &str = "dataSource";
    const REFERENCE: &str = "dataSourceRef";
    let has = |spec: &Value, name: &str| spec.get(name).is_some_and(Value::is_object);
    let Some(fields) = spec.as_object_mut() else { return };
    // Data sources in other namespaces are a disabled feature.
    let elsewhere = |reference: &Value| !text(reference, "namespace").is_empty();
    if fields.get(REFERENCE).is_some_and(elsewhere) && !old.is_some_and(|old| has(old, REFERENCE)) {
        fields.remove(REFERENCE);
    }
    let used = old.is_some_and(|old| has(old, SOURCE) || has(old, REFERENCE));
    let known = |source: &Value| {
        matches!(
            (text(source, "apiGroup"), text(source, "kind")),
            ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
        )
    };
    if !used && !fields.contains_key(REFERENCE) && !fields.get(SOURCE).is_some_and(known) {
        fields.remove(SOURCE);
    }
    let copied = |from: &Value| {
        let mut copy = json!({ "kind": from["kind"], "name": from["name"] });
        // Go encodes `apiGroup` even if it is absent.
        copy["apiGroup"] = from.get("apiGroup").cloned().unwrap_or(Value::Null);
        copy
    };
    match (fields.get(SOURCE), fields.get(REFERENCE)) {
        (Some(source), None) => {
            let reference = copied(source);
            fields.insert(REFERENCE.into(), reference);
        }
        (None, Some(reference)) if !elsewhere(reference) => {
            let source = copied(reference);
            fields.insert(SOURCE.into(), source);
        }
        _ => {}
    }
}
