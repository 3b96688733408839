//! Volume claims can grow only if they are bound and their class supports expansion.

// upstream: plugin/pkg/admission/storage/persistentvolume/resize/admission.go

use atoll_meta::quantity::Quantity;
use atoll_meta::{Status, object};
use serde_json::Value;

use crate::{Operation, Plugin, Request};

pub struct PersistentVolumeClaimResize;

impl Plugin for PersistentVolumeClaimResize {
    fn handles(&self, request: &Request<'_>) -> bool {
        request.operation == Operation::Update && request.is_about("", "persistentvolumeclaims", "")
    }

    fn validate(&self, request: &Request<'_>, claim: &Value) -> Result<(), Status> {
        let Some(old) = request.old else { return Ok(()) };
        if size(claim) <= size(old) {
            return Ok(());
        }
        if old["status"]["phase"] != "Bound" {
            return Err(request.forbidden(claim, "Only bound persistent volume claims can be expanded"));
        }
        let grows = match (class(claim), class(old)) {
            (new, old) if new.is_empty() || new != old => false,
            (class, _) => match request.find("storage.k8s.io", "storageclasses", "", class) {
                Some(class) => class.parse()?["allowVolumeExpansion"] == true,
                None => false,
            },
        };
        let message = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc \
                       must support resize";
        if grows { Ok(()) } else { Err(request.forbidden(claim, message)) }
    }
}

fn size(claim: &Value) -> Option<Quantity> {
    Quantity::parse(claim["spec"]["resources"]["requests"]["storage"].as_str()?).ok()
}

fn class(claim: &Value) -> &str {
    let old_way = object::annotation(claim, "volume.beta.kubernetes.io/storage-class");
    old_way.or(claim["spec"]["storageClassName"].as_str()).unwrap_or_default()
}
