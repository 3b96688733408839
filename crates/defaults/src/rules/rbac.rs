//! Subjects of role bindings.

// upstream: pkg/apis/rbac/v1/defaults.go

use super::RBAC;
use crate::object::{ObjectMap, set_empty, text};

pub fn subject(subject: &mut ObjectMap) {
    if matches!(text(subject, "kind"), "User" | "Group") {
        set_empty(subject, "apiGroup", RBAC);
    }
}
