//! Atoll's kinds are explained and validated like built-in kinds.

use atoll_testkit::{Kubectl, Setup, fail};
use serde_json::{Value, json};

#[test]
fn atoll_kinds_are_explained_and_unknown_fields_rejected() {
    let server = Setup::new().flag("--controllers", false).start();
    let Some(kubectl) = Kubectl::new(&server.kubeconfig()) else { return };
    for (path, words) in [
        ("clusters.atoll.dev", "FIELDS:"),
        ("clusters.atoll.dev.spec.mode", "ENUM:"),
        ("clusters.atoll.dev.spec.overrides.registry.to", "<string>"),
        ("clusters.atoll.dev.status.conditions", "[]Object"),
        ("objectstatuses.status.state", "Refused"),
        ("workspaces.spec.grain", "namespace"),
    ] {
        let printed = kubectl.run(&format!("explain {path}"));
        assert!(printed.contains("DESCRIPTION:") && printed.contains(words), "{path}: {printed}");
    }

    let cluster = |spec: Value| {
        json!({
            "apiVersion": "atoll.dev/v1alpha1", "kind": "Cluster", "metadata": { "name": "east" }, "spec": spec,
        })
    };
    let file = server.directory.join("cluster.json");
    let refused = |object: &Value| {
        std::fs::write(&file, object.to_string()).unwrap();
        fail(kubectl.command("apply -f").arg(&file))
    };
    for (spec, words) in [
        (json!({ "taintz": [] }), "unknown field \"spec.taintz\""),
        (json!({ "overrides": [{ "registri": {} }] }), "unknown field \"spec.overrides[0].registri\""),
        (json!({ "taints": {} }), "spec.taints: Invalid value: \"object\""),
        (json!({ "unschedulable": "yes" }), "spec.unschedulable: Invalid value: \"string\""),
        (json!({ "mode": "Push" }), "spec.mode: Unsupported value: \"Push\": supported values: \"none\""),
        (json!({ "taints": [{ "key": "a" }] }), "spec.taints[0].effect: Required value"),
        (
            json!({ "taints": [{ "key": "a", "effect": "NoSchedule" }, { "key": "a", "effect": "NoSchedule" }] }),
            "spec.taints[1]: Duplicate value: {\"effect\":\"NoSchedule\",\"key\":\"a\"}",
        ),
        (json!({ "kubeconfig": "sesame" }), "spec.kubeconfig: Forbidden: credentials belong into a Secret"),
    ] {
        let errors = refused(&cluster(spec));
        assert!(errors.contains(words) && !errors.contains("sesame"), "{errors}");
    }
    std::fs::write(&file, cluster(json!({ "taintz": [] })).to_string()).unwrap();
    let errors = fail(kubectl.command("apply --server-side -f").arg(&file));
    assert!(errors.contains("taintz: field not declared in schema"), "{errors}");
    // Without strict validation unknown fields are dropped, as for any other kind.
    let lenient = cluster(json!({ "mode": "none", "taintz": [], "limits": { "cpu": 10, "memory": "1Ti" } }));
    kubectl.run_with_file("apply --validate=false", &lenient);
    let kept = kubectl.json("get clusters.atoll.dev east");
    assert_eq!(kept["spec"]["limits"], json!({ "cpu": 10, "memory": "1Ti" }));
    assert_eq!((&kept["spec"]["taintz"], &kept["spec"]["mode"]), (&Value::Null, &json!("none")));
    // Status fields of a newer syncer are kept.
    let status = r#"{"status":{"conditions":[],"later":{"a":1}}}"#;
    let patch = ["--subresource=status", "--type=merge", "-p", status];
    assert!(kubectl.command("patch clusters.atoll.dev east").args(patch).status().unwrap().success());
    assert_eq!(kubectl.json("get clusters.atoll.dev east")["status"]["later"], json!({ "a": 1 }));
    let typo = json!({
        "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "metadata": { "name": "a" }, "spec": { "grian": "pod" },
    });
    assert!(refused(&typo).contains("unknown field \"spec.grian\""));
}
