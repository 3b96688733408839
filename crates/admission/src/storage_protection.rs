//! Finalizers of volumes, volume claims and volume attributes classes, which a controller removes when they
//! are no longer used.

// upstream: plugin/pkg/admission/storage/storageobjectinuseprotection/admission.go

use atoll_meta::{Status, object};
use serde_json::{Value, json};

use crate::{Operation, Plugin, Request};

pub struct StorageObjectInUseProtection;

const FINALIZERS: [(&str, &str, &str); 3] = [
    ("", "persistentvolumes", "kubernetes.io/pv-protection"),
    ("", "persistentvolumeclaims", "kubernetes.io/pvc-protection"),
    ("storage.k8s.io", "volumeattributesclasses", "kubernetes.io/vac-protection"),
];

fn finalizer(request: &Request<'_>) -> Option<&'static str> {
    let own = FINALIZERS.iter().find(|(group, resource, _)| request.is_about(group, resource, ""));
    own.filter(|_| request.operation == Operation::Create).map(|(_, _, finalizer)| *finalizer)
}

impl Plugin for StorageObjectInUseProtection {
    fn handles(&self, request: &Request<'_>) -> bool {
        finalizer(request).is_some()
    }

    fn mutate(&self, request: &Request<'_>, new: &mut Value) -> Result<(), Status> {
        let Some(finalizer) = finalizer(request) else { return Ok(()) };
        if object::finalizers(new).any(|own| own == finalizer) {
            return Ok(());
        }
        match object::metadata_mut(new).entry("finalizers").or_insert(json!([])) {
            Value::Array(finalizers) => finalizers.push(finalizer.into()),
            none => *none = json!([finalizer]),
        }
        Ok(())
    }
}
