//! What clusters have that nobody knows any longer: seen, and deleted by whoever wants that.

use serde_json::{Value, json};

use crate::support::{CONFIG_MAPS, config_map, config_map_with};
use crate::world::{World, becomes, create, goes, object};

#[tokio::test(flavor = "multi_thread")]
async fn what_an_old_backup_does_not_know_is_found_and_pruned() {
    let world = World::start();
    let (above, below) = (world.admin(), world.east.admin());
    create(&above, CONFIG_MAPS, config_map_with("old", "1")).await;
    create(&above, CONFIG_MAPS, config_map_with("moved", "1")).await;
    world.says("place cm/old --on east");
    becomes("it arrives", &below, &config_map("old"), |_| true).await;
    assert_eq!(world.says("orphans list"), "No orphans: everything that carries our mark is known here.\n");
    let backup = world.above.directory.join("backup");
    world.says(&format!("snapshot save {}", backup.display()));
    // Since then something new was made, in a namespace of its own, and something placed.
    create(&above, "/api/v1/namespaces", object("v1", "Namespace", "shop", json!({}))).await;
    let maps = "/api/v1/namespaces/shop/configmaps";
    create(&above, maps, config_map_with("new", "1")).await;
    create(&above, maps, config_map_with("needed", "1")).await;
    world.says("place cm/new cm/needed -n shop --on east");
    world.says("place cm/moved --on east");
    becomes("it arrives", &below, &format!("{maps}/new"), |_| true).await;
    // Something that was let go since refers to it.
    becomes("it arrives", &below, &format!("{maps}/needed"), |_| true).await;
    let kept = json!({ "metadata": { "annotations": { "atoll.dev/keep": "deployments.apps/web" } } });
    below.merge(&format!("{maps}/needed"), kept).await.expect(200);
    becomes("it arrives", &below, &config_map("moved"), |_| true).await;
    // Somebody else's, with our label on it, is not ours.
    let mut stray = config_map_with("stray", "1");
    let plane = below.get(&config_map("old")).await.expect(200)["metadata"]["labels"].clone();
    stray["metadata"]["labels"] = plane;
    create(&below, CONFIG_MAPS, stray).await;
    world.says(&format!("snapshot restore {} --yes", backup.display()));

    let listed = || {
        let said = world.says("orphans list --cluster east -o json");
        let list: Value = serde_json::from_str(&said).unwrap();
        let text = |item: &Value, field: &str| item[field].as_str().unwrap().to_string();
        let items = list["items"].as_array().unwrap();
        let mut found: Vec<(String, String, String)> =
            items.iter().map(|item| (text(item, "kind"), text(item, "name"), text(item, "why"))).collect();
        found.sort();
        found
    };
    let row = |kind: &str, name: &str, why: &str| (kind.to_string(), name.to_string(), why.to_string());
    let unplaced = row("ConfigMap", "moved", "known here, but not placed there");
    assert_eq!(
        listed(),
        [
            unplaced.clone(),
            row(
                "ConfigMap",
                "needed",
                "not known here any longer; kept there, for deployments.apps/web refers to it",
            ),
            row("ConfigMap", "new", "not known here any longer"),
            row("Namespace", "shop", "not known here any longer"),
        ]
    );
    let said = world.says("orphans list");
    assert!(
        said.contains("CLUSTER") && said.contains("AGE") && said.contains("not known here any longer"),
        "{said}"
    );
    // Nobody has deleted anything, and nobody does without being told to.
    below.get(&format!("{maps}/new")).await.expect(200);
    let errors = world.refuses("orphans prune");
    assert!(errors.contains("add --yes"), "{errors}");
    world.says("pause --cluster east");
    let errors = world.refuses("orphans prune --yes");
    assert!(errors.contains("nothing was done: cluster east is paused by "), "{errors}");
    world.says("resume --cluster east");
    // That is so at once, whatever the syncer has said of it.
    let stale = json!({ "status": { "paused": "cluster east is paused by somebody; resume it" } });
    above.merge("/apis/atoll.dev/v1alpha1/clusters/east/status", stale).await.expect(200);
    // Something of somebody else's is in the namespace by now: that stays, with what it is in.
    create(&below, maps, config_map_with("mine", "1")).await;
    let errors = world.refuses("orphans prune --yes");
    assert!(
        errors.contains("Namespace shop stays: there is something in it: ") && errors.contains("mine"),
        "{errors}"
    );
    goes(&below, &format!("{maps}/new")).await;
    below.get(&format!("{maps}/mine")).await.expect(200);
    let needed = below.get(&format!("{maps}/needed")).await.expect(200);
    assert!(!needed["metadata"].to_string().contains("atoll.dev"), "{needed}");
    for name in ["old", "moved", "stray"] {
        below.get(&config_map(name)).await.expect(200);
    }
    assert_eq!(listed(), [unplaced, row("Namespace", "shop", "not known here any longer")]);
}
