//! Namespaces that Atoll made in a cluster go with those that they stand for, if nobody else needs them.

use serde_json::json;

use crate::support::config_map_with;
use crate::world::{World, becomes, create, goes, object, plain_pods, web};

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_goes_with_the_one_above_unless_somebody_needs_it() {
    let world = World::start();
    let (above, below) = (world.admin(), world.east.admin());
    let at = |name: &str| format!("/api/v1/namespaces/{name}");
    // One is there before; one gets something of somebody else's; one is only emptied.
    create(&below, "/api/v1/namespaces", object("v1", "Namespace", "before", json!({}))).await;
    create(&above, "/api/v1/namespaces", object("v1", "Namespace", "before", json!({}))).await;
    world.says("adopt namespace/before --cluster east");
    for name in ["goes", "used", "before", "emptied"] {
        if name != "before" {
            create(&above, "/api/v1/namespaces", object("v1", "Namespace", name, json!({}))).await;
        }
        for map in ["a", "b"] {
            create(&above, &format!("{}/configmaps", at(name)), config_map_with(map, "1")).await;
            world.says(&format!("place cm/{map} -n {name} --on east"));
            let path = format!("{}/configmaps/{map}", at(name));
            becomes("it arrives", &below, &path, |_| true).await;
        }
    }
    // What runs leaves pods and others behind for a moment.
    let deployments = "/apis/apps/v1/namespaces/goes/deployments";
    create(&above, deployments, web(2, plain_pods())).await;
    let service = json!({ "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80 }] } });
    create(&above, &format!("{}/services", at("goes")), object("v1", "Service", "web", service)).await;
    world.says("place deploy/web svc/web -n goes --on east");
    let path = format!("{deployments}/web");
    becomes("it runs", &above, &path, |web| web["status"]["availableReplicas"] == 2).await;
    create(&below, &format!("{}/configmaps", at("used")), config_map_with("mine", "1")).await;
    for map in ["a", "b"] {
        above.delete(&format!("{}/configmaps/{map}", at("emptied"))).await.expect(200);
    }
    for name in ["goes", "used", "before"] {
        above.delete(&at(name)).await.expect(200);
    }
    for name in ["goes", "used", "before"] {
        goes(&above, &at(name)).await;
        for map in ["a", "b"] {
            goes(&below, &format!("{}/configmaps/{map}", at(name))).await;
        }
    }
    goes(&below, &at("goes")).await;
    let said = world.above.logged(|line| line.contains("the namespace stays in the cluster"));
    assert!(said.contains("configmaps/mine") && said.contains("used"), "{said}");
    for name in ["used", "before", "emptied"] {
        let found = below.get(&at(name)).await.expect(200);
        assert!(found["metadata"]["deletionTimestamp"].is_null(), "{name}");
    }
    for map in ["a", "b"] {
        goes(&below, &format!("{}/configmaps/{map}", at("emptied"))).await;
    }
    below.get(&at("emptied")).await.expect(200);
    below.get(&format!("{}/configmaps/mine", at("used"))).await.expect(200);
    // Only once the one above goes, which may be long after all that was in it.
    above.delete(&at("emptied")).await.expect(200);
    goes(&above, &at("emptied")).await;
    goes(&below, &at("emptied")).await;
    for name in ["used", "before"] {
        let found = below.get(&at(name)).await.expect(200);
        assert!(found["metadata"]["deletionTimestamp"].is_null(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_namespace_goes_although_nobody_listened_when_it_ended() {
    let mut world = World::by_hand();
    let (above, below) = (world.admin(), world.east.admin());
    for name in ["first", "second"] {
        let at = format!("/api/v1/namespaces/{name}");
        create(&above, "/api/v1/namespaces", object("v1", "Namespace", name, json!({}))).await;
        create(&above, &format!("{at}/configmaps"), config_map_with("a", "1")).await;
        world.says(&format!("place cm/a -n {name} --on east"));
        becomes("it arrives", &below, &format!("{at}/configmaps/a"), |_| true).await;
        above.delete(&format!("{at}/configmaps/a")).await.expect(200);
        goes(&above, &format!("{at}/configmaps/a")).await;
    }
    // A pause holds that up as well. Both wait for the cluster.
    world.says("pause --cluster east");
    above.delete("/api/v1/namespaces/first").await.expect(200);
    world.stop_syncing();
    above.delete("/api/v1/namespaces/second").await.expect(200);
    for name in ["first", "second"] {
        let path = format!("/api/v1/namespaces/{name}");
        becomes("it waits", &above, &path, |namespace| {
            namespace["status"]["conditions"].to_string().contains("Waiting for clusters to let go")
        })
        .await;
        below.get(&path).await.expect(200);
    }
    world.says("resume --cluster east");
    world.sync_again();
    for name in ["first", "second"] {
        goes(&below, &format!("/api/v1/namespaces/{name}")).await;
        goes(&above, &format!("/api/v1/namespaces/{name}")).await;
    }
}
