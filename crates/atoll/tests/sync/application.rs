//! An application of many kinds on a cluster.

use serde_json::{Value, json};

use crate::support::access::Access;
use crate::{Fleet, Mode, becomes, create, goes, object};

const CORE: &str = "/api/v1/namespaces/shop";
const APPS: &str = "/apis/apps/v1/namespaces/shop";
const BATCH: &str = "/apis/batch/v1/namespaces/shop";
const NETWORKING: &str = "/apis/networking.k8s.io/v1/namespaces/shop";

fn template(app: &str, more: Value) -> Value {
    let mut spec = json!({ "containers": [{ "name": "main", "image": "example/app:1" }] });
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({ "metadata": { "labels": { "app": app } }, "spec": spec })
}

/// Path, name and object of everything.
fn application() -> Vec<(String, &'static str, Value)> {
    let selector = |app: &str| json!({ "matchLabels": { "app": app } });
    let volumes = json!({ "volumes": [
        { "name": "settings", "configMap": { "name": "settings" } },
        { "name": "password", "secret": { "secretName": "password" } },
    ]});
    let claim =
        json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
    let disk = json!({ "volumes": [{ "name": "disk", "persistentVolumeClaim": { "claimName": "disk" } }] });
    let backend = json!({ "service": { "name": "web", "port": { "number": 80 } } });
    let mut job = template("once", json!({ "restartPolicy": "Never" }));
    job["metadata"]["annotations"] = json!({ "sim.atoll.dev/exit-after": "100ms" });
    vec![
        (
            format!("{CORE}/configmaps"),
            "settings",
            object("v1", "ConfigMap", "settings", json!({ "data": { "a": "1" } })),
        ),
        (
            format!("{CORE}/secrets"),
            "password",
            object("v1", "Secret", "password", json!({ "data": { "word": "c2VzYW1l" } })),
        ),
        (
            format!("{CORE}/persistentvolumeclaims"),
            "disk",
            object("v1", "PersistentVolumeClaim", "disk", json!({ "spec": claim })),
        ),
        (
            format!("{CORE}/services"),
            "web",
            object(
                "v1",
                "Service",
                "web",
                json!({ "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80 }] } }),
            ),
        ),
        (
            format!("{APPS}/deployments"),
            "web",
            object(
                "apps/v1",
                "Deployment",
                "web",
                json!({ "spec": { "replicas": 2, "selector": selector("web"), "template": template("web", volumes) } }),
            ),
        ),
        (
            format!("{APPS}/statefulsets"),
            "store",
            object(
                "apps/v1",
                "StatefulSet",
                "store",
                json!({ "spec": { "replicas": 2, "serviceName": "web", "selector": selector("store"), "template": template("store", disk) } }),
            ),
        ),
        (
            format!("{BATCH}/jobs"),
            "once",
            object("batch/v1", "Job", "once", json!({ "spec": { "template": job } })),
        ),
        (
            format!("{NETWORKING}/ingresses"),
            "front",
            object(
                "networking.k8s.io/v1",
                "Ingress",
                "front",
                json!({ "spec": { "defaultBackend": backend } }),
            ),
        ),
    ]
}

/// What is placed by hand; all else follows.
const PLACED: [&str; 6] = [
    "persistentvolumeclaims/disk",
    "services/web",
    "deployments/web",
    "statefulsets/store",
    "jobs/once",
    "ingresses/front",
];

async fn runs_and_goes(mode: Mode) {
    let fleet = Fleet::start(mode, &["east"]);
    let (above, below) = (fleet.admin(), fleet.clusters[0].admin());
    create(&above, "/api/v1/namespaces", object("v1", "Namespace", "shop", json!({}))).await;
    let application = application();
    for (collection, _, object) in &application {
        create(&above, collection, object.clone()).await;
    }
    let kubeconfig = fleet.atoll.admin_kubeconfig();
    let mut line = vec!["place"];
    line.extend(PLACED);
    line.extend(["--on", "east", "-n", "shop", "--kubeconfig", kubeconfig.to_str().unwrap()]);
    crate::succeed(&mut crate::atoll(&line));

    // Everything is there and runs, and that is seen above.
    for (collection, name, _) in &application {
        becomes(&format!("{collection}/{name} is there"), &below, &format!("{collection}/{name}"), |_| true)
            .await;
    }
    status(&above, "deployments/web", |status| status["availableReplicas"] == 2).await;
    status(&above, "statefulsets/store", |status| status["readyReplicas"] == 2).await;
    let bound = |claim: &Value| claim["status"]["phase"] == "Bound";
    becomes("the claim is bound", &above, &format!("{CORE}/persistentvolumeclaims/disk"), bound).await;
    becomes("the job is done", &above, &format!("{BATCH}/jobs/once"), |job| job["status"]["succeeded"] == 1)
        .await;
    // A status that is written below by whoever serves Ingresses there.
    let address = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.7" }] } } });
    below.merge(&format!("{NETWORKING}/ingresses/front/status"), address.clone()).await.expect(200);
    let has_address = |ingress: &Value| ingress["status"] == address["status"];
    becomes("its address is seen", &above, &format!("{NETWORKING}/ingresses/front"), has_address).await;
    let secret = below.get(&format!("{CORE}/secrets/password")).await.expect(200);
    assert_eq!(secret["data"]["word"], "c2VzYW1l");

    // Changes follow.
    above.merge(&format!("{CORE}/configmaps/settings"), json!({ "data": { "a": "2" } })).await.expect(200);
    becomes("data follow", &below, &format!("{CORE}/configmaps/settings"), |map| map["data"]["a"] == "2")
        .await;
    above.merge(&format!("{APPS}/deployments/web"), json!({ "spec": { "replicas": 5 } })).await.expect(200);
    status(&above, "deployments/web", |status| status["availableReplicas"] == 5).await;
    let generation =
        above.get(&format!("{APPS}/deployments/web")).await.expect(200)["metadata"]["generation"].clone();
    status(&above, "deployments/web", |status| status["observedGeneration"] == generation).await;

    // Somebody's own things stay, and what is taken from ours comes back.
    let mine = object("v1", "ConfigMap", "mine", json!({}));
    create(&below, &format!("{CORE}/configmaps"), mine).await;
    below.merge(&format!("{APPS}/deployments/web"), json!({ "spec": { "replicas": 1 } })).await.expect(200);
    becomes("it is put right", &below, &format!("{APPS}/deployments/web"), |web| {
        web["spec"]["replicas"] == 5
    })
    .await;

    // And so do deletions: first below, then above; what followed goes with the last that referred to it.
    for (collection, name, _) in application.iter().skip(2).rev() {
        let path = format!("{collection}/{name}");
        above.delete(&path).await.expect(200);
        goes(&above, &path).await;
        goes(&below, &path).await;
    }
    for follower in ["configmaps/settings", "secrets/password"] {
        goes(&below, &format!("{CORE}/{follower}")).await;
        above.get(&format!("{CORE}/{follower}")).await.expect(200);
    }
    below.get(&format!("{CORE}/configmaps/mine")).await.expect(200);
}

async fn status(above: &Access, name: &str, is: impl Fn(&Value) -> bool) {
    becomes(&format!("the status of {name}"), above, &format!("{APPS}/{name}"), |object| {
        is(&object["status"])
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_runs_where_it_is_placed_by_push() {
    runs_and_goes(Mode::Push).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_runs_where_it_is_placed_by_hand() {
    runs_and_goes(Mode::None).await;
}
