//! Nothing is created in a namespace that does not exist or is terminating, and some namespaces cannot be
//! deleted.

// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle/admission.go

use atoll_meta::{Status, json, object};
use atoll_registry::catalog::ATOLL;
use atoll_watch::Scope;
use serde_json::Value;

use crate::{Operation, Plugin, Request};

pub struct NamespaceLifecycle;

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

impl Plugin for NamespaceLifecycle {
    fn handles(&self, request: &Request<'_>) -> bool {
        match request.operation {
            // A local access review must not reveal whether a namespace exists.
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
        if request.operation == Operation::Delete
            && IMMORTAL.contains(&request.name)
            && !is_workspace_deleting(request)
        {
            let message = "this namespace may not be deleted";
            return Err(Status::forbidden("", "namespaces", request.name, message));
        }
        Ok(())
    }
}

/// Whether the workspace is being deleted: then all of its namespaces are deleted, because clusters may have
/// copies.
fn is_workspace_deleting(request: &Request<'_>) -> bool {
    let everywhere = Scope::new(ATOLL, "workspaces", None, None);
    let mut workspaces = request.snapshot.list(&everywhere, None);
    let own = workspaces.find(|workspace| workspace.field("status.id") == request.workspace);
    let own = own.and_then(|workspace| json::parse(&workspace.json()).ok());
    own.is_some_and(|workspace| object::is_being_deleted(&workspace.value))
}

fn terminating(request: &Request<'_>, object: &Value) -> Status {
    let namespace = request.namespace;
    let message =
        format!("unable to create new content in namespace {namespace} because it is being terminated");
    let cause = format!("namespace {namespace} is being terminated");
    request.forbidden(object, message).with_cause("NamespaceTerminating", cause, "metadata.namespace")
}
