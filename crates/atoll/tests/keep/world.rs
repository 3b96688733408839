//! A control plane at work, a cluster with nodes that has joined it, and what people type.

use serde_json::{Value, json};

use crate::running::{Cluster, Running};
use crate::support::access::Access;
use crate::support::eventually;
use crate::support::process::{Atoll, Setup, atoll};
use crate::support::programs::{fail, succeed};

pub struct World {
    pub above: Atoll,
    pub east: Cluster,
    /// Who syncs it, if the control plane does not, and how that is started.
    syncer: Option<Running>,
    words: Vec<String>,
}

impl World {
    /// The control plane syncs the cluster itself.
    pub fn start() -> World {
        let world = World::apart();
        world.says(&format!("cluster join east --kubeconfig {}", world.east.kubeconfig().display()));
        world
    }

    /// Somebody runs `atoll syncer` for it.
    pub fn by_hand() -> World {
        World::by_hand_with(Setup::new())
    }

    /// The same with flags of the server.
    pub fn by_hand_with(setup: Setup) -> World {
        let mut world = World::apart_with(setup);
        world.join_by_hand();
        world
    }

    /// Joins the cluster to the current workspace and runs `atoll syncer` for it.
    pub fn join_by_hand(&mut self) {
        let papers = self.above.directory.join("papers");
        std::fs::create_dir(&papers).unwrap();
        let said = self.says(&format!(
            "cluster join east --mode none --write-to {} --kubeconfig {}",
            papers.display(),
            self.east.kubeconfig().display()
        ));
        let line = said.lines().map(str::trim).find(|line| line.contains("--from-kubeconfig")).unwrap();
        self.words = line.split_whitespace().skip(1).map(str::to_string).collect();
        self.sync_again();
    }

    pub fn stop_syncing(&mut self) {
        self.syncer.take().unwrap().stop();
    }

    pub fn sync_again(&mut self) {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        self.syncer = Some(Running::start(&words, "Syncing the cluster").unwrap());
    }

    /// Nothing has joined yet.
    pub fn apart() -> World {
        World::apart_with(Setup::new())
    }

    pub fn apart_with(setup: Setup) -> World {
        World {
            above: setup.start(),
            east: Cluster::start(&["--nodes", "2"]),
            syncer: None,
            words: Vec::new(),
        }
    }

    pub fn admin(&self) -> Access {
        self.above.admin()
    }

    fn command(&self, line: &str) -> std::process::Command {
        let mut command = atoll(&line.split(' ').collect::<Vec<_>>());
        command.env("KUBECONFIG", self.above.admin_kubeconfig()).stdin(std::process::Stdio::null());
        command
    }

    /// A command with flags, if there are any.
    pub fn line(&self, command: &str, flags: &str) -> String {
        format!("{command} {flags}").trim_end().to_string()
    }

    pub fn command_of(&self, command: &str, flags: &str) -> std::process::Command {
        self.command(&self.line(command, flags))
    }

    /// What a command prints that must succeed.
    #[track_caller]
    pub fn says(&self, line: &str) -> String {
        succeed(&mut self.command(line))
    }

    /// What a command complains of that must fail.
    #[track_caller]
    pub fn refuses(&self, line: &str) -> String {
        fail(&mut self.command(line))
    }
}

pub fn object(api_version: &str, kind: &str, name: &str, more: Value) -> Value {
    let mut object = json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": name } });
    for (field, value) in more.as_object().unwrap() {
        object[field] = value.clone();
    }
    object
}

/// A Deployment whose pods are as the template's `spec` says.
pub fn web(replicas: u32, pods: Value) -> Value {
    let labels = json!({ "app": "web" });
    let template = json!({ "metadata": { "labels": labels }, "spec": pods });
    let spec = json!({ "replicas": replicas, "selector": { "matchLabels": labels }, "template": template });
    object("apps/v1", "Deployment", "web", json!({ "spec": spec }))
}

/// What the plainest pods are.
pub fn plain_pods() -> Value {
    json!({ "containers": [{ "name": "main", "image": "example/web:1" }] })
}

pub async fn create(access: &Access, path: &str, object: Value) -> Value {
    access.post(path, object).await.expect(201)
}

/// Waits until what is at `path` is as it should be.
pub async fn becomes(what: &str, access: &Access, path: &str, is: impl Fn(&Value) -> bool) -> Value {
    let mut found = Value::Null;
    eventually(what, async || {
        let answer = access.get(path).await;
        if answer.status == 200 {
            found = answer.json();
        }
        answer.status == 200 && is(&found)
    })
    .await;
    found
}

pub async fn goes(access: &Access, path: &str) {
    eventually(&format!("{path} is gone"), async || access.get(path).await.status == 404).await;
}

/// The record of how an object fares in a cluster.
pub async fn record(above: &Access, namespace: &str, object: &Value, is: impl Fn(&Value) -> bool) -> Value {
    let uid = object["metadata"]["uid"].as_str().unwrap();
    let path = format!("/apis/atoll.dev/v1alpha1/namespaces/{namespace}/objectstatuses/{uid}.east");
    becomes(&format!("the record of {uid}"), above, &path, |record| is(&record["status"])).await
}
