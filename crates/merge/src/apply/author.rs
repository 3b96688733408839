//! The author of a write, and the fields that the write cannot change.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/structuredmerge.go

use super::path_set::Set;

/// The author of a write: field manager, subresource and time.
#[derive(Clone, Copy, Debug)]
pub struct Author<'a> {
    /// Field manager of the request, or derived from the user agent.
    pub manager: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// Current time, as written in objects.
    pub time: &'a str,
    pub resets: ResetFields,
}

/// Fields that a write of an object or a subresource resets, so that the author cannot own them (upstream's
/// reset fields).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetFields {
    /// All fields at or below these paths.
    Paths(&'static [&'static [&'static str]]),
    /// All fields except those at or below these paths. A star matches any path element.
    AllExcept(&'static [&'static [&'static str]]),
}

impl ResetFields {
    pub const NONE: ResetFields = ResetFields::Paths(&[]);

    pub(super) fn filter(self, set: &mut Set<'_>) {
        match self {
            ResetFields::Paths(paths) => paths.iter().for_each(|path| set.remove(path, true)),
            ResetFields::AllExcept(patterns) => set.retain(patterns),
        }
    }
}
