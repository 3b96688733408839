use super::*;

fn cluster(level: &str) -> Value {
    if level.is_empty() { json!({ "spec": {} }) } else { json!({ "spec": { "podSecurity": level } }) }
}

fn namespace(labels: &[(&str, &str)], annotation: Option<&str>) -> Value {
    let mut namespace = json!({ "metadata": { "name": "shop", "resourceVersion": "7" } });
    for (key, value) in labels {
        namespace["metadata"]["labels"][format!("pod-security.kubernetes.io/{key}")] = (*value).into();
    }
    if let Some(text) = annotation {
        object::set_annotation(&mut namespace, marks::POD_SECURITY, text);
    }
    namespace
}

#[test]
fn stricter_level_wins() {
    for (set, is_registered_there, labels, expected) in [
        ("", true, &[][..], "privileged:latest"),
        ("", false, &[], "baseline:latest"),
        ("restricted", true, &[], "restricted:latest"),
        ("restricted", false, &[], "restricted:latest"),
        ("privileged", false, &[], "privileged:latest"),
        ("nonsense", false, &[], "baseline:latest"),
        ("", false, &[("enforce", "privileged")], "baseline:latest"),
        ("", false, &[("enforce", "restricted"), ("enforce-version", "v1.24")], "restricted:latest"),
        ("", true, &[("enforce", "restricted"), ("enforce-version", "v1.24")], "restricted:v1.24"),
        ("restricted", false, &[("enforce", "baseline"), ("enforce-version", "v1.24")], "restricted:latest"),
        ("privileged", false, &[("enforce", "baseline"), ("enforce-version", "v1.24")], "baseline:v1.24"),
        ("", true, &[("enforce", "baseline")], "baseline:latest"),
    ] {
        let namespace = namespace(labels, None);
        let rule = required(&cluster(set), is_registered_there, |key| object::label(&namespace, key));
        assert_eq!(rule.to_string(), expected, "{set} {is_registered_there} {labels:?}");
    }
}

#[test]
fn pod_templates_of_all_kinds_are_checked() {
    let pod = json!({ "spec": { "hostPID": true, "containers": [{ "name": "a", "image": "a" }] } });
    let baseline = LevelVersion { level: Level::Baseline, version: Version::Latest };
    let privileged = LevelVersion { level: Level::Privileged, version: Version::Latest };
    for (group, resource, object) in [
        ("apps", "deployments", json!({ "spec": { "template": pod } })),
        ("apps", "statefulsets", json!({ "spec": { "template": pod } })),
        ("apps", "daemonsets", json!({ "spec": { "template": pod } })),
        ("apps", "replicasets", json!({ "spec": { "template": pod } })),
        ("", "replicationcontrollers", json!({ "spec": { "template": pod } })),
        ("batch", "jobs", json!({ "spec": { "template": pod } })),
        ("batch", "cronjobs", json!({ "spec": { "jobTemplate": { "spec": { "template": pod } } } })),
    ] {
        assert_eq!(
            violation(group, resource, &object, baseline).as_deref(),
            Some("violates PodSecurity \"baseline:latest\": host namespaces (hostPID=true)"),
            "{resource}"
        );
        assert_eq!(violation(group, resource, &object, privileged), None, "{resource}");
        assert!(changes_template(group, resource, &object, &json!({})), "{resource}");
        assert!(!changes_template(group, resource, &object, &object), "{resource}");
    }
    assert_eq!(violation("", "configmaps", &json!({ "spec": { "template": pod } }), baseline), None);
}

#[test]
fn workspaces_below_do_not_take_precedence_over_the_owner() {
    let critical = json!({ "priorityClassName": "system-node-critical" });
    let pinned = json!({ "nodeName": "n1" });
    for (set, is_registered_there, pod, expected) in [
        ("", false, &critical, "uses the priority class system-node-critical"),
        ("restricted", false, &json!({ "priorityClassName": "system-x" }), "violates PodSecurity"),
        ("", false, &pinned, "sets spec.nodeName"),
        ("", false, &json!({ "priorityClassName": "high", "nodeName": "" }), ""),
        ("privileged", false, &critical, ""),
        ("privileged", false, &pinned, ""),
        ("", true, &critical, ""),
        ("baseline", true, &pinned, ""),
    ] {
        let mut pod = pod.clone();
        pod["containers"] = json!([{ "name": "a", "image": "a" }]);
        for (resource, spec) in [
            (("apps", "deployments"), json!({ "template": { "spec": pod } })),
            (("batch", "cronjobs"), json!({ "jobTemplate": { "spec": { "template": { "spec": pod } } } })),
        ] {
            let object = json!({ "spec": spec });
            let found = refusal(&cluster(set), is_registered_there, |_| None, resource, &object);
            let found = found.unwrap_or_default();
            assert!(found.starts_with(expected) && found.is_empty() == expected.is_empty(), "{found}");
        }
    }
}

#[test]
fn labels_are_copied_and_the_stricter_level_wins() {
    let shown = |labels: &BTreeMap<String, String>| {
        let short = |key: &String| key.trim_start_matches("pod-security.kubernetes.io/").to_string();
        let words: Vec<String> =
            labels.iter().map(|(key, value)| format!("{}={value}", short(key))).collect();
        words.join(" ")
    };
    for (set, is_registered_there, above, asked, initial) in [
        ("", true, &[][..], "", ""),
        ("", false, &[], "", "enforce=baseline"),
        ("restricted", false, &[], "enforce=restricted", "enforce=restricted"),
        ("", false, &[("enforce", "restricted")], "enforce=restricted", "enforce=restricted"),
        ("", false, &[("warn", "restricted")], "warn=restricted", "enforce=baseline warn=restricted"),
        (
            "restricted",
            true,
            &[("enforce", "baseline"), ("enforce-version", "v1.24")],
            "enforce=restricted",
            "enforce=restricted",
        ),
        (
            "",
            false,
            &[("enforce", "baseline"), ("enforce-version", "v1.24")],
            "enforce=baseline enforce-version=v1.24",
            "enforce=baseline",
        ),
    ] {
        let labels = Labels::of(&cluster(set), is_registered_there, &namespace(above, None));
        assert_eq!(
            (shown(&labels.labels).as_str(), shown(&labels.initial).as_str()),
            (asked, initial),
            "{set}"
        );
    }
    assert_eq!(shown(&Labels::fallback(false).initial), "enforce=baseline");
    assert_eq!(shown(&Labels::fallback(true).initial), "");
}

#[test]
fn namespaces_below_are_updated_and_keep_foreign_labels() {
    let labels =
        |set: &str, above: &[(&str, &str)]| Labels::of(&cluster(set), false, &namespace(above, None));
    let ours = r#"{"pod-security.kubernetes.io/enforce":"baseline"}"#;
    let enforce = |level: Value| json!({ "pod-security.kubernetes.io/enforce": level });
    for (what, wanted, found, expected) in [
        ("created by an older syncer", labels("", &[]), namespace(&[], None), None),
        ("unchanged", labels("", &[]), namespace(&[("enforce", "baseline")], Some(ours)), None),
        (
            "requested later, created by an older syncer",
            labels("restricted", &[]),
            namespace(&[], None),
            Some(enforce("restricted".into())),
        ),
        (
            "requested later",
            labels("restricted", &[]),
            namespace(&[("enforce", "baseline")], Some(ours)),
            Some(enforce("restricted".into())),
        ),
        (
            "allowed later",
            labels("privileged", &[]),
            namespace(&[("enforce", "baseline")], Some(ours)),
            Some(enforce(Value::Null)),
        ),
        ("label was removed", labels("", &[]), namespace(&[], Some(ours)), Some(enforce("baseline".into()))),
        (
            "label was weakened",
            labels("", &[]),
            namespace(&[("enforce", "privileged")], Some(ours)),
            Some(enforce("baseline".into())),
        ),
    ] {
        let patch = wanted.patch(&found);
        assert_eq!(patch.as_ref().map(|patch| patch["metadata"]["labels"].clone()), expected, "{what}");
        assert!(patch.is_none_or(|patch| patch["metadata"]["resourceVersion"] == "7"), "{what}");
    }
    // An administrator of the cluster has set a stricter level: it stays, with its version.
    let strict = namespace(&[("enforce", "restricted"), ("enforce-version", "v1.30")], Some(ours));
    assert_eq!(labels("", &[]).patch(&strict), None);
    let mut made = json!({ "metadata": { "name": "shop" } });
    labels("", &[]).set_on(&mut made);
    assert_eq!(labels("", &[]).patch(&made), None);
    assert_eq!(object::annotation(&made, marks::POD_SECURITY), Some(ours));
}
