//! Decides for each imported definition which ApiImport offers it, and which clusters are compatible with it.
//!
//! The first cluster that serves a definition offers it, narrowed to what all compatible clusters share, and
//! continues to do so while it serves it. A definition that no cluster serves any more stays as long as there are
//! objects. Definitions of one tenant are handled one at a time, and those of other tenants do not wait for them.

mod judging;
mod waiting;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_meta::{Status, object};
use atoll_store::Key;
use atoll_store::key::custom_group;
use atoll_watch::{Event, Scope};
use serde_json::Value;
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, interval_at};

use self::judging::{Digest, Import, Judged, digest, judge, shortened};
use self::waiting::Waiting;
use super::{RESOURCE, definition_of};
use crate::blocking::{run_blocking, size_of};
use crate::catalog::ATOLL;
use crate::definitions::{self, status};
use crate::modify::{Limits, Preconditions};
use crate::row::{ObjectRef, SharedRow};
use crate::{DeleteOptions, NoAdmission, Registry, parse};

/// Time between two checks whether definitions that no cluster serves have objects.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// Pause after a change, in which the other clusters may report theirs.
const PAUSE: Duration = Duration::from_millis(100);
/// Maximum number of objects that are compared with a narrower schema, and of their bytes. If there are more, nothing
/// is narrowed.
const MOST_OBJECTS: usize = 1_000;
const MOST_BYTES: usize = 16 << 20;

/// A definition that clusters of a workspace have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct ImportedName {
    /// The id of the workspace.
    workspace: String,
    /// The name of the definition.
    definition: String,
}

impl ImportedName {
    fn of(key: &Key) -> Option<ImportedName> {
        let parts = key.parts()?;
        let (definition, _) = parts.name.rsplit_once('.')?;
        Some(ImportedName { workspace: parts.workspace.to_string(), definition: definition.to_string() })
    }

    fn resource(&self) -> (&str, &str) {
        self.definition.split_once('.').unwrap_or_default()
    }
}

/// Offers definitions for as long as the server runs.
pub async fn run(registry: Arc<Registry>) {
    let everywhere = Scope::new(ATOLL, RESOURCE, None, None);
    let offering = Arc::new(Offering { registry: registry.clone(), checked: Mutex::default() });
    let (mut waiting, mut unserved) = (Waiting::default(), BTreeSet::new());
    let mut running = JoinSet::new();
    let mut started: HashMap<Id, ImportedName> = HashMap::new();
    let mut check = interval_at(Instant::now() + CHECK_INTERVAL, CHECK_INTERVAL);
    let tenant_of = |name: &ImportedName| registry.tenant_of(&name.workspace);
    loop {
        let snapshot = registry.snapshot();
        let Ok(mut watcher) = registry.cache.watch(everywhere.clone(), snapshot.revision) else { continue };
        let present = snapshot.list(&everywhere, None);
        let present = present.filter_map(|object| ImportedName::of(&object.key));
        present.for_each(|name| waiting.add(tenant_of(&name), name));
        drop(snapshot);
        loop {
            for name in waiting.start() {
                let (offering, own) = (offering.clone(), name.clone());
                let task = running.spawn(async move { offering.offer(&own).await });
                started.insert(task.id(), name);
            }
            tokio::select! {
                changed = watcher.next() => {
                    // An expired watch is started again from the current snapshot.
                    let Ok(changed) = changed else { break };
                    tokio::time::sleep(PAUSE).await;
                    let Ok(more) = watcher.ready() else { break };
                    let events = changed.into_iter().chain(more.into_iter().flatten());
                    let mut tenants = BTreeSet::new();
                    for name in events.filter_map(|event: Arc<Event>| ImportedName::of(&event.key)) {
                        tenants.insert(tenant_of(&name));
                        waiting.add(tenant_of(&name), name);
                    }
                    let again = unserved.iter().filter(|name| tenants.contains(&tenant_of(name)));
                    again.for_each(|name| waiting.add(tenant_of(name), name.clone()));
                }
                Some(done) = running.join_next_with_id() => {
                    let (id, offer) = match done {
                        Ok((id, offer)) => (id, offer),
                        Err(error) => (error.id(), Err(Status::internal_error(error.to_string()))),
                    };
                    let Some(name) = started.remove(&id) else { continue };
                    waiting.finish(&tenant_of(&name));
                    match offer {
                        Ok(Offer::Served) => drop(unserved.remove(&name)),
                        Ok(Offer::Unserved) => drop(unserved.insert(name)),
                        Err(status) => {
                            let definition = &name.definition;
                            tracing::warn!(%status, definition, "cannot offer an imported definition; retrying");
                            unserved.insert(name);
                        }
                    }
                }
                _ = check.tick() => {
                    let again = std::mem::take(&mut unserved);
                    again.into_iter().for_each(|name| waiting.add(tenant_of(&name), name));
                }
            }
        }
    }
}

enum Offer {
    Served,
    /// No cluster serves it.
    Unserved,
}

/// The result for the imports of a definition.
enum Outcome {
    Nothing,
    InUse,
    /// No cluster serves it, and there are no objects: the names of the ApiImports.
    Unneeded(Vec<String>),
    Judged(Vec<Judged>),
}

struct Offering {
    registry: Arc<Registry>,
    /// The last definition of each name that was checked, and what is wrong with it.
    checked: Mutex<HashMap<ImportedName, (Digest, Option<String>)>>,
}

impl Offering {
    async fn offer(&self, name: &ImportedName) -> Result<Offer, Status> {
        let registry = &self.registry;
        let Some(row) = registry.catalog.stored(ATOLL, RESOURCE).cloned() else { return Ok(Offer::Served) };
        let tenant = registry.tenant_of(&name.workspace);
        let judge = {
            let (registry, name) = (registry.clone(), name.clone());
            move || registry.judge_imports(&name)
        };
        let mut judged = match run_blocking(&tenant, judge).await?? {
            Outcome::Nothing => {
                self.checked().remove(name);
                return Ok(Offer::Served);
            }
            Outcome::InUse => return Ok(Offer::Unserved),
            Outcome::Unneeded(imports) => {
                for import in &imports {
                    let object_ref = ObjectRef { workspace: &name.workspace, namespace: "", name: import };
                    match registry.delete(&row, &object_ref, &DeleteOptions::default(), &NoAdmission).await {
                        Err(status) if status.code() != 404 => return Err(status),
                        _ => {}
                    }
                }
                return Ok(Offer::Served);
            }
            Outcome::Judged(judged) => judged.into_iter(),
        };
        // The one that offers comes first, so that the definition does not disappear when another one takes over.
        if let Some(first) = judged.next() {
            let first = self.check_offered(&row, name, first).await?;
            registry.write_judged(&row, name, first).await?;
        }
        for judged in judged {
            registry.write_judged(&row, name, judged).await?;
        }
        Ok(Offer::Served)
    }

    /// Withdraws a definition that the workspace itself could not have.
    async fn check_offered(
        &self,
        row: &SharedRow,
        name: &ImportedName,
        judged: Judged,
    ) -> Result<Judged, Status> {
        let registry = &self.registry;
        let Some(definitions) = registry.catalog.stored(definitions::GROUP, definitions::RESOURCE) else {
            return Ok(judged);
        };
        let read = move || {
            let mut import = judged.import.whole()?;
            judged.apply(&mut import, "");
            let definition = definition_of(&import);
            let approval = object::annotation(&definition, status::APPROVED).unwrap_or_default();
            let mut text = atoll_meta::json::to_vec(&definition["spec"]);
            text.extend_from_slice(approval.as_bytes());
            Ok::<_, Status>((judged, import, digest(&text), definition))
        };
        let (mut judged, import, own, definition) = registry.run_blocking(&name.workspace, read).await??;
        let known =
            self.checked().get(name).filter(|(known, _)| *known == own).map(|(_, error)| error.clone());
        let error = match known {
            Some(error) => error,
            None => {
                let size = size_of(&definition);
                let (_, errors) =
                    registry.validate_new(definitions, &name.workspace, definition, size).await?;
                let error = errors.first().map(|error| shortened(&error.to_string()));
                self.checked().insert(name.clone(), (own, error.clone()));
                error
            }
        };
        if let Some(error) = error {
            judged.offered = ["False".into(), "Invalid".into(), error];
            return Ok(judged);
        }
        let compiled = registry.compile_ahead(row, &name.workspace, &import).await;
        let object_ref = ObjectRef { workspace: &name.workspace, namespace: "", name: object::name(&import) };
        if let Some(compiled) = &compiled
            && let Err(status) = registry.usage.reserve_compiled(row, &object_ref, compiled)
        {
            judged.offered = ["False", "LimitExceeded", status.message()].map(shortened);
        }
        Ok(judged)
    }

    fn checked(&self) -> MutexGuard<'_, HashMap<ImportedName, (Digest, Option<String>)>> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registry {
    /// Judges the imports of a definition. It may be slow.
    fn judge_imports(&self, name: &ImportedName) -> Result<Outcome, Status> {
        let imports = self.imports_of(name)?;
        if imports.is_empty() {
            return Ok(Outcome::Nothing);
        }
        let objects = self.objects_of(name);
        if imports.iter().any(Import::is_candidate) {
            return Ok(Outcome::Judged(judge(imports, objects.as_deref())));
        }
        if objects.is_none_or(|objects| !objects.is_empty()) {
            return Ok(Outcome::InUse);
        }
        let unneeded = imports.iter().filter(|import| import.head["spec"]["served"] != true);
        Ok(Outcome::Unneeded(unneeded.map(|import| object::name(&import.head).to_string()).collect()))
    }

    /// The ApiImports of a definition in a workspace: first the one that is offered, then the oldest.
    fn imports_of(&self, name: &ImportedName) -> Result<Vec<Import>, Status> {
        let scope = Scope::new(ATOLL, RESOURCE, Some(&name.workspace), Some(""));
        let (snapshot, prefix) = (self.snapshot(), format!("{}.", name.definition));
        let within =
            snapshot.list(&scope, Some(&prefix)).take_while(|object| object.name().starts_with(&prefix));
        let own = within.filter(|object| ImportedName::of(&object.key).as_ref() == Some(name));
        let mut imports = own.map(Import::read).collect::<Result<Vec<Import>, Status>>()?;
        imports.sort_by_cached_key(|import| {
            let created = object::creation_timestamp(&import.head).unwrap_or_default().to_string();
            (!import.is_offered(), created, object::name(&import.head).to_string())
        });
        Ok(imports)
    }

    /// The objects of an imported definition in the workspaces that inherit it; `None` if there are very many.
    fn objects_of(&self, name: &ImportedName) -> Option<Vec<Value>> {
        let (plural, group) = name.resource();
        let scope = Scope::new(&custom_group(group), plural, None, None);
        let snapshot = self.snapshot();
        let (mut objects, mut bytes) = (Vec::new(), 0);
        for object in snapshot.list_borrowed(&scope, None) {
            let workspace = object.workspace();
            let key = Key::object(definitions::GROUP, definitions::RESOURCE, workspace, "", &name.definition);
            let inherits = snapshot.is_inherited(&key) && self.ancestry(workspace).contains(&name.workspace);
            if !inherits {
                continue;
            }
            bytes += object.size();
            if objects.len() == MOST_OBJECTS || bytes > MOST_BYTES {
                return None;
            }
            objects.extend(parse(&object.json()));
        }
        Some(objects)
    }

    async fn write_judged(
        self: &Arc<Self>,
        row: &SharedRow,
        name: &ImportedName,
        judged: Judged,
    ) -> Result<(), Status> {
        let now = self.now();
        if judged.is_written(&now) {
            return Ok(());
        }
        if judged.offered[0] == "True" {
            let mut wanted = judged.import.whole()?;
            judged.apply(&mut wanted, &now);
            // Compiled before it is encoded, on another thread.
            let _compiled = self.compile_ahead(row, &name.workspace, &wanted).await;
        }
        let head = &judged.import.head;
        let object_ref = ObjectRef { workspace: &name.workspace, namespace: "", name: object::name(head) };
        let revision = object::resource_version(head).to_string();
        let expected = Preconditions { resource_version: &revision, ..Preconditions::default() };
        let change = |import: &mut Value| {
            judged.apply(import, &now);
            Ok(())
        };
        match self.modify(row, &object_ref, expected, Limits::Count, false, &change).await {
            // It has changed since, which is handled next.
            Err(status) if !matches!(status.code(), 404 | 409) => Err(status),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
