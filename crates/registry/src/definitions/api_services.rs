//! Maintains an APIService for every version of a group that definitions serve.

// upstream: staging/src/k8s.io/kube-aggregator/pkg/controllers/autoregister/autoregister_controller.go
// upstream: pkg/controlplane/controller/crdregistration/crdregistration_controller.go

use std::collections::BTreeSet;

use atoll_store::Key;
use serde_json::json;

use super::{Definition, list};
use crate::{DeleteOptions, NoAdmission, ObjectRef, Registry};

const GROUP: &str = "apiregistration.k8s.io";
const RESOURCE: &str = "apiservices";
/// The field manager.
const MANAGER: &str = "kube-apiserver";
const LABEL: &str = "kube-aggregator.kubernetes.io/automanaged";

impl Registry {
    /// Updates the APIServices of a workspace from the versions that a definition may have served before and
    /// those that it serves now.
    pub(super) async fn sync_api_services(
        &self,
        workspace: &str,
        before: &BTreeSet<(String, String)>,
        now: Option<&Definition>,
    ) {
        let rows = now.filter(|own| own.is_established).into_iter().flat_map(|own| &own.rows);
        let now: BTreeSet<(String, String)> =
            rows.map(|row| (row.group.clone(), row.version.clone())).collect();
        let is_own = |group: &str, version: &str| !self.catalog.has_group_version(group, version);
        for (group, version) in now.iter().filter(|(group, version)| is_own(group, version)) {
            self.create_api_service(workspace, group, version).await;
        }
        let snapshot = self.snapshot();
        let gone = before.difference(&now).filter(|(group, version)| is_own(group, version));
        let gone: Vec<&(String, String)> = gone.collect();
        let others = if gone.is_empty() { Vec::new() } else { list(&snapshot, workspace) };
        for (group, version) in gone {
            let is_served = others
                .iter()
                .any(|other| other.is_established && *other.group == **group && other.row(version).is_some());
            if !is_served {
                self.delete_api_service(workspace, &format!("{version}.{group}")).await;
            }
        }
    }

    async fn create_api_service(&self, workspace: &str, group: &str, version: &str) {
        let name = format!("{version}.{group}");
        let Some(row) = self.catalog.stored(GROUP, RESOURCE) else { return };
        if self.snapshot().get(&Key::object(GROUP, RESOURCE, workspace, "", &name)).is_some() {
            return;
        }
        let service = json!({
            "apiVersion": row.api_version(),
            "kind": row.kind,
            "metadata": { "name": name, "labels": { LABEL: "true" } },
            "spec": { "group": group, "version": version, "groupPriorityMinimum": 1000, "versionPriority": 100 },
        });
        let object_ref = ObjectRef { workspace, namespace: "", name: &name };
        let created = self.create(row, &object_ref, service, Some(MANAGER), false, &NoAdmission).await;
        if let Err(status) = created
            && status.reason() != "AlreadyExists"
        {
            tracing::warn!(%status, name, "cannot create the APIService of a custom resource");
        }
    }

    /// Deletes an automatically managed APIService; others stay.
    async fn delete_api_service(&self, workspace: &str, name: &str) {
        let Some(row) = self.catalog.stored(GROUP, RESOURCE) else { return };
        let existing = self.snapshot().get(&Key::object(GROUP, RESOURCE, workspace, "", name));
        if existing.is_none_or(|existing| existing.facts.label(LABEL) != Some("true")) {
            return;
        }
        let object_ref = ObjectRef { workspace, namespace: "", name };
        let deleted = self.delete(row, &object_ref, &DeleteOptions::default(), &NoAdmission).await;
        if let Err(status) = deleted
            && status.reason() != "NotFound"
        {
            tracing::warn!(%status, name, "cannot delete the APIService of a custom resource");
        }
    }
}
