use super::*;

fn shares(names: &[&str]) -> Vec<Share> {
    names.iter().map(|name| Share { name: name.to_string(), ..Share::default() }).collect()
}

fn known(name: &str, uid: &str) -> Share {
    Share::on(name, uid)
}

#[test]
fn clusters_with_the_same_name_are_distinguished() {
    let first = Placement::default().decided(vec![known("a", "1")], "hand");
    assert_eq!(first.text().unwrap(), r#"{"clusters":[{"name":"a","uid":"1"}],"by":"hand"}"#);
    assert!(first.share_of("a", "1").is_some() && first.share_of("a", "2").is_none());
    let second = first.decided(vec![known("a", "2")], "hand");
    let text = r#"{"clusters":[{"name":"a","uid":"2"}],"leaving":["a"],"leavingUids":["1"],"by":"hand"}"#;
    assert_eq!(second.text().as_deref(), Some(text));
    assert_eq!(Placement::parse(text), Some(second.clone()));
    assert_eq!(second.confirm_removed("a", "2", false), second);
    assert_eq!(
        second.confirm_removed("a", "1", true).text().unwrap(),
        r#"{"clusters":[{"name":"a","uid":"2"}],"by":"hand"}"#
    );
    assert_eq!(first.moved_shares(&second).len(), 2);
}

#[test]
fn placements_without_uids_match_clusters_by_name() {
    let old = Placement::parse(r#"{"clusters":[{"name":"a"}],"leaving":["b"],"by":"hand"}"#).unwrap();
    assert!(old.share_of("a", "1").is_some());
    // A uid that becomes known changes nothing.
    let filled = old.decided(vec![known("a", "1")], "hand");
    assert_eq!(filled.leaving, [Leaving { name: "b".into(), uid: String::new() }]);
    assert!(old.moved_shares(&filled).is_empty());
    assert!(filled.confirm_removed("b", "7", false).leaving.is_empty());
}

fn leaving(name: &str) -> Leaving {
    Leaving { name: name.into(), ..Leaving::default() }
}

#[test]
fn removed_cluster_is_leaving_until_it_confirms() {
    let first = Placement::default().decided(shares(&["a", "b"]), "hand");
    assert_eq!(first.text().unwrap(), r#"{"clusters":[{"name":"a"},{"name":"b"}],"by":"hand"}"#);
    let second = first.decided(shares(&["b", "c"]), "hand");
    assert_eq!(second.leaving, [leaving("a")]);
    assert_eq!(second.decided(shares(&["a"]), "hand").leaving, [leaving("b"), leaving("c")]);
    assert_eq!(second.confirm_removed("a", "", false).leaving, []);
    assert_eq!(second.confirm_removed("b", "", false), second, "the cluster has a share");
    let gone = ["a", "b", "c"].iter().fold(second, |rest, name| rest.confirm_removed(name, "", true));
    assert_eq!((gone.is_empty(), gone.text()), (true, None));
    let nowhere = first.decided(Vec::new(), "hand");
    assert_eq!(nowhere.text().unwrap(), r#"{"leaving":["a","b"]}"#);
}

#[test]
fn run_once_kinds_need_duplicate_for_several_clusters() {
    let on = |names: &[&str]| Placement { clusters: shares(names), ..Placement::default() };
    for (group, resource, current, wanted, duplicate, is_refused) in [
        ("apps", "statefulsets", on(&[]), &["a", "b"][..], false, true),
        ("batch", "jobs", on(&[]), &["a", "b"], false, true),
        ("batch", "cronjobs", on(&["a"]), &["a", "b"], false, true),
        ("apps", "statefulsets", on(&["a", "b"]), &["a", "c"], false, true),
        ("apps", "statefulsets", on(&[]), &["a", "b"], true, false),
        ("apps", "statefulsets", on(&[]), &["a"], false, false),
        ("apps", "statefulsets", on(&["a"]), &["b"], false, false),
        ("apps", "statefulsets", on(&["a"]), &[], false, false),
        // Placed by an older version, and with fewer clusters.
        ("apps", "statefulsets", on(&["a", "b"]), &["b", "a"], false, false),
        ("apps", "statefulsets", on(&["a", "b", "c"]), &["a", "b"], false, false),
        ("apps", "deployments", on(&[]), &["a", "b"], false, false),
        ("", "persistentvolumeclaims", on(&[]), &["a", "b"], false, false),
        ("example.com", "jobs", on(&[]), &["a", "b"], false, false),
    ] {
        let object = (group, resource, "shop", "db");
        let refused = duplicates(object, &current, &shares(wanted), duplicate);
        assert_eq!(refused.is_some(), is_refused, "{group}/{resource} {current:?} {wanted:?} {duplicate}");
    }
    let mut wanted = shares(&["a", "b"]);
    wanted[1].replicas = Some(2);
    let refused = duplicates(("apps", "statefulsets", "shop", "db"), &on(&[]), &wanted, false).unwrap();
    assert!(
        refused.ends_with(": atoll place statefulset/db --namespace shop --on a,b=2 --duplicate"),
        "{refused}"
    );
    let said = Placement { duplicate: true, ..on(&["a", "b"]) };
    let text = r#"{"clusters":[{"name":"a"},{"name":"b"}],"duplicate":true}"#;
    assert_eq!((said.text().as_deref(), Placement::parse(text)), (Some(text), Some(said.clone())));
    assert!(said.decided(shares(&["a"]), "hand").duplicate);
    assert!(!said.decided(Vec::new(), "hand").duplicate);
}

#[test]
fn namespace_is_placed_with_its_contents() {
    let first = Placement::default().with_contents_on("a", "1");
    assert_eq!(first.text().unwrap(), r#"{"clusters":[{"name":"a","uid":"1"}],"by":"contents"}"#);
    assert_eq!(first.with_contents_on("a", "1"), first);
    let both = first.with_contents_on("b", "2");
    assert_eq!(both.names().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(both.confirm_removed("a", "1", true), Placement::default().with_contents_on("b", "2"));
    assert_eq!(both.confirm_removed("a", "3", true), both, "another cluster with that name");
}

#[test]
fn placements_round_trip() {
    let text = r#"{"clusters":[{"name":"a","replicas":3}],"leaving":["b"],"by":"hand"}"#;
    let placement = Placement::parse(text).unwrap();
    assert_eq!(placement.text().as_deref(), Some(text));
    assert_eq!(placement.share("a").unwrap().replicas, Some(3));
    assert_eq!(placement.names().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(Placement::parse("nonsense"), None);
    assert!(Placement::of(&serde_json::json!({})).is_empty());
}

#[test]
fn shares_carry_numbers_and_old_readers_ignore_them() {
    let text = r#"{"clusters":[{"name":"a","uid":"1","replicas":3,"firstOrdinal":2,"completions":4,"parallelism":1,"held":true}],"by":"PlacementPolicy shop/web","phase":"Moving","target":[{"name":"b","replicas":3}],"decisions":[{"time":"2026-01-01T00:00:00Z","by":"p","reason":"more room"}]}"#;
    let placement = Placement::parse(text).unwrap();
    assert_eq!(placement.text().as_deref(), Some(text));
    let share = &placement.clusters[0];
    assert_eq!((share.ordinals(), share.completions, share.held), (Some((2, 5)), Some(4), true));
    // A new decision ends the move, and keeps the past decisions.
    let next = placement.decided(vec![known("b", "2")], "hand");
    assert_eq!((next.phase.as_str(), next.target.len(), next.decisions.len()), ("", 0, 1));
    assert_eq!(placement.confirm_removed("a", "1", false), placement);
    let mut scaled = placement.clone();
    (scaled.clusters[0].held, scaled.clusters[0].replicas) = (false, Some(5));
    assert!(placement.moved_shares(&scaled).is_empty(), "no cluster enters or leaves");
}

#[test]
fn divided_work_runs_on_several_clusters() {
    let share = |name: &str, first: i64, replicas: i64| Share {
        first_ordinal: Some(first),
        replicas: Some(replicas),
        ..known(name, "")
    };
    let part = |name: &str, completions: Option<i64>| Share { completions, ..known(name, "") };
    let (sets, jobs, cron) = (("apps", "statefulsets"), ("batch", "jobs"), ("batch", "cronjobs"));
    for ((group, resource), current, wanted, is_refused) in [
        (sets, vec![], vec![share("a", 0, 2), share("b", 2, 3)], false),
        (sets, vec![], vec![share("b", 2, 3), share("a", 0, 2), share("c", 1, 0)], false),
        (sets, vec![], vec![share("a", 0, 3), share("b", 2, 3)], true),
        (sets, vec![], vec![share("a", 0, 3), known("b", "")], true),
        // Without an added cluster, too.
        (sets, vec![share("a", 0, 2), share("b", 2, 3)], vec![share("a", 0, 3), share("b", 2, 3)], true),
        (jobs, vec![], vec![part("a", Some(6)), part("b", Some(4))], false),
        (jobs, vec![], vec![part("a", Some(6)), part("b", None)], true),
        (cron, vec![], vec![part("a", Some(6)), part("b", Some(4))], true),
    ] {
        let current = Placement { clusters: current, ..Placement::default() };
        let refused = duplicates((group, resource, "shop", "db"), &current, &wanted, false);
        assert_eq!(refused.is_some(), is_refused, "{resource} {wanted:?}");
    }
}

#[test]
fn recorded_decisions_are_bounded() {
    let mut placement = Placement { clusters: shares(&["a"]), ..Placement::default() };
    let decision =
        |reason: String| PlacementDecision { time: "2026-01-01T00:00:00Z".into(), by: "p".into(), reason };
    for number in 0..9 {
        placement.record(decision(format!("reason {number}")));
    }
    let reasons: Vec<&str> = placement.decisions.iter().map(|one| one.reason.as_str()).collect();
    assert_eq!(reasons, ["reason 4", "reason 5", "reason 6", "reason 7", "reason 8"]);
    for length in [300, 600, 5000] {
        placement.record(decision("\"".repeat(length)));
        assert!(placement.decisions_size() <= MAX_DECISIONS_BYTES, "{length}");
        assert!(placement.decisions.last().is_some_and(|one| one.reason.starts_with('"')));
    }
    assert_eq!(placement.decisions.len(), 1);
    for (text, expected) in
        [("a é", true), ("", false), ("a\tb", false), ("\u{202e}", false), ("toolong", false)]
    {
        assert_eq!(is_printable(text, 5), expected, "{text:?}");
    }
}

#[test]
fn replicas_move_unless_shares_follow_their_number() {
    let on = |numbers: [Option<i64>; 2]| {
        let share = |(name, replicas): (&str, Option<i64>)| Share { replicas, ..known(name, name) };
        Placement {
            clusters: ["a", "b"].into_iter().zip(numbers).map(share).collect(),
            ..Placement::default()
        }
    };
    for (before, after, replicas, expected) in [
        ([Some(3), Some(1)], [Some(2), Some(2)], 4, 2),
        ([Some(3), Some(1)], [Some(4), Some(0)], 6, 2),
        ([Some(3), Some(1)], [Some(3), Some(2)], 4, 1),
        ([Some(3), Some(1)], [Some(4), Some(2)], 6, 0),
        ([Some(3), Some(1)], [Some(3), Some(2)], 6, 0),
        ([Some(3), Some(1)], [Some(0), Some(1)], 1, 0),
        ([Some(3), Some(1)], [Some(3), Some(1)], 9, 0),
        ([Some(3), Some(3)], [Some(5), Some(5)], 5, 0),
        ([Some(3), None], [Some(2), Some(1)], 3, 1),
        ([None, None], [Some(2), Some(1)], 3, 0),
    ] {
        let found = on(before).moved_replicas(&on(after), replicas).len();
        assert_eq!(found, expected, "{before:?} {after:?} {replicas}");
    }
}
