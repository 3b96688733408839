//! References in objects of a cluster bring objects of the control plane there only if the user who adopts them allows it.

use atoll_testkit::Client;
use serde_json::{Value, json};

use crate::harness::{TestFleet, create, object, plain_pods, wait_for, web};

const CORE: &str = "/api/v1/namespaces/shop";
const WEB: &str = "/apis/apps/v1/namespaces/shop/deployments/web";
const ADOPT: &str = "adopt deploy/web -n shop --cluster east";

async fn create_namespace(client: &Client) {
    create(client, "/api/v1/namespaces", object("v1", "Namespace", "shop", json!({}))).await;
}

/// Creates the objects in the control plane that a Deployment of the cluster refers to.
async fn create_referenced(above: &Client) {
    create_namespace(above).await;
    let salaries = json!({ "data": { "salaries": "c2VjcmV0" } });
    create(above, &format!("{CORE}/secrets"), object("v1", "Secret", "payroll", salaries)).await;
    create(above, &format!("{CORE}/secrets"), object("v1", "Secret", "pull", json!({}))).await;
    let settings = object("v1", "ConfigMap", "settings", json!({}));
    create(above, &format!("{CORE}/configmaps"), settings).await;
    let pulls = json!({ "imagePullSecrets": [{ "name": "pull" }] });
    let account = object("v1", "ServiceAccount", "runner", pulls);
    create(above, &format!("{CORE}/serviceaccounts"), account).await;
    let claim = json!({ "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
    } });
    let claim = object("v1", "PersistentVolumeClaim", "disk", claim);
    create(above, &format!("{CORE}/persistentvolumeclaims"), claim).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_sent_with_adopted_ones_only_if_allowed() {
    let fleet = TestFleet::start();
    let (above, below) = (fleet.admin(), fleet.east.admin());
    create_referenced(&above).await;
    create_namespace(&below).await;
    let mut pods = plain_pods();
    pods["containers"][0]["envFrom"] = json!([{ "secretRef": { "name": "payroll", "optional": true } }]);
    pods["serviceAccountName"] = "runner".into();
    pods["volumes"] = json!([
        { "name": "settings", "configMap": { "name": "settings", "optional": true } },
        { "name": "disk", "persistentVolumeClaim": { "claimName": "disk" } },
        { "name": "nowhere", "configMap": { "name": "nowhere", "optional": true } },
    ]);
    create(&below, "/apis/apps/v1/namespaces/shop/deployments", web(1, pods)).await;

    let sent = [
        ("Secret shop/payroll", "secrets/payroll", "Deployment shop/web"),
        ("Secret shop/pull", "secrets/pull", "ServiceAccount shop/runner"),
        ("ConfigMap shop/settings", "configmaps/settings", "Deployment shop/web"),
        ("ServiceAccount shop/runner", "serviceaccounts/runner", "Deployment shop/web"),
        ("PersistentVolumeClaim shop/disk", "persistentvolumeclaims/disk", "Deployment shop/web"),
    ];
    for line in [ADOPT.to_string(), format!("{ADOPT} --dry-run")] {
        let errors = fleet.run_failing(&line);
        for (shown, _, referrer) in sent {
            let words = format!(
                "{shown} exists in the control plane and not in cluster east: adopting {referrer} would send it there\n"
            );
            assert!(errors.contains(&words), "{words}: {errors}");
        }
        assert!(errors.contains("hint: add --with-dependents to allow it"), "{errors}");
        assert!(!errors.contains("nowhere"), "{errors}");
    }
    assert_eq!(above.get(WEB).await.status, 404);
    assert_eq!(below.get(WEB).await.expect(200)["metadata"]["labels"], Value::Null);

    let printed = fleet.run(&format!("{ADOPT} --with-dependents"));
    for (shown, _, referrer) in sent {
        let words =
            format!("  {shown}: exists here; will be sent to east, because {referrer} refers to it\n");
        assert!(printed.contains(&words), "{words}: {printed}");
    }
    assert!(printed.ends_with("1 object is adopted. Nothing was restarted.\n"), "{printed}");
    for (shown, path, _) in sent {
        wait_for(&format!("{shown} is sent"), &below, &format!("{CORE}/{path}"), |_| true).await;
    }
    // Objects that have been sent are no reason to refuse.
    fleet.run(ADOPT);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_stay_above_are_no_reason_to_refuse() {
    let fleet = TestFleet::start();
    let (above, below) = (fleet.admin(), fleet.east.admin());
    create_namespace(&above).await;
    let mut payroll = object("v1", "Secret", "payroll", json!({}));
    payroll["metadata"]["annotations"] = json!({ "atoll.dev/clusters": "none" });
    create(&above, &format!("{CORE}/secrets"), payroll).await;
    create_namespace(&below).await;
    let mut pods = plain_pods();
    pods["imagePullSecrets"] = json!([{ "name": "payroll" }]);
    create(&below, "/apis/apps/v1/namespaces/shop/deployments", web(1, pods)).await;
    // Its controller must not change it while it is adopted.
    wait_for("the workload is available", &below, WEB, |web| web["status"]["readyReplicas"] == 1).await;
    let printed = fleet.run(ADOPT);
    assert!(!printed.contains("payroll"), "{printed}");
}
