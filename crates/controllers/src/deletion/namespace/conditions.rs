//! Conditions of a namespace that is being deleted.

// upstream: pkg/controller/namespace/deletion/status_condition_utils.go

use atoll_informer::Resource;
use atoll_meta::Status;
use serde_json::{Value, json};

use crate::deletion::content::Remaining;
use crate::shared::conditions;

/// Result of deleting the content of a namespace.
#[derive(Debug, Default)]
pub struct DeletionResult {
    pub remaining: Remaining,
    /// Errors of deletions.
    pub failed: Vec<String>,
    /// Error of discovery.
    undiscovered: Option<String>,
}

/// Each condition: its type, and reason and message without a problem.
const CONDITIONS: [(&str, &str, &str); 5] = [
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];

impl DeletionResult {
    /// Creates an empty result with the errors of discovery.
    pub fn new(failures: &[(String, Status)]) -> DeletionResult {
        let mut texts: Vec<String> =
            failures.iter().map(|(version, status)| format!("{version}: {}", status.message())).collect();
        texts.sort_unstable();
        let message = || {
            format!(
                "Discovery failed for some groups, {} failing: unable to retrieve the complete list of server APIs: {}",
                texts.len(),
                texts.join(", ")
            )
        };
        DeletionResult { undiscovered: (!texts.is_empty()).then(message), ..DeletionResult::default() }
    }

    /// Whether nothing remains and nothing failed.
    pub fn is_clean(&self) -> bool {
        self.remaining.is_empty() && self.failed.is_empty() && self.undiscovered.is_none()
    }

    /// Sets the conditions of a namespace. Returns whether they changed.
    pub fn set_conditions(&self, namespace: &mut Value, now: &str) -> bool {
        let mut changed = false;
        for (r#type, reason, message) in CONDITIONS {
            let condition = match self.problem(r#type) {
                Some((reason, message)) => {
                    json!({"type": r#type, "status": "True", "reason": reason, "message": message})
                }
                None => json!({"type": r#type, "status": "False", "reason": reason, "message": message}),
            };
            changed |= conditions::set_in(namespace, condition, now);
        }
        changed
    }

    fn problem(&self, r#type: &str) -> Option<(&'static str, String)> {
        match r#type {
            "NamespaceDeletionDiscoveryFailure" => Some(("DiscoveryFailed", self.undiscovered.clone()?)),
            "NamespaceDeletionContentFailure" if !self.failed.is_empty() => {
                let mut failed = self.failed.clone();
                failed.sort_unstable();
                let message = format!(
                    "Failed to delete all resource types, {} remaining: {}",
                    failed.len(),
                    failed.join(", ")
                );
                Some(("ContentDeletionFailed", message))
            }
            "NamespaceContentRemaining" if !self.remaining.is_empty() => {
                let named = |plural: &str, group: &str| format!("{plural}.{group}");
                Some(("SomeResourcesRemain", self.remaining.content_message(named)))
            }
            "NamespaceFinalizersRemaining" => {
                let (finalizers, clusters) =
                    (self.remaining.finalizers_message(), self.remaining.clusters_message());
                let message = finalizers.into_iter().chain(clusters).collect::<Vec<_>>().join(". ");
                (!message.is_empty()).then_some(("SomeFinalizersRemain", message))
            }
            _ => None,
        }
    }
}

/// Returns the error about objects that remain without a finalizer.
pub fn unexpected(namespace: &str, resource: &Resource) -> String {
    let Resource { group, version, plural, .. } = resource;
    format!(
        "unexpected items still remain in namespace: {namespace} for gvr: {group}/{version}, Resource={plural}"
    )
}

#[cfg(test)]
mod tests {
    use atoll_informer::resources;

    use super::*;

    fn true_conditions(result: &DeletionResult) -> Vec<String> {
        let mut namespace = json!({"status": {"phase": "Terminating"}});
        assert!(result.set_conditions(&mut namespace, "1"));
        assert!(!result.set_conditions(&mut namespace, "2"), "no change");
        let conditions = namespace["status"]["conditions"].as_array().unwrap();
        let is_true = conditions.iter().filter(|condition| condition["status"] == "True");
        is_true
            .map(|own| format!("{} {} {}", own["type"], own["reason"], own["message"]).replace('"', ""))
            .collect()
    }

    #[test]
    fn conditions_report_remaining_content() {
        let mut result = DeletionResult::default();
        assert!(result.is_clean());
        assert!(true_conditions(&result).is_empty());
        let held = |finalizer: &str| json!({"metadata": {"name": "a", "finalizers": [finalizer]}});
        result.remaining.count(&resources::CONFIG_MAPS, &[held("x/y"), held("x/y")]);
        result.remaining.count(&resources::JOBS, &[json!({"metadata": {"name": "b"}})]);
        result.failed.push(unexpected("n", &resources::JOBS));
        assert!(!result.is_clean());
        assert_eq!(
            true_conditions(&result),
            [
                "NamespaceDeletionContentFailure ContentDeletionFailed Failed to delete all resource types, 1 remaining: \
                 unexpected items still remain in namespace: n for gvr: batch/v1, Resource=jobs",
                "NamespaceContentRemaining SomeResourcesRemain Some resources are remaining: \
                 configmaps. has 2 resource instances, jobs.batch has 1 resource instances",
                "NamespaceFinalizersRemaining SomeFinalizersRemain Some content in the namespace has finalizers remaining: \
                 x/y in 2 resource instances",
            ]
        );
    }

    #[test]
    fn unavailable_extensions_are_reported() {
        let away = Status::service_unavailable("the server is currently unable to handle the request");
        let result = DeletionResult::new(&[("metrics.k8s.io/v1beta1".to_string(), away)]);
        assert!(!result.is_clean(), "undiscovered objects may exist");
        assert_eq!(
            true_conditions(&result),
            [
                "NamespaceDeletionDiscoveryFailure DiscoveryFailed Discovery failed for some groups, 1 failing: unable to \
              retrieve the complete list of server APIs: metrics.k8s.io/v1beta1: the server is currently unable to handle \
              the request"
            ]
        );
    }
}
