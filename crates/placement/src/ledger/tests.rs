use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::node::NodeShape;

fn amounts(cores: i64) -> Resources {
    Resources { milli_cpu: cores * 1000, memory: cores << 32, pods: 100, ..Resources::default() }
}

fn report(nodes: &[(i64, i64)], bound: &[(&str, i64)]) -> Arc<CapacityReport> {
    let shape = |(count, cores): &(i64, i64)| NodeShape {
        count: *count,
        free: amounts(*cores),
        ..NodeShape::default()
    };
    Arc::new(CapacityReport {
        nodes: nodes.iter().map(shape).collect(),
        bound: bound.iter().map(|(uid, pods)| ((*uid).into(), *pods)).collect(),
        ..CapacityReport::default()
    })
}

fn needs(milli_cpu: i64) -> Arc<Needs> {
    let requests = Resources { milli_cpu, pods: 1, ..Resources::default() };
    Arc::new(Needs { requests, ..Needs::default() })
}

fn key(uid: &str) -> ObjectKey {
    ObjectKey { uid: uid.into(), namespace: "n".into(), workspace: "w".into(), ..ObjectKey::default() }
}

fn account(nodes: &[(i64, i64)]) -> Account {
    let mut account = Account::default();
    account.set_report(report(nodes, &[]));
    account
}

#[test]
fn a_pod_must_fit_one_node() {
    for (nodes, milli_cpu, expected) in [
        (&[(1, 4)][..], 1000, 4),
        (&[(1, 4)], 3000, 1),
        (&[(4, 1)], 1500, 0),
        (&[(3, 4), (2, 1)], 1500, 6),
        (&[(1, 4)], 5000, 0),
        (&[], 1000, 0),
    ] {
        let found = account(nodes).takes(&key("a"), &needs(milli_cpu), UNLIMITED);
        assert_eq!(found, Some(expected), "{nodes:?} {milli_cpu}");
    }
    assert_eq!(Account::default().takes(&key("a"), &needs(1), UNLIMITED), None);
}

#[test]
fn shares_less_bound_pods_are_reserved() {
    let mut account = account(&[(2, 4)]);
    let left = |account: &Account| account.takes(&key("other"), &needs(1000), UNLIMITED);
    account.set_share(&key("a"), &needs(1000), 3);
    assert_eq!(left(&account), Some(5));
    assert_eq!(account.takes(&key("a"), &needs(1000), UNLIMITED), Some(8), "its own are not in its way");
    // A late heartbeat from before changes nothing.
    account.set_report(report(&[(2, 4)], &[]));
    assert_eq!(left(&account), Some(5));
    // Two of the three are bound in this report.
    account.set_report(report(&[(2, 3)], &[("a", 2)]));
    assert_eq!(left(&account), Some(5));
    account.set_share(&key("a"), &needs(1000), 2);
    assert_eq!(left(&account), Some(6));
    // Pods that are about to go still take room.
    account.set_share(&key("a"), &needs(1000), 0);
    assert_eq!(left(&account), Some(6));
    account.set_report(report(&[(2, 4)], &[]));
    assert_eq!(left(&account), Some(8));
}

#[test]
fn a_burst_never_takes_more_than_there_is() {
    let mut account = account(&[(3, 4), (1, 2)]);
    let mut placed = 0;
    for at in 0..200 {
        let object = key(&format!("u{at}"));
        let share = account.takes(&object, &needs(500), 1).unwrap_or(0);
        account.set_share(&object, &needs(500), share);
        placed += share;
    }
    assert_eq!(placed, 28);
    assert_eq!(account.free().map(|free| free.milli_cpu), Some(0));
}

#[test]
fn replicas_are_expected_on_the_nodes_with_most_room() {
    let mut account = account(&[(2, 4)]);
    account.set_share(&key("a"), &needs(1000), 2);
    // One on each node leaves no room for a pod of a whole node.
    assert_eq!(account.takes(&key("b"), &needs(4000), UNLIMITED), Some(0));
    assert_eq!(account.takes(&key("b"), &needs(3000), UNLIMITED), Some(2));
    account.set_share(&key("a"), &needs(1000), 1);
    assert_eq!(account.takes(&key("b"), &needs(4000), UNLIMITED), Some(1));
}

#[test]
fn larger_requests_of_the_same_object_are_judged_anew() {
    let mut account = account(&[(2, 4)]);
    account.set_share(&key("a"), &needs(1000), 8);
    assert_eq!(account.takes(&key("a"), &needs(2000), UNLIMITED), Some(4));
    account.set_share(&key("a"), &needs(2000), 4);
    assert_eq!(account.takes(&key("b"), &needs(100), UNLIMITED), Some(0));
}

#[test]
fn limits_count_all_shares() {
    let mut account = account(&[(10, 4)]);
    account.set_report(report(&[(10, 4)], &[("a", 2)]));
    account.set_share(&key("a"), &needs(1000), 3);
    for (limits, object, milli_cpu, expected) in [
        (json!({}), "b", 1000, (UNLIMITED, None)),
        (json!({ "cpu": 5000 }), "b", 1000, (2, Some("cpu"))),
        (json!({ "cpu": 5000 }), "a", 1000, (5, Some("cpu"))),
        (json!({ "cpu": 2000 }), "b", 1000, (0, Some("cpu"))),
        (json!({ "cpu": 9000, "pods": 4 }), "b", 1000, (1, Some("pods"))),
        (json!({ "memory": 1 }), "b", 1000, (UNLIMITED, None)),
    ] {
        let limits: BTreeMap<String, i64> = serde_json::from_value(limits).unwrap();
        let found = account.limits_take(&limits, &key(object), &needs(milli_cpu));
        assert_eq!(found, expected, "{limits:?} {object}");
    }
}

#[test]
fn quotas_of_the_namespace_are_kept() {
    let mut account = Account::default();
    let left = [("cpu".to_string(), 3000)].into();
    let quotas = [(("w".into(), "n".into()), left)].into();
    account.set_report(Arc::new(CapacityReport { quotas, ..(*report(&[(10, 4)], &[("a", 1)])).clone() }));
    account.set_share(&key("a"), &needs(1000), 2);
    assert_eq!(account.takes(&key("b"), &needs(1000), UNLIMITED), Some(2));
    assert_eq!(account.takes(&key("a"), &needs(1000), UNLIMITED), Some(4));
    assert_eq!(account.quota_of(&key("a"), &needs(1000)), (4, Some("cpu")));
    let elsewhere = ObjectKey { namespace: "m".into(), ..key("b") };
    assert_eq!(account.takes(&elsewhere, &needs(1000), UNLIMITED), Some(39));
    assert_eq!(account.quota_of(&elsewhere, &needs(1000)).1, None);
}

#[test]
fn very_many_pods_are_seated_in_few_steps() {
    let cluster = |nodes: usize, pods: i64| {
        let free = Resources { milli_cpu: 1 << 50, memory: 1 << 62, pods, ..Resources::default() };
        let shape = NodeShape { count: 1, free, ..NodeShape::default() };
        let mut account = Account::default();
        account
            .set_report(Arc::new(CapacityReport { nodes: vec![shape; nodes], ..CapacityReport::default() }));
        account
    };
    let most = i64::from(i32::MAX);
    let mut huge = cluster(64, 1 << 40);
    for object in 0..200 {
        huge.set_share(&key(&object.to_string()), &needs(1), most);
    }
    assert_eq!(huge.takes(&key("other"), &needs(1), 5), Some(5));
    // Room is reserved for each of them, and for none twice.
    let mut full = cluster(3, 1_000_000);
    full.set_share(&key("a"), &needs(1), 2_999_999);
    assert_eq!(full.takes(&key("other"), &needs(1), 5), Some(1));
    full.set_share(&key("a"), &needs(1), most);
    assert_eq!(full.takes(&key("other"), &needs(1), 5), Some(0));
}

#[test]
fn many_changes_are_settled_together() {
    let changes =
        [("a", 1000, 3), ("b", 500, 4), ("a", 2000, 2), ("b", 500, 1), ("c", 1500, 2), ("a", 2000, 0)];
    let (mut one_by_one, mut together) = (account(&[(2, 4)]), account(&[(2, 4)]));
    for (uid, milli_cpu, replicas) in changes {
        one_by_one.set_share(&key(uid), &needs(milli_cpu), replicas);
        together.set_share_later(&key(uid), &needs(milli_cpu), replicas);
    }
    assert!(together.is_stale, "shares have shrunk");
    together.settle();
    assert_eq!((one_by_one.room(), one_by_one.free()), (together.room(), together.free()));
    for milli_cpu in [500, 1000, 3000] {
        let takes = |account: &Account| account.takes(&key("other"), &needs(milli_cpu), UNLIMITED);
        assert_eq!(takes(&one_by_one), takes(&together), "{milli_cpu}");
    }
}
