//! A restored server is paused: an old placement may differ from what runs in clusters by now.

use atoll_fleet::marks::SYSTEM_NAMESPACE;
use atoll_fleet::pause::{self, Pause};
use atoll_meta::Status;
use atoll_registry::bootstrap::ROOT;
use atoll_registry::catalog::ATOLL;
use atoll_registry::{NoAdmission, ObjectRef};
use atoll_store::Key;
use serde_json::{Value, json};

use super::SnapshotFile;
use crate::Server;

const REASON: &str = "a snapshot was restored, and what runs in clusters may differ from it";

/// The number of objects of a resource of Atoll in a snapshot.
pub fn count(copy: &SnapshotFile, resource: &str) -> usize {
    let is_it =
        |key: &&Key| key.parts().is_some_and(|parts| (parts.group, parts.resource) == (ATOLL, resource));
    copy.entries.keys().filter(is_it).count()
}

/// Keys of the objects that pause the server.
pub fn keys() -> [Key; 2] {
    [
        Key::object("", "namespaces", ROOT, "", SYSTEM_NAMESPACE),
        Key::object("", "configmaps", ROOT, SYSTEM_NAMESPACE, pause::NAME),
    ]
}

/// Pauses all workspaces.
pub async fn pause(server: &Server) -> Result<(), Status> {
    let since = server.registry.clock.now().to_time();
    let pause = Pause { by: "atoll snapshot restore".into(), reason: REASON.into(), since };
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": SYSTEM_NAMESPACE } });
    create(server, "namespaces", ("", SYSTEM_NAMESPACE), namespace).await?;
    create(server, "configmaps", (SYSTEM_NAMESPACE, pause::NAME), pause.config_map()).await
}

/// Creates an object in the root workspace unless it exists.
async fn create(
    server: &Server,
    resource: &str,
    (namespace, name): (&str, &str),
    object: Value,
) -> Result<(), Status> {
    let registry = &server.registry;
    let row = registry.catalog.find("", "v1", resource).cloned().ok_or_else(Status::not_found_generic)?;
    let object_ref = ObjectRef { workspace: ROOT, namespace, name };
    if registry.get(&row, &object_ref).is_ok() {
        return Ok(());
    }
    match registry.create(&row, &object_ref, object, None, false, &NoAdmission).await {
        Err(status) if status.reason() != "AlreadyExists" => Err(status),
        _ => Ok(()),
    }
}
