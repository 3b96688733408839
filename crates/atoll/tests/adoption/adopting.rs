//! Running workloads of a cluster are adopted without a restart.

use atoll_testkit::Client;
use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::harness::{TestFleet, create, object, plain_pods, wait_for, wait_for_record, web};

const CORE: &str = "/api/v1/namespaces/shop";
const APPS: &str = "/apis/apps/v1/namespaces/shop";
const STORE: &str = "/apis/apps/v1/namespaces/shop/statefulsets/store";
const WEB: &str = "/apis/apps/v1/namespaces/shop/deployments/web";

/// Creates a running Deployment with all its dependents in a cluster, without Atoll.
async fn create_shop(below: &Client) {
    create(below, "/api/v1/namespaces", object("v1", "Namespace", "shop", json!({}))).await;
    let data = json!({ "data": { "a": "1" } });
    create(below, &format!("{CORE}/configmaps"), object("v1", "ConfigMap", "settings", data)).await;
    let word = json!({ "data": { "word": "c2VzYW1l" } });
    create(below, &format!("{CORE}/secrets"), object("v1", "Secret", "password", word)).await;
    let pull = json!({ "type": "kubernetes.io/dockerconfigjson", "data": { ".dockerconfigjson": "e30=" } });
    create(below, &format!("{CORE}/secrets"), object("v1", "Secret", "pull", pull)).await;
    let account = json!({ "imagePullSecrets": [{ "name": "pull" }] });
    create(below, &format!("{CORE}/serviceaccounts"), object("v1", "ServiceAccount", "runner", account))
        .await;
    let claim = json!({ "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } });
    let claims = format!("{CORE}/persistentvolumeclaims");
    create(below, &claims, object("v1", "PersistentVolumeClaim", "disk", claim)).await;
    let service =
        json!({ "spec": { "type": "NodePort", "selector": { "app": "web" }, "ports": [{ "port": 80 }] } });
    create(below, &format!("{CORE}/services"), object("v1", "Service", "web", service)).await;
    let pods = json!({
        "serviceAccountName": "runner",
        "containers": [{
            "name": "main", "image": "example/web:1",
            "resources": { "requests": { "cpu": "1000m", "memory": "64Mi" } },
            "env": [{ "name": "WORD", "valueFrom": { "secretKeyRef": { "name": "password", "key": "word" } } }],
        }],
        "volumes": [
            { "name": "settings", "configMap": { "name": "settings" } },
            { "name": "disk", "persistentVolumeClaim": { "claimName": "disk" } },
            { "name": "perhaps", "configMap": { "name": "missing", "optional": true } },
        ],
    });
    create(below, &format!("{APPS}/deployments"), web(2, pods)).await;
    let template = json!({
        "metadata": { "labels": { "app": "store" } },
        "spec": { "containers": [{ "name": "main", "image": "example/store:1" }] },
    });
    let selector = json!({ "matchLabels": { "app": "store" } });
    let spec = json!({ "replicas": 1, "serviceName": "web", "selector": selector, "template": template });
    let store = object("apps/v1", "StatefulSet", "store", json!({ "spec": spec }));
    create(below, &format!("{APPS}/statefulsets"), store).await;
    wait_for("the workload is available", below, STORE, |store| store["status"]["availableReplicas"] == 1)
        .await;
    wait_for("the workload is available", below, WEB, |web| {
        web["status"]["availableReplicas"] == 2
            && web["status"]["observedGeneration"] == web["metadata"]["generation"]
    })
    .await;
}

/// Returns names and uids of all objects of a resource.
async fn identities(below: &Client, path: &str) -> Vec<(String, String)> {
    let list = below.get(path).await.expect(200);
    let text = |item: &Value, field: &str| item["metadata"][field].as_str().unwrap().to_string();
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| (text(item, "name"), text(item, "uid"))).collect()
}

/// Returns everything that must stay byte for byte the same.
async fn invariant_state(below: &Client) -> String {
    let web = below.get(WEB).await.expect(200);
    let service = below.get(&format!("{CORE}/services/web")).await.expect(200);
    let store = below.get(STORE).await.expect(200);
    let claim = below.get(&format!("{CORE}/persistentvolumeclaims/disk")).await.expect(200);
    json!({
        "uid": web["metadata"]["uid"], "spec": web["spec"],
        // The generation of a Deployment also counts changes of annotations, so only that of the StatefulSet
        // is compared.
        "store": store["spec"], "generation": store["metadata"]["generation"],
        "service": service["spec"], "claim": claim["spec"],
        "sets": identities(below, &format!("{APPS}/replicasets")).await,
        "pods": identities(below, &format!("{CORE}/pods")).await,
    })
    .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn workloads_are_adopted_without_a_restart() {
    let fleet = TestFleet::start();
    let (above, below) = (fleet.admin(), fleet.east.admin());
    create_shop(&below).await;
    let before = invariant_state(&below).await;

    // First a dry run.
    let line = "adopt deployment/web service/web sts/store -n shop --cluster east";
    let printed = fleet.run(&format!("{line} --dry-run"));
    for words in [
        "Adopting from east into root:\n",
        "  Namespace shop: created here; the namespace of that name in east will be used for it\n",
        "  ConfigMap shop/settings: created here, placed on east, marked there, because Deployment shop/web refers to it\n",
        "  Secret shop/pull: created here, placed on east, marked there, because ServiceAccount shop/runner refers to it\n",
        "  Deployment shop/web: created here, placed on east, marked there\n",
        "Nothing was changed",
    ] {
        assert!(printed.contains(words), "{words}: {printed}");
    }
    assert_eq!(above.get("/api/v1/namespaces/shop").await.status, 404);
    let marks = below.get(WEB).await.expect(200)["metadata"]["labels"].clone();
    assert_eq!(marks, Value::Null);

    let printed = fleet.run(line);
    assert!(printed.ends_with("8 objects are adopted. Nothing was restarted.\n"), "{printed}");
    let web = above.get(WEB).await.expect(200);
    wait_for_record(&above, "shop", &web, |status| {
        status["state"] == "Applied" && status["observed"] == true
    })
    .await;
    wait_for("the status is reported above", &above, WEB, |web| web["status"]["availableReplicas"] == 2)
        .await;
    for (path, by) in [
        ("deployments/web", "annotation"),
        ("configmaps/settings", "reference"),
        ("secrets/password", "reference"),
        ("secrets/pull", "reference"),
        ("serviceaccounts/runner", "reference"),
        ("persistentvolumeclaims/disk", "reference"),
        // The scheduler places it with the Deployment, if it is faster than the command.
        ("services/web", "hand reference"),
        ("statefulsets/store", "annotation"),
    ] {
        let base = if path.contains("sets/") || path.starts_with("deploy") { APPS } else { CORE };
        let placement = format!("{base}/{path}/placement");
        wait_for("the object is placed", &above, &placement, |placement| {
            by.split(' ').any(|by| placement["spec"]["by"] == by) && names(placement) == ["east"]
        })
        .await;
        let marked = below.get(&format!("{base}/{path}")).await.expect(200);
        assert_eq!(marked["metadata"]["annotations"]["atoll.dev/adopted"], "true", "{path}");
        wait_for_record(&above, "shop", &above.get(&format!("{base}/{path}")).await.expect(200), |status| {
            status["state"] == "Applied"
        })
        .await;
    }
    // The namespace does not belong to Atoll: it only has the locator.
    let space = below.get("/api/v1/namespaces/shop").await.expect(200);
    assert_eq!(space["metadata"]["labels"]["atoll.dev/control-plane"], Value::Null);
    assert!(space["metadata"]["annotations"]["atoll.dev/namespace"].is_string());
    assert_eq!(invariant_state(&below).await, before);

    // Adopting again changes nothing.
    let printed = fleet.run(line);
    assert!(printed.contains("Deployment shop/web: is already managed by Atoll"), "{printed}");
    assert_eq!(invariant_state(&below).await, before);

    // From now on it is changed from above, and existing objects stay adopted.
    above.merge(WEB, json!({ "spec": { "replicas": 3 } })).await.expect(200);
    let web = wait_for("the change is applied below", &below, WEB, |web| web["spec"]["replicas"] == 3).await;
    assert_eq!(web["metadata"]["annotations"]["atoll.dev/adopted"], "true");
    assert_eq!(
        identities(&below, &format!("{APPS}/replicasets")).await.len(),
        1,
        "no new ReplicaSet must be created"
    );
    // New objects go into the adopted namespace as well.
    create(&above, &format!("{CORE}/configmaps"), object("v1", "ConfigMap", "new", json!({}))).await;
    fleet.run("place cm/new -n shop --on east");
    wait_for("the object exists below", &below, &format!("{CORE}/configmaps/new"), |_| true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn namespace_is_adopted_without_objects_of_controllers() {
    let fleet = TestFleet::start();
    let (above, below) = (fleet.admin(), fleet.east.admin());
    create_shop(&below).await;
    let before = invariant_state(&below).await;
    let printed = fleet.run("adopt --all -n shop --cluster east");
    assert!(!printed.contains("ReplicaSet") && !printed.contains("kube-root-ca.crt"), "{printed}");
    for path in ["services/web", "configmaps/settings", "serviceaccounts/runner"] {
        above.get(&format!("{CORE}/{path}")).await.expect(200);
    }
    wait_for("the status is reported above", &above, WEB, |web| web["status"]["availableReplicas"] == 2)
        .await;
    assert_eq!(invariant_state(&below).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_adoption_changes_nothing() {
    let fleet = TestFleet::start();
    let (above, below) = (fleet.admin(), fleet.east.admin());
    create_shop(&below).await;
    let set = identities(&below, &format!("{APPS}/replicasets")).await.remove(0).0;
    let marked_by_another = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "theirs", "labels": { "atoll.dev/control-plane": "another" } },
    });
    create(&below, &format!("{CORE}/configmaps"), marked_by_another).await;
    for (what, words) in [
        (
            format!("rs/{set}"),
            "is owned by Deployment web\nhint: adopt that instead: atoll adopt deployment/web".to_string(),
        ),
        ("pods/web".into(), "pods cannot be adopted\nhint: adopt their controller".into()),
        ("cm/kube-root-ca.crt".into(), "is created by every cluster for itself".into()),
        ("cm/theirs".into(), "belongs to another control plane, another".into()),
        ("cm/missing".into(), "east has no ConfigMap missing in namespace shop".into()),
        ("events/x".into(), "cannot be placed on clusters".into()),
        ("deployments".into(), "does not name an object".into()),
        ("thing/x".into(), "the server has no resource type \"thing\"".into()),
    ] {
        let errors = fleet.run_failing(&format!("adopt {what} -n shop --cluster east"));
        assert!(errors.contains(&words), "{what}: {errors}");
    }
    let errors = fleet.run_failing("adopt deploy/web -n shop --cluster est");
    assert!(errors.contains("there is no cluster est for root\nhint: did you mean east?"), "{errors}");
    let errors = fleet.run_failing("adopt deploy/coredns -n kube-system --cluster east");
    assert!(
        errors.contains("east has no Deployment coredns") || errors.contains("belongs to the cluster itself"),
        "{errors}"
    );
    assert_eq!(above.get("/api/v1/namespaces/shop").await.status, 404, "nothing must be created above");

    // An existing object above that differs is a conflict. An equal one is not.
    create(&above, "/api/v1/namespaces", object("v1", "Namespace", "shop", json!({}))).await;
    let other = object("v1", "ConfigMap", "settings", json!({ "data": { "a": "2" } }));
    create(&above, &format!("{CORE}/configmaps"), other).await;
    let rest = invariant_state(&below).await;
    let errors = fleet.run_failing("adopt deploy/web -n shop --cluster east");
    assert!(errors.contains("ConfigMap shop/settings already exists here with other contents: "), "{errors}");
    assert!(errors.contains("nothing was adopted, and nothing was changed"), "{errors}");
    assert_eq!(above.get(WEB).await.status, 404);
    assert_eq!(
        above.get(&format!("{CORE}/secrets/password")).await.status,
        404,
        "the created object must be deleted again"
    );
    assert_eq!(below.get(WEB).await.expect(200)["metadata"]["labels"], Value::Null);
    assert_eq!(invariant_state(&below).await, rest);
    above.merge(&format!("{CORE}/configmaps/settings"), json!({ "data": { "a": "1" } })).await.expect(200);
    let printed = fleet.run("adopt deploy/web -n shop --cluster east");
    assert!(
        printed.contains("ConfigMap shop/settings: exists here already; placed on east, marked there"),
        "{printed}"
    );
    wait_for("the status is reported above", &above, WEB, |web| web["status"]["availableReplicas"] == 2)
        .await;
    assert_eq!(invariant_state(&below).await, rest);
}

#[tokio::test(flavor = "multi_thread")]
async fn existing_namespace_is_usable_after_adoption() {
    let fleet = TestFleet::start();
    let (above, below) = (fleet.admin(), fleet.east.admin());
    for client in [&above, &below] {
        create(client, "/api/v1/namespaces", object("v1", "Namespace", "shop", json!({}))).await;
    }
    let map = create(&above, &format!("{CORE}/configmaps"), object("v1", "ConfigMap", "a", json!({}))).await;
    fleet.run("place cm/a -n shop --on east");
    let refused = wait_for_record(&above, "shop", &map, |status| status["state"] == "Conflict").await;
    assert!(refused["status"]["message"].as_str().unwrap().contains("adopt it"), "{refused}");
    let printed = fleet.run("adopt namespace/shop --cluster east");
    assert!(
        printed.contains("Namespace shop: the namespace of that name in east will be used for it"),
        "{printed}"
    );
    assert!(
        printed.ends_with("Namespace shop of east can be used now. Nothing was restarted.\n"),
        "{printed}"
    );
    // The syncer is not notified of the adoption. A change or the next resync makes it retry.
    above.merge(&format!("{CORE}/configmaps/a"), json!({ "data": { "a": "1" } })).await.expect(200);
    eventually("the ConfigMap exists below", async || {
        below.get(&format!("{CORE}/configmaps/a")).await.status == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn namespace_can_be_adopted_under_another_name() {
    let fleet = TestFleet::start();
    let (above, below) = (fleet.admin(), fleet.east.admin());
    let legacy = |path: &str| path.replace("/shop/", "/legacy/");
    create(&below, "/api/v1/namespaces", object("v1", "Namespace", "legacy", json!({}))).await;
    let map = object("v1", "ConfigMap", "settings", json!({ "data": { "a": "1" } }));
    create(&below, "/api/v1/namespaces/legacy/configmaps", map).await;
    let mut pods = plain_pods();
    pods["volumes"] = json!([{ "name": "settings", "configMap": { "name": "settings" } }]);
    create(&below, "/apis/apps/v1/namespaces/legacy/deployments", web(1, pods)).await;
    let running = |web: &Value| web["status"]["availableReplicas"] == 1;
    let before = wait_for("the workload is available", &below, &legacy(WEB), running).await;
    let pods = identities(&below, "/api/v1/namespaces/legacy/pods").await;

    let line = "adopt deploy/web -n legacy --into shop --cluster east";
    let printed = fleet.run(&format!("{line} --dry-run"));
    for words in [
        "  Namespace shop: created here; namespace legacy in east will be used for it\n",
        "  Deployment legacy/web: created here as shop/web, placed on east, marked there\n",
    ] {
        assert!(printed.contains(words), "{printed}");
    }
    assert_eq!(above.get("/api/v1/namespaces/shop").await.status, 404);
    let printed = fleet.run(line);
    assert!(printed.ends_with("2 objects are adopted. Nothing was restarted.\n"), "{printed}");
    wait_for("the status is reported above", &above, WEB, running).await;
    assert_eq!(above.get("/api/v1/namespaces/legacy").await.status, 404);
    let placement = format!("{CORE}/configmaps/settings/placement");
    wait_for("the dependent is placed", &above, &placement, |placement| {
        placement["spec"]["by"] == "reference"
    })
    .await;

    // Changes above are applied below, and so are new objects.
    above.merge(&format!("{CORE}/configmaps/settings"), json!({ "data": { "a": "2" } })).await.expect(200);
    let settings = legacy(&format!("{CORE}/configmaps/settings"));
    wait_for("the change is applied below", &below, &settings, |map| map["data"]["a"] == "2").await;
    create(&above, &format!("{CORE}/configmaps"), object("v1", "ConfigMap", "new", json!({}))).await;
    fleet.run("place cm/new -n shop --on east");
    wait_for("the object exists below", &below, &legacy(&format!("{CORE}/configmaps/new")), |_| true).await;
    assert_eq!(below.get("/api/v1/namespaces/shop").await.status, 404);
    let after = below.get(&legacy(WEB)).await.expect(200);
    assert_eq!((&after["metadata"]["uid"], &after["spec"]), (&before["metadata"]["uid"], &before["spec"]));
    assert_eq!(identities(&below, "/api/v1/namespaces/legacy/pods").await, pods);

    // Namespaces are mapped one to one.
    create(&below, "/api/v1/namespaces", object("v1", "Namespace", "other", json!({}))).await;
    for (line, words) in [
        ("adopt namespace/other --into shop --cluster east", "namespace legacy is already used for shop"),
        (
            "adopt namespace/legacy --cluster east",
            "namespace legacy of east is already used for shop\nhint: adopt its objects into that namespace: --into shop",
        ),
        ("adopt namespace/other --into atoll-system --cluster east", "is reserved for Atoll"),
    ] {
        let errors = fleet.run_failing(line);
        assert!(errors.contains(words), "{errors}");
    }
    fleet.run("release deploy/web cm/new -n shop --delete");
    let space = below.get("/api/v1/namespaces/legacy").await.expect(200);
    assert!(!space["metadata"].to_string().contains("atoll.dev"), "{space}");
    let released = below.get(&legacy(WEB)).await.expect(200);
    assert!(!released["metadata"].to_string().contains("atoll.dev"), "{released}");
    assert_eq!(released["metadata"]["uid"], before["metadata"]["uid"]);
}

/// Returns the names of the clusters of a Placement.
fn names(placement: &Value) -> Vec<&str> {
    let shares = placement["spec"]["clusters"].as_array().into_iter().flatten();
    shares.filter_map(|share| share["name"].as_str()).collect()
}
