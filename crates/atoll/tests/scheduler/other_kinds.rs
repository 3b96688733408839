//! Objects that are no workloads: an annotation or a policy places them.

use atoll_testkit::Client;
use serde_json::{Value, json};

use crate::fleet::{
    CLUSTERS, DEPLOYMENTS, annotate, annotated, deployment, expect_placed, join, path, report_object,
    summary, wait_until, with_clusters,
};

pub const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub const SERVICES: &str = "/api/v1/namespaces/default/services";
pub const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
pub const POLICIES: &str = "/apis/atoll.dev/v1alpha1/namespaces/default/placementpolicies";
pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

pub fn config_map(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "data": { "a": "b" } })
}

pub fn widget(name: &str) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": name } })
}

/// The definition of a kind of the group example.com.
pub fn definition(plural: &str, kind: &str) -> Value {
    let schema =
        json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
    let (singular, list) = (kind.to_lowercase(), format!("{kind}List"));
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.example.com") },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": plural, "singular": singular, "kind": kind, "listKind": list },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": schema }],
        },
    })
}

/// Defines the kind Widget below a path prefix.
pub async fn define_widgets(admin: &Client, prefix: &str) {
    let definition = definition("widgets", "Widget");
    admin.post(&format!("{prefix}{DEFINITIONS}"), definition).await.expect(201);
    wait_until(admin, &format!("{prefix}{DEFINITIONS}/widgets.example.com"), "it is served", |definition| {
        let conditions = definition["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|one| one["type"] == "Established" && one["status"] == "True")
    })
    .await;
}

pub async fn expect_nowhere(admin: &Client, path: &str) {
    wait_until(admin, path, &format!("{path} is nowhere"), |object| summary(object) == "nowhere").await;
}

/// Waits until an object, of any namespace, has an event with this text.
pub async fn expect_event(admin: &Client, prefix: &str, name: &str, text: &str) {
    let path = format!("{prefix}/api/v1/events");
    wait_until(admin, &path, &format!("an event about {name} has {text:?}"), |events| {
        let all = events["items"].as_array().cloned().unwrap_or_default();
        all.iter().any(|event| {
            let is_about = event["involvedObject"]["name"] == *name;
            is_about && event["message"].as_str().unwrap_or_default().contains(text)
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_annotation_places_any_kind() {
    let (_atoll, admin) = with_clusters(&[("east", 4), ("west", 4)]).await;
    define_widgets(&admin, "").await;
    let plain = format!("{MAPS}/plain");
    admin.post(MAPS, config_map("plain")).await.expect(201);
    let spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
    let service = json!({ "metadata": { "name": "a" }, "spec": { "ports": [{ "port": 80 }] } });
    let backend = json!({ "service": { "name": "a", "port": { "number": 80 } } });
    for (collection, object) in [
        (MAPS, config_map("a")),
        (SERVICES, service),
        (CLAIMS, json!({ "metadata": { "name": "a" }, "spec": spec })),
        (INGRESSES, json!({ "metadata": { "name": "a" }, "spec": { "defaultBackend": backend } })),
        (WIDGETS, widget("a")),
    ] {
        admin.post(collection, annotated(object, "east")).await.expect(201);
        let at = format!("{collection}/a");
        expect_placed(&admin, &at, "east by annotation").await;
        annotate(&admin, &at, Some("east,west")).await;
        expect_placed(&admin, &at, "east west by annotation").await;
        // It leaves a cluster when the other one has it.
        annotate(&admin, &at, Some("west")).await;
        report_object(&admin, &at, "west", json!({ "state": "Applied" })).await;
        expect_placed(&admin, &at, "west by annotation").await;
        annotate(&admin, &at, Some("none")).await;
        expect_nowhere(&admin, &at).await;
        annotate(&admin, &at, Some("east")).await;
        expect_placed(&admin, &at, "east by annotation").await;
        annotate(&admin, &at, None).await;
        expect_nowhere(&admin, &at).await;
    }
    // Without an annotation, an object stays in the control plane, and a namespace is where its workloads run.
    assert_eq!(summary(&admin.get(&plain).await.expect(200)), "nowhere");
    annotate(&admin, &plain, Some("north")).await;
    expect_event(&admin, "", "plain", "no cluster serves this workspace under the name north").await;
    join(&admin, "north", 4).await;
    expect_placed(&admin, &plain, "north by annotation").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_without_replicas_leave_a_cluster_when_the_next_one_has_them() {
    let (_atoll, admin) = with_clusters(&[("east", 4), ("west", 4)]).await;
    define_widgets(&admin, "").await;
    for (collection, object, others) in
        [(MAPS, config_map("a"), ["b", "c"]), (WIDGETS, widget("a"), ["d", "e"])]
    {
        let at = format!("{collection}/a");
        admin.post(collection, annotated(object, "east")).await.expect(201);
        expect_placed(&admin, &at, "east by annotation").await;
        report_object(&admin, &at, "east", json!({ "state": "Applied" })).await;
        annotate(&admin, &at, Some("west")).await;
        expect_placed(&admin, &at, "east west by annotation").await;
        // Refused, it is not there either.
        report_object(&admin, &at, "west", json!({ "state": "Refused", "message": "no" })).await;
        expect_event(&admin, "", "a", "it stays where it is, because west does not take it").await;
        for name in others {
            admin.post(MAPS, annotated(config_map(name), "west")).await.expect(201);
            expect_placed(&admin, &format!("{MAPS}/{name}"), "west by annotation").await;
        }
        let placed = expect_placed(&admin, &at, "east west by annotation").await;
        assert_eq!(atoll_fleet::Placement::of(&placed).phase, "adding");
        report_object(&admin, &at, "west", json!({ "state": "Applied" })).await;
        expect_placed(&admin, &at, "west by annotation").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_places_the_kinds_that_it_names() {
    let (_atoll, admin) = with_clusters(&[("east", 4), ("west", 4)]).await;
    define_widgets(&admin, "").await;
    admin.post(MAPS, config_map("a")).await.expect(201);
    admin.post(WIDGETS, widget("a")).await.expect(201);
    let (map, one) = (format!("{MAPS}/a"), format!("{WIDGETS}/a"));
    let policy = |objects: Value| {
        json!({
            "apiVersion": "atoll.dev/v1alpha1", "kind": "PlacementPolicy", "metadata": { "name": "both" },
            "spec": { "objects": objects, "replicas": { "division": "Duplicate" } },
        })
    };
    // A policy without kinds is about workloads.
    admin.post(POLICIES, policy(json!([]))).await.expect(201);
    admin.post(DEPLOYMENTS, deployment("web", 1, 100)).await.expect(201);
    expect_placed(&admin, &path("web"), "east=1 west=1 by placementpolicy/both").await;
    assert_eq!(summary(&admin.get(&map).await.expect(200)), "nowhere");
    let kinds = json!({ "spec": { "objects": [{ "kind": "ConfigMap" }, { "group": "example.com", "kind": "Widget" }] } });
    admin.merge(&format!("{POLICIES}/both"), kinds).await.expect(200);
    for at in [&map, &one] {
        expect_placed(&admin, at, "east west by placementpolicy/both").await;
    }
    // New objects follow, and an annotation of the object has precedence.
    admin.post(MAPS, annotated(config_map("b"), "west")).await.expect(201);
    expect_placed(&admin, &format!("{MAPS}/b"), "west by annotation").await;
    admin.post(WIDGETS, widget("c")).await.expect(201);
    expect_placed(&admin, &format!("{WIDGETS}/c"), "east west by placementpolicy/both").await;
    admin.delete(&format!("{POLICIES}/both")).await.expect(200);
    for at in [&map, &one] {
        expect_nowhere(&admin, at).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_must_serve_custom_objects_and_have_the_classes() {
    let (_atoll, admin) = with_clusters(&[("east", 4)]).await;
    define_widgets(&admin, "").await;
    let report = async |apis: Value, classes: Value| {
        let status = json!({ "status": { "apis": apis, "classes": classes } });
        admin.merge(&format!("{CLUSTERS}/east/status"), status).await.expect(200);
    };
    let built_in = json!([
        { "group": "", "resources": ["persistentvolumeclaims"] },
        { "group": "apps", "resources": ["deployments", "statefulsets"] },
        { "group": "networking.k8s.io", "resources": ["ingresses"] },
    ]);
    let none = json!({ "priority": [], "storage": [], "runtime": [], "ingress": [] });
    report(built_in.clone(), none.clone()).await;
    admin.post(WIDGETS, annotated(widget("widget"), "east")).await.expect(201);
    expect_event(&admin, "", "widget", "east does not serve widgets.example.com").await;
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } }, "storageClassName": "fast",
    });
    let claim = json!({ "metadata": { "name": "claim" }, "spec": spec });
    admin.post(CLAIMS, annotated(claim.clone(), "east")).await.expect(201);
    expect_event(&admin, "", "claim", "east has no StorageClass \"fast\"").await;
    let backend = json!({ "service": { "name": "a", "port": { "number": 80 } } });
    let ingress = json!({
        "metadata": { "name": "ingress" }, "spec": { "ingressClassName": "nginx", "defaultBackend": backend },
    });
    admin.post(INGRESSES, annotated(ingress, "east")).await.expect(201);
    expect_event(&admin, "", "ingress", "east has no IngressClass \"nginx\"").await;
    for (name, field, class, text) in [
        ("urgent", "priorityClassName", "high", "east has no PriorityClass \"high\""),
        ("sandboxed", "runtimeClassName", "gvisor", "east has no RuntimeClass \"gvisor\""),
    ] {
        let (kinds, kind) = match field {
            "priorityClassName" => ("/apis/scheduling.k8s.io/v1/priorityclasses", json!({ "value": 7 })),
            _ => ("/apis/node.k8s.io/v1/runtimeclasses", json!({ "handler": "gvisor" })),
        };
        let mut above = kind;
        above["metadata"]["name"] = class.into();
        admin.post(kinds, above).await.expect(201);
        let mut object = deployment(name, 1, 100);
        object["spec"]["template"]["spec"][field] = class.into();
        admin.post(DEPLOYMENTS, object).await.expect(201);
        expect_event(&admin, "", name, text).await;
    }
    let mut set = deployment("set", 1, 100);
    set["kind"] = "StatefulSet".into();
    set["spec"]["serviceName"] = "set".into();
    set["spec"]["volumeClaimTemplates"] = json!([{ "metadata": { "name": "data" }, "spec": claim["spec"] }]);
    let sets = "/apis/apps/v1/namespaces/default/statefulsets";
    admin.post(sets, set).await.expect(201);
    expect_event(&admin, "", "set", "east has no StorageClass \"fast\"").await;

    // Another version of the kind is not enough.
    let with_widgets = |version: &str| {
        let mut all = built_in.clone();
        let widgets = json!({ "group": "example.com", "versions": [version], "resources": ["widgets"] });
        all.as_array_mut().unwrap().push(widgets);
        all
    };
    report(with_widgets("v0"), none).await;
    expect_event(&admin, "", "widget", "east does not serve widgets.example.com in version v1").await;

    // They are placed as soon as the cluster has what they need.
    let all = with_widgets("v1");
    let classes =
        json!({ "priority": ["high"], "storage": ["fast"], "runtime": ["gvisor"], "ingress": ["nginx"] });
    report(all, classes).await;
    for at in [format!("{WIDGETS}/widget"), format!("{CLAIMS}/claim"), format!("{INGRESSES}/ingress")] {
        expect_placed(&admin, &at, "east by annotation").await;
    }
    for at in [path("urgent"), path("sandboxed"), format!("{sets}/set")] {
        expect_placed(&admin, &at, "east=1 by default").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_scoped_objects_go_down_only_from_the_registering_workspace() {
    let (_atoll, admin) = with_clusters(&[("east", 4)]).await;
    let volume = |name: &str| {
        json!({ "metadata": { "name": name }, "spec": {
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "hostPath": { "path": "/data" },
        } })
    };
    admin.post(VOLUMES, annotated(volume("disk"), "east")).await.expect(201);
    expect_placed(&admin, &format!("{VOLUMES}/disk"), "east by annotation").await;
    let team =
        json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "metadata": { "name": "team" } });
    admin.post("/apis/atoll.dev/v1alpha1/workspaces", team).await.expect(201);
    wait_until(&admin, "/apis/atoll.dev/v1alpha1/workspaces/team", "it is ready", |team| {
        team["status"]["phase"] == "Ready"
    })
    .await;
    let prefix = "/clusters/root:team";
    // A custom object and a ConfigMap of the child go down.
    define_widgets(&admin, prefix).await;
    admin.post(&format!("{prefix}{WIDGETS}"), annotated(widget("a"), "east")).await.expect(201);
    expect_placed(&admin, &format!("{prefix}{WIDGETS}/a"), "east by annotation").await;
    admin.post(&format!("{prefix}{MAPS}"), annotated(config_map("a"), "east")).await.expect(201);
    expect_placed(&admin, &format!("{prefix}{MAPS}/a"), "east by annotation").await;
    admin.post(&format!("{prefix}{VOLUMES}"), annotated(volume("disk"), "east")).await.expect(201);
    expect_event(&admin, prefix, "disk", "only from the workspace in which it is registered").await;
    assert_eq!(summary(&admin.get(&format!("{prefix}{VOLUMES}/disk")).await.expect(200)), "nowhere");
}

#[tokio::test(flavor = "multi_thread")]
async fn dependents_are_where_they_were_put_and_where_they_are_needed() {
    let (_atoll, admin) = with_clusters(&[("east", 4), ("west", 4)]).await;
    let (map, web) = (format!("{MAPS}/config"), path("web"));
    admin.post(MAPS, annotated(config_map("config"), "west")).await.expect(201);
    expect_placed(&admin, &map, "west by annotation").await;
    let mut object = annotated(deployment("web", 1, 100), "east");
    object["metadata"]["annotations"]["atoll.dev/needs"] = "configmap/config,secret/key".into();
    admin.post(DEPLOYMENTS, object).await.expect(201);
    expect_placed(&admin, &map, "east west by annotation").await;
    // A declared object that is created later is placed, too.
    let secrets = "/api/v1/namespaces/default/secrets";
    admin.post(secrets, json!({ "metadata": { "name": "key" } })).await.expect(201);
    expect_placed(&admin, &format!("{secrets}/key"), "east by reference").await;
    // Each reason ends alone.
    annotate(&admin, &map, None).await;
    expect_placed(&admin, &map, "east by reference").await;
    annotate(&admin, &map, Some("west")).await;
    expect_placed(&admin, &map, "east west by annotation").await;
    admin.delete(&web).await.expect(200);
    expect_placed(&admin, &map, "west by annotation").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ingresses_follow_their_services() {
    let (_atoll, admin) = with_clusters(&[("east", 4), ("west", 4)]).await;
    let secrets = "/api/v1/namespaces/default/secrets";
    admin.post(secrets, json!({ "metadata": { "name": "tls" } })).await.expect(201);
    let backend = json!({ "service": { "name": "web", "port": { "number": 80 } } });
    let spec = json!({
        "tls": [{ "secretName": "tls" }],
        "rules": [{ "http": { "paths": [{ "path": "/", "pathType": "Prefix", "backend": backend }] } }],
    });
    admin.post(INGRESSES, json!({ "metadata": { "name": "web" }, "spec": spec })).await.expect(201);
    let service = json!({
        "metadata": { "name": "web" }, "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80 }] },
    });
    admin.post(SERVICES, service).await.expect(201);
    admin.post(DEPLOYMENTS, annotated(deployment("web", 1, 100), "east")).await.expect(201);
    let (ingress, at) = (format!("{INGRESSES}/web"), format!("{SERVICES}/web"));
    expect_placed(&admin, &ingress, "east by reference").await;
    expect_placed(&admin, &format!("{secrets}/tls"), "east by reference").await;
    annotate(&admin, &at, Some("west")).await;
    expect_placed(&admin, &at, "east west by annotation").await;
    expect_placed(&admin, &ingress, "east west by reference").await;
    admin.delete(&path("web")).await.expect(200);
    expect_placed(&admin, &at, "west by annotation").await;
    expect_placed(&admin, &ingress, "west by reference").await;
    expect_placed(&admin, &format!("{secrets}/tls"), "west by reference").await;
}
