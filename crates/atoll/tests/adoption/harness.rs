//! A running control plane, a cluster with nodes that has joined it, and CLI commands.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client, Process, Setup, atoll};
use serde_json::{Value, json};

pub struct TestFleet {
    pub above: Atoll,
    pub east: Atoll,
    /// The agent, if the control plane does not sync the cluster itself.
    syncer: Option<Process>,
    agent_arguments: Vec<String>,
}

impl TestFleet {
    /// Starts a control plane that syncs the cluster itself.
    pub fn start() -> TestFleet {
        let fleet = TestFleet::not_joined();
        fleet.run(&format!("cluster join east --kubeconfig {}", fleet.east.kubeconfig().display()));
        fleet
    }

    /// Starts a control plane that syncs the cluster itself and places nothing itself.
    pub fn without_scheduler() -> TestFleet {
        let setup = Setup::new().flag("--controllers", "*,-placementscheduler");
        let fleet = TestFleet::not_joined_with_setup(setup);
        fleet.run(&format!("cluster join east --kubeconfig {}", fleet.east.kubeconfig().display()));
        fleet
    }

    /// Starts a control plane and an agent (`atoll syncer`) that syncs the cluster.
    pub fn with_agent() -> TestFleet {
        TestFleet::with_agent_and_setup(Setup::new())
    }

    /// Starts a control plane with these settings, and an agent.
    pub fn with_agent_and_setup(setup: Setup) -> TestFleet {
        let mut fleet = TestFleet::not_joined_with_setup(setup);
        fleet.join_with_agent();
        fleet
    }

    /// Joins the cluster to the current workspace and starts an agent for it.
    pub fn join_with_agent(&mut self) {
        let credentials = self.above.directory.join("credentials");
        std::fs::create_dir(&credentials).unwrap();
        let printed = self.run(&format!(
            "cluster join east --mode none --write-to {} --kubeconfig {}",
            credentials.display(),
            self.east.kubeconfig().display()
        ));
        let line = printed.lines().map(str::trim).find(|line| line.contains("--from-kubeconfig")).unwrap();
        self.agent_arguments = line.split_whitespace().skip(1).map(str::to_string).collect();
        self.start_agent();
    }

    pub fn stop_agent(&mut self) {
        self.syncer.take().unwrap().stop();
    }

    pub fn start_agent(&mut self) {
        let agent_arguments: Vec<&str> = self.agent_arguments.iter().map(String::as_str).collect();
        self.syncer = Some(Process::start(&mut atoll(&agent_arguments), "Syncing cluster").unwrap());
    }

    /// Starts a control plane and a cluster that has not joined.
    pub fn not_joined() -> TestFleet {
        TestFleet::not_joined_with_setup(Setup::new())
    }

    pub fn not_joined_with_setup(setup: Setup) -> TestFleet {
        TestFleet {
            above: setup.start(),
            east: Atoll::simulate(&["--nodes", "2"]),
            syncer: None,
            agent_arguments: Vec::new(),
        }
    }

    pub fn admin(&self) -> Client {
        self.above.admin()
    }

    /// Returns a command line with optional flags.
    pub fn command_line(&self, command: &str, flags: &str) -> String {
        format!("{command} {flags}").trim_end().to_string()
    }

    pub fn command_with_flags(&self, command: &str, flags: &str) -> std::process::Command {
        self.above.command(&self.command_line(command, flags))
    }

    /// Runs a command that must succeed and returns its standard output.
    #[track_caller]
    pub fn run(&self, command_line: &str) -> String {
        self.above.run(command_line)
    }

    /// Runs a command that must fail and returns its standard error.
    #[track_caller]
    pub fn run_failing(&self, command_line: &str) -> String {
        self.above.run_failing(command_line)
    }
}

pub fn object(api_version: &str, kind: &str, name: &str, more: Value) -> Value {
    let mut object = json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": name } });
    for (field, value) in more.as_object().unwrap() {
        object[field] = value.clone();
    }
    object
}

/// Returns a Deployment with this pod spec.
pub fn web(replicas: u32, pods: Value) -> Value {
    let labels = json!({ "app": "web" });
    let template = json!({ "metadata": { "labels": labels }, "spec": pods });
    let spec = json!({ "replicas": replicas, "selector": { "matchLabels": labels }, "template": template });
    object("apps/v1", "Deployment", "web", json!({ "spec": spec }))
}

/// Returns the object with the annotation by which the scheduler places it nowhere.
pub fn unplaced(mut object: Value) -> Value {
    object["metadata"]["annotations"] = json!({ "atoll.dev/clusters": "none" });
    object
}

/// Returns the simplest pod spec.
pub fn plain_pods() -> Value {
    json!({ "containers": [{ "name": "main", "image": "example/web:1" }] })
}

pub async fn create(client: &Client, path: &str, object: Value) -> Value {
    client.post(path, object).await.expect(201)
}

/// Waits until the object at `path` exists and `is` holds for it, and returns the object.
pub async fn wait_for(what: &str, client: &Client, path: &str, is: impl Fn(&Value) -> bool) -> Value {
    let mut found = Value::Null;
    eventually(what, async || {
        let answer = client.get(path).await;
        if answer.status == 200 {
            found = answer.json();
        }
        answer.status == 200 && is(&found)
    })
    .await;
    found
}

pub async fn wait_until_deleted(client: &Client, path: &str) {
    eventually(&format!("{path} is gone"), async || client.get(path).await.status == 404).await;
}

/// Waits until `is` holds for the status in the ObjectStatus of an object on `east`, and returns the
/// ObjectStatus.
pub async fn wait_for_record(
    above: &Client,
    namespace: &str,
    object: &Value,
    is: impl Fn(&Value) -> bool,
) -> Value {
    let uid = object["metadata"]["uid"].as_str().unwrap();
    let path = format!("/apis/atoll.dev/v1alpha1/namespaces/{namespace}/objectstatuses/{uid}.east");
    wait_for(&format!("the ObjectStatus of {uid} is as expected"), above, &path, |record| {
        is(&record["status"])
    })
    .await
}
