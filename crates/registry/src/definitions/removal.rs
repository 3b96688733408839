//! Background reconciliation of definitions: statuses that a crash left incomplete, released names, and the
//! deletion of terminating definitions after their objects.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/controller/finalizer/crd_finalizer.go

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use atoll_meta::{Status, object};
use atoll_store::Key;
use atoll_watch::{Object, Scope};

use super::{Definition, GROUP, RESOURCE, conditions};
use crate::strategy::api_extension::CLEANUP;
use crate::{DeleteOptions, NoAdmission, ObjectRef, Registry, WriteFailure, parse};

/// Maximum time between two checks whether all objects are gone.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Reconciles all definitions for as long as the server runs.
pub async fn run(registry: Arc<Registry>) {
    let everywhere = Scope::new(GROUP, RESOURCE, None, None);
    let terminating: Arc<TerminatingDefinitions> = Arc::default();
    loop {
        let snapshot = registry.snapshot();
        let Ok(mut watcher) = registry.cache.watch(everywhere.clone(), snapshot.revision) else { continue };
        let present: Vec<Arc<Object>> = snapshot.list(&everywhere, None).collect();
        drop(snapshot);
        for object in present {
            reconcile(&registry, &terminating, &object).await;
            let now = Definition::of(&object);
            registry.sync_api_services(object.workspace(), &BTreeSet::new(), now.as_deref()).await;
        }
        // An expired watch is started again from the current snapshot.
        while let Ok(events) = watcher.next().await {
            for event in events {
                let Some(parts) = event.key.parts() else { continue };
                // Objects of events are not compiled: the current one counts. A later change has an event.
                let current = registry.snapshot().get(&event.key);
                match &current {
                    Some(object) => reconcile(&registry, &terminating, object).await,
                    None => registry.update_definition_status(parts.workspace, parts.name).await,
                }
                let before = event.previous.as_deref().map(group_versions).unwrap_or_default();
                let now = current.as_deref().and_then(Definition::of);
                registry.sync_api_services(parts.workspace, &before, now.as_deref()).await;
            }
        }
    }
}

/// The group and the names of all versions of a definition, served or not.
fn group_versions(object: &Object) -> BTreeSet<(String, String)> {
    let definition = parse(&object.json()).unwrap_or_default();
    let spec = &definition["spec"];
    let group = spec["group"].as_str().unwrap_or_default();
    let names = spec["versions"].as_array().into_iter().flatten().filter_map(|own| own["name"].as_str());
    names.map(|name| (group.to_string(), name.to_string())).collect()
}

/// The definitions that are being deleted.
#[derive(Default)]
struct TerminatingDefinitions(Mutex<HashSet<Key>>);

impl TerminatingDefinitions {
    fn insert(&self, key: &Key) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone())
    }

    fn remove(&self, key: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

async fn reconcile(registry: &Arc<Registry>, terminating: &Arc<TerminatingDefinitions>, definition: &Object) {
    let Some(compiled) = Definition::of(definition) else { return };
    if compiled.is_terminating {
        if terminating.insert(&definition.key) {
            let (registry, terminating, key) =
                (registry.clone(), terminating.clone(), definition.key.clone());
            tokio::spawn(async move {
                while let Err(status) = registry.remove_definition(&key).await {
                    tracing::warn!(%status, key = &*key, "cannot delete a CustomResourceDefinition; retrying");
                    tokio::time::sleep(CHECK_INTERVAL).await;
                }
                terminating.remove(&key);
            });
        }
    } else if compiled.awaits_names || !compiled.is_established || compiled.is_size_outdated {
        registry.update_definition_status(definition.workspace(), definition.name()).await;
    }
}

impl Registry {
    /// Deletes all objects of a terminating definition, waits until they are gone, and removes the finalizer.
    async fn remove_definition(self: &Arc<Self>, key: &Key) -> Result<(), Status> {
        let condition =
            ["Terminating", "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress"];
        let Some(definition) = self.change_definition(key, condition, false).await? else { return Ok(()) };
        let workspace = key.parts().map(|parts| parts.workspace).unwrap_or_default();
        // Clients may write the status: a definition that is not established may have objects. If they
        // stayed, they would belong to a later definition of that name, or to a dialect.
        match &definition.stored {
            Some(row) => self.remove_objects(row, workspace).await?,
            None => self.remove_unserved(&definition, workspace).await?,
        }
        let last = match definition.is_established {
            true => ["Terminating", "False", "InstanceDeletionCompleted", "removed all instances"],
            false => ["Terminating", "False", "NeverEstablished", "resource was never established"],
        };
        self.change_definition(key, last, true).await.map(|_| ())
    }

    /// Removes the objects of a definition without a row: its names are reserved, or its status has no names.
    async fn remove_unserved(&self, definition: &Definition, workspace: &str) -> Result<(), Status> {
        for key in self.snapshot().stored_keys(&definition.scope(workspace)) {
            self.remove(key).await?;
        }
        Ok(())
    }

    async fn remove_objects(self: &Arc<Self>, row: &crate::Row, workspace: &str) -> Result<(), Status> {
        let scope = row.scope(Some(workspace), "");
        loop {
            let snapshot = self.snapshot();
            let objects: Vec<Arc<Object>> = snapshot.list(&scope, None).collect();
            if objects.is_empty() {
                return Ok(());
            }
            let mut held = false;
            for object in objects {
                let object_ref = ObjectRef { workspace, namespace: object.namespace(), name: object.name() };
                match self.delete(row, &object_ref, &DeleteOptions::default(), &NoAdmission).await {
                    Ok(crate::DeleteResult::Terminating(_)) => held = true,
                    Ok(_) => {}
                    Err(status) if status.reason() == "NotFound" => {}
                    Err(status) => return Err(status),
                }
            }
            // Wait for the controllers that own the finalizers.
            if held && let Ok(mut watcher) = self.cache.watch(scope.clone(), snapshot.revision) {
                let _ = tokio::time::timeout(CHECK_INTERVAL, watcher.next()).await;
            }
        }
    }

    /// Sets a condition of a terminating definition, and removes the finalizer with the last one. Returns the
    /// definition as it then is, if it still exists.
    async fn change_definition(
        &self,
        key: &Key,
        condition: [&str; 4],
        is_last: bool,
    ) -> Result<Option<Arc<Definition>>, Status> {
        loop {
            let snapshot = self.snapshot();
            let Some(existing) = snapshot.get(key) else { return Ok(None) };
            let old = parse(&existing.json())?;
            let cleans = object::finalizers(&old).any(|name| name == CLEANUP);
            if !object::is_being_deleted(&old) || !cleans {
                return Ok(None);
            }
            let mut new = old.clone();
            if !conditions::has(&new, condition) {
                conditions::set(&mut new, condition, &self.now());
            }
            if is_last {
                let kept: Vec<String> =
                    object::finalizers(&old).filter(|name| *name != CLEANUP).map(str::to_string).collect();
                object::set_finalizers(&mut new, &kept);
            }
            if new == old {
                return Ok(Definition::of(&existing));
            }
            match self.write_definition(&snapshot, key, &old, new).await {
                Ok(()) => return Ok(Definition::of(&existing)),
                Err(WriteFailure::Conflict) => {}
                Err(WriteFailure::Status(status)) => return Err(status),
            }
        }
    }
}
