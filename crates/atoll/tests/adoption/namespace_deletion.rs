//! Namespaces that Atoll created in a cluster are deleted with those above, unless other objects are in them.

use atoll_testkit::Setup;
use serde_json::json;

use crate::harness::{TestFleet, create, object, plain_pods, wait_for, wait_until_deleted, web};
use crate::support::config_map_with;

#[tokio::test(flavor = "multi_thread")]
async fn namespace_is_deleted_with_the_one_above_unless_it_has_other_objects() {
    let fleet = TestFleet::start();
    let (above, below) = (fleet.admin(), fleet.east.admin());
    let at = |name: &str| format!("/api/v1/namespaces/{name}");
    // `before` existed already, `used` gets an object of another user, `emptied` only becomes empty.
    create(&below, "/api/v1/namespaces", object("v1", "Namespace", "before", json!({}))).await;
    create(&above, "/api/v1/namespaces", object("v1", "Namespace", "before", json!({}))).await;
    fleet.run("adopt namespace/before --cluster east");
    for name in ["goes", "used", "before", "emptied"] {
        if name != "before" {
            create(&above, "/api/v1/namespaces", object("v1", "Namespace", name, json!({}))).await;
        }
        for map in ["a", "b"] {
            create(&above, &format!("{}/configmaps", at(name)), config_map_with(map, "1")).await;
            fleet.run(&format!("place cm/{map} -n {name} --on east"));
            let path = format!("{}/configmaps/{map}", at(name));
            wait_for("the object exists below", &below, &path, |_| true).await;
        }
    }
    // A workload leaves pods and other owned objects behind for a moment.
    let deployments = "/apis/apps/v1/namespaces/goes/deployments";
    create(&above, deployments, web(2, plain_pods())).await;
    let service = json!({ "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80 }] } });
    create(&above, &format!("{}/services", at("goes")), object("v1", "Service", "web", service)).await;
    fleet.run("place deploy/web svc/web -n goes --on east");
    let path = format!("{deployments}/web");
    wait_for("the workload is available", &above, &path, |web| web["status"]["availableReplicas"] == 2).await;
    create(&below, &format!("{}/configmaps", at("used")), config_map_with("mine", "1")).await;
    for map in ["a", "b"] {
        above.delete(&format!("{}/configmaps/{map}", at("emptied"))).await.expect(200);
    }
    for name in ["goes", "used", "before"] {
        above.delete(&at(name)).await.expect(200);
    }
    for name in ["goes", "used", "before"] {
        wait_until_deleted(&above, &at(name)).await;
        for map in ["a", "b"] {
            wait_until_deleted(&below, &format!("{}/configmaps/{map}", at(name))).await;
        }
    }
    wait_until_deleted(&below, &at("goes")).await;
    let logged = fleet.above.logged(|line| line.contains("the namespace stays in the cluster"));
    assert!(logged.contains("configmaps/mine") && logged.contains("used"), "{logged}");
    for name in ["used", "before", "emptied"] {
        let found = below.get(&at(name)).await.expect(200);
        assert!(found["metadata"]["deletionTimestamp"].is_null(), "{name}");
    }
    for map in ["a", "b"] {
        wait_until_deleted(&below, &format!("{}/configmaps/{map}", at("emptied"))).await;
    }
    below.get(&at("emptied")).await.expect(200);
    below.get(&format!("{}/configmaps/mine", at("used"))).await.expect(200);
    // Deleted only with the namespace above, which may be long after its objects.
    above.delete(&at("emptied")).await.expect(200);
    wait_until_deleted(&above, &at("emptied")).await;
    wait_until_deleted(&below, &at("emptied")).await;
    for name in ["used", "before"] {
        let found = below.get(&at(name)).await.expect(200);
        assert!(found["metadata"]["deletionTimestamp"].is_null(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn emptied_namespace_is_deleted_after_the_agent_restarts() {
    let mut fleet = TestFleet::with_agent();
    let (above, below) = (fleet.admin(), fleet.east.admin());
    for name in ["first", "second"] {
        let at = format!("/api/v1/namespaces/{name}");
        create(&above, "/api/v1/namespaces", object("v1", "Namespace", name, json!({}))).await;
        create(&above, &format!("{at}/configmaps"), config_map_with("a", "1")).await;
        fleet.run(&format!("place cm/a -n {name} --on east"));
        wait_for("the object exists below", &below, &format!("{at}/configmaps/a"), |_| true).await;
        above.delete(&format!("{at}/configmaps/a")).await.expect(200);
        wait_until_deleted(&above, &format!("{at}/configmaps/a")).await;
    }
    // A pause delays the deletion as well. Both namespaces wait for the cluster.
    fleet.run("pause --cluster east");
    above.delete("/api/v1/namespaces/first").await.expect(200);
    fleet.stop_agent();
    above.delete("/api/v1/namespaces/second").await.expect(200);
    for name in ["first", "second"] {
        let path = format!("/api/v1/namespaces/{name}");
        wait_for("the namespace waits for the cluster", &above, &path, |namespace| {
            namespace["status"]["conditions"]
                .to_string()
                .contains("Waiting for clusters to remove placed objects")
        })
        .await;
        below.get(&path).await.expect(200);
    }
    fleet.run("resume --cluster east");
    fleet.start_agent();
    for name in ["first", "second"] {
        wait_until_deleted(&below, &format!("/api/v1/namespaces/{name}")).await;
        wait_until_deleted(&above, &format!("/api/v1/namespaces/{name}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn terminating_namespaces_and_workspaces_end_when_their_dead_cluster_is_removed_as_lost() {
    let mut fleet = TestFleet::start();
    let above = fleet.admin();
    // A namespace and a workspace with objects on a cluster of the root workspace.
    let namespaces = "/api/v1/namespaces";
    fleet.run("workspace create team");
    let team = above.workspace("root:team");
    create(&above, namespaces, object("v1", "Namespace", "shop", json!({}))).await;
    for workspace in [&above, &team] {
        let namespace = if std::ptr::eq(workspace, &above) { "shop" } else { "default" };
        let maps = format!("{namespaces}/{namespace}/configmaps");
        create(workspace, &maps, config_map_with("a", "1")).await;
        let wanted = json!({ "spec": { "clusters": [{ "name": "east" }] } });
        workspace.merge(&format!("{maps}/a/placement"), wanted).await.expect(200);
        let records = format!("/apis/atoll.dev/v1alpha1/namespaces/{namespace}/objectstatuses");
        wait_for("the object is applied", workspace, &records, |list| {
            let items = list["items"].as_array().into_iter().flatten();
            items.filter(|record| record["status"]["state"] == "Applied").count() == 1
        })
        .await;
    }

    fleet.east.kill();
    above.delete(&format!("{namespaces}/shop")).await.expect(200);
    fleet.run("workspace delete team --no-wait --yes");
    let shop = format!("{namespaces}/shop");
    let team = "/apis/atoll.dev/v1alpha1/workspaces/team";
    for path in [&*shop, team] {
        let waits = |found: &serde_json::Value| {
            let status = &found["status"];
            status.to_string().contains("Waiting for clusters to remove placed objects")
                && (status["phase"] == "Terminating" || status["phase"] == "Deleting")
        };
        wait_for("it is terminating, and waits for the cluster", &above, path, waits).await;
    }
    fleet.run("cluster remove east --lost --yes");
    for path in [&*shop, team] {
        wait_until_deleted(&above, path).await;
    }
}

/// The Cluster is in the workspace that is being deleted.
#[tokio::test(flavor = "multi_thread")]
async fn terminating_workspace_ends_when_its_own_dead_cluster_is_removed_as_lost() {
    let setup = Setup::new().variable("ATOLL_ALLOW_TENANT_ADDRESSES", "true");
    let mut fleet = TestFleet::not_joined_with_setup(setup);
    let above = fleet.admin();
    fleet.run("workspace create team --use");
    fleet.run(&format!("cluster join east --kubeconfig {}", fleet.east.kubeconfig().display()));
    let team = above.workspace("root:team");
    create(&team, "/api/v1/namespaces", object("v1", "Namespace", "shop", json!({}))).await;
    create(&team, "/api/v1/namespaces/shop/configmaps", config_map_with("a", "1")).await;
    fleet.run("place cm/a -n shop --on east");
    let map = "/api/v1/namespaces/shop/configmaps/a";
    wait_for("the object exists below", &fleet.east.admin(), map, |_| true).await;
    fleet.east.kill();
    fleet.run("workspace use root");
    fleet.run("workspace delete team --no-wait --yes");
    let path = "/apis/atoll.dev/v1alpha1/workspaces/team";
    wait_for("the workspace waits for its cluster", &above, path, |workspace| {
        workspace["status"].to_string().contains("Waiting for clusters")
    })
    .await;
    fleet.run("workspace use root:team");
    fleet.run("cluster remove east --lost --yes");
    wait_until_deleted(&above, path).await;
}
