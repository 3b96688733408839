//! Limits the size of objects that the server reads to admit other requests. Large ones would slow down every
//! request of their namespace or workspace, and with it the requests of others.

use atoll_meta::Status;
use atoll_registry::catalog::ATOLL;
use atoll_registry::size_up_to;
use atoll_watch::Scope;
use serde_json::Value;

use crate::{Operation, Plugin, Request};

/// Maximum number of bytes, as JSON.
const MAX_BYTES: usize = 256 << 10;

/// Maximum number of bytes of the placement policies in all namespaces of a workspace. The scheduler keeps them parsed.
const MAX_BYTES_OF_WORKSPACE: usize = 1 << 20;

const STATUS: &str = "status";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Counted {
    /// Requests read one of them, by name.
    Each,
    /// Requests read all of them in a namespace, or all that have no namespace.
    Together,
}

const KINDS: [(&str, &str, Counted); 11] = [
    ("", "limitranges", Counted::Together),
    ("", "resourcequotas", Counted::Together),
    ("", "serviceaccounts", Counted::Each),
    (ATOLL, "clusterplacementpolicies", Counted::Together),
    (ATOLL, "placementpolicies", Counted::Together),
    ("networking.k8s.io", "ingressclasses", Counted::Together),
    ("networking.k8s.io", "servicecidrs", Counted::Together),
    ("node.k8s.io", "runtimeclasses", Counted::Each),
    ("resource.k8s.io", "deviceclasses", Counted::Together),
    ("scheduling.k8s.io", "priorityclasses", Counted::Together),
    ("storage.k8s.io", "storageclasses", Counted::Together),
];

pub struct PolicySize;

impl Plugin for PolicySize {
    fn handles(&self, request: &Request<'_>) -> bool {
        matches!(request.operation, Operation::Create | Operation::Update)
            && matches!(request.subresource, "" | STATUS)
            && counted(request).is_some()
    }

    fn validate(&self, request: &Request<'_>, object: &Value) -> Result<(), Status> {
        let limit = limit(request);
        let size = size_up_to(object, limit + 1);
        // An object from before the limit can become smaller.
        if request.old.is_some_and(|old| size_up_to(old, limit + 1) >= size) {
            return Ok(());
        }
        let resource = &*request.row.resource;
        if counted(request) == Some(Counted::Each) {
            return match size <= limit {
                true => Ok(()),
                false => Err(request.forbidden(object, refusal("it", "it", limit))),
            };
        }
        let others = request.list(&request.row.group, resource, request.namespace);
        let others = others.iter().filter(|other| other.0.name() != request.display_name(object));
        let total = others.map(|other| other.0.json_cow().len()).fold(size, usize::saturating_add);
        if total <= limit {
            return check_workspace(request, object, size);
        }
        let scope = match request.namespace {
            "" => "the workspace".to_owned(),
            namespace => format!("namespace {namespace:?}"),
        };
        Err(request.forbidden(object, refusal(&format!("all {resource} of {scope}"), "them", limit)))
    }
}

/// Checks the placement policies of all namespaces together.
fn check_workspace(request: &Request<'_>, object: &Value, size: usize) -> Result<(), Status> {
    if (&*request.row.group, &*request.row.resource) != (ATOLL, "placementpolicies") {
        return Ok(());
    }
    let name = (request.namespace, request.display_name(object));
    let scope = Scope::new(ATOLL, "placementpolicies", Some(request.workspace), None);
    let others = request.snapshot.list(&scope, None);
    let others = others.filter(|other| (other.namespace(), other.name()) != name);
    let total = others.map(|other| other.size()).fold(size, usize::saturating_add);
    if total <= MAX_BYTES_OF_WORKSPACE {
        return Ok(());
    }
    let message = format!(
        "all placementpolicies of the workspace would have more than {} KiB; use a ClusterPlacementPolicy for several \
         namespaces, or several workspaces",
        MAX_BYTES_OF_WORKSPACE >> 10
    );
    Err(request.forbidden(object, message))
}

/// Returns the maximum number of bytes. The status of a quota repeats its limits, twice. Placement policies of all
/// workspaces above are read.
fn limit(request: &Request<'_>) -> usize {
    match (&*request.row.group, &*request.row.resource) {
        (ATOLL, _) => MAX_BYTES / 2,
        _ if request.is_about("", "resourcequotas", STATUS) => 3 * MAX_BYTES,
        _ => MAX_BYTES,
    }
}

fn refusal(subject: &str, pronoun: &str, limit: usize) -> String {
    format!(
        "{subject} would have more than {} KiB, and the server reads {pronoun} to admit other requests",
        limit >> 10
    )
}

fn counted(request: &Request<'_>) -> Option<Counted> {
    let row = &request.row;
    let found = KINDS.iter().find(|(group, resource, _)| row.resource == *resource && row.group == *group);
    found.map(|(_, _, counted)| *counted)
}
