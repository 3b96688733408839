//! A playground with two clusters, and what is in each of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use atoll_testkit::wait::Waiting;
use atoll_testkit::{Atoll, Client, Process, Setup, atoll, fault, succeed};
use serde_json::Value;
use tempfile::TempDir;

use crate::fleet::{CLUSTERS, path};

const NAMESPACE: &str = "/api/v1/namespaces/default";
const AUTOSCALER: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/web";

/// The playground, and clusters that have joined it.
pub struct Playground {
    // Declared before its directory, which must be removed last.
    _running: Process,
    pub admin: Client,
    below: BTreeMap<&'static str, Client>,
    joined: Vec<Atoll>,
    directory: TempDir,
}

impl Playground {
    /// Starts it with the clusters east and west, of one node each.
    pub fn start() -> Playground {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("play");
        let arguments = ["playground", "--clusters", "2", "--nodes", "1", "--data-dir"];
        let mut command = atoll(&arguments);
        let running = Process::start(command.arg(&place), "The playground is ready").unwrap();
        let client = |place: PathBuf| Client::from_kubeconfig(&place.join("admin.kubeconfig"));
        let cluster = |name: &'static str| (name, client(place.join("clusters").join(name)));
        Playground {
            _running: running,
            admin: client(place.join("control-plane")),
            below: ["east", "west"].into_iter().map(cluster).collect(),
            joined: Vec::new(),
            directory,
        }
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("play/kubeconfig")
    }

    /// Runs a command that must succeed and returns its output.
    #[track_caller]
    pub fn run(&self, line: &str) -> String {
        succeed(atoll(&line.split(' ').collect::<Vec<_>>()).env("KUBECONFIG", self.kubeconfig()))
    }

    /// Runs a command that must fail and returns all that it has printed.
    #[track_caller]
    pub fn run_failing(&self, line: &str) -> String {
        let mut command = atoll(&line.split(' ').collect::<Vec<_>>());
        let output = command.env("KUBECONFIG", self.kubeconfig()).output().unwrap();
        assert!(!output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    /// Stops a cluster as if its machines had lost power.
    pub fn kill(&self, cluster: &str) {
        fault(&self.kubeconfig(), &format!("add dead-cluster --context {cluster}"));
    }

    pub fn bring_back(&self, cluster: &str) {
        fault(&self.kubeconfig(), &format!("clear --context {cluster}"));
    }

    /// Starts another cluster, which joins.
    pub fn add(&mut self, name: &'static str) {
        let cluster = Setup::simulated().arguments(&["--name", name, "--nodes", "1"]).start();
        self.run(&format!("cluster join {name} --kubeconfig {}", cluster.kubeconfig().display()));
        self.below.insert(name, cluster.admin());
        self.joined.push(cluster);
    }

    pub async fn wait_until_ready(&self, cluster: &str, is_ready: bool) {
        let what = format!("{cluster} is ready: {is_ready}");
        let waiting = Waiting::until(&what);
        loop {
            let found = self.admin.get(&format!("{CLUSTERS}/{cluster}")).await.expect(200);
            let conditions = found["status"]["conditions"].as_array().into_iter().flatten();
            let ready = conditions.into_iter().find(|one| one["type"] == "Ready");
            if ready.is_some_and(|ready| (ready["status"] == "True") == is_ready) {
                return;
            }
            waiting.again().await;
        }
    }

    /// The objects of the application in a cluster.
    pub async fn in_cluster(&self, cluster: &str) -> ClusterContents {
        let below = &self.below[cluster];
        let exists = async |path: &str| below.get(path).await.status == 200;
        let list = below.get(&format!("{NAMESPACE}/pods?labelSelector=app%3Dweb")).await.expect(200);
        let pods = list["items"].as_array().unwrap().clone();
        let is_ready = |pod: &&Value| {
            let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
        };
        let claim = below.get(&format!("{NAMESPACE}/persistentvolumeclaims/web")).await;
        ClusterContents {
            replicas: below.get(&path("web")).await.json_or_null()["spec"]["replicas"].as_i64(),
            pods: pods.len(),
            ready: pods.iter().filter(is_ready).count(),
            images: pods.iter().map(|pod| image(pod).to_string()).collect(),
            dependents: [
                exists(&format!("{NAMESPACE}/services/web")).await,
                exists(&format!("{NAMESPACE}/configmaps/web")).await,
                exists(&format!("{NAMESPACE}/secrets/web")).await,
                claim.json_or_null()["status"]["phase"] == "Bound",
            ],
            has_autoscaler: exists(AUTOSCALER).await,
        }
    }

    /// Waits until clusters have these replicas of the application, all ready and with this image, and everything that
    /// these need. Clusters without replicas have nothing of it. `autoscaled` is the cluster with the autoscaler.
    pub async fn expect_below(&self, expected: &BTreeMap<&str, i64>, image: &str, autoscaled: Option<&str>) {
        let what = format!("{expected:?} are in the clusters");
        let (waiting, mut last) = (Waiting::until(&what), String::new());
        loop {
            let mut now = BTreeMap::new();
            for cluster in self.below.keys() {
                now.insert(*cluster, self.in_cluster(cluster).await);
            }
            let is_met = now.iter().all(|(cluster, found)| {
                let replicas = expected.get(cluster).copied().unwrap_or(0);
                found.has(replicas, image) && found.has_autoscaler == (autoscaled == Some(*cluster))
            });
            if is_met {
                return;
            }
            let shown = format!("{now:?}");
            if shown != last {
                eprintln!("{shown}");
                last = shown;
            }
            waiting.again().await;
        }
    }
}

fn image(pod: &Value) -> &str {
    pod["spec"]["containers"][0]["image"].as_str().unwrap()
}

/// The application in one cluster.
#[derive(Debug)]
pub struct ClusterContents {
    replicas: Option<i64>,
    /// All Pods, those that end included.
    pods: usize,
    ready: usize,
    images: BTreeSet<String>,
    /// Whether its Service, ConfigMap and Secret exist, and its claim is bound.
    dependents: [bool; 4],
    has_autoscaler: bool,
}

impl ClusterContents {
    fn has(&self, replicas: i64, image: &str) -> bool {
        let count = usize::try_from(replicas).unwrap();
        let is_whole = match replicas {
            0 => self.replicas.is_none() && self.dependents == [false; 4],
            _ => self.replicas == Some(replicas) && self.dependents == [true; 4],
        };
        is_whole
            && (self.pods, self.ready) == (count, count)
            && self.images.iter().all(|found| found == image)
    }
}
