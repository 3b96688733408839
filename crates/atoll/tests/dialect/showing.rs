//! Clusters that joined by other means show as clusters of kcp.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, names};
use serde_json::json;

use crate::fleet::{ready, simulated, wait_for};
use crate::{CLUSTERS, KCP, OWN, SECRETS, cluster};

#[tokio::test(flavor = "multi_thread")]
async fn every_cluster_shows_in_both_spellings_however_it_joined() {
    let ((east, _), (_west, admin_west)) = (simulated(), simulated());
    let server = Atoll::start();
    let admin = server.admin();
    server.run(&format!("cluster join east --kubeconfig {}", east.kubeconfig().display()));
    server.run("dialect enable kcp");
    let workload_clusters = format!("{KCP}/workloadclusters");
    admin.post(&workload_clusters, cluster("WorkloadCluster", "west", &admin_west)).await.expect(201);
    for name in ["east", "west"] {
        for (collection, kind) in [(CLUSTERS, "Cluster"), (workload_clusters.as_str(), "WorkloadCluster")] {
            wait_for("the cluster is ready", &admin, &format!("{collection}/{name}"), |object| {
                object["kind"] == kind
                    && ready(object)["status"] == "True"
                    && object["status"]["capacity"]["cpu"].is_string()
            })
            .await;
            assert_eq!(names(&admin.get(collection).await.expect(200)), ["east", "west"]);
        }
    }

    // It takes no kubeconfig, and clients cannot let an object show another cluster.
    let at = format!("{workload_clusters}/east");
    let shown = admin.get(&at).await.expect(200)["metadata"]["annotations"].clone();
    admin.post(CLUSTERS, cluster("Cluster", "east", &admin_west)).await.expect_status(409, "AlreadyExists");
    let refused = admin.merge(&at, json!({ "spec": { "kubeconfig": admin_west } })).await;
    refused.expect_status(403, "Forbidden");
    assert!(refused.text().contains("atoll cluster remove east"), "{}", refused.text());
    let forged = json!({ "metadata": { "annotations": { "atoll.dev/shows-cluster": "other" } } });
    let kept = admin.merge(&at, forged.clone()).await.expect(200);
    assert_eq!(kept["metadata"]["annotations"], shown);
    let joined = admin.merge(&format!("{CLUSTERS}/west"), forged).await.expect(200);
    assert!(joined["metadata"]["annotations"].get("atoll.dev/shows-cluster").is_none(), "{joined}");

    // Both are one cluster.
    for (closed, collection) in [(true, &workload_clusters), (false, &CLUSTERS.to_string())] {
        let patch = json!({ "spec": { "unschedulable": closed } });
        admin.merge(&format!("{collection}/east"), patch).await.expect(200);
        wait_for("the Cluster follows", &admin, &format!("{OWN}/east"), |object| {
            (object["spec"]["unschedulable"] == true) == closed
        })
        .await;
    }

    // The dialect can be disabled and enabled while it shows clusters.
    let complaint = server.run_failing("dialect disable kcp");
    assert!(complaint.contains("west") && !complaint.contains("east"), "{complaint}");
    admin.delete(&format!("{CLUSTERS}/west")).await.expect(200);
    eventually("west has left", async || admin.get(&format!("{OWN}/west")).await.status == 404).await;
    eventually("west does not show", async || admin.get(&format!("{CLUSTERS}/west")).await.status == 404)
        .await;
    let uid = admin.get(&format!("{OWN}/east")).await.expect(200)["metadata"]["uid"].clone();
    server.run("dialect disable kcp");
    admin.get(CLUSTERS).await.expect_status_code(404);
    assert_eq!(admin.get(&format!("{OWN}/east")).await.expect(200)["metadata"]["uid"], uid);
    server.run("dialect enable kcp");
    wait_for("the cluster shows again", &admin, &at, |object| ready(object)["status"] == "True").await;

    // It disappears with its Cluster, and the Cluster with it.
    server.run("cluster remove east --yes");
    eventually("east does not show", async || admin.get(&at).await.status == 404).await;
    server.run(&format!("cluster join east --kubeconfig {}", east.kubeconfig().display()));
    wait_for("the cluster shows", &admin, &at, |object| ready(object)["status"] == "True").await;
    admin.delete(&at).await.expect(200);
    eventually("the Cluster has left", async || admin.get(&format!("{OWN}/east")).await.status == 404).await;
    eventually("it does not show", async || admin.get(&at).await.status == 404).await;
    let secrets = names(&admin.get(SECRETS).await.expect(200));
    assert!(!secrets.contains(&"cluster-east".to_string()), "{secrets:?}");
}
