//! Claims get volumes from a provisioner, as in a cloud.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client};
use serde_json::{Value, json};

const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";

fn claim(name: &str, class: Option<&str>) -> Value {
    let mut claim = json!({
        "metadata": { "name": name },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    });
    if let Some(class) = class {
        claim["spec"]["storageClassName"] = class.into();
    }
    claim
}

async fn phase(admin: &Client, name: &str) -> String {
    let found = admin.get(&format!("{CLAIMS}/{name}")).await.json();
    found["status"]["phase"].as_str().unwrap_or_default().into()
}

#[tokio::test(flavor = "multi_thread")]
async fn stateful_set_gets_volumes_that_are_deleted_with_their_claims() {
    let cluster = Atoll::simulate(&["--nodes=2", "--zones=a,b"]);
    let admin = cluster.admin();
    eventually("the default StorageClass exists", async || {
        admin.get(&format!("{CLASSES}/standard")).await.status == 200
    })
    .await;
    let labels = json!({ "app": "db" });
    let set = json!({
        "metadata": { "name": "db" },
        "spec": {
            "replicas": 2, "serviceName": "db", "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": {
                "containers": [{
                    "name": "db", "image": "db:1", "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
                }],
            } },
            "volumeClaimTemplates": [claim("data", None)],
        },
    });
    admin.post(SETS, set).await.expect(201);
    eventually("both replicas are ready", async || {
        admin.get(&format!("{SETS}/db")).await.expect(200)["status"]["readyReplicas"] == 2
    })
    .await;
    for name in ["data-db-0", "data-db-1"] {
        let claim = admin.get(&format!("{CLAIMS}/{name}")).await.expect(200);
        assert_eq!(
            (&claim["status"]["phase"], &claim["spec"]["storageClassName"]),
            (&json!("Bound"), &json!("standard"))
        );
        let annotations = &claim["metadata"]["annotations"];
        assert_eq!(annotations["volume.kubernetes.io/storage-provisioner"], "sim.atoll.dev");
        let volume = claim["spec"]["volumeName"].as_str().unwrap();
        assert_eq!(volume, format!("pvc-{}", claim["metadata"]["uid"].as_str().unwrap()));
        let volume = admin.get(&format!("{VOLUMES}/{volume}")).await.expect(200);
        assert_eq!(volume["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"], "sim.atoll.dev");
        let node = annotations["volume.kubernetes.io/selected-node"].as_str().unwrap();
        let node = admin.get(&format!("/api/v1/nodes/{node}")).await.expect(200);
        let zone = &node["metadata"]["labels"]["topology.kubernetes.io/zone"];
        let terms = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
        assert_eq!(terms[0]["matchExpressions"][0]["values"], json!([zone]));
    }
    admin.delete(&format!("{SETS}/db")).await.expect(200);
    for name in ["data-db-0", "data-db-1"] {
        admin.delete(&format!("{CLAIMS}/{name}")).await.expect(200);
    }
    eventually("no volume is left", async || admin.get(VOLUMES).await.expect(200)["items"] == json!([]))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn storage_classes_set_binding_mode_and_reclaim_policy() {
    let cluster = Atoll::simulate(&["--nodes=1"]);
    let admin = cluster.admin();
    let class = json!({
        "metadata": { "name": "soon" }, "provisioner": "sim.atoll.dev",
        "volumeBindingMode": "Immediate", "reclaimPolicy": "Retain",
    });
    admin.post(CLASSES, class).await.expect(201);
    eventually("the default StorageClass exists", async || {
        admin.get(&format!("{CLASSES}/standard")).await.status == 200
    })
    .await;
    admin.post(CLAIMS, claim("later", Some("standard"))).await.expect(201);
    admin.post(CLAIMS, claim("now", Some("soon"))).await.expect(201);
    eventually("the first claim is bound", async || phase(&admin, "now").await == "Bound").await;
    eventually("the second claim is pending", async || phase(&admin, "later").await == "Pending").await;
    let pod = json!({
        "metadata": { "name": "first" },
        "spec": {
            "containers": [{ "name": "main", "image": "one:1" }],
            "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "later" } }],
        },
    });
    admin.post("/api/v1/namespaces/default/pods", pod).await.expect(201);
    eventually("the second claim is bound for its pod", async || phase(&admin, "later").await == "Bound")
        .await;
    let volume = admin.get(&format!("{CLAIMS}/now")).await.expect(200)["spec"]["volumeName"].clone();
    admin.delete(&format!("{CLAIMS}/now")).await.expect(200);
    eventually("the volume is retained", async || {
        let volume = admin.get(&format!("{VOLUMES}/{}", volume.as_str().unwrap())).await.expect(200);
        volume["status"]["phase"] == "Released"
    })
    .await;
}
