//! Conflicts of an apply: fields with a different value that other managers own.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/conflict.go
// upstream: sigs.k8s.io/structured-merge-diff/v6/merge/conflict.go

use atoll_meta::status::Cause;
use atoll_meta::{Status, quote};

use super::managed::{Entry, Operation};
use super::path_set::Set;

/// The conflicting fields of one manager.
#[derive(Clone, Debug)]
pub struct Conflict<'a> {
    /// Identifier of the manager, by which upstream sorts.
    pub identifier: String,
    /// Displayed name of the manager.
    pub manager: String,
    pub fields: Set<'a>,
}

impl<'a> Conflict<'a> {
    pub(super) fn new(entry: &Entry<'_>, fields: Set<'a>) -> Self {
        let mut manager = quote::quote(&entry.manager);
        if !entry.subresource.is_empty() {
            manager = format!("{manager} with subresource {}", quote::quote(&entry.subresource));
        }
        if entry.operation == Operation::Update {
            manager = format!("{manager} using {}", entry.api_version);
        }
        Conflict { identifier: entry.identifier(), manager, fields }
    }
}

/// Returns the error for an apply with conflicts.
pub(super) fn status(mut conflicts: Vec<Conflict<'_>>) -> Status {
    conflicts.sort_by(|left, right| left.identifier.cmp(&right.identifier));
    let mut causes = Vec::new();
    let mut lines = Vec::new();
    let mut only = String::new();
    for conflict in &conflicts {
        lines.push(format!("conflicts with {}:", conflict.manager));
        conflict.fields.visit(&mut |path| {
            let path = path.to_string();
            lines.push(format!("- {path}"));
            only = format!("conflict with {}: {path}", conflict.manager);
            causes.push(Cause {
                reason: "FieldManagerConflict".to_owned(),
                message: format!("conflict with {}", conflict.manager),
                field: path,
            });
        });
    }
    let message = match causes.len() {
        1 => format!("Apply failed with 1 conflict: {only}"),
        count => format!("Apply failed with {count} conflicts: {}", lines.join("\n")),
    };
    Status::apply_conflict(causes, message)
}
