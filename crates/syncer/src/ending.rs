//! Work on namespaces: sets the Pod Security labels of managed namespaces, and deletes a namespace below when
//! the one above is being deleted and nothing managed is left in it.

use std::sync::Arc;
use std::time::Duration;

use atoll_fleet::Locator;
use atoll_fleet::view::{RETAINED, Record, State, Target};
use atoll_informer::{Key, Next};
use atoll_meta::Status;

use crate::core::Core;
use crate::retire::{Retired, retire};

/// Pause before a namespace with remaining content is checked again.
pub const SOON: Duration = Duration::from_secs(2);
/// Pause after the cluster has refused the deletion.
const LATER: Duration = Duration::from_secs(60);

/// Returns the queue key of a namespace; objects have a non-empty name.
pub fn key(workspace: &str, namespace: &str) -> Key {
    Key::new(workspace, namespace, "")
}

pub fn is_key(key: &Key) -> bool {
    key.name.is_empty()
}

pub async fn work(core: &Arc<Core>, key: &Key) -> Result<Next, Status> {
    let Some(turn) = core.turn(None).await else { return Ok(Next::Done) };
    turn.take(in_turn(core, key)).await
}

async fn in_turn(core: &Core, key: &Key) -> Result<Next, Status> {
    let Some(master) = core.control_plane() else { return Ok(Next::Done) };
    let locator = Locator {
        control_plane: master.control_plane.clone(),
        workspace: key.workspace.to_string(),
        namespace: key.namespace.to_string(),
    };
    match core.spaces.label(&core.in_turn, &locator).await {
        Ok(()) => {}
        // Write conflict: try again.
        Err(status) if status.code() == 409 => return Ok(Next::Again),
        Err(status) if matches!(status.code(), 403 | 422) => {
            tracing::warn!(
                cluster = %core.settings.cluster, namespace = %locator.namespace, workspace = %locator.workspace, %status,
                "cannot write the Pod Security labels of a namespace"
            );
        }
        Err(status) => return Err(status),
    }
    // Managed objects are removed first. Resuming adds this key again.
    if core.table.has_namespace(&key.workspace, &key.namespace) || core.pauses.of(&key.workspace).is_some() {
        return Ok(Next::Done);
    }
    if !core.spaces.is_ending(&locator) {
        return Ok(Next::Done);
    }
    let names = match core.spaces.get(&locator) {
        Some(name) => vec![name],
        // A syncer that crashed may have created it without recording it.
        None if core.spaces.is_held(&locator) => candidates(core, &locator).await?,
        None => Vec::new(),
    };
    let mut kept = Vec::new();
    for name in names {
        match go(core, &locator, &name).await? {
            Went::Wait(next) => return Ok(next),
            Went::Stays(why) => kept.push(why),
            Went::Gone => {}
        }
    }
    if let Some(held) = core.spaces.ended(&locator) {
        let target = Target::namespace(&locator.workspace, &locator.namespace, &held.uid);
        let message = if kept.is_empty() { String::new() } else { format!("{RETAINED}{}", kept.join("; ")) };
        let record = Record { target, state: State::Gone, message, since: held.since, ..Record::default() };
        core.reports.tell(key.clone(), record);
    }
    Ok(Next::Done)
}

/// Returns the possible names of a namespace in the cluster.
async fn candidates(core: &Core, locator: &Locator) -> Result<Vec<String>, Status> {
    let mut names = vec![locator.below(true), locator.below(false)];
    names.extend(core.spaces.seek(&core.in_turn, locator).await?);
    names.dedup();
    Ok(names)
}

/// Outcome of the deletion of a namespace below.
enum Went {
    /// It does not exist, is terminating, or is not managed.
    Gone,
    /// It is not empty; the reason.
    Stays(String),
    Wait(Next),
}

/// Reports, once per reason, why the namespace above still waits for this cluster.
fn tell_unseen(core: &Core, locator: &Locator, name: &str, unseen: &[String]) {
    let cluster = &core.settings.cluster;
    let message = format!(
        "namespace {name} in cluster {cluster} is not deleted, because the syncer cannot check whether it is empty: {}; if it may \
         not list them, join the cluster again, which grants the permission: atoll cluster join {cluster} --kubeconfig FILE; or \
         delete the namespace in the cluster: kubectl delete namespace {name}",
        unseen.join(", ")
    );
    if let Some(held) = core.spaces.is_news(locator, &message) {
        tracing::warn!(%cluster, namespace = name, "{message}");
        let target = Target::namespace(&locator.workspace, &locator.namespace, &held.uid);
        let record =
            Record { target, state: State::Refused, message, since: held.since, ..Record::default() };
        core.reports.tell(key(&locator.workspace, &locator.namespace), record);
    }
}

async fn go(core: &Core, locator: &Locator, name: &str) -> Result<Went, Status> {
    let (workspace, namespace) = (&locator.workspace, &locator.namespace);
    let is_still = || {
        core.spaces.is_ending(locator)
            && core.pauses.of(workspace).is_none()
            && !core.table.has_namespace(workspace, namespace)
    };
    match retire(&core.in_turn, locator, name, is_still).await {
        Ok(Retired::Gone) => {
            core.spaces.forget(locator);
            Ok(Went::Gone)
        }
        Ok(Retired::NotOurs) => {
            core.spaces.forget(locator);
            Ok(Went::Gone)
        }
        Ok(Retired::NotNow) => Ok(Went::Wait(Next::Again)),
        Ok(Retired::Passing(_) | Retired::Silent(_)) if core.spaces.is_patient(locator) => {
            Ok(Went::Wait(Next::After(SOON)))
        }
        // Resources that cannot be listed may exist; the namespace above waits until that is known.
        Ok(Retired::Unseen(unseen) | Retired::Silent(unseen)) if core.spaces.is_held(locator) => {
            tell_unseen(core, locator, name, &unseen);
            let pause = if core.spaces.is_patient(locator) { SOON } else { LATER };
            Ok(Went::Wait(Next::After(core.settings.about(pause))))
        }
        Ok(
            Retired::Kept(contents)
            | Retired::Passing(contents)
            | Retired::Unseen(contents)
            | Retired::Silent(contents),
        ) => {
            core.tell_kept(name, &contents);
            Ok(Went::Stays(core.why_kept(name, &contents)))
        }
        Err(status) if status.code() == 429 => {
            let seconds = status.retry_after().unwrap_or(1).into();
            Ok(Went::Wait(Next::After(Duration::from_secs(seconds))))
        }
        Err(status) if matches!(status.code(), 403 | 422) => {
            tracing::warn!(cluster = %core.settings.cluster, namespace = name, %status, "cannot delete the namespace");
            Ok(Went::Wait(Next::After(core.settings.about(LATER))))
        }
        // Write conflict: try again.
        Err(status) if status.code() == 409 => Ok(Went::Wait(Next::Again)),
        Err(status) => Err(status),
    }
}
