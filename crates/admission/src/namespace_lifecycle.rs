//! Nothing is created in a namespace that is missing or on its way out, and some namespaces never go.

use atoll_meta::Status;
use atoll_store::Key;

use crate::{Operation, Plugin, Request};

pub struct NamespaceLifecycle;

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

impl Plugin for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "NamespaceLifecycle"
    }

    fn admit(&self, request: &Request<'_>) -> Result<(), Status> {
        let row = request.row;
        let is_namespace = row.group.is_empty() && row.resource == "namespaces";
        if is_namespace && request.operation == Operation::Delete && IMMORTAL.contains(&request.name) {
            let message = "this namespace may not be deleted";
            return Err(Status::forbidden(&row.group, &row.resource, request.name, message));
        }
        if is_namespace || request.namespace.is_empty() || request.operation != Operation::Create {
            return Ok(());
        }
        let key = Key::object("", "namespaces", request.workspace, "", request.namespace);
        let namespace = request.snapshot.get(&key);
        let namespace = namespace.ok_or_else(|| Status::not_found("", "namespaces", request.namespace))?;
        if namespace.field("status.phase") == "Terminating" {
            return Err(terminating(request));
        }
        Ok(())
    }
}

fn terminating(request: &Request<'_>) -> Status {
    let (row, namespace) = (request.row, request.namespace);
    let message =
        format!("unable to create new content in namespace {namespace} because it is being terminated");
    let cause = format!("namespace {namespace} is being terminated");
    Status::forbidden(&row.group, &row.resource, request.name, message).with_cause(
        "NamespaceTerminating",
        cause,
        "metadata.namespace",
    )
}
