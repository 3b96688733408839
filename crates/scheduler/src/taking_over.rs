//! Placements that were made by hand, without a scheduler, become intents. No replica moves: numbers become
//! pins, and what is whole stays whole. Released objects stay unplaced, with the intent `none`.

use atoll_fleet::scheduled::COMMAND_MANAGER;
use atoll_fleet::{Placement, placed_by, placed_condition};
use atoll_informer::{ApiScope, Next, Resource};
use atoll_meta::{Status, object};
use atoll_placement::intent::{ANNOTATION, Intent};
use serde_json::{Value, json};

use crate::workloads;
use crate::writer::PlacementTarget;

const PLACEMENT: &str = "placement";

/// Whether the placement of an object was made by hand. One whose intent is `none` is being released.
pub fn is_needed(resource: &Resource, object: &Value, placement: &Placement) -> bool {
    let is_released = || matches!(Intent::on(object), Some(Ok(intent)) if intent.is_none());
    placement.by == placed_by::HAND
        && !placement.clusters.is_empty()
        && workloads::is_workload(resource)
        && workloads::is_own(object)
        && !is_released()
}

/// Whether an object was released before releases were recorded as an intent. It stays in the control plane.
pub fn was_released(resource: &Resource, object: &Value) -> bool {
    workloads::is_workload(resource) && workloads::is_own(object) && placed_condition::was_released(object)
}

/// Returns the intent that keeps a placement as it is. `is_divided` is whether a policy would divide it.
pub fn intent(object: &Value, placement: &Placement, is_divided: bool) -> Intent {
    let is_copied = placement.duplicate || (placement.clusters.len() > 1 && is_divided);
    Intent::of_shares(&placement.clusters, object["spec"]["replicas"].as_i64(), is_copied)
}

/// Writes the intent, then gives the placement to the scheduler. Each step can be repeated.
pub async fn write(api: &ApiScope, target: &PlacementTarget, intent: &Intent) -> Result<Next, Status> {
    let (uid, revision) = (object::uid(&target.object), object::resource_version(&target.object));
    let text = intent.to_string();
    let patch = json!({ "metadata": {
        "uid": uid, "resourceVersion": revision, "annotations": { ANNOTATION: text },
    } });
    // The field manager is that of the command, so that the intent stays when a manifest without it is
    // replaced.
    let written = match api.patch_as(COMMAND_MANAGER, &target.resource, &target.at, &patch).await {
        Err(status) if matches!(status.code(), 404 | 409) => return Ok(Next::Again),
        written => written?,
    };
    if intent.is_none() {
        return Ok(Next::Done);
    }
    let patch = json!({
        "metadata": { "uid": uid, "resourceVersion": object::resource_version(&written) },
        "spec": { "by": placed_by::ANNOTATION },
    });
    match api.patch(&target.resource, &target.at, PLACEMENT, &patch).await {
        Err(status) if matches!(status.code(), 404 | 409) => Ok(Next::Again),
        written => written.map(|_| Next::Done),
    }
}

#[cfg(test)]
mod tests {
    use atoll_fleet::placement::Share;
    use atoll_informer::resources;

    use super::*;

    fn object(annotation: Option<&str>, placement: &Placement) -> Value {
        let mut object =
            json!({ "metadata": { "name": "web", "namespace": "default" }, "spec": { "replicas": 3 } });
        if let Some(text) = annotation {
            object::set_annotation(&mut object, ANNOTATION, text);
        }
        object::set_annotation(&mut object, atoll_fleet::marks::PLACEMENT, &placement.text().unwrap());
        object
    }

    #[test]
    fn placements_by_hand_become_intents() {
        let share = |name: &str, replicas| Share { name: name.into(), replicas, ..Share::default() };
        let (two, one) = (share("east", Some(2)), share("west", Some(1)));
        let (east, west) = (share("east", None), share("west", None));
        for (shares, duplicate, is_divided, expected) in [
            (vec![two.clone(), one], false, false, "east==2,west==1"),
            (vec![east.clone()], false, true, "east"),
            (vec![east.clone(), west.clone()], false, false, "east,west"),
            (vec![east.clone(), west.clone()], false, true, "east=all,west=all"),
            (vec![east, west.clone()], true, false, "east=all,west=all"),
            // The second runs all replicas, as many as there are now.
            (vec![two, west], false, false, "east==2,west==3"),
        ] {
            let placement =
                Placement { clusters: shares, by: placed_by::HAND.into(), duplicate, ..Placement::default() };
            let object = object(None, &placement);
            assert_eq!(intent(&object, &placement, is_divided).to_string(), expected);
        }
    }

    #[test]
    fn only_placements_by_hand_are_taken_over() {
        let on = |by: &str| Placement {
            clusters: vec![Share::on("east", "1")],
            by: by.into(),
            ..Placement::default()
        };
        for (by, annotation, expected) in [
            ("hand", None, true),
            ("hand", Some("west"), true),
            ("hand", Some("none"), false),
            ("annotation", Some("east"), false),
            ("release", Some("none"), false),
            ("label", None, false),
            ("reference", None, false),
        ] {
            let placement = on(by);
            let object = object(annotation, &placement);
            let is_needed = is_needed(&resources::DEPLOYMENTS, &object, &placement);
            assert_eq!(is_needed, expected, "{by} {annotation:?}");
        }
    }
}
