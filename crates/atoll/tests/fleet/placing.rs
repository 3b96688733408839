//! Clusters are listed, cordoned and fenced, and objects are placed on them by hand.

use atoll_testkit::Client;
use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::harness::{CLUSTERS, TestFleet};
use crate::support::{CONFIG_MAPS, config_map_with};

/// Registers clusters that exist only as objects.
async fn register(admin: &Client, names: &[&str]) {
    for name in names {
        let cluster =
            json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Cluster", "metadata": { "name": name } });
        admin.post(CLUSTERS, cluster).await.expect(201);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_can_be_listed_described_cordoned_and_fenced() {
    let fleet = TestFleet::start();
    let output = fleet.output("cluster list");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && errors.contains("cluster join NAME --kubeconfig FILE"), "{errors}");
    register(&fleet.admin(), &["east", "west"]).await;
    let table = fleet.run("cluster list");
    let names: Vec<&str> = table.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["NAME", "east", "west"], "{table}");
    assert!(
        fleet.run("cluster list -o wide").lines().next().unwrap().len() > table.lines().next().unwrap().len()
    );
    assert_eq!(fleet.run("cluster list -o name"), "cluster.atoll.dev/east\ncluster.atoll.dev/west\n");
    let list: Value = serde_json::from_str(&fleet.run("cluster list -o json")).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
    let description = fleet.run("cluster describe east");
    assert!(description.starts_with("Name:               east\n"), "{description}");
    assert!(description.contains("Mode:               push\n"), "{description}");
    for (line, expected) in [
        ("cordon east", "Cluster east is cordoned: no new objects are placed there.\n"),
        ("cordon east", "Cluster east is already cordoned: no new objects are placed there.\n"),
        ("uncordon east", "Cluster east is schedulable: new objects are placed there.\n"),
        ("fence east --lift", "Cluster east is not fenced.\n"),
    ] {
        assert_eq!(fleet.run(&format!("cluster {line}")), expected);
    }
    let errors = fleet.run_failing("cluster fence east");
    assert!(errors.contains("add --yes"), "{errors}");
    let printed = fleet.run("cluster fence east --yes");
    assert!(printed.ends_with("Cluster east is fenced.\n"), "{printed}");
    let fenced = fleet.admin().get(&format!("{CLUSTERS}/east")).await.expect(200);
    let taints = json!([{ "key": "atoll.dev/fenced", "effect": "NoExecute" }]);
    assert_eq!((&fenced["spec"]["taints"], &fenced["spec"]["unschedulable"]), (&taints, &true.into()));
    fleet.run("cluster fence east --lift");
    let errors = fleet.run_failing("cluster cordon eest");
    assert_eq!(errors, "error: there is no cluster eest in root\nhint: did you mean east?\n");
    for (line, expected) in [
        ("cluster describe ", "east\tin root\nwest\tin root\n:4\n"),
        ("cluster remove w", "west\tin root\n:4\n"),
        ("place deploy/web --on east,w", "east,west\tin root\n:4\n"),
    ] {
        assert_eq!(fleet.run(&format!("__complete {line}")), expected, "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_can_be_placed_by_every_form_of_their_resource_name() {
    let fleet = TestFleet::start();
    let admin = fleet.admin();
    register(&admin, &["east", "west"]).await;
    let labels = json!({ "app": "web" });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": {
            "replicas": 5, "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "web", "image": "web" }] },
            },
        },
    });
    admin.post("/apis/apps/v1/namespaces/default/deployments", deployment).await.expect(201);
    admin.post(CONFIG_MAPS, config_map_with("a", "1")).await.expect(201);
    for (line, expected) in [
        (
            "deployments/web --on east=3,west=2",
            "Deployment default/web is placed on east (3) and west (2).\n",
        ),
        (
            "deploy/web --on west",
            "Deployment default/web is placed on west; it is being removed from east.\n",
        ),
        (
            "Deployment.apps/web -n default --on none",
            "Deployment default/web is placed on no cluster; it is being removed from east and west.\n",
        ),
        (
            "deployment.v1.apps/web cm/a --on east",
            "Deployment default/web is placed on east; it is being removed from west.\n\
             ConfigMap default/a is placed on east.\n",
        ),
    ] {
        assert_eq!(fleet.run(&format!("place {line}")), expected, "{line}");
    }
    for (line, expected) in [
        ("cm/b --on east", "error: configmaps \"b\" not found\n"),
        ("cm/a -n other --on east", "error: configmaps \"a\" not found\n"),
        ("web --on east", "error: \"web\" does not name an object\nhint: use RESOURCE/NAME"),
        (
            "deplyment/web --on east",
            "error: the server has no resource type \"deplyment\"\nhint: did you mean",
        ),
        ("cm/a --on esat", "error: there is no cluster esat for root\nhint: did you mean east?\n"),
        ("ns/default --on east", "error: namespaces cannot be placed on clusters\nhint: "),
        ("cm/a --on east=x", "error: invalid value 'east=x' for '--on <CLUSTERS>'"),
        (
            "cm/a --on east,east",
            "error: invalid value 'east,east' for '--on <CLUSTERS>': names the cluster east twice",
        ),
    ] {
        let errors = fleet.run_failing(&format!("place {line}"));
        assert!(errors.starts_with(expected), "{line}: {errors}");
    }
    // A Job is placed on one cluster, unless `--duplicate` is given.
    let once = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "once" },
        "spec": { "template": { "spec": {
            "restartPolicy": "Never", "containers": [{ "name": "once", "image": "once" }],
        } } },
    });
    admin.post("/apis/batch/v1/namespaces/default/jobs", once).await.expect(201);
    let errors = fleet.run_failing("place job/once --on east,west");
    assert!(errors.contains("a Job must not be duplicated") && errors.contains("--duplicate"), "{errors}");
    assert_eq!(
        fleet.run("place job/once --on east,west --duplicate"),
        "Job default/once is placed on east and west.\n"
    );
    // A cluster serves the workspaces below its registering workspace.
    let below =
        json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "metadata": { "name": "team" } });
    admin.post("/apis/atoll.dev/v1alpha1/workspaces", below).await.expect(201);
    let team = admin.workspace("root:team");
    team.post(CONFIG_MAPS, config_map_with("a", "1")).await.expect(201);
    fleet.run("workspace use team");
    assert_eq!(fleet.run("place cm/a --on east"), "ConfigMap default/a is placed on east.\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn cordoned_and_fenced_clusters_get_nothing_new() {
    let fleet = TestFleet::start();
    let admin = fleet.admin();
    register(&admin, &["east", "west", "north"]).await;
    for name in ["a", "b"] {
        admin.post(CONFIG_MAPS, config_map_with(name, "1")).await.expect(201);
    }
    fleet.run("place cm/a --on east");
    fleet.run("cluster cordon east");
    // Existing objects stay, and can be placed on other clusters as well.
    fleet.run("place cm/a --on east,west");
    let errors = fleet.run_failing("place cm/b --on east");
    assert!(
        errors.contains("cluster east is cordoned") && errors.contains("atoll cluster uncordon east"),
        "{errors}"
    );
    // A dependent of an object on a cordoned cluster is still placed there.
    let path = format!("{CONFIG_MAPS}/b/placement");
    let follows = json!({ "spec": { "clusters": [{ "name": "east" }], "by": "reference" } });
    admin.merge(&format!("{path}?dryRun=All"), follows.clone()).await.expect(200);
    assert_eq!(
        fleet.run("place cm/b --on east --force --dry-run"),
        "ConfigMap default/b is placed on east (dry run).\n"
    );
    fleet.run("cluster fence east --yes");
    assert!(fleet.run("cluster list").contains("SchedulingDisabled,Fenced"));
    let errors = fleet.run_failing("place cm/b --on east --force");
    assert!(errors.contains("cluster east is fenced") && errors.contains("fence east --lift"), "{errors}");
    admin.merge(&path, follows).await.expect_status(422, "Invalid");
    let unready = json!({ "status": { "conditions": [
        { "type": "Ready", "status": "False", "reason": "Unreachable", "message": "m" },
    ] } });
    admin.merge(&format!("{CLUSTERS}/north/status"), unready).await.expect(200);
    let errors = fleet.run_failing("place cm/b --on north");
    assert!(errors.contains("cluster north is not ready: Unreachable"), "{errors}");
    fleet.run("place cm/b --on north --force");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_objects_can_be_placed_with_one_command() {
    let fleet = TestFleet::start();
    let admin = fleet.admin();
    register(&admin, &["east"]).await;
    for (name, tier) in [("a", "front"), ("b", "back"), ("c", "front")] {
        let mut object = config_map_with(name, "1");
        object["metadata"]["labels"] = json!({ "tier": tier });
        admin.post(CONFIG_MAPS, object).await.expect(201);
    }
    assert_eq!(
        fleet.run("place cm -l tier=front --on east --dry-run"),
        "ConfigMap default/a is placed on east (dry run).\nConfigMap default/c is placed on east (dry run).\n"
    );
    assert_eq!(
        fleet.run("place cm --all"),
        "ConfigMap default/a is placed on no cluster.\nConfigMap default/b is placed on no cluster.\n\
         ConfigMap default/c is placed on no cluster.\n"
    );
    let file = fleet.above.directory.join("objects.yaml");
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: b }\n---\napiVersion: v1\nkind: Namespace\nmetadata: { name: x }\n";
    std::fs::write(&file, text).unwrap();
    let line = format!("place -f {} --on east", file.display());
    assert_eq!(fleet.run(&line), "ConfigMap default/b is placed on east.\n");
    let errors = fleet.run_failing("place cm/a --all --on east");
    assert!(errors.contains("names one object"), "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ignored_annotations_and_pauses_cause_warnings() {
    let fleet = TestFleet::start();
    let admin = fleet.admin();
    register(&admin, &["east"]).await;
    admin.post(CONFIG_MAPS, config_map_with("a", "1")).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    let annotated = json!({ "metadata": { "annotations": { "atoll.dev/placement": "east" } } });
    let answer = admin.merge(&path, annotated).await;
    let warning = answer.header("warning").unwrap_or_default();
    assert!(warning.contains("is ignored") && warning.contains("atoll place configmap/a"), "{warning}");
    assert_eq!(answer.expect(200)["metadata"].get("annotations"), None);
    fleet.run("place cm/a --on east");
    // A client that writes the annotation back unchanged is not warned.
    let found = admin.get(&path).await.expect(200);
    let answer = admin.put(&path, found).await;
    assert_eq!((answer.status, answer.header("warning")), (200, None));
    fleet.run("pause --cluster east --reason storm");
    let deleted = admin.delete(&path).await;
    let warning = deleted.header("warning").unwrap_or_default().to_string();
    assert!(warning.contains("atoll resume --cluster east"), "{warning}");
    deleted.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_of_parent_workspaces_are_visible() {
    let fleet = TestFleet::start();
    let admin = fleet.admin();
    register(&admin, &["east"]).await;
    assert_eq!(fleet.run("workspace current"), "root\n");
    assert!(fleet.run_failing("workspace use -").contains("there is no previous workspace"));
    fleet.run("workspace create team");
    let errors = fleet.run_failing("workspace use -");
    assert!(errors.contains("enter one by its path, as in: atoll workspace use root:team"), "{errors}");
    fleet.run("workspace use team");
    assert_eq!(fleet.run("workspace current"), "root:team\n");
    register(&admin.workspace("root:team"), &["own"]).await;
    let table = fleet.run("cluster list");
    let cells = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words[0].to_string(), words[words.len() - 1].to_string())
    };
    let rows: Vec<(String, String)> = table.lines().map(cells).collect();
    let expected = [("NAME", "FROM"), ("own", "root:team"), ("east", "root")];
    assert_eq!(rows, expected.map(|(name, from)| (name.to_string(), from.to_string())), "{table}");
    assert_eq!(fleet.run("workspace use -"), "The current workspace is now root.\n");
    assert_eq!(fleet.run("workspace use -"), "The current workspace is now root:team.\n");
    let version = fleet.run("version");
    assert!(version.starts_with("atoll ") && version.contains("server v1."), "{version}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_table_shows_the_last_heartbeat() {
    let fleet = TestFleet::start();
    let admin = fleet.admin();
    register(&admin, &["east"]).await;
    let lease = "/apis/coordination.k8s.io/v1/namespaces/atoll-system/leases/cluster-east";
    let mut before = String::new();
    // The status is not written each time, because nothing else changes.
    for _ in 0..2 {
        eventually("the heartbeat is newer", async || {
            let beat = json!({ "heartbeat": { "syncer": { "instance": "one", "version": "1" } } });
            admin.post("/services/sync/east", beat).await.expect(200);
            let renewed =
                admin.get(lease).await.expect(200)["spec"]["renewTime"].as_str().unwrap().to_string();
            let is_later = renewed != before;
            if is_later {
                before = renewed;
            }
            is_later
        })
        .await;
    }
    let mut connection = admin.http1().await.unwrap();
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    for path in [CLUSTERS.to_string(), format!("{CLUSTERS}/east")] {
        let path = format!("{path}?includeObject=Object");
        let table = connection.get_accepting(&path, accept).await.unwrap().expect(200);
        assert_eq!(table["rows"][0]["object"]["status"]["syncer"]["lastHeartbeatTime"], before, "{path}");
    }
}
