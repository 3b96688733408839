//! ResourceQuotas.
//!
//! ```text
//!   request ─► queues: one batch at a time per namespace
//!                └─► check of each request ─► conditional write of the quotas' status ─► the object's own write
//!                                                     └── pending_writes: writes that are still pending
//! ```
//!
//! Usage is recorded before the object is written, on condition that the quota has not changed since it was
//! checked. So the sum never exceeds the limit with concurrent writers. If the object's write fails, its
//! usage is released. A crash in between leaves too much usage, never too little, until the namespace is
//! counted again.

// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/admission.go
// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go

mod context;
mod pending_writes;
mod queues;

use std::sync::Arc;

use atoll_meta::{Status, object};
use atoll_quota::{Amounts, Evaluator, Quota};
use atoll_registry::{ObjectRef, Registry, WriteOutcome};
use serde_json::Value;

use crate::request::{Operation, Request};
use crate::{Plugin, Reservation, ReserveFuture};
use pending_writes::PendingWrites;
use queues::{QuotaQueues, QuotaRequest};

const RESOURCE: &str = "resourcequotas";

/// Prefix of the names that count the objects of any resource.
const COUNT: &str = "count/";
/// Maximum number of such names in one quota.
const MAX_COUNTED: usize = 256;

#[derive(Default)]
pub struct ResourceQuota {
    queues: Arc<QuotaQueues>,
    pending_writes: Arc<PendingWrites>,
}

impl Plugin for ResourceQuota {
    fn handles(&self, request: &Request<'_>) -> bool {
        let writes = matches!(request.operation, Operation::Create | Operation::Update);
        writes && !request.namespace.is_empty() && request.row.namespaced
    }

    /// Refuses a recount of a namespace while writes are pending that it may have missed, with a conflict.
    fn mutate(&self, request: &Request<'_>, object: &mut Value) -> Result<(), Status> {
        let counts = request.operation == Operation::Update && request.is_about("", RESOURCE, "status");
        let (Some(old), Ok(revision)) = (request.old, object::resource_version(object).parse()) else {
            return Ok(());
        };
        if !counts || !decreases(&old["status"]["used"], &object["status"]["used"]) {
            return Ok(());
        }
        let object_ref =
            ObjectRef { workspace: request.workspace, namespace: request.namespace, name: request.name };
        let key = request.row.key(&object_ref);
        if self.pending_writes.is_current(&key, revision) {
            return Ok(());
        }
        if self.pending_writes.is_behind(&key, revision) {
            // The quota gets a revision after everything that was counted, so that a recount from it is
            // complete.
            request.registry.touch(request.row, &key).map(tokio::spawn);
        }
        Err(conflict(request.name))
    }

    /// Limits the number of resources that one quota counts: the controller finds and lists each of them.
    fn validate(&self, request: &Request<'_>, object: &Value) -> Result<(), Status> {
        if !request.is_about("", RESOURCE, "") {
            return Ok(());
        }
        let counted = counted_resources(object);
        // A quota from before the limit can become smaller.
        if counted <= MAX_COUNTED || request.old.is_some_and(|old| counted_resources(old) >= counted) {
            return Ok(());
        }
        let message = format!(
            "spec.hard has {counted} names that begin with {COUNT}; at most {MAX_COUNTED} are allowed in one quota"
        );
        Err(request.forbidden(object, message))
    }

    fn reserve<'a>(&'a self, request: &'a Request<'a>, object: &'a Value) -> Option<ReserveFuture<'a>> {
        // Most namespaces have no quotas.
        if request.list("", RESOURCE, request.namespace).is_empty() {
            return None;
        }
        let evaluator = Evaluator::of(&request.row.group, &request.row.resource)?;
        let operation = match request.operation {
            Operation::Create => atoll_quota::QuotaOperation::Create,
            _ => atoll_quota::QuotaOperation::Update,
        };
        if !evaluator.handles(operation, request.subresource, object, request.old) {
            return None;
        }
        Some(Box::pin(self.take(request, evaluator, operation, object)))
    }
}

impl ResourceQuota {
    async fn take<'a>(
        &'a self,
        request: &'a Request<'a>,
        evaluator: Evaluator,
        operation: atoll_quota::QuotaOperation,
        object: &'a Value,
    ) -> Result<Option<Box<dyn Reservation>>, Status> {
        // By now the object has a name, even a generated one.
        let name = Some(object::name(object)).filter(|name| !name.is_empty());
        let name = name.unwrap_or_else(|| request.display_name(object));
        let (workspace, namespace) = (request.workspace, request.namespace);
        let key = request.row.key(&ObjectRef { workspace, namespace, name });
        // An existing object will be refused later, so nothing is reserved. But a quota error is reported
        // first, as upstream.
        let in_vain = request.operation == Operation::Create && request.snapshot.get(&key).is_some();
        let change = QuotaRequest {
            evaluator,
            operation,
            subresource: request.subresource.to_string(),
            new: object.clone(),
            old: request.old.cloned(),
            check_only: request.is_dry_run() || in_vain,
            group: request.row.group.clone(),
            resource: request.row.resource.clone(),
            name: name.to_string(),
        };
        let taken =
            self.queues.take(request.registry, workspace, namespace, change, &self.pending_writes).await?;
        Ok(taken.map(|taken| {
            let (workspace, namespace) = (workspace.to_string(), namespace.to_string());
            let queues = self.queues.clone();
            Box::new(QuotaReservation { taken, queues, workspace, namespace }) as Box<dyn Reservation>
        }))
    }
}

/// The reservation for one object.
struct QuotaReservation {
    taken: pending_writes::PendingWrite,
    queues: Arc<QuotaQueues>,
    workspace: String,
    namespace: String,
}

impl Reservation for QuotaReservation {
    fn finish<'a>(
        mut self: Box<Self>,
        registry: &'a Registry,
        written: WriteOutcome,
    ) -> atoll_store::BoxFuture<'a, ()> {
        Box::pin(async move {
            let (workspace, namespace) = (self.workspace.as_str(), self.namespace.as_str());
            if written == WriteOutcome::NotWritten {
                let releasing = async {
                    for (name, amounts) in self.taken.amounts() {
                        release_usage(registry, workspace, namespace, name, amounts).await;
                    }
                };
                self.queues.exclusively(workspace, namespace, releasing).await;
            }
            self.taken.finish(written);
        })
    }
}

/// Number of attempts to release usage of a quota that changes concurrently.
const ATTEMPTS: usize = 16;

/// Releases usage. Best effort: leftovers are corrected when the namespace is counted again.
async fn release_usage(registry: &Registry, workspace: &str, namespace: &str, name: &str, amounts: &Amounts) {
    for _ in 0..ATTEMPTS {
        let object_ref = ObjectRef { workspace, namespace, name };
        let Some(mut stored) = StoredQuota::find(registry, &object_ref) else { return };
        stored.quota.used.subtract(amounts);
        match stored.write(registry, &object_ref).await {
            Err(status) if status.reason() == "Conflict" => {}
            _ => return,
        }
    }
}

/// A quota as read from the snapshot.
#[derive(Clone)]
struct StoredQuota {
    object: Arc<Value>,
    quota: Quota,
}

impl StoredQuota {
    fn read(object: Value) -> StoredQuota {
        StoredQuota { quota: Quota::read(&object), object: Arc::new(object) }
    }

    fn find(registry: &Registry, object_ref: &ObjectRef<'_>) -> Option<StoredQuota> {
        let row = quotas(registry)?;
        let found = registry.snapshot().get(&row.key(object_ref))?;
        atoll_meta::json::parse(&found.json()).ok().map(|parsed| StoredQuota::read(parsed.value))
    }

    /// Writes the usage, on condition that the quota has not been written since it was read.
    async fn write(&self, registry: &Registry, object_ref: &ObjectRef<'_>) -> Result<(), Status> {
        let row = quotas(registry).ok_or_else(|| Status::internal_error("ResourceQuotas are not served"))?;
        let mut new = (*self.object).clone();
        new["status"]["used"] = self.quota.used.to_json();
        registry.write_status(&row, object_ref, new, MANAGER).await
    }
}

/// The field manager of quota status, as upstream.
const MANAGER: &str = "kube-apiserver";

fn quotas(registry: &Registry) -> Option<atoll_registry::SharedRow> {
    registry.catalog.stored("", RESOURCE).cloned()
}

/// Returns the number of names in `spec.hard` that count the objects of any resource.
fn counted_resources(quota: &Value) -> usize {
    let hard = quota["spec"]["hard"].as_object();
    hard.map_or(0, |hard| hard.keys().filter(|name| name.starts_with(COUNT)).count())
}

/// Whether any amount decreases.
fn decreases(old: &Value, new: &Value) -> bool {
    let (old, new) = (Amounts::read(old), Amounts::read(new));
    new.iter().any(|(name, amount)| old.get(name).is_some_and(|old| amount < old))
}

fn conflict(name: &str) -> Status {
    let message =
        "the object has been modified; please apply your changes to the latest version and try again";
    Status::conflict("", RESOURCE, name, message)
}
