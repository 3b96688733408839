//! Decides for each imported definition which ApiImport offers it, and which clusters are compatible with it.
//!
//! The first cluster that serves a definition offers it, narrowed to what all compatible clusters share, and
//! continues to do so while it serves it. A definition that no cluster serves any more stays as long as there are
//! objects.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use atoll_meta::{Status, object};
use atoll_negotiation::{
    AllUsed, ClusterDefinition, ImportedDefinition, Objects, TimeLimit, Usage, Verdict, negotiate,
};
use atoll_store::Key;
use atoll_store::key::custom_group;
use atoll_watch::{Scope, Watcher};
use serde_json::{Value, json};

use super::{OFFERED, RESOURCE, definition_of};
use crate::blocking::{run_blocking, size_of};
use crate::catalog::ATOLL;
use crate::definitions::{self, conditions};
use crate::modify::{Limits, Preconditions, set_condition};
use crate::row::{ObjectRef, SharedRow};
use crate::{DeleteOptions, NoAdmission, Registry, parse};

/// Time between two checks whether definitions that no cluster serves have objects.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// Pause after a change, in which the other clusters may report theirs.
const PAUSE: Duration = Duration::from_millis(100);
/// Maximum number of objects that are compared with a narrower schema. If there are more, nothing is narrowed.
const MOST_OBJECTS: usize = 1_000;
/// Maximum time of the comparison with one cluster. A definition that takes longer is incompatible.
const LONGEST_COMPARISON: Duration = Duration::from_secs(5);
/// Longest message of a condition.
const LONGEST_MESSAGE: usize = 2_000;

const COMPATIBLE: &str = "Compatible";

/// A definition that clusters of a workspace have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    loop {
        let snapshot = registry.snapshot();
        let Ok(mut watcher) = registry.cache.watch(everywhere.clone(), snapshot.revision) else { continue };
        let present = snapshot.list(&everywhere, None);
        let mut names: BTreeSet<ImportedName> =
            present.filter_map(|object| ImportedName::of(&object.key)).collect();
        drop(snapshot);
        loop {
            let mut unserved = BTreeSet::new();
            for name in std::mem::take(&mut names) {
                match registry.offer(&name).await {
                    Ok(Offer::Served) => {}
                    Ok(Offer::Unserved) => drop(unserved.insert(name)),
                    Err(status) => {
                        tracing::warn!(%status, name = name.definition, "cannot offer an imported definition; retrying");
                        unserved.insert(name);
                    }
                }
            }
            match next_names(&mut watcher, unserved).await {
                Some(next) => names = next,
                // An expired watch is started again from the current snapshot.
                None => break,
            }
        }
    }
}

/// Waits for changed imports. After a while, the unserved ones are checked again.
async fn next_names(
    watcher: &mut Watcher,
    unserved: BTreeSet<ImportedName>,
) -> Option<BTreeSet<ImportedName>> {
    let names_of = |events: std::collections::VecDeque<Arc<atoll_watch::Event>>| {
        events.into_iter().filter_map(|event| ImportedName::of(&event.key)).collect::<Vec<_>>()
    };
    let changed = match unserved.is_empty() {
        true => watcher.next().await,
        false => match tokio::time::timeout(CHECK_INTERVAL, watcher.next()).await {
            Ok(changed) => changed,
            Err(_) => return Some(unserved),
        },
    };
    let mut names: BTreeSet<ImportedName> = names_of(changed.ok()?).into_iter().collect();
    tokio::time::sleep(PAUSE).await;
    while let Some(more) = watcher.ready().ok()? {
        names.extend(names_of(more));
    }
    names.extend(unserved);
    Some(names)
}

enum Offer {
    Served,
    /// No cluster serves it.
    Unserved,
}

/// The result for one ApiImport.
struct Judged {
    import: Value,
    offered: [String; 3],
    compatible: [String; 3],
    /// The definition that is offered, if it is not the cluster's own.
    definition: Option<Value>,
}

impl Registry {
    async fn offer(self: &Arc<Self>, name: &ImportedName) -> Result<Offer, Status> {
        let Some(row) = self.catalog.stored(ATOLL, RESOURCE).cloned() else { return Ok(Offer::Served) };
        let imports = self.imports_of(name)?;
        if imports.is_empty() {
            return Ok(Offer::Served);
        }
        let objects = self.objects_of(name);
        if !imports.iter().any(is_candidate) {
            if objects.as_ref().is_none_or(|objects| !objects.is_empty()) {
                return Ok(Offer::Unserved);
            }
            for import in imports.iter().filter(|import| import["spec"]["served"] != true) {
                let object_ref =
                    ObjectRef { workspace: &name.workspace, namespace: "", name: object::name(import) };
                match self.delete(&row, &object_ref, &DeleteOptions::default(), &NoAdmission).await {
                    Err(status) if status.code() != 404 => return Err(status),
                    _ => {}
                }
            }
            return Ok(Offer::Served);
        }
        let tenant = self.tenant_of(&name.workspace);
        let mut judged = run_blocking(&tenant, move || judge(imports, objects.as_deref())).await?;
        if let Some(first) = judged.first_mut() {
            self.check_offered(&row, name, first).await?;
        }
        // The one that offers comes first, so that the definition does not disappear when another one takes over.
        for judged in judged {
            self.write_judged(&row, name, &judged).await?;
        }
        Ok(Offer::Served)
    }

    /// The ApiImports of a definition in a workspace: first the one that is offered, then the oldest.
    fn imports_of(&self, name: &ImportedName) -> Result<Vec<Value>, Status> {
        let scope = Scope::new(ATOLL, RESOURCE, Some(&name.workspace), Some(""));
        let (snapshot, prefix) = (self.snapshot(), format!("{}.", name.definition));
        let within =
            snapshot.list(&scope, Some(&prefix)).take_while(|object| object.name().starts_with(&prefix));
        let own = within.filter(|object| ImportedName::of(&object.key).as_ref() == Some(name));
        let mut imports = own.map(|object| parse(&object.json())).collect::<Result<Vec<Value>, Status>>()?;
        imports.sort_by_cached_key(|import| {
            let created = object::creation_timestamp(import).unwrap_or_default().to_string();
            (!conditions::is_true(import, OFFERED), created, object::name(import).to_string())
        });
        Ok(imports)
    }

    /// The objects of an imported definition in the workspaces that inherit it; `None` if there are very many.
    fn objects_of(&self, name: &ImportedName) -> Option<Vec<Value>> {
        let (plural, group) = name.resource();
        let scope = Scope::new(&custom_group(group), plural, None, None);
        let snapshot = self.snapshot();
        let mut objects = Vec::new();
        for object in snapshot.list_borrowed(&scope, None) {
            let workspace = object.workspace();
            let key = Key::object(definitions::GROUP, definitions::RESOURCE, workspace, "", &name.definition);
            let inherits = snapshot.is_inherited(&key) && self.ancestry(workspace).contains(&name.workspace);
            if !inherits {
                continue;
            }
            if objects.len() == MOST_OBJECTS {
                return None;
            }
            objects.extend(parse(&object.json()));
        }
        Some(objects)
    }

    /// Withdraws a definition that the workspace itself could not have.
    async fn check_offered(
        &self,
        row: &SharedRow,
        name: &ImportedName,
        judged: &mut Judged,
    ) -> Result<(), Status> {
        let mut import = judged.import.clone();
        judged.apply(&mut import, "");
        let Some(definitions) = self.catalog.stored(definitions::GROUP, definitions::RESOURCE) else {
            return Ok(());
        };
        let definition = definition_of(&import);
        let size = size_of(&definition);
        let (_, errors) = self.validate_new(definitions, &name.workspace, definition, size).await?;
        if let Some(error) = errors.first() {
            judged.offered = ["False", "Invalid", &error.to_string()].map(shortened);
            return Ok(());
        }
        let compiled = self.compile_ahead(row, &name.workspace, &import).await;
        let object_ref = ObjectRef { workspace: &name.workspace, namespace: "", name: object::name(&import) };
        if let Some(compiled) = &compiled
            && let Err(status) = self.usage.reserve_compiled(row, &object_ref, compiled)
        {
            judged.offered = ["False", "LimitExceeded", status.message()].map(shortened);
        }
        Ok(())
    }

    async fn write_judged(
        &self,
        row: &SharedRow,
        name: &ImportedName,
        judged: &Judged,
    ) -> Result<(), Status> {
        let object_ref =
            ObjectRef { workspace: &name.workspace, namespace: "", name: object::name(&judged.import) };
        let now = self.now();
        let revision = object::resource_version(&judged.import).to_string();
        let expected = Preconditions { resource_version: &revision, ..Preconditions::default() };
        let mut wanted = judged.import.clone();
        judged.apply(&mut wanted, &now);
        if wanted == judged.import {
            return Ok(());
        }
        // Compiled before it is encoded, on another thread.
        let _compiled = self.compile_ahead(row, &name.workspace, &wanted).await;
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

impl Judged {
    /// Sets the status of the ApiImport.
    fn apply(&self, import: &mut Value, now: &str) {
        if !import["status"].is_object() {
            import["status"] = json!({});
        }
        for (kind, [status, reason, message]) in [(OFFERED, &self.offered), (COMPATIBLE, &self.compatible)] {
            let condition = json!({ "type": kind, "status": status, "reason": reason, "message": message });
            set_condition(import, condition, now);
        }
        match (&self.definition, import["status"].as_object_mut()) {
            (Some(definition), _) => import["status"]["definition"] = definition.clone(),
            (None, Some(status)) => drop(status.remove("definition")),
            (None, None) => {}
        }
    }
}

/// Whether the cluster of an ApiImport serves its definition.
fn is_candidate(import: &Value) -> bool {
    import["spec"]["served"] == true
        && import["spec"]["definition"].is_object()
        && !object::is_being_deleted(import)
}

/// Judges the imports of a definition. The result begins with the one that offers it. `objects` are those that exist,
/// `None` if there are very many.
fn judge(imports: Vec<Value>, objects: Option<&[Value]>) -> Vec<Judged> {
    let read = |spec: &Value| ImportedDefinition::from_definition(&json!({ "spec": spec })).ok();
    let offering = imports.iter().find(|import| conditions::is_true(import, OFFERED));
    let former = offering.and_then(|import| read(&definition_of(import)["spec"]));
    let (candidates, others): (Vec<Value>, Vec<Value>) = imports.into_iter().partition(is_candidate);
    // Clusters with the same definition are judged together.
    let mut distinct: Vec<&Value> = Vec::new();
    for candidate in &candidates {
        let definition = &candidate["spec"]["definition"];
        if !distinct.contains(&definition) {
            distinct.push(definition);
        }
    }
    let parsed: Vec<Option<ImportedDefinition>> =
        distinct.iter().map(|definition| read(definition)).collect();
    let clusters: Vec<ClusterDefinition<'_>> = parsed
        .iter()
        .map(|definition| ClusterDefinition { cluster: "", definition: definition.as_ref() })
        .collect();
    let usage: &dyn Usage = match &objects {
        Some(objects) => &Objects(objects),
        None => &AllUsed,
    };
    let began = Instant::now();
    let time = TimeLimit { now: &|| began.elapsed(), limit: LONGEST_COMPARISON };
    let negotiated = negotiate(former.as_ref(), &clusters, usage, &time);
    let offered = negotiated.offered.map(|offered| offered.to_definition()["spec"].take());
    let first = candidates.first().map(|first| name_of_cluster(first).to_string()).unwrap_or_default();
    let distinct: Vec<Value> = distinct.into_iter().cloned().collect();
    let mut judged: Vec<Judged> = Vec::new();
    for import in candidates {
        let at = distinct.iter().position(|definition| *definition == import["spec"]["definition"]);
        let verdict = at.and_then(|at| negotiated.verdicts.get(at)).unwrap_or(&Verdict::NotServed);
        let is_first = judged.is_empty();
        let definition =
            offered.clone().filter(|offered| is_first && *offered != import["spec"]["definition"]);
        let offered = match is_first {
            true => ["True", "Offered", ""].map(String::from),
            false => other_cluster(&first),
        };
        let compatible = compatible(verdict, name_of_cluster(&import));
        judged.push(Judged { import, offered, compatible, definition });
    }
    judged.extend(others.into_iter().map(|import| {
        let why = import["spec"]["problem"].as_str().unwrap_or("the cluster does not serve it any more");
        let compatible = ["False", "NotServed", why].map(shortened);
        Judged { import, offered: other_cluster(&first), compatible, definition: None }
    }));
    judged
}

fn name_of_cluster(import: &Value) -> &str {
    import["spec"]["cluster"].as_str().unwrap_or_default()
}

fn other_cluster(first: &str) -> [String; 3] {
    ["False".into(), "OtherCluster".into(), format!("the definition of cluster {first} is offered")]
}

fn compatible(verdict: &Verdict, cluster: &str) -> [String; 3] {
    let (status, reason, message) = match verdict {
        Verdict::Compatible { remarks, .. } => ("True", "Compatible", remarks.describe(cluster).join("; ")),
        Verdict::Incompatible(fields) => ("False", "Incompatible", fields.describe(cluster).join("; ")),
        Verdict::OtherVersion { versions } => {
            let message = format!("cluster {cluster} serves only other versions: {}", versions.join(", "));
            ("False", "OtherVersion", message)
        }
        Verdict::NotServed => ("False", "NotServed", format!("cluster {cluster} does not serve it")),
    };
    [status, reason, &message].map(shortened)
}

fn shortened(text: &str) -> String {
    atoll_meta::text::clean(text, LONGEST_MESSAGE)
}

#[cfg(test)]
mod tests;
