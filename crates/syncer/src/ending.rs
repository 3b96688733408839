//! Namespaces above that are being deleted, when nothing of theirs is left: those that stand for them in the cluster go as well.

use std::sync::Arc;
use std::time::Duration;

use atoll_fleet::Locator;
use atoll_informer::{Key, Next};
use atoll_meta::Status;

use crate::core::Core;
use crate::retire::{Retired, retire};

/// How soon it is looked again whether what is left in one has gone.
pub const SOON: Duration = Duration::from_secs(2);
/// After the cluster has refused it.
const LATER: Duration = Duration::from_secs(60);

/// What a namespace itself is called in queues: no object has such a key.
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
    // While there is something of ours, its end comes first; whoever resumes wakes this up.
    if core.table.has_namespace(&key.workspace, &key.namespace) || core.pauses.of(&key.workspace).is_some() {
        return Ok(Next::Done);
    }
    match core.spaces.get(&locator).filter(|_| core.spaces.is_ending(&locator)) {
        Some(name) => go(core, &locator, &name).await,
        None => {
            core.spaces.unend(&key.workspace, &key.namespace);
            Ok(Next::Done)
        }
    }
}

async fn go(core: &Core, locator: &Locator, name: &str) -> Result<Next, Status> {
    let (workspace, namespace) = (&locator.workspace, &locator.namespace);
    let is_still = || {
        core.spaces.is_ending(locator)
            && core.pauses.of(workspace).is_none()
            && !core.table.has_namespace(workspace, namespace)
    };
    match retire(&core.in_turn, locator, name, is_still).await {
        Ok(Retired::Gone) => core.spaces.forget(locator),
        Ok(Retired::NotOurs) => {}
        Ok(Retired::NotNow) => return Ok(Next::Again),
        Ok(Retired::Passing(_)) if core.spaces.is_patient(locator) => return Ok(Next::After(SOON)),
        Ok(Retired::Kept(contents) | Retired::Passing(contents)) => core.tell_kept(name, &contents),
        Err(status) if status.code() == 429 => {
            return Ok(Next::After(Duration::from_secs(status.retry_after().unwrap_or(1).into())));
        }
        Err(status) if matches!(status.code(), 403 | 422) => {
            tracing::warn!(cluster = %core.settings.cluster, namespace = name, %status, "the namespace cannot be deleted");
            return Ok(Next::After(core.settings.about(LATER)));
        }
        // Changed since: it is looked at again.
        Err(status) if status.code() == 409 => return Ok(Next::Again),
        Err(status) => return Err(status),
    }
    core.spaces.unend(workspace, namespace);
    Ok(Next::Done)
}
