//! Orphans in clusters are listed, and deleted only on request.

use serde_json::{Value, json};

use crate::harness::{TestFleet, create, object, wait_for, wait_until_deleted};
use crate::support::{CONFIG_MAPS, config_map, config_map_with};

#[tokio::test(flavor = "multi_thread")]
async fn objects_unknown_to_a_restored_backup_are_listed_and_pruned() {
    let fleet = TestFleet::start();
    let (above, below) = (fleet.admin(), fleet.east.admin());
    create(&above, CONFIG_MAPS, config_map_with("old", "1")).await;
    create(&above, CONFIG_MAPS, config_map_with("moved", "1")).await;
    fleet.run("place cm/old --on east");
    wait_for("the object exists below", &below, &config_map("old"), |_| true).await;
    assert_eq!(fleet.run("orphans list"), "No orphans: all marked objects exist here.\n");
    let backup = fleet.above.directory.join("backup");
    fleet.run(&format!("snapshot save {}", backup.display()));
    // Since the backup, a namespace with objects was created, and an existing object was placed.
    create(&above, "/api/v1/namespaces", object("v1", "Namespace", "shop", json!({}))).await;
    let maps = "/api/v1/namespaces/shop/configmaps";
    create(&above, maps, config_map_with("new", "1")).await;
    create(&above, maps, config_map_with("needed", "1")).await;
    fleet.run("place cm/new cm/needed -n shop --on east");
    fleet.run("place cm/moved --on east");
    wait_for("the object exists below", &below, &format!("{maps}/new"), |_| true).await;
    // A released object refers to it.
    wait_for("the object exists below", &below, &format!("{maps}/needed"), |_| true).await;
    let kept = json!({ "metadata": { "annotations": { "atoll.dev/keep": "deployments.apps/web" } } });
    below.merge(&format!("{maps}/needed"), kept).await.expect(200);
    wait_for("the object exists below", &below, &config_map("moved"), |_| true).await;
    // An object of another user with a copied label is not an orphan.
    let mut stray = config_map_with("stray", "1");
    let plane = below.get(&config_map("old")).await.expect(200)["metadata"]["labels"].clone();
    stray["metadata"]["labels"] = plane;
    create(&below, CONFIG_MAPS, stray).await;
    let printed = fleet.run(&format!("snapshot restore {} --yes", backup.display()));
    assert!(
        printed.contains("Placements are paused, because what runs on 1 cluster may differ"),
        "{printed}"
    );
    assert!(printed.contains("orphans in 1 cluster: ") && printed.contains(" on east."), "{printed}");
    // Nothing is placed until the server is resumed.
    let refused = above
        .merge(
            &format!("{}/placement", config_map("moved")),
            json!({ "spec": { "clusters": [{ "name": "east" }] } }),
        )
        .await;
    assert_eq!(
        (refused.status, refused.json_or_null()["details"]["causes"][0]["reason"].clone()),
        (403, json!("Paused"))
    );
    fleet.run("resume --workspace root");

    let listed = || {
        let printed = fleet.run("orphans list --cluster east -o json");
        let list: Value = serde_json::from_str(&printed).unwrap();
        let text = |item: &Value, field: &str| item[field].as_str().unwrap().to_string();
        let items = list["items"].as_array().unwrap();
        let mut found: Vec<(String, String, String)> =
            items.iter().map(|item| (text(item, "kind"), text(item, "name"), text(item, "why"))).collect();
        found.sort();
        found
    };
    let row = |kind: &str, name: &str, why: &str| (kind.to_string(), name.to_string(), why.to_string());
    let unplaced = row("ConfigMap", "moved", "exists here, but is not placed there");
    assert_eq!(
        listed(),
        [
            unplaced.clone(),
            row(
                "ConfigMap",
                "needed",
                "no longer exists here; kept there, because deployments.apps/web refers to it",
            ),
            row("ConfigMap", "new", "no longer exists here"),
            row("Namespace", "shop", "no longer exists here"),
        ]
    );
    let printed = fleet.run("orphans list");
    assert!(
        printed.contains("CLUSTER") && printed.contains("AGE") && printed.contains("no longer exists here"),
        "{printed}"
    );
    // Nothing was deleted, and nothing is deleted without a request.
    below.get(&format!("{maps}/new")).await.expect(200);
    let errors = fleet.run_failing("orphans prune");
    assert!(errors.contains("add --yes"), "{errors}");
    fleet.run("pause --cluster east");
    let errors = fleet.run_failing("orphans prune --yes");
    assert!(errors.contains("nothing was changed: cluster east is paused by "), "{errors}");
    fleet.run("resume --cluster east");
    // The pause is effective immediately, whatever the syncer has reported.
    let stale = json!({ "status": { "paused": "cluster east is paused by somebody; resume it" } });
    above.merge("/apis/atoll.dev/v1alpha1/clusters/east/status", stale).await.expect(200);
    // Another user's object is in the namespace by now: both are kept.
    create(&below, maps, config_map_with("mine", "1")).await;
    let errors = fleet.run_failing("orphans prune --yes");
    assert!(
        errors.contains("Namespace shop stays: it is not empty: ") && errors.contains("mine"),
        "{errors}"
    );
    wait_until_deleted(&below, &format!("{maps}/new")).await;
    below.get(&format!("{maps}/mine")).await.expect(200);
    let needed = below.get(&format!("{maps}/needed")).await.expect(200);
    assert!(!needed["metadata"].to_string().contains("atoll.dev"), "{needed}");
    for name in ["old", "moved", "stray"] {
        below.get(&config_map(name)).await.expect(200);
    }
    assert_eq!(listed(), [unplaced, row("Namespace", "shop", "no longer exists here")]);
}
