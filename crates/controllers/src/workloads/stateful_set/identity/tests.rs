use super::*;

fn set() -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "n", "uid": "u"},
        "spec": {
            "replicas": 3,
            "serviceName": "governing",
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "containers": [{"name": "c"}],
                    "volumes": [{"name": "data", "emptyDir": {}}, {"name": "other", "emptyDir": {}}],
                },
            },
            "volumeClaimTemplates": [
                {"metadata": {"name": "data", "labels": {"app": "theirs", "tier": "x"}}, "spec": {"accessModes": []}},
            ],
        },
    })
}

#[test]
fn names_contain_set_and_ordinal() {
    for (name, expected) in [
        ("web-0", Some(("web", Some(0)))),
        ("web-1-12", Some(("web-1", Some(12)))),
        ("-3", Some(("", Some(3)))),
        ("web-007", Some(("web", Some(7)))),
        ("web-99999999999", Some(("web", None))),
        ("web", None),
        ("web-", None),
        ("web-1a", None),
    ] {
        let pod = json!({"metadata": {"name": name}});
        assert_eq!(parent_and_ordinal(&pod), expected, "{name}");
    }
}

#[test]
fn pods_have_an_identity() {
    let set = set();
    let pod = new_pod(&set, &set["spec"]["template"], "web-abc", 2);
    let labels = json!({
        "app": "web", POD_NAME_LABEL: "web-2", POD_INDEX_LABEL: "2", REVISION_LABEL: "web-abc",
    });
    assert_eq!(pod["metadata"]["labels"], labels);
    assert_eq!((object::name(&pod), object::namespace(&pod)), ("web-2", "n"));
    assert_eq!((&pod["spec"]["hostname"], &pod["spec"]["subdomain"]), (&json!("web-2"), &json!("governing")));
    let volumes = json!([
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-2"}},
        {"name": "other", "emptyDir": {}},
    ]);
    assert_eq!(pod["spec"]["volumes"], volumes);
    assert!(identity_matches(&set, &pod) && storage_matches(&set, &pod));
}

#[test]
fn identities_that_do_not_match() {
    let set = set();
    let good = new_pod(&set, &set["spec"]["template"], "r", 0);
    let mut unlabelled = good.clone();
    object::remove_label(&mut unlabelled, POD_NAME_LABEL);
    assert!(!identity_matches(&set, &unlabelled));
    let mut renamed = good.clone();
    object::set_name(&mut renamed, "web-00");
    assert!(!identity_matches(&set, &renamed), "the ordinal is not canonical");
    let mut elsewhere = good.clone();
    elsewhere["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] = "data-web-1".into();
    assert!(!storage_matches(&set, &elsewhere));
    let mut bare = good;
    bare["spec"]["volumes"] = json!([]);
    assert!(!storage_matches(&set, &bare));
    set_storage(&set, &mut bare, 0);
    assert!(storage_matches(&set, &bare));
}

#[test]
fn claims_have_the_labels_of_the_selector() {
    let set = set();
    let template = &set["spec"]["volumeClaimTemplates"][0];
    let claim = claim(&set, template, 1);
    assert_eq!(object::name(&claim), "data-web-1");
    assert_eq!(claim["metadata"]["labels"], json!({"app": "web", "tier": "x"}));
    assert_eq!(claim["spec"], template["spec"]);
}

#[test]
fn ordinals_may_start_anywhere() {
    let mut set = set();
    set["spec"]["ordinals"] = json!({"start": 5});
    let wanted: Vec<i64> = (0..20).filter(|ordinal| is_wanted(&set, *ordinal)).collect();
    assert_eq!(wanted, [5, 6, 7]);
}
