//! Work on namespaces: sets the Pod Security labels of managed namespaces, and deletes a namespace below when
//! the one above is being deleted and nothing managed is left in it.

use std::sync::Arc;
use std::time::Duration;

use atoll_fleet::Locator;
use atoll_fleet::view::{ObjectTarget, RETAINED_PREFIX, Record, State};
use atoll_informer::{Key, Next};
use atoll_meta::Status;

use crate::namespaces::deletion::{NamespaceDeletion, delete_if_empty};
use crate::syncer::Syncer;

/// Pause before a namespace with remaining content is checked again.
pub const SHORT_PAUSE: Duration = Duration::from_secs(2);
/// Pause after the cluster has refused the deletion.
const RETRY_PAUSE: Duration = Duration::from_secs(60);

/// Returns the queue key of a namespace; objects have a non-empty name.
pub fn key(workspace: &str, namespace: &str) -> Key {
    Key::new(workspace, namespace, "")
}

pub fn is_key(key: &Key) -> bool {
    key.name.is_empty()
}

pub async fn work(syncer: &Arc<Syncer>, key: &Key) -> Result<Next, Status> {
    let Some(permit) = syncer.acquire(None).await else { return Ok(Next::Done) };
    permit.run(with_permit(syncer, key)).await
}

async fn with_permit(syncer: &Syncer, key: &Key) -> Result<Next, Status> {
    let Some(registration) = syncer.current_registration() else { return Ok(Next::Done) };
    let locator = Locator {
        control_plane: registration.control_plane.clone(),
        workspace: key.workspace.to_string(),
        namespace: key.namespace.to_string(),
    };
    match syncer.namespaces.label(&syncer.with_permit, &locator).await {
        Ok(()) => {}
        // Write conflict: try again.
        Err(status) if status.code() == 409 => return Ok(Next::Again),
        Err(status) if matches!(status.code(), 403 | 422) => {
            tracing::warn!(
                cluster = %syncer.settings.cluster, namespace = %locator.namespace, workspace = %locator.workspace, %status,
                "cannot write the Pod Security labels of a namespace"
            );
        }
        Err(status) => return Err(status),
    }
    // Managed objects are removed first. Resuming adds this key again.
    if syncer.table.has_namespace(&key.workspace, &key.namespace)
        || syncer.pauses.reason_for(&key.workspace).is_some()
    {
        return Ok(Next::Done);
    }
    if !syncer.namespaces.is_terminating_above(&locator) {
        return Ok(Next::Done);
    }
    let names = match syncer.namespaces.get(&locator) {
        Some(name) => vec![name],
        // A syncer that crashed may have created it without recording it.
        None if syncer.namespaces.is_awaited(&locator) => candidates(syncer, &locator).await?,
        None => Vec::new(),
    };
    let mut kept = Vec::new();
    for name in names {
        match delete_namespace(syncer, &locator, &name).await? {
            DeletionOutcome::Requeue(next) => return Ok(next),
            DeletionOutcome::Kept(why) => kept.push(why),
            DeletionOutcome::Gone => {}
        }
    }
    if let Some(awaited) = syncer.namespaces.finish_terminating(&locator) {
        let target = ObjectTarget::namespace(&locator.workspace, &locator.namespace, &awaited.uid);
        let message =
            if kept.is_empty() { String::new() } else { format!("{RETAINED_PREFIX}{}", kept.join("; ")) };
        let record =
            Record { target, state: State::Gone, message, since: awaited.since, ..Record::default() };
        syncer.reports.report(key.clone(), record);
    }
    Ok(Next::Done)
}

/// Returns the possible names of a namespace in the cluster.
async fn candidates(syncer: &Syncer, locator: &Locator) -> Result<Vec<String>, Status> {
    let mut names = vec![locator.below(true), locator.below(false)];
    names.extend(syncer.namespaces.find_by_label(&syncer.with_permit, locator).await?);
    names.dedup();
    Ok(names)
}

/// Outcome of the deletion of a namespace below.
enum DeletionOutcome {
    /// It does not exist, is terminating, or is not managed.
    Gone,
    /// It is not empty; the reason.
    Kept(String),
    Requeue(Next),
}

/// Reports, once per reason, why the namespace above still waits for this cluster.
fn report_unlisted(syncer: &Syncer, locator: &Locator, name: &str, unlisted: &[String]) {
    let cluster = &syncer.settings.cluster;
    let message = format!(
        "namespace {name} in cluster {cluster} is not deleted, because the syncer cannot check whether it is empty: {}; if it may \
         not list them, join the cluster again, which grants the permission: atoll cluster join {cluster} --kubeconfig FILE; or \
         delete the namespace in the cluster: kubectl delete namespace {name}",
        unlisted.join(", ")
    );
    if let Some(awaited) = syncer.namespaces.record_reason(locator, &message) {
        tracing::warn!(%cluster, namespace = name, "{message}");
        let target = ObjectTarget::namespace(&locator.workspace, &locator.namespace, &awaited.uid);
        let record =
            Record { target, state: State::Refused, message, since: awaited.since, ..Record::default() };
        syncer.reports.report(key(&locator.workspace, &locator.namespace), record);
    }
}

async fn delete_namespace(syncer: &Syncer, locator: &Locator, name: &str) -> Result<DeletionOutcome, Status> {
    let (workspace, namespace) = (&locator.workspace, &locator.namespace);
    let is_still = || {
        syncer.namespaces.is_terminating_above(locator)
            && syncer.pauses.reason_for(workspace).is_none()
            && !syncer.table.has_namespace(workspace, namespace)
    };
    match delete_if_empty(&syncer.with_permit, locator, name, is_still).await {
        Ok(NamespaceDeletion::Gone) => {
            syncer.namespaces.forget(locator);
            Ok(DeletionOutcome::Gone)
        }
        Ok(NamespaceDeletion::NotManaged) => {
            syncer.namespaces.forget(locator);
            Ok(DeletionOutcome::Gone)
        }
        Ok(NamespaceDeletion::Superseded) => Ok(DeletionOutcome::Requeue(Next::Again)),
        Ok(NamespaceDeletion::OwnedOnly(_) | NamespaceDeletion::Unavailable(_))
            if syncer.namespaces.is_within_grace(locator) =>
        {
            Ok(DeletionOutcome::Requeue(Next::After(SHORT_PAUSE)))
        }
        // Resources that cannot be listed may exist; the namespace above waits until that is known.
        Ok(NamespaceDeletion::Forbidden(unlisted) | NamespaceDeletion::Unavailable(unlisted))
            if syncer.namespaces.is_awaited(locator) =>
        {
            report_unlisted(syncer, locator, name, &unlisted);
            let pause = if syncer.namespaces.is_within_grace(locator) { SHORT_PAUSE } else { RETRY_PAUSE };
            Ok(DeletionOutcome::Requeue(Next::After(syncer.settings.jitter(pause))))
        }
        Ok(
            NamespaceDeletion::NotEmpty(contents)
            | NamespaceDeletion::OwnedOnly(contents)
            | NamespaceDeletion::Forbidden(contents)
            | NamespaceDeletion::Unavailable(contents),
        ) => {
            syncer.log_kept(name, &contents);
            Ok(DeletionOutcome::Kept(syncer.kept_reason(name, &contents)))
        }
        Err(status) if status.code() == 429 => {
            let seconds = status.retry_after().unwrap_or(1).into();
            Ok(DeletionOutcome::Requeue(Next::After(Duration::from_secs(seconds))))
        }
        Err(status) if matches!(status.code(), 403 | 422) => {
            tracing::warn!(cluster = %syncer.settings.cluster, namespace = name, %status, "cannot delete the namespace");
            Ok(DeletionOutcome::Requeue(Next::After(syncer.settings.jitter(RETRY_PAUSE))))
        }
        // Write conflict: try again.
        Err(status) if status.code() == 409 => Ok(DeletionOutcome::Requeue(Next::Again)),
        Err(status) => Err(status),
    }
}
