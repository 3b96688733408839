//! The status of a definition: accepted names and conditions.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/controller/status/naming_controller.go
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/controller/establish/establishing_controller.go
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/controller/apiapproval/apiapproval_controller.go

use atoll_crd::limits::has_too_many_versions;
use atoll_merge::apply::Author;
use atoll_meta::object;
use atoll_store::Key;
use atoll_watch::{Scope, Snapshot};
use serde_json::Value;

use super::{Definition, GROUP, Names, RESOURCE, conditions, reserved};
use crate::{Registry, WriteFailure, parse, reset_fields};

/// The field manager.
const MANAGER: &str = "kube-apiserver";

impl Registry {
    /// Updates the status of a definition, then those of definitions in its group that wait for names.
    pub(crate) async fn update_definition_status(&self, workspace: &str, name: &str) {
        // Serialised: checking and accepting names are two steps.
        let _turn = self.naming.lock().await;
        self.write_definition_status(workspace, name).await;
        let Some((_, group)) = name.split_once('.') else { return };
        for waiting in waiting(&self.snapshot(), workspace, group) {
            if waiting != name {
                self.write_definition_status(workspace, &waiting).await;
            }
        }
    }

    async fn write_definition_status(&self, workspace: &str, name: &str) {
        loop {
            let snapshot = self.snapshot();
            let key = Key::object(GROUP, RESOURCE, workspace, "", name);
            // Inherited definitions have a complete status.
            let Some(existing) = snapshot.get_own(&key) else { return };
            let Ok(old) = parse(&existing.json()) else { return };
            let group = old["spec"]["group"].as_str().unwrap_or_default();
            let others = others(&snapshot, workspace, group, name);
            let now = self.now();
            let mut new = old.clone();
            update(&mut new, &others, &now);
            if new == old {
                return;
            }
            match self.write_definition(&snapshot, &key, &old, new).await {
                Ok(()) => return,
                Err(WriteFailure::Conflict) => {}
                Err(WriteFailure::Status(status)) => {
                    tracing::warn!(%status, name, "cannot write the status of a CustomResourceDefinition; retrying");
                    return;
                }
            }
        }
    }

    /// Writes a definition with a changed status or changed finalizers.
    pub(super) async fn write_definition(
        &self,
        snapshot: &Snapshot,
        key: &Key,
        old: &Value,
        mut new: Value,
    ) -> Result<(), WriteFailure> {
        let Some(row) = self.catalog.stored(GROUP, RESOURCE) else { return Ok(()) };
        let (time, subresource) = (self.now(), "status");
        let author =
            Author { manager: MANAGER, subresource, time: &time, resets: reset_fields::of(row, subresource) };
        self.record(row, old, &mut new, &author);
        let workspace = key.parts().map_or("", |parts| parts.workspace);
        let _compiled = self.compile_ahead(row, workspace, &new).await;
        let goes = crate::update::is_finished(row, &new);
        let value = (!goes).then(|| self.encode_stored(row, &mut new));
        self.write(snapshot, key, value).await.map(|_| ())
    }
}

/// The accepted names of the other definitions in a group.
fn others(snapshot: &Snapshot, workspace: &str, group: &str, name: &str) -> Vec<Names> {
    let scope = Scope::new(GROUP, RESOURCE, Some(workspace), Some(""));
    let others = snapshot.list(&scope, None).filter(|object| object.name() != name);
    let others = others.filter_map(|object| Definition::of(&object));
    others.filter(|other| *other.group == *group).map(|other| other.accepted.clone()).collect()
}

/// The definitions of a group that wait for names.
fn waiting(snapshot: &Snapshot, workspace: &str, group: &str) -> Vec<String> {
    let scope = Scope::new(GROUP, RESOURCE, Some(workspace), Some(""));
    let waits = |object: &std::sync::Arc<atoll_watch::Object>| {
        Definition::of(object)
            .is_some_and(|definition| *definition.group == *group && definition.awaits_names)
    };
    snapshot.list(&scope, None).filter(waits).map(|object| object.name().to_string()).collect()
}

/// Condition of a definition from before there was a size limit: parts of it are not compiled, or it is not
/// served.
pub(super) const TOO_LARGE: &str = "SchemaTooLarge";

/// Updates the status, given the names of other definitions.
pub(crate) fn update(definition: &mut Value, others: &[Names], now: &str) {
    if let Some(reason) = reserved_names(definition) {
        let not_served = "the definition is not served, because its names are reserved; delete it";
        for condition in [
            ["NamesAccepted", "False", "Reserved", &reason],
            ["Established", "False", "Reserved", not_served],
        ] {
            if !conditions::has(definition, condition) {
                conditions::set(definition, condition, now);
            }
        }
        return;
    }
    let is_unserved = has_too_many_versions(&definition["spec"], &definition["spec"]["names"]);
    match atoll_validation::definition_too_large(definition) {
        Some(error) if is_unserved => {
            let message = format!("the definition is not served: {error}");
            for condition in [
                [TOO_LARGE, "True", "LimitExceeded", &message],
                [
                    "Established",
                    "False",
                    "LimitExceeded",
                    "the definition is too large to be served; make it smaller",
                ],
            ] {
                if !conditions::has(definition, condition) {
                    conditions::set(definition, condition, now);
                }
            }
            return;
        }
        Some(error) => {
            let message = format!(
                "the schema is too large; values that need the patterns and rules beyond the limit are refused: {error}"
            );
            let condition: [&str; 4] = [TOO_LARGE, "True", "LimitExceeded", &message];
            if !conditions::has(definition, condition) {
                conditions::set(definition, condition, now);
            }
        }
        None if conditions::is_true(definition, TOO_LARGE) => {
            conditions::set(definition, [TOO_LARGE, "False", "WithinLimit", ""], now);
        }
        None => {}
    }
    if let Some((status, reason, message)) = approval_condition(definition) {
        let condition: [&str; 4] = ["KubernetesAPIApprovalPolicyConformant", status, reason, &message];
        if !conditions::has(definition, condition) {
            conditions::set(definition, condition, now);
        }
    }
    let wanted = Names::read(&definition["spec"]["names"]);
    let accepted = Names::read(&definition["status"]["acceptedNames"]);
    // Clients may write the status; removed parts are restored.
    if wanted != accepted || !conditions::is_true(definition, "NamesAccepted") {
        let (names, conflict) = accepted.resolve(&wanted, others.iter());
        let condition: [&str; 4] = match &conflict {
            Some(conflict) => ["NamesAccepted", "False", conflict.reason, &conflict.message],
            None => ["NamesAccepted", "True", "NoConflicts", "no conflicts found"],
        };
        if names != accepted || !conditions::has(definition, condition) {
            definition["status"]["acceptedNames"] = names.write();
            conditions::set(definition, condition, now);
            if conditions::find(definition, "Established").is_none() {
                let condition = ["Established", "False", "NotAccepted", "not all names are accepted"];
                conditions::set(definition, condition, now);
            }
        }
    }
    if conditions::is_true(definition, "NamesAccepted") && !conditions::is_true(definition, "Established") {
        let condition =
            ["Established", "True", "InitialNamesAccepted", "the initial names have been accepted"];
        conditions::set(definition, condition, now);
    }
}

/// The reason why the names of a definition are reserved. It was accepted by a version of Atoll that did not
/// reserve them.
fn reserved_names(definition: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let spec = &definition["spec"];
    reserved::reserved_reason(&text(&spec["group"]), &text(&spec["names"]["plural"]))
}

pub(crate) const APPROVED: &str = "api-approved.kubernetes.io";
const PULL: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

/// The API approval condition of definitions in groups of Kubernetes.
fn approval_condition(definition: &Value) -> Option<(&'static str, &'static str, String)> {
    let group = definition["spec"]["group"].as_str().unwrap_or_default();
    let is_protected = |domain: &str| {
        group.strip_suffix(domain).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    if !is_protected("k8s.io") && !is_protected("kubernetes.io") {
        return None;
    }
    Some(match object::annotation(definition, APPROVED).unwrap_or_default() {
        "" => (
            "False",
            "MissingAnnotation",
            format!("protected groups must have approval annotation {APPROVED:?}, {PULL}"),
        ),
        reason if reason.starts_with("unapproved") => {
            ("False", "UnapprovedAnnotation", format!("not approved: {reason:?}"))
        }
        url if is_address(url) => ("True", "ApprovedAnnotation", format!("approved in {url}")),
        _ => (
            "False",
            "InvalidAnnotation",
            format!(
                "protected groups must have approval annotation {APPROVED:?} with either a URL or a reason starting with \
                 \"unapproved\", {PULL}"
            ),
        ),
    })
}

/// Whether a text has a scheme and a host.
fn is_address(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let fits = |character: char| character.is_ascii_alphanumeric() || "+-.".contains(character);
    scheme.starts_with(|character: char| character.is_ascii_alphabetic())
        && scheme.chars().all(fits)
        && !host.is_empty()
}
