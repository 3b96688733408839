use super::*;

fn node(zone: &str, processors: &str, changes: &Value) -> Arc<Value> {
    let mut node = json!({
        "metadata": {"labels": {ZONE: zone}},
        "status": {"allocatable": {"cpu": processors}, "conditions": [{"type": "Ready", "status": "True"}]},
    });
    for (pointer, value) in changes.as_object().into_iter().flatten() {
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        node.pointer_mut(parent).unwrap()[field] = value.clone();
    }
    Arc::new(node)
}

fn plain(zone: &str, processors: &str) -> Arc<Value> {
    node(zone, processors, &json!({}))
}

#[test]
fn shares_follow_allocatable_cpu() {
    let labels = |label: &str| json!({"/metadata/labels": {ZONE: "c", label: ""}});
    let not_ready = json!({"/status/conditions": [{"type": "Ready", "status": "Unknown"}]});
    for (what, nodes, expected) in [
        ("none", vec![], vec![]),
        ("one zone", vec![plain("a", "4"), plain("a", "4")], vec![]),
        ("two", vec![plain("a", "4"), plain("b", "3500m"), plain("b", "500m")], vec![("a", 0.5), ("b", 0.5)]),
        ("without a zone", vec![plain("a", "4"), plain("b", "4"), plain("", "4")], vec![]),
        ("without processors", vec![plain("a", "4"), plain("b", "4"), plain("b", "0")], vec![]),
        (
            "others do not count",
            vec![
                plain("a", "6"),
                plain("b", "2"),
                node("", "1", &not_ready),
                node("c", "9", &labels("node-role.kubernetes.io/control-plane")),
                node("c", "9", &labels("node-role.kubernetes.io/master")),
            ],
            vec![("a", 0.75), ("b", 0.25)],
        ),
    ] {
        let expected: Shares = expected.into_iter().map(|(zone, share)| (zone.to_string(), share)).collect();
        assert_eq!(shares(&nodes).unwrap_or_default(), expected, "{what}");
    }
}

#[test]
fn the_older_annotation_takes_precedence() {
    for (annotations, expected) in [
        (json!({}), false),
        (json!({"service.kubernetes.io/topology-mode": "Auto"}), true),
        (json!({"service.kubernetes.io/topology-mode": "auto"}), true),
        (json!({"service.kubernetes.io/topology-mode": "AUTO"}), false),
        (json!({"service.kubernetes.io/topology-aware-hints": "auto"}), true),
        (
            json!({"service.kubernetes.io/topology-aware-hints": "Disabled", "service.kubernetes.io/topology-mode": "Auto"}),
            false,
        ),
    ] {
        let service = json!({"metadata": {"annotations": annotations}});
        assert_eq!(is_requested(&service), expected, "{annotations}");
    }
}

/// Returns a slice with endpoints, each in a zone and with a hint; either may be empty.
fn slice(endpoints: &[(&str, &str)]) -> Value {
    let endpoint = |(zone, hint): &(&str, &str)| {
        let mut endpoint = json!({"conditions": {"ready": true}});
        if !zone.is_empty() {
            endpoint["zone"] = (*zone).into();
        }
        if !hint.is_empty() {
            endpoint["hints"] = for_zone(hint);
        }
        endpoint
    };
    json!({"endpoints": endpoints.iter().map(endpoint).collect::<Vec<_>>()})
}

fn hints_of(slice: &Value) -> String {
    let hint =
        |endpoint: &Value| endpoint["hints"]["forZones"][0]["name"].as_str().unwrap_or("-").to_string();
    ready(slice).map(hint).collect()
}

#[test]
fn hints_are_balanced_over_zones() {
    let halves = || Some(Shares::from([("a".into(), 0.5), ("b".into(), 0.5)]));
    let quarters = || Some(Shares::from([("a".into(), 0.75), ("b".into(), 0.25)]));
    let six = [("a", ""), ("a", ""), ("a", ""), ("b", ""), ("b", ""), ("b", "")];
    let uneven = [("a", ""), ("a", ""), ("a", ""), ("a", ""), ("a", ""), ("a", ""), ("b", ""), ("b", "")];
    for (what, shares, endpoints, expected) in [
        ("even", halves(), &six[..], Ok("aaabbb")),
        ("uneven", halves(), &uneven, Ok("bbaaaabb")),
        ("all on one side", halves(), &[("a", ""), ("a", "")], Ok("ba")),
        ("by size", quarters(), &[("a", ""), ("b", ""), ("b", ""), ("b", "")], Ok("aaab")),
        ("old ones are set anew", halves(), &[("a", "b"), ("b", "c")], Ok("ab")),
        (
            "nodes say too little",
            None,
            &six,
            Err("Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"),
        ),
        ("too few", halves(), &six[..1], Err("Insufficient number of endpoints (1 endpoints, 2 zones)")),
        (
            "too few for both",
            halves(),
            &six[..5],
            Err(
                "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold (5 endpoints, 2 zones)",
            ),
        ),
        (
            "nowhere",
            halves(),
            &[("a", "a"), ("", "")],
            Err("One or more endpoints do not have a zone specified"),
        ),
    ] {
        let mut create = [slice(endpoints)];
        let assigned = assign(shares.as_ref(), &mut create, &mut Vec::new(), &[]);
        match (assigned, expected) {
            (Ok(counts), Ok(expected)) => {
                assert_eq!(hints_of(&create[0]), expected, "{what}");
                assert_eq!(counts.values().sum::<usize>(), endpoints.len(), "{what}");
            }
            (Err(reason), Err(expected)) => {
                assert_eq!(reason, expected, "{what}");
                assert_eq!(hints_of(&create[0]), "-".repeat(endpoints.len()), "{what}: none is left");
            }
            (assigned, _) => panic!("{what}: {assigned:?}"),
        }
    }
}

#[test]
fn slices_with_valid_hints_are_kept() {
    let halves = Shares::from([("a".into(), 0.5), ("b".into(), 0.5)]);
    for (what, kept, create, expected) in [
        ("right already", &[("a", "a"), ("b", "b")][..], &[][..], None),
        ("without hints", &[("a", ""), ("b", "")], &[], Some("ab")),
        ("for a zone that is gone", &[("a", "z"), ("b", "b")], &[], Some("ab")),
        ("too many for one zone", &[("a", "a"), ("a", "a"), ("b", "b")], &[("b", "")], None),
        ("far too many for one zone", &[("a", "a"), ("a", "a"), ("a", "a")], &[("b", "")], Some("baa")),
    ] {
        let (kept, mut create, mut update) = (Arc::new(slice(kept)), [slice(create)], Vec::new());
        assign(Some(&halves), &mut create, &mut update, &[&kept]).expect(what);
        assert_eq!(update.first().map(hints_of).as_deref(), expected, "{what}");
    }
    let (kept, mut update) = (Arc::new(slice(&[("a", "a")])), Vec::new());
    assert!(assign(None, &mut [], &mut update, &[&kept]).is_err());
    assert_eq!(update.first().map(hints_of).as_deref(), Some("-"), "invalid hints are removed");
}

#[test]
fn changes_of_hints_are_recorded() {
    let topologies = Topologies::default();
    let key = Key::new("w", "n", "web");
    let assigned = || HintsOutcome::Assigned(Counts::from([("a".into(), 3), ("b".into(), 3)]));
    for (outcome, expected) in [
        (HintsOutcome::NotRequested, None),
        (
            assigned(),
            Some("TopologyAwareHintsEnabled: Topology Aware Hints has been enabled, addressType: IPv4"),
        ),
        (assigned(), None),
        (HintsOutcome::Failed("Why".into()), Some("TopologyAwareHintsDisabled: Why, addressType: IPv4")),
        (HintsOutcome::Failed("Why".into()), Some("TopologyAwareHintsDisabled: Why, addressType: IPv4")),
        (HintsOutcome::NotRequested, None),
        (
            assigned(),
            Some("TopologyAwareHintsEnabled: Topology Aware Hints has been enabled, addressType: IPv4"),
        ),
        (
            HintsOutcome::NotRequested,
            Some("TopologyAwareHintsDisabled: Topology Aware Hints has been disabled, addressType: IPv4"),
        ),
    ] {
        let event = topologies.record(&key, "IPv4", outcome);
        let told = event.map(|event| format!("{}: {}", event.reason, event.message));
        assert_eq!(told.as_deref(), expected);
    }
}

#[test]
fn overloaded_services_are_found() {
    let topologies = Topologies::default();
    let key = Key::new("w", "n", "web");
    topologies.record(&key, "IPv4", HintsOutcome::Assigned(Counts::from([("a".into(), 3), ("b".into(), 3)])));
    for (what, workspace, nodes, expected) in [
        ("as before", "w", vec![plain("a", "4"), plain("b", "4")], false),
        ("a little more", "w", vec![plain("a", "5"), plain("b", "4")], false),
        ("much more", "w", vec![plain("a", "8"), plain("b", "2")], true),
        ("another zone", "w", vec![plain("a", "4"), plain("b", "4"), plain("c", "4")], true),
        ("too few", "w", vec![plain("a", "4")], true),
        ("elsewhere", "v", vec![plain("a", "4")], false),
    ] {
        let found = topologies.overloaded(workspace, || nodes);
        assert_eq!(!found.is_empty(), expected, "{what}");
    }
}
