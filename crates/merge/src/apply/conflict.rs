//! What stands in the way of an apply: fields that others manage and that have another value.

use atoll_meta::status::Cause;
use atoll_meta::{Status, quote};

use super::managed::{Entry, Operation};
use super::set::Set;

/// One manager's fields that would change.
#[derive(Clone, Debug)]
pub struct Conflict<'a> {
    /// The identifier of the manager, by which upstream sorts.
    pub identifier: String,
    /// The manager as people see it.
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

/// The answer to an apply that conflicts.
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
