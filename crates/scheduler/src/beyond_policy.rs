//! Intents that go beyond the policy of an object, found when they are to be followed.

use std::sync::Arc;

use atoll_placement::intent::{ANNOTATION, Intent, IntentSource, Override};
use atoll_placement::policy::{Excess, Policy, PolicyKind};
use serde_json::Value;

/// Returns how an intent goes beyond a policy, unless `holder`, the object with the annotation, has a record
/// that this was allowed. `cluster` returns the Cluster with a name.
pub fn message(
    policy: &Policy,
    (intent, source): (&Intent, IntentSource),
    holder: &Value,
    cluster: impl Fn(&str) -> Option<Arc<Value>>,
) -> Option<String> {
    if intent.is_none() {
        return None;
    }
    let clusters: Vec<Arc<Value>> = intent.clusters().filter_map(cluster).collect();
    let mut excess = policy.check_intent(intent, &clusters.iter().map(|one| &**one).collect::<Vec<_>>());
    if source == IntentSource::Label {
        // Each cluster that a label names runs all of it: only the clusters can be beyond a policy.
        excess.retain(|excess| matches!(excess, Excess::StaysAbove | Excess::Cluster(_)));
    }
    if excess.is_empty() || is_allowed(policy, intent, holder) {
        return None;
    }
    let reasons: Vec<String> = excess.iter().map(ToString::to_string).collect();
    let (reference, reasons) = (policy.reference(), reasons.join("; "));
    let whose = match source {
        IntentSource::Object => "its annotation",
        IntentSource::Namespace => "the annotation of its Namespace",
        // Labels need no right to place anything, and nothing records an override for them.
        IntentSource::Label => {
            return Some(format!(
                "its label names {intent}, which is beyond {reference}: {reasons}; it stays as it is until the label or the \
                 policy is changed"
            ));
        }
    };
    let resource = match policy.kind {
        PolicyKind::PlacementPolicy => "placementpolicies",
        PolicyKind::ClusterPlacementPolicy => "clusterplacementpolicies",
    };
    Some(format!(
        "{whose} {ANNOTATION}={intent} is beyond {reference}: {reasons}; it stays as it is until the annotation is changed, or is written again by a user with \
         the verb override on {resource}.atoll.dev {:?}",
        policy.name,
    ))
}

/// Whether it is recorded that a user with the right to override the policy has asked for this.
fn is_allowed(policy: &Policy, intent: &Intent, holder: &Value) -> bool {
    Override::of(holder)
        .is_some_and(|record| record.uid == policy.uid && record.clusters == intent.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn policies_limit_intents_unless_overridden() {
        let policy = json!({
            "apiVersion": "atoll.dev/v1alpha1", "kind": "PlacementPolicy",
            "metadata": { "name": "here", "namespace": "default", "uid": "p" },
            "spec": { "clusters": { "names": ["west"] } },
        });
        let policy = Policy::parse(&policy).unwrap();
        let cluster = |name: &str| Some(Arc::new(json!({ "metadata": { "name": name } })));
        let record = |uid: &str, clusters: &str| {
            let record = Override {
                uid: uid.into(),
                policy: policy.reference(),
                user: "ann".into(),
                clusters: clusters.into(),
                time: "2026-01-01T00:00:00Z".into(),
            };
            json!({ "metadata": { "annotations": { "atoll.dev/override": record.text() } } })
        };
        for (intent, holder, is_beyond) in [
            ("west", json!({}), false),
            ("none", json!({}), false),
            ("east", json!({}), true),
            ("east", record("p", "east"), false),
            ("east", record("p", "north"), true),
            ("east", record("other", "east"), true),
        ] {
            let parsed = Intent::parse(intent).unwrap();
            let found = message(&policy, (&parsed, IntentSource::Object), &holder, cluster);
            assert_eq!(found.is_some(), is_beyond, "{intent} {holder} {found:?}");
        }
        let parsed = Intent::parse("east").unwrap();
        let found = message(&policy, (&parsed, IntentSource::Label), &json!({}), cluster).unwrap();
        assert!(found.starts_with("its label names east, which is beyond placementpolicy/here: "), "{found}");
        let found = message(&policy, (&parsed, IntentSource::Namespace), &json!({}), cluster).unwrap();
        assert!(found.starts_with(
            "the annotation of its Namespace atoll.dev/clusters=east is beyond placementpolicy/here: "
        ));
        assert!(found.ends_with("the verb override on placementpolicies.atoll.dev \"here\""), "{found}");
    }
}
