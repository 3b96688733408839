//! Named clusters that take nothing.

use super::*;

#[test]
fn named_clusters_without_a_share_have_a_reason() {
    let closed = ClusterState { is_cordoned: true, ..state("c") };
    let hidden = ClusterState { workspaces: Some(vec!["other".into()]), ..state("h") };
    let fleet = fleet(&[(state("a"), 10), (state("b"), 2), (closed, 10), (hidden, 10)]);
    let named = |division, names: &[&str]| Rules {
        clusters: ClusterFilter::named(names.iter().copied()),
        ..rules(division)
    };
    let filter = |name: &str| ClusterFilter::named([name]);
    let weights = Division::Weighted(vec![(filter("a"), 1), (filter("c"), 1), (filter("b"), 0)]);
    for (rules, replicas, expected) in [
        (named(Division::Duplicate, &["a", "b"]), 2, ""),
        (named(Division::Duplicate, &["a", "b"]), 3, "b NoRoom"),
        (named(Division::Duplicate, &["a", "c"]), 3, "c Cordoned"),
        (named(Division::Duplicate, &["a", "h", "x"]), 3, "h NotFound, x NotFound"),
        (named(Division::Even, &["a", "b", "c"]), 3, "c Cordoned"),
        (named(Division::Even, &["a", "b", "c"]), 1, "c Cordoned"),
        (named(Division::Capacity, &["a", "b"]), 1, ""),
        (named(weights, &["a", "b", "c"]), 3, "c Cordoned"),
        (named(Division::Single, &["a", "c"]), 3, ""),
        // Nothing is placed: the reasons of all clusters are reported.
        (named(Division::Duplicate, &["c"]), 3, ""),
        (rules(Division::Duplicate), 3, ""),
    ] {
        let decision = decide(&fleet, &demand(replicas), &rules);
        let found: Vec<String> =
            decision.left_out.iter().map(|one| format!("{} {}", one.name, one.code)).collect();
        assert_eq!(found.join(", "), expected, "{rules:?} {replicas}");
        assert_eq!(explain(&fleet, &demand(replicas), &rules).0.left_out, decision.left_out);
    }
}
