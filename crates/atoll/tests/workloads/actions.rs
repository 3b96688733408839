//! User actions through kubectl, or without kubectl through the requests that it would send.

use std::path::Path;
use std::time::Instant;

use atoll_meta::object;
use serde_json::{Value, json};

use crate::api::POLL_INTERVAL;
use crate::player::{PlayResult, Player, items};

const MANIFESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/workloads/manifests");
const DEPLOYMENT_REVISION: &str = "deployment.kubernetes.io/revision";

/// The collections of kinds, as paths for `Player`. Those with a leading slash are cluster-scoped.
const COLLECTIONS: &[(&str, &str)] = &[
    ("Node", "/api/v1/nodes"),
    ("PersistentVolume", "/api/v1/persistentvolumes"),
    ("Service", "services"),
    ("Deployment", "apps/v1 deployments"),
    ("StatefulSet", "apps/v1 statefulsets"),
    ("DaemonSet", "apps/v1 daemonsets"),
    ("Job", "batch/v1 jobs"),
    ("CronJob", "batch/v1 cronjobs"),
    ("HorizontalPodAutoscaler", "autoscaling/v2 horizontalpodautoscalers"),
    ("PodDisruptionBudget", "policy/v1 poddisruptionbudgets"),
];

fn collection(kind: &str) -> &'static str {
    COLLECTIONS.iter().find(|(known, _)| *known == kind).map(|(_, collection)| *collection).unwrap()
}

impl Player {
    /// `kubectl apply` of a file of manifests.
    pub async fn apply(&self, file: &str) -> PlayResult {
        let path = Path::new(MANIFESTS).join(file);
        if self.kubectl(&format!("apply -f {}", path.display())).await?.is_some() {
            return Ok(());
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for document in text.split("\n---\n") {
            let manifest: Value = serde_saphyr::from_str(document).unwrap();
            let collection = collection(object::kind(&manifest));
            if let Err(problem) = self.create(collection, manifest.clone()).await {
                let is_there = problem.contains("already exists");
                let known = format!("{collection}/{}", object::name(&manifest));
                if is_there {
                    self.merge(&known, manifest).await?
                } else {
                    return Err(problem);
                };
            }
        }
        Ok(())
    }

    /// `kubectl scale`.
    pub async fn scale(&self, kind: &str, name: &str, replicas: u32) -> PlayResult {
        if self.kubectl(&format!("scale {kind}/{name} --replicas={replicas}")).await?.is_some() {
            return Ok(());
        }
        let scale = format!("{}/{name}/scale", collection(kind));
        self.merge(&scale, json!({"spec": {"replicas": replicas}})).await.map(drop)
    }

    /// `kubectl set image` of the container `main`.
    pub async fn set_image(&self, kind: &str, name: &str, image: &str) -> PlayResult {
        if self.kubectl(&format!("set image {kind}/{name} main={image}")).await?.is_some() {
            return Ok(());
        }
        let workload = format!("{}/{name}", collection(kind));
        let mut containers = self.get(&workload).await?["spec"]["template"]["spec"]["containers"].take();
        containers[0]["image"] = image.into();
        let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
        self.merge(&workload, patch).await.map(drop)
    }

    /// `kubectl rollout status`, if kubectl is available. Callers also wait for the condition themselves.
    pub async fn rollout_status(&self, kind: &str, name: &str) -> PlayResult {
        self.kubectl(&format!("rollout status {kind}/{name} --timeout=120s")).await.map(drop)
    }

    /// `kubectl rollout undo` of a Deployment.
    pub async fn undo(&self, name: &str) -> PlayResult {
        if self.kubectl(&format!("rollout undo Deployment/{name}")).await?.is_some() {
            return Ok(());
        }
        let collection = format!("apps/v1 deployments/{name}");
        let deployment = self.get(&collection).await?;
        let revision = |object: &Value| -> u64 {
            object::annotation(object, DEPLOYMENT_REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
        };
        let sets = self.items("apps/v1 replicasets").await?;
        let own = sets.into_iter().filter(|set| {
            object::controller_of(set).is_some_and(|owner| owner.uid == object::uid(&deployment))
        });
        let before = own.filter(|set| revision(set) < revision(&deployment)).max_by_key(revision);
        let mut template = before.ok_or("there is nothing before")?["spec"]["template"].take();
        object::remove_label(&mut template, "pod-template-hash");
        // Fields that only the newer template has must be removed.
        if object::annotations(&template).next().is_none() {
            template["metadata"]["annotations"] = Value::Null;
        }
        self.merge(&collection, json!({"spec": {"template": template}})).await.map(drop)
    }

    /// `kubectl create job --from`.
    pub async fn create_job(&self, name: &str, cron_job: &str) -> PlayResult {
        if self.kubectl(&format!("create job {name} --from=cronjob/{cron_job}")).await?.is_some() {
            return Ok(());
        }
        let cron = self.get(&format!("batch/v1 cronjobs/{cron_job}")).await?;
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {
                "name": name,
                "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
                "ownerReferences": [{
                    "apiVersion": "batch/v1", "kind": "CronJob", "name": cron_job, "uid": object::uid(&cron), "controller": true,
                }],
            },
            "spec": cron["spec"]["jobTemplate"]["spec"],
        });
        self.create("batch/v1 jobs", job).await.map(drop)
    }

    /// `kubectl drain`.
    pub async fn drain(&self, node: &str) -> PlayResult {
        if self.kubectl(&format!("drain {node} --ignore-daemonsets --timeout=120s")).await?.is_some() {
            return Ok(());
        }
        self.merge(&format!("/api/v1/nodes/{node}"), json!({"spec": {"unschedulable": true}})).await?;
        let there = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}");
        for pod in self.items(&there).await? {
            let name = object::name(&pod);
            let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
            let (deadline, mut looks) = (Instant::now() + self.timeout, tokio::time::interval(POLL_INTERVAL));
            while let Err(problem) = self.create(&format!("pods/{name}/eviction"), eviction.clone()).await {
                if Instant::now() > deadline || !problem.contains(": 429 ") {
                    return Err(problem);
                }
                looks.tick().await;
            }
        }
        self.until("an empty node", &there, |list| items(list).next().is_none()).await.map(drop)
    }
}
