//! An application with objects of many kinds on a cluster, simulated or real.

use std::path::PathBuf;
use std::time::Instant;

use atoll_testkit::Client;
use serde_json::{Value, json};

use crate::joining::place;
use crate::objects::{create, object, wait_for, wait_until_deleted};

/// A deployment of the application: a namespace of the control plane, and a cluster.
pub struct Site<'a> {
    pub above: Client,
    /// The path of an administrator's kubeconfig.
    pub control_plane: PathBuf,
    pub below: Client,
    pub cluster: &'a str,
    pub namespace: &'a str,
}

/// API prefixes, resources and names, in the order of creation.
pub const APPLICATION: [(&str, &str, &str); 8] = [
    ("api/v1", "configmaps", "settings"),
    ("api/v1", "secrets", "password"),
    ("api/v1", "persistentvolumeclaims", "disk"),
    ("api/v1", "services", "web"),
    ("apis/apps/v1", "deployments", "web"),
    ("apis/apps/v1", "statefulsets", "store"),
    ("apis/batch/v1", "jobs", "once"),
    ("apis/networking.k8s.io/v1", "ingresses", "front"),
];

/// The number of objects at the start of the list that are placed as dependents. All others are placed by
/// hand.
pub const DEPENDENTS: usize = 2;

fn template(app: &str, container: Value, more: Value) -> Value {
    let mut main = json!({ "name": "main", "image": "localhost/web:1" });
    for (field, value) in container.as_object().unwrap() {
        main[field] = value.clone();
    }
    let mut spec = json!({ "containers": [main] });
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({ "metadata": { "labels": { "app": app } }, "spec": spec })
}

fn manifest(resource: &str, name: &str) -> Value {
    let selector = |app: &str| json!({ "matchLabels": { "app": app } });
    let mounted = |name: &str| json!({ "volumeMounts": [{ "name": name, "mountPath": format!("/{name}") }] });
    match resource {
        "configmaps" => object("v1", "ConfigMap", name, json!({ "data": { "a": "1" } })),
        "secrets" => object("v1", "Secret", name, json!({ "data": { "word": "c2VzYW1l" } })),
        "persistentvolumeclaims" => {
            let spec = json!({
                "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
            });
            object("v1", "PersistentVolumeClaim", name, json!({ "spec": spec }))
        }
        "services" => {
            let ports = json!([{ "port": 80, "targetPort": 8080 }]);
            let spec = json!({ "type": "NodePort", "selector": { "app": "web" }, "ports": ports });
            object("v1", "Service", name, json!({ "spec": spec }))
        }
        "deployments" => {
            let volumes = json!({ "volumes": [
                { "name": "settings", "configMap": { "name": "settings" } },
                { "name": "password", "secret": { "secretName": "password" } },
            ]});
            let probe = json!({ "httpGet": { "path": "/cgi-bin/name", "port": 8080 }, "periodSeconds": 1 });
            let mut container = mounted("settings");
            container["readinessProbe"] = probe;
            container["resources"] = json!({ "requests": { "cpu": "0.01", "memory": "8Mi" } });
            let template = template("web", container, volumes);
            let spec = json!({ "replicas": 2, "selector": selector("web"), "template": template });
            object("apps/v1", "Deployment", name, json!({ "spec": spec }))
        }
        "statefulsets" => {
            let disk = json!({ "volumes": [
                { "name": "disk", "persistentVolumeClaim": { "claimName": "disk" } },
            ]});
            let template = template("store", mounted("disk"), disk);
            let spec = json!({
                "replicas": 2, "serviceName": "web", "selector": selector("store"), "template": template,
            });
            object("apps/v1", "StatefulSet", name, json!({ "spec": spec }))
        }
        "jobs" => {
            let mut template =
                template("once", json!({ "command": ["true"] }), json!({ "restartPolicy": "Never" }));
            // For simulated containers.
            template["metadata"]["annotations"] = json!({ "sim.atoll.dev/exit-after": "100ms" });
            object("batch/v1", "Job", name, json!({ "spec": { "template": template } }))
        }
        "ingresses" => {
            let backend = json!({ "service": { "name": "web", "port": { "number": 80 } } });
            let spec = json!({ "spec": { "defaultBackend": backend } });
            object("networking.k8s.io/v1", "Ingress", name, spec)
        }
        _ => panic!("unknown resource {resource}"),
    }
}

impl Site<'_> {
    /// Returns the path of a collection.
    pub fn collection(&self, resource: &str) -> String {
        let group =
            APPLICATION.iter().find(|(_, plural, _)| *plural == resource).map_or("api/v1", |row| row.0);
        format!("/{group}/namespaces/{}/{resource}", self.namespace)
    }

    /// Returns the path of an object given as `deployments/web`.
    pub fn path(&self, object: &str) -> String {
        let (resource, name) = object.split_once('/').unwrap();
        format!("{}/{name}", self.collection(resource))
    }

    pub async fn get_above(&self, object: &str) -> Value {
        self.above.get(&self.path(object)).await.expect(200)
    }

    async fn wait_for_status(&self, object: &str, is: impl Fn(&Value) -> bool) {
        let what = format!("the status of {object} on {}", self.cluster);
        wait_for(&what, &self.above, &self.path(object), |object| is(&object["status"])).await;
    }

    /// Changes an object above, and prints how long the change takes to arrive below.
    async fn edit(&self, object: &str, patch: Value, is: impl Fn(&Value) -> bool) {
        let (path, began) = (self.path(object), Instant::now());
        self.above.merge(&path, patch).await.expect(200);
        wait_for(&format!("the change of {object} is applied below"), &self.below, &path, is).await;
        println!("{}: an edit of {object} arrived after {:?}", self.cluster, began.elapsed());
    }

    /// Creates and places all objects, and waits until they run below and their status is visible above.
    pub async fn deploy_and_check(&self) {
        // The scheduler places workloads at once, before the command below does.
        let mut namespace = object("v1", "Namespace", self.namespace, json!({}));
        namespace["metadata"]["annotations"] = json!({ "atoll.dev/clusters": self.cluster });
        create(&self.above, "/api/v1/namespaces", namespace).await;
        for (_, resource, name) in APPLICATION {
            create(&self.above, &self.collection(resource), manifest(resource, name)).await;
        }
        let placed: Vec<String> = names().skip(DEPENDENTS).collect();
        let placed: Vec<&str> = placed.iter().map(String::as_str).collect();
        place(&self.control_plane, self.namespace, &placed, self.cluster);
        for name in names() {
            wait_for(&format!("{name} exists below"), &self.below, &self.path(&name), |_| true).await;
        }
        self.wait_for_status("deployments/web", |status| status["availableReplicas"] == 2).await;
        self.wait_for_status("statefulsets/store", |status| status["readyReplicas"] == 2).await;
        self.wait_for_status("persistentvolumeclaims/disk", |status| status["phase"] == "Bound").await;
        self.wait_for_status("jobs/once", |status| status["succeeded"] == 1).await;
        let complete = |condition: &Value| condition["type"] == "Complete" && condition["status"] == "True";
        self.wait_for_status("jobs/once", |status| {
            status["conditions"].as_array().is_some_and(|conditions| conditions.iter().any(complete))
        })
        .await;
        // A status that an Ingress controller writes below.
        let address = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.7" }] } } });
        let (path, began) = (self.path("ingresses/front"), Instant::now());
        self.below.merge(&format!("{path}/status"), address.clone()).await.expect(200);
        self.wait_for_status("ingresses/front", |status| *status == address["status"]).await;
        println!("{}: a status was seen above after {:?}", self.cluster, began.elapsed());
        let secret = self.below.get(&self.path("secrets/password")).await.expect(200);
        assert_eq!(secret["data"]["word"], "c2VzYW1l");
    }

    /// Changes objects above, waits until they are applied below, and checks that drift is corrected and
    /// other objects are kept.
    pub async fn change_and_check(&self) {
        self.edit("configmaps/settings", json!({ "data": { "a": "2" } }), |map| map["data"]["a"] == "2")
            .await;
        let replicas = |count: u64| json!({ "spec": { "replicas": count } });
        self.edit("deployments/web", replicas(5), |web| web["spec"]["replicas"] == 5).await;
        self.wait_for_status("deployments/web", |status| status["availableReplicas"] == 5).await;
        self.edit("statefulsets/store", replicas(1), |store| store["spec"]["replicas"] == 1).await;
        self.wait_for_status("statefulsets/store", |status| status["replicas"] == 1).await;
        for name in ["deployments/web", "statefulsets/store"] {
            let generation = self.get_above(name).await["metadata"]["generation"].clone();
            self.wait_for_status(name, |status| status["observedGeneration"] == generation).await;
        }
        let mine = object("v1", "ConfigMap", "mine", json!({}));
        create(&self.below, &self.collection("configmaps"), mine).await;
        let web = self.path("deployments/web");
        self.below.merge(&web, replicas(1)).await.expect(200);
        wait_for("the drift is corrected", &self.below, &web, |web| web["spec"]["replicas"] == 5).await;
        self.wait_for_status("deployments/web", |status| status["availableReplicas"] == 5).await;
    }

    /// Deletes objects and waits until they are gone below and then above. Dependents are removed with their
    /// last referrer.
    pub async fn delete_and_check(&self) {
        for name in names().skip(DEPENDENTS).collect::<Vec<_>>().iter().rev() {
            let (path, began) = (self.path(name), Instant::now());
            self.above.delete(&path).await.expect(200);
            wait_until_deleting(&self.below, &path).await;
            println!("{}: the deletion of {name} arrived after {:?}", self.cluster, began.elapsed());
            wait_until_deleted(&self.above, &path).await;
            wait_until_deleted(&self.below, &path).await;
        }
        for name in names().take(DEPENDENTS) {
            wait_until_deleted(&self.below, &self.path(&name)).await;
            self.above.get(&self.path(&name)).await.expect(200);
        }
        self.below.get(&self.path("configmaps/mine")).await.expect(200);
    }
}

/// Waits until an object is at least being deleted.
async fn wait_until_deleting(client: &Client, path: &str) {
    atoll_testkit::wait::eventually(&format!("{path} is being deleted"), async || {
        let answer = client.get(path).await;
        answer.status == 404 || answer.json()["metadata"]["deletionTimestamp"].is_string()
    })
    .await;
}

/// Returns all objects, each as `deployments/web`.
pub fn names() -> impl Iterator<Item = String> {
    APPLICATION.iter().map(|(_, resource, name)| format!("{resource}/{name}"))
}
