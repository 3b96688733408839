//! Clusters of workspaces above, which several workspaces share.

use super::*;

/// A cluster of this workspace that has reported nothing.
fn unreported(workspace: &str, readiness: Readiness) -> Fleet {
    let mut fleet = Fleet::new();
    fleet.set_cluster(ClusterState { workspace: workspace.into(), readiness, ..state("a") });
    fleet
}

#[test]
fn shared_clusters_take_nothing_before_they_have_reported_their_room() {
    let named =
        |division| Rules { clusters: ClusterFilter::named(["a"]), names_clusters: true, ..rules(division) };
    let pins = Division::Pinned(vec![("a".into(), 3)]);
    let (ready, unknown) = (Readiness::Ready { since: 0 }, Readiness::Unknown);
    for (workspace, readiness, division, expected) in [
        ("root", &ready, Division::Single, " -3"),
        ("root", &ready, Division::Even, " -3"),
        ("root", &ready, pins.clone(), " -3"),
        ("root", &unknown, Division::Single, " -3"),
        ("root:org", &ready, Division::Single, "a=3"),
        ("root:org", &ready, pins.clone(), "a=3"),
        ("root:org", &unknown, Division::Even, "a=3"),
    ] {
        let fleet = unreported(workspace, readiness.clone());
        let decision = decide(&fleet, &demand(3), &named(division.clone()));
        assert_eq!(words(&decision), expected, "{workspace} {readiness:?} {division:?}");
        if decision.shares.is_empty() {
            assert_eq!(codes(&decision), [("a", "RoomNotReported")], "{division:?}");
            assert!(decision.refusals[0].text.contains("has not reported its room yet"));
        }
    }
    // Objects without pods wait, too, and what is there stays as it is.
    let fleet = unreported("root", ready);
    let copy = json!({ "metadata": { "name": "x", "namespace": "n", "uid": "u" } });
    let copy = Demand::of(("w", "root:org"), ("example.dev", "widgets"), &copy);
    assert_eq!(words(&decide(&fleet, &copy, &named(Division::Duplicate))), " -1");
    assert_eq!(words(&decide(&fleet, &on(demand(5), &[("a", 2)]), &named(Division::Even))), "a=2 -3");
    // Without names, the reason is the same.
    let decision = decide(&fleet, &demand(1), &Rules::by_default());
    assert_eq!(codes(&decision), [("a", "RoomNotReported")]);
}
