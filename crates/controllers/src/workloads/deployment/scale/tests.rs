use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn deployment(replicas: i64, surge: Value, unavailable: Value) -> Value {
    let rolling = json!({"maxSurge": surge, "maxUnavailable": unavailable});
    json!({"spec": {"replicas": replicas, "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}})
}

/// Returns a set with this size, available pods, and replicas annotations.
fn set(age: i64, replicas: i64, available: i64, annotated: Option<(i64, i64)>) -> Set {
    let mut set = json!({
        "metadata": {
            "name": format!("set-{age}"), "uid": format!("set-{age}"),
            "creationTimestamp": format!("2026-11-15T08:{:02}:00Z", 59 - age),
        },
        "spec": {"replicas": replicas},
        "status": {"replicas": replicas, "availableReplicas": available},
    });
    if let Some((desired, most)) = annotated {
        set["metadata"]["annotations"] =
            json!({DESIRED_REPLICAS: desired.to_string(), MAX_REPLICAS: most.to_string()});
    }
    Set::new(Arc::new(set))
}

fn sizes(sets: &Sets) -> Vec<i64> {
    let mut all: Vec<(&str, i64)> = sets.all().map(|set| (set.name(), set.replicas())).collect();
    all.sort();
    all.into_iter().map(|(_, size)| size).collect()
}

#[test]
fn new_sets_scale_up_within_the_surge() {
    // Wanted, surge, old, new before and after.
    for (wanted, surge, old, before, after) in [
        (1, 1, 1, 0, 1),
        (2, 1, 1, 1, 2),
        (10, 0, 10, 0, 0),
        (10, 2, 10, 0, 2),
        (10, 2, 5, 0, 7),
        (10, 2, 10, 2, 2),
        (10, 2, 0, 0, 10),
        (10, 2, 0, 12, 10),
        (10, 2, 20, 0, 0),
    ] {
        let deployment = deployment(wanted, json!(surge), json!(1));
        let mut sets = Sets { new: Some(set(0, before, 0, None)), old: vec![set(1, old, old, None)] };
        assert_eq!(scale_up_new(&deployment, &mut sets), before != after);
        assert_eq!(sets.new.map(|new| new.replicas()), Some(after), "{wanted} {surge} {old} {before}");
    }
}

/// A set that was scaled down and still has its pods.
#[test]
fn terminating_pods_count_until_they_are_gone() {
    // Wanted, surge, desired and existing pods of the old set, new before and after.
    for (wanted, surge, (size, pods), before, after) in [
        (4, 1, (3, 4), 1, 1),
        (4, 1, (3, 3), 1, 2),
        (4, 1, (0, 2), 3, 3),
        (4, 1, (0, 1), 3, 4),
        (4, 1, (0, 0), 3, 4),
        (4, 0, (4, 3), 0, 0),
    ] {
        let deployment = deployment(wanted, json!(surge), json!(1));
        let mut old = set(1, size, 0, None).current.as_ref().clone();
        old["status"]["replicas"] = pods.into();
        let old = vec![Set::new(Arc::new(old))];
        let mut sets = Sets { new: Some(set(0, before, 0, None)), old };
        scale_up_new(&deployment, &mut sets);
        assert_eq!(
            sets.new.map(|new| new.replicas()),
            Some(after),
            "{wanted} {surge} {size} {pods} {before}"
        );
    }
}

#[test]
fn old_sets_scale_down_within_max_unavailable() {
    // Wanted, unavailable, (old, available), (new, available), old afterwards.
    for (wanted, unavailable, old, new, after) in [
        (10, 0, (10, 10), (0, 0), 10),
        (10, 2, (10, 10), (0, 0), 8),
        (10, 2, (10, 8), (0, 0), 8),
        (10, 2, (10, 0), (0, 0), 8),
        (10, 2, (8, 8), (5, 0), 8),
        (10, 2, (8, 8), (5, 3), 5),
        (10, 2, (8, 8), (5, 5), 3),
        (10, 2, (10, 10), (5, 5), 3),
        (10, 0, (1, 1), (10, 10), 0),
        (10, 2, (0, 0), (10, 10), 0),
        // The old set still has its pods: they do not count twice.
        (10, 2, (8, 10), (5, 2), 6),
    ] {
        let deployment = deployment(wanted, json!(3), json!(unavailable));
        let mut sets = Sets { new: Some(set(0, new.0, new.1, None)), old: vec![set(1, old.0, old.1, None)] };
        assert_eq!(scale_down_old(&deployment, &mut sets), after != old.0);
        assert_eq!(sets.old[0].replicas(), after, "{wanted} {unavailable} {old:?} {new:?}");
    }
}

#[test]
fn unhealthy_pods_and_older_sets_are_scaled_down_first() {
    let deployment = deployment(10, json!(3), json!(2));
    let old = vec![set(1, 3, 0, None), set(2, 10, 10, None)];
    let mut sets = Sets { new: Some(set(0, 0, 0, None)), old };
    assert!(scale_down_old(&deployment, &mut sets));
    assert_eq!(sizes(&sets), [0, 0, 8], "three unhealthy ones, then two of the oldest set");
}

#[test]
fn scaling_is_proportional() {
    // Wanted, surge, annotated maximum; sizes from new to old, before and after.
    for (wanted, surge, most, before, after) in [
        (12, 0, 10, vec![10], vec![12]),
        (8, 0, 10, vec![10], vec![8]),
        (0, 0, 10, vec![0, 10], vec![0, 0]),
        (20, 0, 10, vec![5, 5], vec![10, 10]),
        (5, 0, 10, vec![5, 5], vec![3, 2]),
        (10, 0, 20, vec![10, 10], vec![5, 5]),
        (50, 0, 6, vec![5, 1], vec![42, 8]),
        (15, 0, 10, vec![3, 7], vec![4, 11]),
        (20, 0, 30, vec![10, 10, 10], vec![7, 7, 6]),
        (15, 2, 13, vec![5, 8], vec![7, 10]),
        (7, 0, 10, vec![0, 0, 0], vec![7, 0, 0]),
    ] {
        let deployment = deployment(wanted, json!(surge), json!(1));
        let annotated = Some((most - surge, most));
        let mut all = before.iter().enumerate().map(|(age, size)| set(age as i64, *size, 0, annotated));
        let mut sets = Sets { new: all.next(), old: all.collect() };
        scale_proportionally(&deployment, &mut sets);
        assert_eq!(sizes(&sets), after, "{wanted} {surge} {most} {before:?}");
    }
}

#[test]
fn old_sets_are_scaled_to_zero_if_the_new_one_is_saturated() {
    let deployment = deployment(10, json!(3), json!(2));
    let new = set(0, 10, 10, Some((10, 13)));
    let mut sets = Sets { new: Some(new), old: vec![set(1, 4, 4, Some((10, 13)))] };
    scale_proportionally(&deployment, &mut sets);
    assert_eq!(sizes(&sets), [10, 0]);
}

#[test]
fn a_changed_size_is_detected_by_annotations() {
    let deployment = deployment(10, json!(3), json!(2));
    for (size, annotated, scaled) in
        [(5, Some((10, 13)), false), (5, Some((9, 12)), true), (0, Some((9, 12)), false), (5, None, false)]
    {
        let sets = Sets { new: Some(set(0, size, 0, annotated)), old: Vec::new() };
        assert_eq!(is_scaled(&deployment, &sets), scaled, "{size} {annotated:?}");
    }
}

/// Pods of one set, as its controller maintains them.
#[derive(Clone, Debug, Default)]
struct Pods {
    /// Number of existing pods, and of available ones.
    all: i64,
    available: i64,
    /// Counts in the last written status.
    reported: (i64, i64),
}

proptest! {
    /// Property: whatever the order of events, there are never too many or too few pods.
    #[test]
    fn rolling_updates_keep_within_their_limits(
        wanted in 1i64..20,
        surge in 0i64..6,
        unavailable in 0i64..6,
        steps in proptest::collection::vec((0u8..6, 0usize..4), 1..200),
    ) {
        let deployment = deployment(wanted, json!(surge), json!(unavailable));
        let (surge, unavailable) = (limits::max_surge(&deployment), limits::max_unavailable(&deployment));
        let mut wants = vec![wanted];
        let mut pods = vec![Pods { all: wanted, available: wanted, reported: (wanted, wanted) }];
        for (event, index) in steps {
            let index = index % pods.len();
            match event {
                // A new template, sometimes.
                0 if pods.len() < 4 => {
                    let total: i64 = wants.iter().sum();
                    let size = new_size(&deployment, total, 0);
                    wants.push(size);
                    pods.push(Pods::default());
                }
                // The set's controller deletes unavailable pods first.
                1 => {
                    let set = &mut pods[index];
                    set.all = wants[index];
                    set.available = set.available.min(set.all);
                }
                // A pod becomes available.
                2 => {
                    let set = &mut pods[index];
                    set.available = (set.available + 1).min(set.all);
                }
                // The set's controller writes the status.
                3 => pods[index].reported = (pods[index].all, pods[index].available),
                // The Deployment's controller reconciles.
                _ => {
                    let newest = pods.len() - 1;
                    let created = |index: usize| {
                        let (replicas, available) = pods[index].reported;
                        let mut own = set((newest - index) as i64, wants[index], available, None);
                        own.current = Arc::new({
                            let mut changed = own.current.as_ref().clone();
                            changed["status"]["replicas"] = replicas.into();
                            changed
                        });
                        own
                    };
                    let mut sets = Sets { new: Some(created(newest)), old: (0..newest).map(created).collect() };
                    if !scale_up_new(&deployment, &mut sets) {
                        scale_down_old(&deployment, &mut sets);
                    }
                    for set in sets.all() {
                        let age: usize = set.name().trim_start_matches("set-").parse().unwrap();
                        wants[newest - age] = set.replicas();
                    }
                }
            }
            let total: i64 = wants.iter().sum();
            prop_assert!(total <= wanted + surge, "{total} pods of {wanted} and {surge}");
            let left: i64 = pods.iter().zip(&wants).map(|(pods, size)| pods.available.min(*size)).sum();
            prop_assert!(left >= wanted - unavailable, "{left} pods left of {wanted} less {unavailable}");
        }
    }
}
