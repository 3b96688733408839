//! Rollback to an earlier revision by the deprecated annotation. Current clients write the template instead.

// upstream: pkg/controller/deployment/rollback.go

use atoll_meta::object;
use serde_json::Value;

use super::revision::{ROLLBACK_TO, is_copied};
use super::scale::Sets;
use super::set::{Set, TEMPLATE_HASH, is_same_template};
use crate::shared::views::DeploymentView;

/// The Deployment after a rollback, and the event to record.
#[derive(Debug)]
pub struct Rollback {
    pub deployment: Value,
    pub is_warning: bool,
    pub reason: &'static str,
    pub message: String,
}

/// Returns the requested revision; zero for the one before the current.
pub fn requested_revision(deployment: &Value) -> Option<i64> {
    object::annotation(deployment, ROLLBACK_TO)?.parse().ok()
}

pub fn roll_back(deployment: &Value, to: i64, sets: &Sets) -> Rollback {
    let mut changed = deployment.clone();
    object::remove_annotation(&mut changed, ROLLBACK_TO);
    let not_found = |deployment, message: &str| Rollback {
        deployment,
        is_warning: true,
        reason: "DeploymentRollbackRevisionNotFound",
        message: message.into(),
    };
    let to = match to {
        0 => match last(sets) {
            0 => return not_found(changed, "Unable to find last revision."),
            last => last,
        },
        to => to,
    };
    let Some(set) = sets.all().find(|set| set.revision() == Some(to)) else {
        return not_found(changed, "Unable to find the revision to rollback to.");
    };
    let template = set.current_view().template();
    let name = object::name(deployment);
    if is_same_template(DeploymentView::of(deployment).template(), template) {
        return Rollback {
            deployment: changed,
            is_warning: true,
            reason: "DeploymentRollbackTemplateUnchanged",
            message: format!(
                "The rollback revision contains the same template as current deployment {name:?}"
            ),
        };
    }
    let mut template = template.clone();
    object::remove_label(&mut template, TEMPLATE_HASH);
    changed["spec"]["template"] = template;
    let removed: Vec<String> = object::annotations(deployment)
        .map(|(key, _)| key.to_string())
        .filter(|key| is_copied(key))
        .collect();
    for key in removed {
        object::remove_annotation(&mut changed, &key);
    }
    for (key, value) in object::annotations(&set.current).filter(|(key, _)| is_copied(key)) {
        object::set_annotation(&mut changed, key, value);
    }
    Rollback {
        deployment: changed,
        is_warning: false,
        reason: "DeploymentRollback",
        message: format!("Rolled back deployment {name:?} to revision {to}"),
    }
}

/// Returns the second highest revision.
fn last(sets: &Sets) -> i64 {
    let mut revisions: Vec<i64> = sets.all().filter_map(Set::revision).filter(|own| *own > 0).collect();
    revisions.sort_unstable();
    revisions.iter().rev().nth(1).copied().unwrap_or(0)
}
