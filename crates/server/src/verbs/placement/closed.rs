//! Clusters that take nothing new: cordoned, fenced, observed and unready ones.

use atoll_fleet::placement::Share;
use atoll_meta::{FieldError, FieldPath, object};
use atoll_registry::placement::Registered;
use serde_json::Value;

/// Who places what others refer to.
const DEPENDENT: &str = "reference";
/// Taint of a cluster on which nothing runs any more.
const FENCED: &str = "atoll.dev/fenced";

/// Why a cluster takes nothing new, and what may be done about it.
#[derive(Debug, PartialEq, Eq)]
struct Closed {
    why: String,
    /// Whether it can be placed there all the same, and what is needed by something that is there already follows.
    can_be_forced: bool,
}

/// What is wrong with shares of clusters that the object was not on before, `new`.
pub fn check(wanted: &Value, shares: &[Share], new: &[Registered]) -> Vec<FieldError> {
    let is_exempt = wanted["spec"]["force"] == true || wanted["spec"]["by"] == DEPENDENT;
    let path = FieldPath::new("spec").child("clusters");
    let refused = new.iter().filter_map(|new| {
        let closed = closed(&new.cluster).filter(|closed| !(closed.can_be_forced && is_exempt))?;
        let index = shares.iter().position(|share| share.name == object::name(&new.cluster))?;
        Some(FieldError::forbidden(&path.index(index), closed.why))
    });
    refused.collect()
}

fn closed(cluster: &Value) -> Option<Closed> {
    let (name, spec) = (object::name(cluster), &cluster["spec"]);
    let never = |why: String| Some(Closed { why, can_be_forced: false });
    let forced = |why: String| {
        let why = format!("{why}, or place it there nevertheless: atoll place --force (spec.force)");
        Some(Closed { why, can_be_forced: true })
    };
    if spec["access"] == "observe" {
        return never(format!(
            "cluster {name} is only observed, nothing can be written to it; to manage it: atoll cluster join {name} \
             --kubeconfig FILE"
        ));
    }
    if spec["taints"].as_array().into_iter().flatten().any(|taint| taint["key"] == FENCED) {
        return never(format!(
            "cluster {name} is fenced, nothing runs there; lift that with: atoll cluster fence {name} --lift"
        ));
    }
    if spec["unschedulable"] == true {
        return forced(format!("cluster {name} is cordoned; open it with: atoll cluster uncordon {name}"));
    }
    let conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
    // One that was never heard of yet is not known to be bad: what is placed there waits for its syncer.
    let unready = conditions.into_iter().find(|one| one["type"] == "Ready" && one["status"] == "False")?;
    let text = |field: &str| unready[field].as_str().unwrap_or_default();
    forced(format!(
        "cluster {name} is not ready: {}; see what is wrong with: atoll cluster describe {name}",
        text("reason")
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn clusters_that_take_nothing_new_say_why() {
        let ready = |status: &str| json!([{ "type": "Ready", "status": status, "reason": "Overloaded" }]);
        for (spec, conditions, expected) in [
            (json!({}), json!(null), None),
            (json!({ "access": "manage" }), ready("True"), None),
            (json!({}), ready("Unknown"), None),
            (json!({ "access": "observe" }), ready("True"), Some(("only observed", false))),
            (json!({ "unschedulable": true }), ready("True"), Some(("atoll cluster uncordon east", true))),
            (
                json!({ "unschedulable": true, "taints": [{ "key": FENCED }] }),
                ready("True"),
                Some(("atoll cluster fence east --lift", false)),
            ),
            (json!({}), ready("False"), Some(("is not ready: Overloaded", true))),
        ] {
            let cluster = json!({ "metadata": { "name": "east" }, "spec": spec, "status": { "conditions": conditions } });
            let found = closed(&cluster);
            assert_eq!(found.as_ref().map(|closed| closed.can_be_forced), expected.map(|(_, forced)| forced));
            if let (Some(found), Some((words, _))) = (found, expected) {
                assert!(found.why.contains(words), "{}", found.why);
            }
        }
    }
}
