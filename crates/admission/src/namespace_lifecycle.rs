//! Nothing is created in a namespace that is missing or on its way out, and some namespaces never go.

use atoll_meta::Status;
use serde_json::Value;

use crate::{Operation, Plugin, Request};

pub struct NamespaceLifecycle;

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

impl Plugin for NamespaceLifecycle {
    fn handles(&self, request: &Request<'_>) -> bool {
        match request.operation {
            // Whether a namespace is there is told to those only who may know: a review of access does not tell.
            Operation::Create | Operation::Update => {
                !request.namespace.is_empty() && request.row.resource != "localsubjectaccessreviews"
            }
            Operation::Delete => request.row.resource == "namespaces" && request.row.group.is_empty(),
            Operation::Connect => false,
        }
    }

    fn mutate(&self, request: &Request<'_>, object: &mut Value) -> Result<(), Status> {
        let namespace = request.namespace_object();
        let namespace = namespace.ok_or_else(|| Status::not_found("", "namespaces", request.namespace))?;
        if request.operation == Operation::Create && namespace.0.field("status.phase") == "Terminating" {
            return Err(terminating(request, object));
        }
        Ok(())
    }

    fn validate(&self, request: &Request<'_>, _: &Value) -> Result<(), Status> {
        if request.operation == Operation::Delete && IMMORTAL.contains(&request.name) {
            let message = "this namespace may not be deleted";
            return Err(Status::forbidden("", "namespaces", request.name, message));
        }
        Ok(())
    }
}

fn terminating(request: &Request<'_>, object: &Value) -> Status {
    let namespace = request.namespace;
    let message =
        format!("unable to create new content in namespace {namespace} because it is being terminated");
    let cause = format!("namespace {namespace} is being terminated");
    request.forbidden(object, message).with_cause("NamespaceTerminating", cause, "metadata.namespace")
}
