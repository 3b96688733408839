//! Definitions of a cluster: the ApiImports in the workspace of its Cluster.
//!
//! ```text
//!   digests of all definitions ─► imports of definitions that are gone are marked ─► names of those that are missing
//!   complete definitions ───────► ApiImport with the definition, or with the reason why it is not imported
//! ```
//!
//! A report is about one cluster and changes its own ApiImports only. They count for the limits of the workspace.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use atoll_fleet::view::{DefinitionReport, ReportedDefinition};
use atoll_meta::{Status, names, object};
use atoll_registry::catalog::ATOLL;
use atoll_registry::imports::{self, RESOURCE};
use atoll_registry::{
    Admission, LimitsOnly, NoAdmission, ObjectRef, Registry, Row, Stage, Update, set_condition, size_of,
};
use atoll_watch::Scope;
use serde_json::{Value, json};

use super::records::write_status;
use super::report::row;
use crate::Server;

/// Most definitions of a cluster that are imported, and most complete definitions in one report.
const MOST_DEFINITIONS: usize = 1_000;
const MOST_COMPLETE: usize = 100;
/// Most definitions that are asked for at a time.
const MOST_WANTED: usize = 20;
const LONGEST_DIGEST: usize = 64;
const LONGEST_PROBLEM: usize = 1_000;
/// Longest name of an object.
const LONGEST_NAME: usize = 253;
const LONGEST_MESSAGE: usize = 2_000;
const CONDITION: &str = "ApisImported";
/// Seconds after which a cluster whose report is refused tries again.
const RETRY_AFTER: u32 = 1;

/// Refuses a report that is too large, or that has names that no definition can have.
pub fn check(report: &DefinitionReport) -> Result<(), Status> {
    let digests = report.digests.iter().flatten();
    if digests.clone().count() > MOST_DEFINITIONS || report.complete.len() > MOST_COMPLETE {
        return Err(Status::request_entity_too_large(format!(
            "the report has more than {MOST_DEFINITIONS} definitions or more than {MOST_COMPLETE} complete ones"
        )));
    }
    let is_name = |name: &str| name.contains('.') && names::dns1123_subdomain(name).is_empty();
    let is_digest =
        |digest: &str| digest.len() <= LONGEST_DIGEST && digest.bytes().all(|it| it.is_ascii_hexdigit());
    let mut complete = report.complete.iter();
    match digests.clone().all(|(name, digest)| is_name(name) && is_digest(digest))
        && complete.all(|one| is_name(object::name(&one.definition)) && is_digest(&one.digest))
    {
        true => Ok(()),
        false => Err(Status::bad_request("the report has a definition with an invalid name or digest")),
    }
}

/// The uids of clusters of which a report of definitions is processed. Each has one at a time.
#[derive(Default)]
pub struct OpenDefinitionReports(Arc<Mutex<HashSet<String>>>);

/// A report that counts until this is dropped.
pub struct OpenDefinitionReport {
    open: Arc<Mutex<HashSet<String>>>,
    uid: String,
}

impl OpenDefinitionReports {
    pub fn open(&self, cluster: &str, uid: &str) -> Result<OpenDefinitionReport, Status> {
        let is_new = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.to_string());
        match is_new {
            true => Ok(OpenDefinitionReport { open: self.0.clone(), uid: uid.to_string() }),
            false => {
                let message =
                    format!("another report of the definitions of cluster {cluster} is being processed");
                Err(Status::too_many_requests(message, RETRY_AFTER))
            }
        }
    }
}

impl Drop for OpenDefinitionReport {
    fn drop(&mut self) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.uid);
    }
}

/// A cluster that reports its definitions.
pub struct ImportingCluster<'a> {
    pub server: &'a Arc<Server>,
    pub workspace: &'a str,
    pub cluster: &'a str,
    /// The Cluster's UID.
    pub uid: &'a str,
}

/// The state of an ApiImport.
struct KnownImport {
    digest: String,
    is_served: bool,
    problem: Option<String>,
    /// Why objects of the workspace do not fit the definition, or why the workspace cannot have it.
    misfit: Option<String>,
}

/// The state of all definitions of a cluster.
struct ImportResult<'a> {
    known: &'a BTreeMap<String, KnownImport>,
    /// Definitions whose ApiImport would have a name that is too long.
    too_long: Vec<&'a String>,
    /// Number of definitions that the cluster has not reported.
    omitted: usize,
}

impl ImportingCluster<'_> {
    /// Processes a report. Returns the names of definitions that are missing.
    pub async fn apply(&self, report: DefinitionReport) -> Result<Vec<String>, Status> {
        let row = row(self.server, RESOURCE)?;
        for reported in &report.complete {
            self.import(&row, reported).await?;
        }
        let Some(digests) = &report.digests else { return Ok(Vec::new()) };
        let known = self.known().await?;
        for (name, import) in &known {
            let is_served = digests.contains_key(name);
            if is_served != import.is_served {
                self.set_served(&row, name, is_served).await?;
            }
        }
        let is_too_long = |name: &String| imports::name(name, self.cluster).len() > LONGEST_NAME;
        let is_missing = |name: &&String, digest: &String| {
            known.get(*name).is_none_or(|import| import.digest != *digest) && !is_too_long(name)
        };
        let missing = digests.iter().filter(|(name, digest)| is_missing(name, digest));
        let missing: Vec<String> = missing.map(|(name, _)| name.clone()).take(MOST_WANTED).collect();
        if missing.is_empty() {
            let too_long = digests.keys().filter(|name| is_too_long(name)).collect();
            let result = ImportResult { known: &known, too_long, omitted: report.omitted };
            self.set_condition(&result).await?;
        }
        Ok(missing)
    }

    /// The ApiImports of the cluster by the names of their definitions.
    async fn known(&self) -> Result<BTreeMap<String, KnownImport>, Status> {
        let registry = self.server.registry.clone();
        let [workspace, cluster, uid] = [self.workspace, self.cluster, self.uid].map(str::to_string);
        let read = move || known_imports(&registry, &workspace, &cluster, &uid);
        self.server.registry.run_blocking(self.workspace, read).await
    }

    /// Writes the ApiImport of a definition. One that cannot be imported gets the reason instead.
    async fn import(&self, row: &Row, reported: &ReportedDefinition) -> Result<(), Status> {
        let name = object::name(&reported.definition);
        let (group, resource) =
            name.split_once('.').map_or(("", name), |(resource, group)| (group, resource));
        let mut spec = json!({
            "cluster": self.cluster, "clusterUID": self.uid, "group": group, "resource": resource,
            "digest": reported.digest, "served": true,
        });
        let definition = &reported.definition;
        let (size, read) = (size_of(definition), || imports::read(definition));
        let read = self.server.registry.run_sized(self.workspace, size, Stage::Started, read).await?;
        let problem = match read {
            Ok(read) => {
                spec["kind"] = read.kind.into();
                spec["definition"] = read.spec;
                if let Some(approval) = read.approval {
                    spec["approval"] = approval.into();
                }
                match self.write(row, name, &spec, &LimitsOnly).await {
                    // The workspace is full, or the definition is too large.
                    Err(status) if matches!(status.code(), 403 | 413 | 422) => status.message().to_string(),
                    outcome => return outcome,
                }
            }
            Err(problem) => problem,
        };
        if let Some(fields) = spec.as_object_mut() {
            fields.retain(|field, _| !["definition", "approval"].contains(&field.as_str()));
        }
        spec["problem"] = atoll_meta::text::clean(&problem, LONGEST_PROBLEM).into();
        self.write(row, name, &spec, &NoAdmission).await
    }

    async fn set_served(&self, row: &Row, name: &str, is_served: bool) -> Result<(), Status> {
        let change = |import: Option<&Value>| {
            let mut import =
                import.cloned().ok_or_else(|| Status::not_found(&row.group, &row.resource, name))?;
            import["spec"]["served"] = is_served.into();
            Ok(import)
        };
        match self.update(row, name, &change, &NoAdmission, false).await {
            Err(status) if status.code() == 404 => Ok(()),
            outcome => outcome,
        }
    }

    async fn write<A: Admission>(
        &self,
        row: &Row,
        name: &str,
        spec: &Value,
        admission: &A,
    ) -> Result<(), Status> {
        let transform = |import: Option<&Value>| {
            let mut import = import.cloned().unwrap_or_else(|| {
                json!({
                    "apiVersion": row.api_version(), "kind": row.kind,
                    "metadata": { "name": imports::name(name, self.cluster) },
                })
            });
            // The ApiImport is garbage collected with the Cluster.
            import["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "atoll.dev/v1alpha1", "kind": "Cluster", "name": self.cluster, "uid": self.uid,
            }]);
            import["spec"] = spec.clone();
            Ok(import)
        };
        self.update(row, name, &transform, admission, true).await
    }

    async fn update<A: Admission>(
        &self,
        row: &Row,
        name: &str,
        transform: &(dyn Fn(Option<&Value>) -> Result<Value, Status> + Sync),
        admission: &A,
        create_missing: bool,
    ) -> Result<(), Status> {
        let name = imports::name(name, self.cluster);
        let object_ref = ObjectRef { workspace: self.workspace, namespace: "", name: &name };
        let update = Update {
            subresource: "",
            // Only the server writes ApiImports.
            manager: None,
            size: 0,
            transform,
            admission,
            uid: None,
            create_missing,
            dry_run: false,
        };
        self.server.registry.update(row, &object_ref, &update).await.map(drop)
    }

    /// Says in the status of the Cluster what was imported.
    async fn set_condition(&self, result: &ImportResult<'_>) -> Result<(), Status> {
        let [status, reason, message] = result.condition();
        let condition = json!({ "type": CONDITION, "status": status, "reason": reason, "message": message });
        let now = self.server.registry.now();
        let change = |cluster: &Value| {
            let mut cluster = cluster.clone();
            set_condition(&mut cluster, condition.clone(), &now);
            cluster
        };
        let row = row(self.server, "clusters")?;
        let object_ref = ObjectRef { workspace: self.workspace, namespace: "", name: self.cluster };
        let known = super::parse(&self.server.registry.get(&row, &object_ref)?.json())?;
        if change(&known) == known {
            return Ok(());
        }
        write_status(self.server, &row, &object_ref, &change, &NoAdmission).await
    }
}

impl ImportResult<'_> {
    /// Status, reason and message of the condition.
    fn condition(&self) -> [String; 3] {
        let served = self.known.values().filter(|import| import.is_served);
        let (mut problems, mut misfits) = (Vec::new(), Vec::new());
        for (name, import) in self.known {
            problems.extend(import.problem.as_ref().map(|problem| format!("{name}: {problem}")));
            misfits.extend(import.misfit.as_ref().map(|misfit| format!("{name}: {misfit}")));
        }
        let why = format!(
            "with the name of the cluster, the name of its ApiImport exceeds {LONGEST_NAME} characters"
        );
        problems.extend(self.too_long.iter().map(|name| format!("{name}: {why}")));
        let (failed, omitted) = (problems.len() + self.omitted, self.omitted);
        let served = format!("{} definitions of custom resources", served.count());
        let (status, reason, message) = match (problems.first(), misfits.first()) {
            (Some(first), _) => {
                ("False", "NotImported", format!("{failed} definitions are not imported; {first}"))
            }
            (None, _) if omitted > 0 => {
                let message =
                    format!("{omitted} definitions are not imported: a cluster may have {MOST_DEFINITIONS}");
                ("False", "TooMany", message)
            }
            (None, Some(first)) => {
                let message = format!("{served}, of which {} do not fit; {first}", misfits.len());
                ("False", "Incompatible", message)
            }
            (None, None) => ("True", "Imported", served),
        };
        [status.to_string(), reason.to_string(), atoll_meta::text::clean(&message, LONGEST_MESSAGE)]
    }
}

/// The ApiImports of a cluster by the names of their definitions.
fn known_imports(
    registry: &Registry,
    workspace: &str,
    cluster: &str,
    uid: &str,
) -> BTreeMap<String, KnownImport> {
    let scope = Scope::new(ATOLL, RESOURCE, Some(workspace), Some(""));
    let (snapshot, suffix) = (registry.snapshot(), format!(".{cluster}"));
    let mut known = BTreeMap::new();
    for import in snapshot.list_borrowed(&scope, None) {
        let Some(name) = import.name().strip_suffix(&suffix) else { continue };
        // The definitions may be large: nothing is parsed.
        let field = |name: &str| import.facts.fields.iter().find(|(field, _)| *field == name);
        let text = |name: &str| field(name).map(|(_, value)| value.to_string());
        // Imports of an earlier Cluster of this name are replaced or garbage collected.
        if text(imports::CLUSTER_UID).as_deref() == Some(uid) {
            let import = KnownImport {
                digest: text(imports::DIGEST).unwrap_or_default(),
                is_served: text(imports::SERVED).as_deref() == Some("true"),
                problem: text(imports::PROBLEM),
                misfit: text(imports::MISFIT),
            };
            known.insert(name.to_string(), import);
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn condition_tells_what_is_of_no_use() {
        let import = |misfit: &str| {
            let misfit = Some(misfit.to_string()).filter(|misfit| !misfit.is_empty());
            KnownImport { digest: String::new(), is_served: true, problem: None, misfit }
        };
        let known = |misfit: &str| BTreeMap::from([("widgets.example.com".to_string(), import(misfit))]);
        let long = format!("{}.example.com", "w".repeat(240));
        for (misfit, too_long, omitted, expected) in [
            ("", vec![], 0, ["True", "Imported", "1 definitions of custom resources"]),
            (
                ".spec.size",
                vec![],
                0,
                [
                    "False",
                    "Incompatible",
                    "1 definitions of custom resources, of which 1 do not fit; widgets.example.com: .spec.size",
                ],
            ),
            ("too large", vec![], 2, ["False", "TooMany", "2 definitions are not imported"]),
            ("invalid", vec![&long], 2, ["False", "NotImported", "3 definitions are not imported; www"]),
        ] {
            let [status, found, message] =
                ImportResult { known: &known(misfit), too_long, omitted }.condition();
            assert_eq!([&*status, &*found], expected[..2], "{message}");
            assert!(message.starts_with(expected[2]), "{message}");
        }
    }

    #[test]
    fn a_cluster_has_one_report_of_definitions_at_a_time() {
        let reports = OpenDefinitionReports::default();
        let first = reports.open("east", "1").unwrap();
        assert_eq!(reports.open("east", "1").err().map(|status| status.code()), Some(429));
        assert!(reports.open("west", "2").is_ok());
        drop(first);
        assert!(reports.open("east", "1").is_ok());
    }

    #[test]
    fn reports_are_checked() {
        let digests = |names: &[&str]| {
            let all = names.iter().map(|name| ((*name).to_string(), "0a".to_string()));
            DefinitionReport { digests: Some(all.collect()), ..DefinitionReport::default() }
        };
        assert!(check(&digests(&["widgets.example.com"])).is_ok());
        for name in ["widgets", "../clusters.example.com", "Widgets.example.com", "a/b.example.com", ""] {
            assert_eq!(check(&digests(&[name])).unwrap_err().code(), 400, "{name}");
        }
        let many: Vec<String> =
            (0..=MOST_DEFINITIONS).map(|number| format!("w{number}.example.com")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(check(&digests(&many)).unwrap_err().code(), 413);
        let complete = |digest: &str| ReportedDefinition {
            digest: digest.to_string(),
            definition: json!({ "metadata": { "name": "widgets.example.com" } }),
        };
        let with =
            |complete: Vec<ReportedDefinition>| DefinitionReport { complete, ..DefinitionReport::default() };
        assert!(check(&with(vec![complete("0a")])).is_ok());
        assert_eq!(check(&with(vec![complete("0a/../")])).unwrap_err().code(), 400);
        assert_eq!(check(&with(vec![complete("0a"); MOST_COMPLETE + 1])).unwrap_err().code(), 413);
    }
}
