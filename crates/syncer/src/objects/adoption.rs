//! The configuration that adopts an existing object: the same that syncing would write, so that nothing
//! remains to be done.

use atoll_fleet::marks;
use atoll_fleet::view::ObjectTarget;
use atoll_meta::object;
use serde_json::Value;

use crate::objects::digest;
use crate::objects::mark::configuration;

/// Returns the configuration to apply to an existing object for an object above that was created from it.
/// `shaped` is the object in the sync view, `found` the existing object, whose uid and resource version
/// become preconditions.
pub fn adoption(
    shaped: &Value,
    found: &Value,
    target: &ObjectTarget,
    control_plane: &str,
    generation: i64,
) -> Value {
    let namespace = object::namespace(found);
    let applied = digest::of_object(shaped);
    let mut sent = configuration(shaped, target, namespace, control_plane, generation, &applied);
    object::set_annotation(&mut sent, marks::ADOPTED, "true");
    object::set_uid(&mut sent, object::uid(found));
    sent["metadata"]["resourceVersion"] = object::resource_version(found).into();
    sent
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::objects::reconcile::{Desired, Lookup, classify};

    #[test]
    fn adopted_object_needs_no_further_write() {
        let target = ObjectTarget {
            name: "web".into(),
            uid: "u".into(),
            workspace: "w".into(),
            ..ObjectTarget::default()
        };
        let shaped = json!({ "spec": { "replicas": 2 } });
        let found = json!({ "metadata": { "name": "web", "namespace": "shop", "uid": "below", "resourceVersion": "7" } });
        let sent = adoption(&shaped, &found, &target, "cp", 1);
        assert_eq!(sent["metadata"]["uid"], "below");
        assert_eq!(sent["metadata"]["resourceVersion"], "7");
        let Lookup::Managed(seen) = classify(Some(&sent), "cp", &target) else { panic!("{sent}") };
        assert!(Desired::present(1, &shaped).is_applied(&seen) && seen.is_adopted);
    }
}
