//! The playground: started, resumed, reset, and the commands that it prints.

use std::path::{Path, PathBuf};
use std::process::Command;

use atoll_testkit::wait::eventually;
use atoll_testkit::{Client, Kubectl, Process, Programs, Signal, atoll, succeed};

use crate::support::{CONFIG_MAPS, config_map, config_map_with};

const CLUSTERS: [&str; 3] = ["east", "west", "north"];

struct Playground {
    running: Process,
    directory: PathBuf,
}

impl Playground {
    fn start(directory: &Path, arguments: &[&str]) -> Result<Playground, String> {
        let mut line = vec!["playground", "--data-dir", directory.to_str().unwrap()];
        line.extend(arguments);
        let running =
            Process::start(&mut atoll(&line), "The playground is ready").map_err(|failed| failed.errors)?;
        Ok(Playground { running, directory: directory.into() })
    }

    /// Returns the administrator of a cluster or of the control plane.
    fn admin(&self, name: &str) -> Client {
        let place = match name {
            "atoll" => self.directory.join("control-plane"),
            cluster => self.directory.join("clusters").join(cluster),
        };
        Client::from_kubeconfig(&place.join("admin.kubeconfig"))
    }

    fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn playground_keeps_its_objects_until_it_is_reset() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("play");
    let playground = Playground::start(&directory, &[]).unwrap();
    // The sample application runs on all clusters and is shown as one.
    let above = playground.admin("atoll");
    let hello = "/apis/apps/v1/namespaces/default/deployments/hello";
    for cluster in CLUSTERS {
        let admin = playground.admin(cluster);
        eventually("the sample application is available", async || {
            let there = admin.get(hello).await;
            there.status == 200 && there.json()["status"]["availableReplicas"] == 3
        })
        .await;
        eventually("its dependents exist", async || admin.get(&config_map("hello")).await.status == 200)
            .await;
        admin.post(CONFIG_MAPS, config_map_with(cluster, "mine")).await.expect(201);
    }
    eventually("the aggregated status is complete", async || {
        above.get(hello).await.expect(200)["status"]["availableReplicas"] == 9
    })
    .await;
    let service = "/api/v1/namespaces/default/services/hello";
    above.delete(service).await.expect(200);
    eventually("the Service above is deleted", async || above.get(service).await.status == 404).await;
    for cluster in CLUSTERS {
        assert_eq!(
            playground.admin(cluster).get(service).await.status,
            404,
            "the object below must be deleted first"
        );
    }
    for cluster in CLUSTERS {
        let seen = playground.admin(cluster).get(CONFIG_MAPS).await.expect(200);
        let others = CLUSTERS.iter().filter(|other| atoll_testkit::names(&seen).contains(&other.to_string()));
        assert_eq!(others.collect::<Vec<_>>(), [&cluster], "clusters must not have objects of each other");
    }
    assert_eq!(playground.admin("atoll").get(&config_map("east")).await.status, 404);
    let refused = Playground::start(&directory, &["--reset"]).err().unwrap();
    assert!(refused.contains("already runs"), "{refused}");
    let before: Vec<Client> = CLUSTERS.iter().map(|cluster| playground.admin(cluster)).collect();
    playground.running.stop();

    let playground = Playground::start(&directory, &[]).unwrap();
    assert!(playground.running.printed[0].starts_with("Resuming"), "{:?}", playground.running.printed);
    for (cluster, before) in CLUSTERS.iter().zip(before) {
        let admin = playground.admin(cluster);
        // The same port, unless another process uses it, and the same authority: old clients are still
        // trusted.
        let still = admin.with_identity_of(&before);
        assert_eq!(still.get(&config_map(cluster)).await.expect(200)["data"]["value"], "mine");
        assert_eq!(
            admin.get("/api/v1/namespaces/default/services/hello").await.status,
            404,
            "removed objects must not come back"
        );
    }
    playground.running.stop();

    let playground = Playground::start(&directory, &["--reset", "--clusters", "2", "--nodes", "1"]).unwrap();
    assert!(playground.running.printed[0].starts_with("Starting"), "{:?}", playground.running.printed);
    assert!(!directory.join("clusters/north").exists());
    assert_eq!(playground.admin("east").get(&config_map("east")).await.status, 404);
    let west = playground.admin("west");
    eventually("the sample application exists again", async || {
        west.get(&config_map("hello")).await.status == 200
    })
    .await;
    // As ctrl-c does.
    let mut running = playground.running;
    running.signal(Signal::INT);
    assert!(running.wait().success());
}

#[test]
fn foreign_directory_is_not_changed() {
    let parent = tempfile::tempdir().unwrap();
    let foreign_file = parent.path().join("letters.txt");
    std::fs::write(&foreign_file, "dear ann").unwrap();
    for arguments in [&[][..], &["--reset"]] {
        let refused = Playground::start(parent.path(), arguments).err().unwrap();
        assert!(
            refused.contains("nothing was changed; choose another directory with --data-dir"),
            "{refused}"
        );
    }
    assert_eq!(std::fs::read_to_string(&foreign_file).unwrap(), "dear ann");
    assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn printed_commands_work() {
    let Some(programs) = Programs::build(&["kubectl"]) else { return };
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("it's a place");
    let playground = Playground::start(&directory, &[]).unwrap();
    let printed = playground.running.lines_until("--reset");
    let is_command = |line: &&str| {
        line.starts_with("kubectl ") || line.contains(" sim fault ") || line.contains(" place ")
    };
    let commands: Vec<&str> = printed.iter().map(|line| line.trim()).filter(is_command).collect();
    assert!(commands.len() >= 6, "{printed:?}");
    let path = format!("{}:{}", programs.directory().display(), std::env::var("PATH").unwrap());
    for command in commands {
        // In another terminal with another working directory.
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir("/").env("PATH", &path).env_remove("KUBECONFIG");
        let printed = succeed(&mut shell);
        assert!(!printed.contains("error"), "{command}: {printed}");
    }
    let kubectl = Kubectl::new(&playground.kubeconfig()).unwrap();
    assert_eq!(kubectl.run("config get-contexts -o name"), "atoll\neast\nnorth\nwest\n");
    assert_eq!(kubectl.run("config current-context"), "atoll\n");
    let scaled = "/apis/apps/v1/namespaces/default/deployments/hello";
    let north = playground.admin("north");
    eventually("the change is applied in north", async || {
        north.get(scaled).await.expect(200)["spec"]["replicas"] == 9
    })
    .await;
    playground.running.stop();
}
