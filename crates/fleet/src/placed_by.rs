//! The decision makers of placements: the values of `by`.

/// Placed without any intent: together with its namespace.
pub const DEFAULT: &str = "default";
/// Placed by the annotation of the object.
pub const ANNOTATION: &str = "annotation";
/// Placed by the annotation of its Namespace.
pub const NAMESPACE_ANNOTATION: &str = "namespace-annotation";
/// Placed by a user without a scheduler. A scheduler makes an intent of it.
pub const HAND: &str = "hand";
/// Being released by a user: the scheduler leaves it alone until the user gives it back.
pub const RELEASE: &str = "release";
/// Placed as a dependent, with the objects that need it.
pub const REFERENCE: &str = "reference";
/// Placed by a label of a dialect.
pub const LABEL: &str = "label";
/// Beginnings of the names of policies.
const POLICIES: [&str; 2] = ["placementpolicy/", "clusterplacementpolicy/"];

/// Whether a placement was made by the scheduler.
pub fn is_scheduled(by: &str) -> bool {
    by == ANNOTATION || by == NAMESPACE_ANNOTATION || yields_to_labels(by)
}

/// Whether labels of a dialect have precedence over a placement: it was made by a policy or without any intent.
pub fn yields_to_labels(by: &str) -> bool {
    by == DEFAULT || POLICIES.iter().any(|prefix| by.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_precedence_over_policies_only() {
        for (by, scheduled, yields) in [
            ("default", true, true),
            ("placementpolicy/spread", true, true),
            ("clusterplacementpolicy/spread", true, true),
            ("annotation", true, false),
            ("namespace-annotation", true, false),
            ("hand", false, false),
            ("release", false, false),
            ("reference", false, false),
            ("label", false, false),
            ("", false, false),
        ] {
            assert_eq!((is_scheduled(by), yields_to_labels(by)), (scheduled, yields), "{by}");
        }
    }
}
