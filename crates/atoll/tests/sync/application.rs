//! An application of many kinds on a cluster, simulated or real.

use std::path::PathBuf;
use std::time::Instant;

use serde_json::{Value, json};

use crate::joining::place;
use crate::objects::{becomes, create, goes, object};
use crate::support::access::Access;

/// Where an application is: in a namespace of the control plane, and on a cluster.
pub struct Site<'a> {
    pub above: Access,
    /// An administrator's kubeconfig.
    pub control_plane: PathBuf,
    pub below: Access,
    pub cluster: &'a str,
    pub namespace: &'a str,
}

/// Resources and names, in the order in which they are made.
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

/// How many of them follow others; all else is placed by hand.
pub const FOLLOWERS: usize = 2;

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

fn described(resource: &str, name: &str) -> Value {
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
            // Where containers are not run but simulated.
            template["metadata"]["annotations"] = json!({ "sim.atoll.dev/exit-after": "100ms" });
            object("batch/v1", "Job", name, json!({ "spec": { "template": template } }))
        }
        "ingresses" => {
            let backend = json!({ "service": { "name": "web", "port": { "number": 80 } } });
            let spec = json!({ "spec": { "defaultBackend": backend } });
            object("networking.k8s.io/v1", "Ingress", name, spec)
        }
        _ => panic!("nobody knows {resource}"),
    }
}

impl Site<'_> {
    /// Where the objects of a resource are.
    pub fn collection(&self, resource: &str) -> String {
        let group =
            APPLICATION.iter().find(|(_, plural, _)| *plural == resource).map_or("api/v1", |row| row.0);
        format!("/{group}/namespaces/{}/{resource}", self.namespace)
    }

    /// Where an object is that is named as `deployments/web`.
    pub fn path(&self, object: &str) -> String {
        let (resource, name) = object.split_once('/').unwrap();
        format!("{}/{name}", self.collection(resource))
    }

    pub async fn at(&self, object: &str) -> Value {
        self.above.get(&self.path(object)).await.expect(200)
    }

    async fn status(&self, object: &str, is: impl Fn(&Value) -> bool) {
        let what = format!("the status of {object} on {}", self.cluster);
        becomes(&what, &self.above, &self.path(object), |object| is(&object["status"])).await;
    }

    /// Changes an object above, and says how long it takes until that is seen below.
    async fn edit(&self, object: &str, patch: Value, is: impl Fn(&Value) -> bool) {
        let (path, began) = (self.path(object), Instant::now());
        self.above.merge(&path, patch).await.expect(200);
        becomes(&format!("{object} follows"), &self.below, &path, is).await;
        println!("{}: an edit of {object} arrived after {:?}", self.cluster, began.elapsed());
    }

    /// Makes everything and places it. Then it is there and runs, and that is seen above.
    pub async fn arrives(&self) {
        let namespace = object("v1", "Namespace", self.namespace, json!({}));
        create(&self.above, "/api/v1/namespaces", namespace).await;
        for (_, resource, name) in APPLICATION {
            create(&self.above, &self.collection(resource), described(resource, name)).await;
        }
        let placed: Vec<String> = names().skip(FOLLOWERS).collect();
        let placed: Vec<&str> = placed.iter().map(String::as_str).collect();
        place(&self.control_plane, self.namespace, &placed, self.cluster);
        for name in names() {
            becomes(&format!("{name} is there"), &self.below, &self.path(&name), |_| true).await;
        }
        self.status("deployments/web", |status| status["availableReplicas"] == 2).await;
        self.status("statefulsets/store", |status| status["readyReplicas"] == 2).await;
        self.status("persistentvolumeclaims/disk", |status| status["phase"] == "Bound").await;
        self.status("jobs/once", |status| status["succeeded"] == 1).await;
        let complete = |condition: &Value| condition["type"] == "Complete" && condition["status"] == "True";
        self.status("jobs/once", |status| {
            status["conditions"].as_array().is_some_and(|conditions| conditions.iter().any(complete))
        })
        .await;
        // A status that is written below by whoever serves Ingresses there.
        let address = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.7" }] } } });
        let (path, began) = (self.path("ingresses/front"), Instant::now());
        self.below.merge(&format!("{path}/status"), address.clone()).await.expect(200);
        self.status("ingresses/front", |status| *status == address["status"]).await;
        println!("{}: a status was seen above after {:?}", self.cluster, began.elapsed());
        let secret = self.below.get(&self.path("secrets/password")).await.expect(200);
        assert_eq!(secret["data"]["word"], "c2VzYW1l");
    }

    /// What changes above changes below; what others change there is put right, and what is theirs stays.
    pub async fn follows(&self) {
        self.edit("configmaps/settings", json!({ "data": { "a": "2" } }), |map| map["data"]["a"] == "2")
            .await;
        let replicas = |count: u64| json!({ "spec": { "replicas": count } });
        self.edit("deployments/web", replicas(5), |web| web["spec"]["replicas"] == 5).await;
        self.status("deployments/web", |status| status["availableReplicas"] == 5).await;
        self.edit("statefulsets/store", replicas(1), |store| store["spec"]["replicas"] == 1).await;
        self.status("statefulsets/store", |status| status["replicas"] == 1).await;
        for name in ["deployments/web", "statefulsets/store"] {
            let generation = self.at(name).await["metadata"]["generation"].clone();
            self.status(name, |status| status["observedGeneration"] == generation).await;
        }
        let mine = object("v1", "ConfigMap", "mine", json!({}));
        create(&self.below, &self.collection("configmaps"), mine).await;
        let web = self.path("deployments/web");
        self.below.merge(&web, replicas(1)).await.expect(200);
        becomes("it is put right", &self.below, &web, |web| web["spec"]["replicas"] == 5).await;
        self.status("deployments/web", |status| status["availableReplicas"] == 5).await;
    }

    /// What is deleted goes, first below, then above; what followed goes with the last that referred to it.
    pub async fn goes(&self) {
        for name in names().skip(FOLLOWERS).collect::<Vec<_>>().iter().rev() {
            let (path, began) = (self.path(name), Instant::now());
            self.above.delete(&path).await.expect(200);
            becomes_going(&self.below, &path).await;
            println!("{}: the deletion of {name} arrived after {:?}", self.cluster, began.elapsed());
            goes(&self.above, &path).await;
            goes(&self.below, &path).await;
        }
        for name in names().take(FOLLOWERS) {
            goes(&self.below, &self.path(&name)).await;
            self.above.get(&self.path(&name)).await.expect(200);
        }
        self.below.get(&self.path("configmaps/mine")).await.expect(200);
    }
}

/// Waits until it is at least on its way out.
async fn becomes_going(access: &Access, path: &str) {
    crate::support::eventually(&format!("{path} goes"), async || {
        let answer = access.get(path).await;
        answer.status == 404 || answer.json()["metadata"]["deletionTimestamp"].is_string()
    })
    .await;
}

/// All of it, each as `deployments/web`.
pub fn names() -> impl Iterator<Item = String> {
    APPLICATION.iter().map(|(_, resource, name)| format!("{resource}/{name}"))
}
