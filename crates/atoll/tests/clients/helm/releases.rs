//! A release from its installation to its removal, with every way in which Helm writes objects.

use serde_json::{Value, json};

use super::hooks::Completer;
use super::site::{HELM_3, HELM_4, NAME, RELEASE, Site, Sites};
use super::state::{State, assert_same, releases, state};

/// A variant of the test.
struct Variant {
    namespace: &'static str,
    program: &'static str,
    /// Flags of `helm install`. Later commands of Helm use the same method.
    flags: &'static str,
    hooks: bool,
    /// The operation in the managedFields entry that Helm writes.
    operation: &'static str,
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_3_merges_without_hooks() {
    let variant =
        Variant { namespace: "three", program: HELM_3, flags: "", hooks: false, operation: "Update" };
    run_and_compare(variant).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_3_waits_for_its_hooks() {
    let variant =
        Variant { namespace: "three-hooks", program: HELM_3, flags: "", hooks: true, operation: "Update" };
    run_and_compare(variant).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_4_applies_without_hooks() {
    let variant = Variant { namespace: "four", program: HELM_4, flags: "", hooks: false, operation: "Apply" };
    run_and_compare(variant).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_4_waits_for_its_hooks() {
    let variant =
        Variant { namespace: "four-hooks", program: HELM_4, flags: "", hooks: true, operation: "Apply" };
    run_and_compare(variant).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_4_merges_as_helm_3_does() {
    let variant = Variant {
        namespace: "four-merging",
        program: HELM_4,
        flags: " --server-side=false",
        hooks: true,
        operation: "Update",
    };
    run_and_compare(variant).await;
}

async fn run_and_compare(variant: Variant) {
    let Some(sites) = Sites::start(variant.namespace) else { return };
    let (on_atoll, on_upstream) =
        tokio::join!(run_steps(&sites.on_atoll, &variant), run_steps(&sites.on_upstream, &variant));
    for ((step, on_atoll), (_, on_upstream)) in on_atoll.iter().zip(&on_upstream) {
        assert_same(step, on_atoll, on_upstream);
    }
}

/// Runs all steps and returns the state after each step.
async fn run_steps(site: &Site, variant: &Variant) -> Vec<(&'static str, State)> {
    let helm = site.helm(variant.program);
    let completer = Completer::start(site);
    let completed = |expected: &[&str]| {
        let expected: Vec<String> = expected.iter().map(|name| name.replace("NAME", NAME)).collect();
        assert_eq!(completer.completed(), if variant.hooks { expected } else { Vec::new() });
    };
    let hooks = if variant.hooks { "" } else { " --no-hooks" };
    let mut steps = Vec::new();

    let install = format!("install {RELEASE} CHART --create-namespace{hooks}{}", variant.flags);
    let printed = helm.run(&install).await;
    assert!(
        printed.contains("shop revision 1 with 2 replicas of registry.example.com/shop/front:1.0.0."),
        "{printed}"
    );
    completed(&["job/NAME-prepare"]);
    let installed = state(site).await;
    check_default_values(&installed);
    check_owner(&installed, variant.operation);
    let listed = helm.json("list").await;
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(
        ["name", "namespace", "revision", "status", "chart", "app_version"].map(|field| &listed[0][field]),
        [RELEASE, site.namespace, "1", "deployed", "shop-1.2.3", "1.0.0"]
    );
    let status = helm.json(&format!("status {RELEASE}")).await;
    assert_eq!((&status["version"], &status["info"]["status"]), (&json!(1), &json!("deployed")));
    let refused = helm.try_run(&install).await;
    assert!(!refused.success && refused.errors.contains("name that is still in use"), "{refused:?}");
    steps.push(("install", installed));

    let values = "--values CHART/upgraded.yaml";
    let dry_run = helm.run(&format!("upgrade {RELEASE} CHART --dry-run=server {values}{hooks}")).await;
    assert!(dry_run.contains("registry.example.com/shop/front:2.0.0"), "{dry_run}");
    let printed = helm.run(&format!("upgrade {RELEASE} CHART {values}{hooks}")).await;
    assert!(
        printed.contains("shop revision 2 with 5 replicas of registry.example.com/shop/front:2.0.0."),
        "{printed}"
    );
    completed(&["job/NAME-migrate"]);
    let upgraded = state(site).await;
    check_upgraded_values(&upgraded, variant.hooks);
    check_owner(&upgraded, variant.operation);
    assert_eq!(releases(site, RELEASE).await, revisions(&["superseded", "deployed"]));
    let values_set = helm.json(&format!("get values {RELEASE}")).await;
    assert_eq!(values_set["replicas"], 5, "{values_set}");
    steps.push(("upgrade", upgraded));

    helm.run(&format!("rollback {RELEASE} 1{hooks}")).await;
    completed(&["job/NAME-migrate"]);
    let mut back = state(site).await;
    steps.push(("rollback", back.clone()));
    // The hook has run again and its Job stays. All other objects are as before.
    back.remove(&format!("jobs/{NAME}-migrate"));
    check_default_values(&back);
    assert_eq!(releases(site, RELEASE).await, revisions(&["superseded", "superseded", "deployed"]));
    let history = helm.json(&format!("history {RELEASE}")).await;
    let descriptions: Vec<&Value> =
        history.as_array().unwrap().iter().map(|entry| &entry["description"]).collect();
    assert_eq!(descriptions, ["Install complete", "Upgrade complete", "Rollback to 1"]);

    if variant.hooks {
        site.create_default_account().await;
        let printed = helm.run(&format!("test {RELEASE}")).await;
        assert!(printed.contains("Phase:") && printed.contains("Succeeded"), "{printed}");
        completed(&["pod/NAME-visit"]);
        steps.push(("test", state(site).await));
    }

    // A rejected upgrade fails the new revision and keeps the previous one deployed.
    let refused = helm.try_run(&format!("upgrade {RELEASE} CHART --set service.port=70000{hooks}")).await;
    let expected = "spec.ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive";
    assert!(!refused.success && refused.errors.contains(expected), "{refused:?}");
    completed(&[]);
    let failed = revisions(&["superseded", "superseded", "deployed", "failed"]);
    assert_eq!(releases(site, RELEASE).await, failed);
    steps.push(("a refused upgrade", state(site).await));

    helm.run(&format!("uninstall {RELEASE} --wait{hooks}")).await;
    let left = state(site).await;
    // Hooks are not part of a release, so Helm does not delete the migration Job.
    let remaining: &[String] = if variant.hooks { &[format!("jobs/{NAME}-migrate")] } else { &[] };
    assert!(left.keys().eq(remaining), "{:?}", left.keys());
    assert_eq!(releases(site, RELEASE).await, []);
    assert_eq!(helm.json("list").await, json!([]));
    steps.push(("uninstall", left));
    steps
}

/// Returns revisions numbered from 1 with these statuses.
pub fn revisions(statuses: &[&str]) -> Vec<(u64, String)> {
    (1..).zip(statuses.iter().map(ToString::to_string)).collect()
}

/// Checks the objects that the chart renders from its default values.
fn check_default_values(state: &State) {
    let names: Vec<&str> = state.keys().map(String::as_str).collect();
    let expected = [
        "configmaps/NAME",
        "cronjobs/NAME-cleanup",
        "deployments/NAME",
        "horizontalpodautoscalers/NAME",
        "ingresses/NAME",
        "networkpolicies/NAME-records",
        "poddisruptionbudgets/NAME",
        "rolebindings/NAME",
        "roles/NAME",
        "secrets/NAME",
        "serviceaccounts/NAME",
        "services/NAME",
        "services/NAME-records",
        "statefulsets/NAME-records",
    ];
    assert_eq!(names, expected.map(|name| name.replace("NAME", NAME)));
    check_fields(
        state,
        &[
            ("deployments/NAME", "/spec/replicas", json!(2)),
            (
                "deployments/NAME",
                "/spec/template/spec/containers/0/image",
                json!("registry.example.com/shop/front:1.0.0"),
            ),
            ("deployments/NAME", "/spec/template/spec/containers/1", Value::Null),
            ("deployments/NAME", "/spec/template/spec/containers/0/env/0/name", json!("GREETING")),
            ("deployments/NAME", "/spec/template/spec/containers/0/env/1/name", json!("LOG_LEVEL")),
            ("deployments/NAME", "/spec/template/spec/containers/0/resources/limits/memory", json!("256Mi")),
            ("statefulsets/NAME-records", "/spec/volumeClaimTemplates/0/status/phase", json!("Pending")),
            ("statefulsets/NAME-records", "/spec/updateStrategy/rollingUpdate/partition", json!(0)),
            ("services/NAME", "/spec/clusterIP", json!("ADDRESS")),
            ("services/NAME-records", "/spec/clusterIP", json!("None")),
            ("configmaps/NAME", "/data/theme", json!("light")),
            ("configmaps/NAME", "/data/footer", Value::Null),
            ("secrets/NAME", "/data/password", json!("Y29ycmVjdC1ob3JzZQ==")),
            ("horizontalpodautoscalers/NAME", "/spec/maxReplicas", json!(8)),
            ("ingresses/NAME", "/spec/rules/0/http/paths/1", Value::Null),
        ],
    );
}

/// Checks the objects that the chart renders from `upgraded.yaml`.
fn check_upgraded_values(state: &State, hooks: bool) {
    let has = |name: &str| state.contains_key(&name.replace("NAME", NAME));
    assert!(!has("networkpolicies/NAME-records") && has("services/NAME-metrics"), "{:?}", state.keys());
    assert_eq!(has("jobs/NAME-migrate"), hooks);
    assert_eq!(state.len(), if hooks { 15 } else { 14 }, "{:?}", state.keys());
    check_fields(
        state,
        &[
            ("deployments/NAME", "/spec/replicas", json!(5)),
            ("deployments/NAME", "/metadata/generation", json!(2)),
            (
                "deployments/NAME",
                "/spec/template/spec/containers/0/image",
                json!("registry.example.com/shop/front:2.0.0"),
            ),
            ("deployments/NAME", "/spec/template/spec/containers/1/name", json!("proxy")),
            ("deployments/NAME", "/spec/template/spec/containers/1/imagePullPolicy", json!("IfNotPresent")),
            ("deployments/NAME", "/spec/template/spec/containers/0/env/0/name", json!("CURRENCY")),
            ("deployments/NAME", "/spec/template/spec/containers/0/env/2/name", json!("PASSWORD")),
            ("statefulsets/NAME-records", "/metadata/generation", json!(1)),
            ("configmaps/NAME", "/data/theme", Value::Null),
            ("configmaps/NAME", "/data/footer", json!("2026")),
            ("horizontalpodautoscalers/NAME", "/spec/maxReplicas", json!(20)),
            ("ingresses/NAME", "/spec/rules/0/http/paths/1/backend/service/port/number", json!(9901)),
            (
                "cronjobs/NAME-cleanup",
                "/spec/jobTemplate/spec/template/spec/containers/0/args/1",
                json!("--keep-days=7"),
            ),
        ],
    );
}

fn check_fields(state: &State, expected: &[(&str, &str, Value)]) {
    for (name, field, value) in expected {
        let object = &state[&name.replace("NAME", NAME)];
        assert_eq!(object.pointer(field).unwrap_or(&Value::Null), value, "{name} {field}");
    }
}

/// Checks that a single manager with this operation owns the fields.
fn check_owner(state: &State, operation: &str) {
    let managers = &state[&format!("deployments/{NAME}")]["metadata"]["managedFields"];
    assert_eq!(managers.as_array().unwrap().len(), 1, "{managers}");
    assert_eq!(managers[0]["operation"], operation, "{managers}");
}
