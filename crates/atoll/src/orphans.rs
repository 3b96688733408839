//! `atoll orphans`: marked objects in clusters without an object above.
//!
//! Atoll never deletes orphans by itself: after an old backup was restored, for example, objects created
//! since then still run in the clusters. This command shows them, and a person decides.

use std::collections::HashSet;

use atoll_fleet::{Locator, api_access, definitions, marks};
use atoll_informer::{Clock, SystemClock};
use atoll_meta::{object, time};
use serde_json::{Value, json};

use crate::advice::{Failure, invocation, pluralize};
use crate::cluster::connection::ClusterConnection;
use crate::cluster::control_plane_connection::ControlPlaneConnection;
use crate::cluster::marked_objects::{self, MarkedObject, is_namespaces};
use crate::cluster::object_release;
use crate::cluster::placed_objects::{self, WorkspacePaths};
use crate::cluster::{cluster_names, confirmation};
use crate::command::{Connection, OrphansCommand};
use crate::output::errln;
use crate::output::{self, OutputFormat, OutputOptions};
use crate::process;
use crate::style::Paint;

pub fn run(command: OrphansCommand) -> Result<(), String> {
    process::run_command(async {
        let outcome = match command {
            OrphansCommand::List { cluster, shown, connection } => {
                list(cluster.as_deref(), shown, &connection).await
            }
            OrphansCommand::Prune { cluster, yes, connection } => {
                prune(cluster.as_deref(), yes, &connection).await
            }
        };
        outcome.map_err(String::from)
    })
}

/// The reason why an object is an orphan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OrphanReason {
    /// The object above does not exist.
    Gone,
    /// The object above exists, but is not placed on that cluster.
    NotPlaced,
}

impl OrphanReason {
    fn text(self) -> &'static str {
        match self {
            OrphanReason::Gone => "no longer exists here",
            OrphanReason::NotPlaced => "exists here, but is not placed there",
        }
    }
}

struct Orphan {
    marked: MarkedObject,
    why: OrphanReason,
}

impl Orphan {
    /// The released objects that refer to it, if any: then it is released instead of deleted.
    fn keep_annotation(&self) -> Option<&str> {
        object::annotation(&self.marked.found, marks::KEEP)
    }

    fn is_definition(&self) -> bool {
        definitions::is_definition(&self.marked.resource.group, &self.marked.resource.name)
    }

    /// The reason why pruning only removes the marks, if it does.
    fn keep_reason(&self) -> Option<String> {
        if self.is_definition() {
            return Some("other users may have objects of its type".into());
        }
        self.keep_annotation().map(|keep| format!("{keep} refers to it"))
    }

    /// The reasons why it is an orphan and why it would not be deleted.
    fn why(&self) -> String {
        match self.keep_reason() {
            Some(why) => format!("{}; kept there, because {why}", self.why.text()),
            None => self.why.text().to_string(),
        }
    }

    fn shown(&self) -> String {
        crate::adopt::shown(&self.marked.resource.kind, &self.marked.found)
    }
}

/// The clusters to search.
async fn cluster_names_to_search(
    cluster: Option<&str>,
    connection: &Connection,
) -> Result<Vec<String>, Failure> {
    let fleet = ControlPlaneConnection::open(connection)?;
    match cluster {
        Some(name) => Ok(vec![name.to_string()]),
        None => Ok(cluster_names(&fleet.session, &fleet.session.current).await?),
    }
}

/// Finds the orphans of each cluster. A cluster that cannot be searched is skipped with a warning, unless it
/// was named.
async fn find_all(
    cluster: Option<&str>,
    connection: &Connection,
) -> Result<Vec<(ClusterConnection, Vec<Orphan>)>, Failure> {
    let mut all = Vec::new();
    for name in cluster_names_to_search(cluster, connection).await? {
        let found = async {
            let connection = ClusterConnection::open(connection, &name).await?;
            let orphans = find(&connection).await?;
            Ok::<_, Failure>((connection, orphans))
        };
        match found.await {
            Ok(found) => all.push(found),
            Err(failure) if cluster.is_none() => errln!("skipping {name}: {failure}"),
            Err(failure) => return Err(failure),
        }
    }
    Ok(all)
}

async fn find(connection: &ClusterConnection) -> Result<Vec<Orphan>, Failure> {
    let placed = placed_objects::read(&connection.registering_workspace, &connection.name).await?;
    let known: HashSet<&str> =
        placed.assigned.iter().chain(&placed.leaving).map(|target| target.uid.as_str()).collect();
    let paths = WorkspacePaths::read(
        &connection.registering_workspace.session,
        connection.registering_workspace.workspace_id().await?,
    )
    .await?;
    let mut orphans = Vec::new();
    for marked in marked_objects::find(&connection.below, &connection.control_plane, "").await? {
        // A released object is not an orphan, even if the release was interrupted.
        if object::annotation(&marked.found, marks::RELEASED).is_some() {
            continue;
        }
        let why = match is_namespaces(&marked.resource) {
            true => namespace_reason(connection, &paths, &marked.found).await?,
            // Generated for the cluster, and renewed as long as a workload there needs it.
            false if api_access::is_access_secret(&marked.found) => {
                has_expired(&marked.found, now()).then_some(OrphanReason::Gone)
            }
            false if known.contains(marked.target().uid.as_str()) => None,
            false => object_reason(connection, &paths, &marked).await?,
        };
        if let Some(why) = why {
            orphans.push(Orphan { marked, why });
        }
    }
    Ok(orphans)
}

/// Whether the token in a Secret has expired.
fn has_expired(found: &Value, now: i64) -> bool {
    let expires = object::annotation(found, marks::EXPIRES).and_then(|text| time::parse(text).ok());
    expires.is_none_or(|expires| expires.seconds <= now)
}

async fn object_reason(
    connection: &ClusterConnection,
    paths: &WorkspacePaths,
    marked: &MarkedObject,
) -> Result<Option<OrphanReason>, Failure> {
    let target = marked.target();
    let Some(path) = paths.object(&target) else { return Ok(Some(OrphanReason::Gone)) };
    let found = connection.registering_workspace.api.find_anywhere(&path).await?;
    // A definition that the workspace had changed has the uid of the imported one that it has now.
    let is_own = |found: &Value| object::annotation(found, marks::IMPORTED_FROM).is_none();
    let is_it = |found: &Value| object::uid(found) == target.uid && is_own(found);
    Ok(Some(if found.as_ref().is_some_and(is_it) { OrphanReason::NotPlaced } else { OrphanReason::Gone }))
}

/// A namespace is an orphan if the namespace in its locator does not exist.
async fn namespace_reason(
    connection: &ClusterConnection,
    paths: &WorkspacePaths,
    found: &Value,
) -> Result<Option<OrphanReason>, Failure> {
    let Some(Ok(locator)) = Locator::of(found) else { return Ok(None) };
    let Some(workspace) = paths.workspace(&locator.workspace) else { return Ok(Some(OrphanReason::Gone)) };
    let path = crate::cluster::in_workspace(
        workspace,
        &format!("/api/v1/namespaces/{}", crate::workspace::session::encoded(&locator.namespace)),
    );
    let above = connection.registering_workspace.api.find_anywhere(&path).await?;
    Ok(above.is_none().then_some(OrphanReason::Gone))
}

/// Says how many orphans the clusters that can be searched have.
pub async fn count(connection: &Connection) -> Result<String, Failure> {
    let all = find_all(None, connection).await?;
    let counts: Vec<(&str, usize)> =
        all.iter().map(|(connection, orphans)| (connection.name.as_str(), orphans.len())).collect();
    Ok(counted(&counts))
}

fn counted(counts: &[(&str, usize)]) -> String {
    let total: usize = counts.iter().map(|(_, count)| count).sum();
    let found = counts.iter().filter(|(_, count)| *count > 0);
    let parts: Vec<String> = found.map(|(name, count)| format!("{count} on {name}")).collect();
    let searched = pluralize(u64::try_from(counts.len()).unwrap_or(u64::MAX), "cluster");
    match total {
        0 => format!("Found no orphans in {searched}."),
        _ => {
            let orphans = pluralize(u64::try_from(total).unwrap_or(u64::MAX), "orphan");
            format!("Found {orphans} in {searched}: {}.", parts.join(", "))
        }
    }
}

async fn list(cluster: Option<&str>, shown: OutputOptions, connection: &Connection) -> Result<(), Failure> {
    let all = find_all(cluster, connection).await?;
    let rows: Vec<(&ClusterConnection, &Orphan)> = all
        .iter()
        .flat_map(|(connection, orphans)| orphans.iter().map(move |orphan| (connection, orphan)))
        .collect();
    match shown.output {
        Some(OutputFormat::Json | OutputFormat::Yaml) => {
            let items: Vec<Value> =
                rows.iter().map(|(connection, orphan)| document(connection, orphan)).collect();
            let list = json!({ "items": items });
            let text = match shown.output {
                Some(OutputFormat::Yaml) => output::yaml(&list)?,
                _ => output::json(&list),
            };
            output::print(&text);
        }
        Some(OutputFormat::Name) => {
            let name = |(_, orphan): &(&ClusterConnection, &Orphan)| {
                let resource = orphan.marked.resource.qualified();
                format!("{resource}/{}\n", object::name(&orphan.marked.found))
            };
            output::print(&rows.iter().map(name).collect::<String>());
        }
        _ if all.is_empty() => output::print("No cluster was searched.\n"),
        _ if rows.is_empty() => output::print("No orphans: all marked objects exist here.\n"),
        wide => {
            let headers = ["CLUSTER", "KIND", "NAMESPACE", "NAME", "AGE", "WHY", "WORKSPACE", "UID"];
            let width = if wide == Some(OutputFormat::Wide) { headers.len() } else { 6 };
            let headers: Vec<String> = headers[..width].iter().map(|header| (*header).to_string()).collect();
            let now = now();
            let rows: Vec<Vec<String>> = rows
                .iter()
                .map(|(connection, orphan)| cells(&connection.name, orphan, now)[..width].to_vec())
                .collect();
            output::print(&output::table(&headers, &rows, Paint::stdout()));
        }
    }
    Ok(())
}

fn cells(cluster: &str, orphan: &Orphan, now: i64) -> Vec<String> {
    let (found, target) = (&orphan.marked.found, orphan.marked.target());
    vec![
        cluster.to_string(),
        orphan.marked.resource.kind.clone(),
        object::namespace(found).to_string(),
        object::name(found).to_string(),
        age(found, now),
        orphan.why(),
        target.workspace,
        target.uid,
    ]
}

fn document(connection: &ClusterConnection, orphan: &Orphan) -> Value {
    let (found, target) = (&orphan.marked.found, orphan.marked.target());
    json!({
        "cluster": connection.name, "apiVersion": orphan.marked.resource.api_version(),
        "kind": orphan.marked.resource.kind, "namespace": object::namespace(found), "name": object::name(found),
        "created": found["metadata"]["creationTimestamp"], "why": orphan.why(),
        "workspace": target.workspace, "uid": target.uid,
    })
}

pub fn now() -> i64 {
    SystemClock.seconds()
}

fn age(found: &Value, now: i64) -> String {
    let created = found["metadata"]["creationTimestamp"].as_str().and_then(|text| time::parse(text).ok());
    created.map_or_else(|| "<unknown>".to_string(), |created| time::human_duration(now - created.seconds))
}

async fn prune(cluster: Option<&str>, yes: bool, connection: &Connection) -> Result<(), Failure> {
    let all = find_all(cluster, connection).await?;
    let is_gone = |orphan: &&Orphan| orphan.why == OrphanReason::Gone;
    let mut text = String::new();
    for (connection, orphans) in &all {
        if orphans.iter().any(|orphan| is_gone(&orphan)) {
            connection.check_not_paused().await?;
        }
        for orphan in orphans.iter().filter(is_gone) {
            let age = age(&orphan.marked.found, now());
            let kept = orphan.keep_reason().map(|why| format!("; it is only released, because {why}"));
            let kept = kept.unwrap_or_default();
            text.push_str(&format!("  {}: {} ({age} old){kept}\n", connection.name, orphan.shown()));
        }
    }
    if all.iter().any(|(_, orphans)| orphans.iter().any(|orphan| orphan.why == OrphanReason::NotPlaced)) {
        errln!(
            "Objects that exist here but are not placed there are kept: place them there, or release them with: {} release",
            invocation()
        );
    }
    if text.is_empty() {
        let searched: Vec<&str> = all.iter().map(|(connection, _)| connection.name.as_str()).collect();
        output::print(&nothing_to_delete(&searched));
        return Ok(());
    }
    let what = format!(
        "These objects are deleted in their clusters, with all of their contents:\n{}",
        text.trim_end()
    );
    confirmation::confirm(&what, "Delete them?", yes)?;
    let (mut deleted, mut released, mut left) = (0, 0, Vec::new());
    for (connection, orphans) in &all {
        // Delete namespaces last, when they may be empty.
        let (namespaces, objects): (Vec<&Orphan>, Vec<&Orphan>) =
            orphans.iter().filter(is_gone).partition(|orphan| is_namespaces(&orphan.marked.resource));
        for orphan in objects.into_iter().chain(namespaces) {
            if orphan.keep_reason().is_some() {
                let path = orphan.marked.path();
                object_release::remove_marks(&connection.below, &path, object::uid(&orphan.marked.found))
                    .await?;
                released += 1;
                if orphan.is_definition() {
                    let name = object::name(&orphan.marked.found);
                    errln!("{}", definitions::stays(&connection.name, name));
                }
                continue;
            }
            match delete(connection, orphan).await? {
                None => deleted += 1,
                Some(why) => left.push(format!("{}: {} stays: {why}", connection.name, orphan.shown())),
            }
        }
    }
    output::print(&format!("Deleted: {deleted}.\n"));
    if released > 0 {
        output::print(&format!("Released: {released}.\n"));
    }
    match left.is_empty() {
        true => Ok(()),
        false => {
            Err(Failure::new(left.join("\n"), format!("list the rest with: {} orphans list", invocation())))
        }
    }
}

/// A cluster that could not be searched may have orphans.
fn nothing_to_delete(searched: &[&str]) -> String {
    match searched {
        [] => "No cluster was searched, so nothing was deleted.\n".to_string(),
        _ => format!("There is nothing to delete in: {}.\n", searched.join(", ")),
    }
}

/// Deletes an orphan if it is unchanged. Returns the reason if it stays.
async fn delete(connection: &ClusterConnection, orphan: &Orphan) -> Result<Option<String>, Failure> {
    let found = &orphan.marked.found;
    if orphan.is_definition() {
        return Ok(Some("Atoll never deletes CustomResourceDefinitions in a cluster".into()));
    }
    if is_namespaces(&orphan.marked.resource) {
        let held = contents(connection, object::name(found)).await?;
        if !held.is_empty() {
            return Ok(Some(format!("it is not empty: {held}")));
        }
    }
    let this = json!({ "uid": object::uid(found), "resourceVersion": object::resource_version(found) });
    match connection.below.delete_this(&orphan.marked.path(), this).await {
        Ok(()) => Ok(None),
        Err(problem) if problem.is("Conflict") => Ok(Some("it was changed at the same time".into())),
        Err(problem) => Ok(Some(Failure::from(problem).message)),
    }
}

/// The objects in a namespace of a cluster, except those that every namespace has.
async fn contents(connection: &ClusterConnection, namespace: &str) -> Result<String, Failure> {
    let contents = crate::cluster::contents::find(&connection.below, namespace).await?;
    Ok(contents.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_with_expired_tokens_are_orphans() {
        let secret =
            |expires: &str| json!({ "metadata": { "annotations": { "atoll.dev/expires": expires } } });
        for (found, expected) in [
            (secret("1970-01-01T00:01:40Z"), true),
            (secret("1970-01-01T00:01:41Z"), false),
            (secret("x"), true),
            (json!({}), true),
        ] {
            assert_eq!(has_expired(&found, 100), expected, "{found}");
        }
    }

    #[test]
    fn rows_have_kind_name_age_and_reason() {
        let resource =
            crate::place::resources::ApiResource { kind: "ConfigMap".into(), ..Default::default() };
        let found = json!({ "metadata": {
            "name": "a", "namespace": "shop", "creationTimestamp": "2026-11-16T04:00:00Z",
            "annotations": { "atoll.dev/uid": "u", "atoll.dev/workspace": "w", "atoll.dev/source": "shop/a" },
        } });
        let orphan = Orphan { marked: MarkedObject { resource, found }, why: OrphanReason::Gone };
        let now = time::parse("2026-11-16T05:00:00Z").unwrap().seconds;
        assert_eq!(
            cells("east", &orphan, now),
            ["east", "ConfigMap", "shop", "a", "60m", "no longer exists here", "w", "u"]
        );
        assert_eq!(orphan.shown(), "ConfigMap shop/a");
    }

    #[test]
    fn orphans_are_counted_by_cluster() {
        assert_eq!(counted(&[("east", 0)]), "Found no orphans in 1 cluster.");
        assert_eq!(
            counted(&[("east", 2), ("west", 0), ("north", 1)]),
            "Found 3 orphans in 3 clusters: 2 on east, 1 on north."
        );
    }
}
