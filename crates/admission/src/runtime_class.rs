//! A Pod that names a RuntimeClass which is not there could never run.

use atoll_meta::Status;
use atoll_store::Key;

use crate::{Operation, Plugin, Request};

pub struct RuntimeClass;

impl Plugin for RuntimeClass {
    fn name(&self) -> &'static str {
        "RuntimeClass"
    }

    fn admit(&self, request: &Request<'_>) -> Result<(), Status> {
        let row = request.row;
        let is_pod = row.group.is_empty() && row.resource == "pods" && request.subresource.is_empty();
        if !is_pod || request.operation != Operation::Create {
            return Ok(());
        }
        let class = request.object.and_then(|pod| pod["spec"]["runtimeClassName"].as_str());
        let Some(class) = class else { return Ok(()) };
        let key = Key::object("node.k8s.io", "runtimeclasses", request.workspace, "", class);
        if request.snapshot.get(&key).is_some() {
            return Ok(());
        }
        let message = format!("pod rejected: RuntimeClass {class:?} not found");
        Err(Status::forbidden(&row.group, &row.resource, request.name, message))
    }
}
