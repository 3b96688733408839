//! What runs in a cluster already is adopted, and does not notice.

use serde_json::{Value, json};

use crate::support::access::Access;
use crate::support::{eventually, shares};
use crate::world::{World, becomes, create, object, plain_pods, record, web};

const CORE: &str = "/api/v1/namespaces/shop";
const APPS: &str = "/apis/apps/v1/namespaces/shop";
const STORE: &str = "/apis/apps/v1/namespaces/shop/statefulsets/store";
const WEB: &str = "/apis/apps/v1/namespaces/shop/deployments/web";

/// A Deployment with all that it needs, as somebody has made it in a cluster; it runs.
async fn shop(below: &Access) {
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
    becomes("it runs", below, STORE, |store| store["status"]["availableReplicas"] == 1).await;
    becomes("it runs", below, WEB, |web| {
        web["status"]["availableReplicas"] == 2
            && web["status"]["observedGeneration"] == web["metadata"]["generation"]
    })
    .await;
}

/// Names and uids of all of a resource.
async fn identities(below: &Access, path: &str) -> Vec<(String, String)> {
    let list = below.get(path).await.expect(200);
    let text = |item: &Value, field: &str| item["metadata"][field].as_str().unwrap().to_string();
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| (text(item, "name"), text(item, "uid"))).collect()
}

/// What must stay as it is, byte for byte.
async fn untouched(below: &Access) -> String {
    let web = below.get(WEB).await.expect(200);
    let service = below.get(&format!("{CORE}/services/web")).await.expect(200);
    let store = below.get(STORE).await.expect(200);
    let claim = below.get(&format!("{CORE}/persistentvolumeclaims/disk")).await.expect(200);
    json!({
        "uid": web["metadata"]["uid"], "spec": web["spec"],
        // Deployments count changes of their annotations, too; nothing else does.
        "store": store["spec"], "generation": store["metadata"]["generation"],
        "service": service["spec"], "claim": claim["spec"],
        "sets": identities(below, &format!("{APPS}/replicasets")).await,
        "pods": identities(below, &format!("{CORE}/pods")).await,
    })
    .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_is_adopted_and_does_not_notice() {
    let world = World::start();
    let (above, below) = (world.admin(), world.east.admin());
    shop(&below).await;
    let before = untouched(&below).await;

    // First only in words.
    let line = "adopt deployment/web service/web sts/store -n shop --cluster east";
    let said = world.says(&format!("{line} --dry-run"));
    for words in [
        "Adopting from east into root:\n",
        "  Namespace shop: made here; the one in east will stand for it\n",
        "  ConfigMap shop/settings: created here, placed on east, marked there, for Deployment shop/web refers to it\n",
        "  Secret shop/pull: created here, placed on east, marked there, for ServiceAccount shop/runner refers to it\n",
        "  Deployment shop/web: created here, placed on east, marked there\n",
        "Nothing was done",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(above.get("/api/v1/namespaces/shop").await.status, 404);
    let marks = below.get(WEB).await.expect(200)["metadata"]["labels"].clone();
    assert_eq!(marks, Value::Null);

    let said = world.says(line);
    assert!(said.ends_with("8 objects are adopted. Nothing was restarted.\n"), "{said}");
    let web = above.get(WEB).await.expect(200);
    record(&above, "shop", &web, |status| status["state"] == "Applied" && status["observed"] == true).await;
    becomes("its status is seen above", &above, WEB, |web| web["status"]["availableReplicas"] == 2).await;
    for (path, by) in [
        ("deployments/web", "hand"),
        ("configmaps/settings", "reference"),
        ("secrets/password", "reference"),
        ("secrets/pull", "reference"),
        ("serviceaccounts/runner", "reference"),
        ("persistentvolumeclaims/disk", "reference"),
        ("services/web", "hand"),
        ("statefulsets/store", "hand"),
    ] {
        let base = if path.contains("sets/") || path.starts_with("deploy") { APPS } else { CORE };
        let placement = format!("{base}/{path}/placement");
        becomes("it is placed", &above, &placement, |placement| {
            placement["spec"]["by"] == by && shares(placement) == json!([{ "name": "east" }])
        })
        .await;
        let marked = below.get(&format!("{base}/{path}")).await.expect(200);
        assert_eq!(marked["metadata"]["annotations"]["atoll.dev/adopted"], "true", "{path}");
        record(&above, "shop", &above.get(&format!("{base}/{path}")).await.expect(200), |status| {
            status["state"] == "Applied"
        })
        .await;
    }
    // The namespace is not Atoll's: it only says which one it stands for.
    let space = below.get("/api/v1/namespaces/shop").await.expect(200);
    assert_eq!(space["metadata"]["labels"]["atoll.dev/control-plane"], Value::Null);
    assert!(space["metadata"]["annotations"]["atoll.dev/namespace"].is_string());
    assert_eq!(untouched(&below).await, before);

    // Once more changes nothing.
    let said = world.says(line);
    assert!(said.contains("Deployment shop/web: is already Atoll's"), "{said}");
    assert_eq!(untouched(&below).await, before);

    // From now on it is changed from above, and what is there already stays adopted.
    above.merge(WEB, json!({ "spec": { "replicas": 3 } })).await.expect(200);
    let web = becomes("it follows", &below, WEB, |web| web["spec"]["replicas"] == 3).await;
    assert_eq!(web["metadata"]["annotations"]["atoll.dev/adopted"], "true");
    assert_eq!(identities(&below, &format!("{APPS}/replicasets")).await.len(), 1, "no new revision");
    // What is new goes into the adopted namespace as well.
    create(&above, &format!("{CORE}/configmaps"), object("v1", "ConfigMap", "new", json!({}))).await;
    world.says("place cm/new -n shop --on east");
    becomes("it arrives", &below, &format!("{CORE}/configmaps/new"), |_| true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_of_a_namespace_is_adopted_but_what_others_make() {
    let world = World::start();
    let (above, below) = (world.admin(), world.east.admin());
    shop(&below).await;
    let before = untouched(&below).await;
    let said = world.says("adopt --all -n shop --cluster east");
    assert!(!said.contains("ReplicaSet") && !said.contains("kube-root-ca.crt"), "{said}");
    for path in ["services/web", "configmaps/settings", "serviceaccounts/runner"] {
        above.get(&format!("{CORE}/{path}")).await.expect(200);
    }
    becomes("its status is seen above", &above, WEB, |web| web["status"]["availableReplicas"] == 2).await;
    assert_eq!(untouched(&below).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_adopted_stays_as_it_is() {
    let world = World::start();
    let (above, below) = (world.admin(), world.east.admin());
    shop(&below).await;
    let set = identities(&below, &format!("{APPS}/replicasets")).await.remove(0).0;
    let theirs = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "theirs", "labels": { "atoll.dev/control-plane": "another" } },
    });
    create(&below, &format!("{CORE}/configmaps"), theirs).await;
    for (what, words) in [
        (
            format!("rs/{set}"),
            "was made by Deployment web\nhint: adopt that instead: atoll adopt deployment/web".to_string(),
        ),
        ("pods/web".into(), "pods cannot be adopted\nhint: adopt what makes them".into()),
        ("cm/kube-root-ca.crt".into(), "is one that every cluster makes for itself".into()),
        ("cm/theirs".into(), "belongs to another control plane, another".into()),
        ("cm/missing".into(), "east has no ConfigMap missing in namespace shop".into()),
        ("events/x".into(), "cannot be placed on clusters".into()),
        ("deployments".into(), "does not name an object".into()),
        ("thing/x".into(), "the server has no resource type \"thing\"".into()),
    ] {
        let errors = world.refuses(&format!("adopt {what} -n shop --cluster east"));
        assert!(errors.contains(&words), "{what}: {errors}");
    }
    let errors = world.refuses("adopt deploy/web -n shop --cluster est");
    assert!(errors.contains("there is no cluster est for root\nhint: did you mean east?"), "{errors}");
    let errors = world.refuses("adopt deploy/coredns -n kube-system --cluster east");
    assert!(
        errors.contains("east has no Deployment coredns") || errors.contains("belongs to the cluster itself"),
        "{errors}"
    );
    assert_eq!(above.get("/api/v1/namespaces/shop").await.status, 404, "nothing was made here");

    // What is here already and says something else is in the way; what says the same is not.
    create(&above, "/api/v1/namespaces", object("v1", "Namespace", "shop", json!({}))).await;
    let other = object("v1", "ConfigMap", "settings", json!({ "data": { "a": "2" } }));
    create(&above, &format!("{CORE}/configmaps"), other).await;
    let rest = untouched(&below).await;
    let errors = world.refuses("adopt deploy/web -n shop --cluster east");
    assert!(
        errors.contains("ConfigMap shop/settings exists here already and says something else: "),
        "{errors}"
    );
    assert!(errors.contains("nothing was adopted, and nothing was changed"), "{errors}");
    assert_eq!(above.get(WEB).await.status, 404);
    assert_eq!(above.get(&format!("{CORE}/secrets/password")).await.status, 404, "that is undone");
    assert_eq!(below.get(WEB).await.expect(200)["metadata"]["labels"], Value::Null);
    assert_eq!(untouched(&below).await, rest);
    above.merge(&format!("{CORE}/configmaps/settings"), json!({ "data": { "a": "1" } })).await.expect(200);
    let said = world.says("adopt deploy/web -n shop --cluster east");
    assert!(
        said.contains("ConfigMap shop/settings: is here already; placed on east, marked there"),
        "{said}"
    );
    becomes("its status is seen above", &above, WEB, |web| web["status"]["availableReplicas"] == 2).await;
    assert_eq!(untouched(&below).await, rest);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_was_there_before_is_usable_once_it_is_adopted() {
    let world = World::start();
    let (above, below) = (world.admin(), world.east.admin());
    for access in [&above, &below] {
        create(access, "/api/v1/namespaces", object("v1", "Namespace", "shop", json!({}))).await;
    }
    let map = create(&above, &format!("{CORE}/configmaps"), object("v1", "ConfigMap", "a", json!({}))).await;
    world.says("place cm/a -n shop --on east");
    let refused = record(&above, "shop", &map, |status| status["state"] == "Conflict").await;
    assert!(refused["status"]["message"].as_str().unwrap().contains("adopt it"), "{refused}");
    let said = world.says("adopt namespace/shop --cluster east");
    assert!(said.contains("Namespace shop: the one in east will stand for it"), "{said}");
    assert!(said.ends_with("Namespace shop of east is now usable. Nothing was restarted.\n"), "{said}");
    // Nobody tells whoever syncs; a change does, or the next look.
    above.merge(&format!("{CORE}/configmaps/a"), json!({ "data": { "a": "1" } })).await.expect(200);
    eventually("it arrives", async || below.get(&format!("{CORE}/configmaps/a")).await.status == 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_is_adopted_into_one_of_another_name() {
    let world = World::start();
    let (above, below) = (world.admin(), world.east.admin());
    let legacy = |path: &str| path.replace("/shop/", "/legacy/");
    create(&below, "/api/v1/namespaces", object("v1", "Namespace", "legacy", json!({}))).await;
    let map = object("v1", "ConfigMap", "settings", json!({ "data": { "a": "1" } }));
    create(&below, "/api/v1/namespaces/legacy/configmaps", map).await;
    let mut pods = plain_pods();
    pods["volumes"] = json!([{ "name": "settings", "configMap": { "name": "settings" } }]);
    create(&below, "/apis/apps/v1/namespaces/legacy/deployments", web(1, pods)).await;
    let running = |web: &Value| web["status"]["availableReplicas"] == 1;
    let before = becomes("it runs", &below, &legacy(WEB), running).await;
    let pods = identities(&below, "/api/v1/namespaces/legacy/pods").await;

    let line = "adopt deploy/web -n legacy --into shop --cluster east";
    let said = world.says(&format!("{line} --dry-run"));
    for words in [
        "  Namespace shop: made here; namespace legacy in east will stand for it\n",
        "  Deployment legacy/web: created here as shop/web, placed on east, marked there\n",
    ] {
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(above.get("/api/v1/namespaces/shop").await.status, 404);
    let said = world.says(line);
    assert!(said.ends_with("2 objects are adopted. Nothing was restarted.\n"), "{said}");
    becomes("its status is seen above", &above, WEB, running).await;
    assert_eq!(above.get("/api/v1/namespaces/legacy").await.status, 404);
    let placement = format!("{CORE}/configmaps/settings/placement");
    becomes("what it needs follows", &above, &placement, |placement| placement["spec"]["by"] == "reference")
        .await;

    // What is changed here arrives there, and so does what is new.
    above.merge(&format!("{CORE}/configmaps/settings"), json!({ "data": { "a": "2" } })).await.expect(200);
    let settings = legacy(&format!("{CORE}/configmaps/settings"));
    becomes("it follows", &below, &settings, |map| map["data"]["a"] == "2").await;
    create(&above, &format!("{CORE}/configmaps"), object("v1", "ConfigMap", "new", json!({}))).await;
    world.says("place cm/new -n shop --on east");
    becomes("it arrives", &below, &legacy(&format!("{CORE}/configmaps/new")), |_| true).await;
    assert_eq!(below.get("/api/v1/namespaces/shop").await.status, 404);
    let after = below.get(&legacy(WEB)).await.expect(200);
    assert_eq!((&after["metadata"]["uid"], &after["spec"]), (&before["metadata"]["uid"], &before["spec"]));
    assert_eq!(identities(&below, "/api/v1/namespaces/legacy/pods").await, pods);

    // One namespace here is one there, and one there is one here.
    create(&below, "/api/v1/namespaces", object("v1", "Namespace", "other", json!({}))).await;
    for (line, words) in [
        ("adopt namespace/other --into shop --cluster east", "namespace legacy stands for shop already"),
        (
            "adopt namespace/legacy --cluster east",
            "namespace legacy of east stands for shop here\nhint: adopt what is in it into that one: --into shop",
        ),
        ("adopt namespace/other --into atoll-system --cluster east", "is Atoll's own"),
    ] {
        let errors = world.refuses(line);
        assert!(errors.contains(words), "{errors}");
    }
    world.says("release deploy/web cm/new -n shop --delete");
    let space = below.get("/api/v1/namespaces/legacy").await.expect(200);
    assert!(!space["metadata"].to_string().contains("atoll.dev"), "{space}");
    let let_go = below.get(&legacy(WEB)).await.expect(200);
    assert!(!let_go["metadata"].to_string().contains("atoll.dev"), "{let_go}");
    assert_eq!(let_go["metadata"]["uid"], before["metadata"]["uid"]);
}
