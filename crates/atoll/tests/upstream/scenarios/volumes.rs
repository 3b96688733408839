//! Volume claims and their volumes.

use serde_json::json;

use super::template;
use crate::api::{Api, ScenarioResult};

/// A claim is bound, a pod waits for it, and a claim in use is protected until the pod is deleted.
pub async fn claim(api: &Api) -> ScenarioResult {
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"},
        "spec": {
            "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "manual",
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/disk"},
        },
    });
    api.create("/api/v1/persistentvolumes", volume).await?;
    let available = |object: &serde_json::Value| object["status"]["phase"] == "Available";
    api.until("a volume to be had", "/api/v1/persistentvolumes/disk", available).await?;
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "manual", "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    api.create("persistentvolumeclaims", claim).await?;
    let bound = |object: &serde_json::Value| object["status"]["phase"] == "Bound";
    let claim = api.until("a bound claim", "persistentvolumeclaims/data", bound).await?;
    if claim["spec"]["volumeName"] != "disk" || claim["status"]["capacity"]["storage"] != "2Gi" {
        return Err(format!("bound to another volume: {} {}", claim["spec"], claim["status"]));
    }
    api.until("a bound volume", "/api/v1/persistentvolumes/disk", bound).await?;
    let mut spec = template("user")["spec"].take();
    spec["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    spec["terminationGracePeriodSeconds"] = json!(1);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "user"}, "spec": spec});
    api.create("pods", pod).await?;
    api.until("a pod that runs", "pods/user", |object| object["status"]["phase"] == "Running").await?;
    api.delete("persistentvolumeclaims/data", "Background").await?;
    api.until("a claim that waits for its pod", "persistentvolumeclaims/data", |object| {
        object["metadata"]["deletionTimestamp"].is_string()
    })
    .await?;
    api.delete("pods/user", "Background").await?;
    api.until_gone("persistentvolumeclaims/data").await?;
    let released = |object: &serde_json::Value| object["status"]["phase"] == "Released";
    api.until("a released volume", "/api/v1/persistentvolumes/disk", released).await?;
    api.delete("/api/v1/persistentvolumes/disk", "Background").await?;
    api.until_gone("/api/v1/persistentvolumes/disk").await
}
