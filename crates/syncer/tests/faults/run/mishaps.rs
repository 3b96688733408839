//! What goes wrong besides the network: others meddle, and things are not what they were.

use std::time::Duration;

use atoll_client::PatchType;
use atoll_meta::object;
use serde_json::json;

use super::{CLAIM, CLUSTERS, Run, content, named, registered};
use crate::agreement::{self, CLUSTER, collection};
use crate::plane::Plane;
use crate::wire::Weather;

impl Run {
    /// Somebody in the cluster does something.
    pub(super) async fn meddle(&mut self) {
        let (resource, namespace, name) = self.spot();
        let collection = collection(resource, namespace);
        let path = format!("{collection}/{name}");
        let client = self.below.client.clone();
        match self.random.below(3) {
            0 => {
                // Somebody else is first.
                let made = client.create(&collection, &content(resource, name, 7)).await;
                self.foreign.extend(made.is_ok().then_some(path));
            }
            1 if !self.foreign.contains(&path) => {
                let patch = match resource {
                    "deployments" => json!({ "spec": { "replicas": 1 } }),
                    _ => json!({ "data": { "key": "mine" } }),
                };
                let path = format!("{path}?fieldManager=kubectl-edit");
                let _ = client.patch(&path, PatchType::Merge, &patch).await;
            }
            _ if !self.foreign.contains(&path) => drop(client.delete(&path).await),
            _ => {}
        }
    }

    /// An older copy takes the place of the control plane.
    pub(super) async fn restore(&mut self) {
        if self.copies.is_empty() {
            return;
        }
        let last = self.above.copy().await;
        for known in agreement::objects(&self.above).await.values() {
            self.unknown.insert(object::uid(known).to_string());
        }
        for known in agreement::objects(&self.below).await.values() {
            self.unknown.insert(crate::log::whose(known).1);
        }
        let index = self.random.below(self.copies.len() as u64) as usize;
        let copy = &self.copies[index];
        self.above = Plane::restored("above", self.above.clock, copy, last.revision).await;
        self.up.lead(&self.above);
    }

    /// A control plane that knows nothing, and one that has something else under the same names.
    pub(super) async fn empty(&mut self) {
        if self.below.client.get(CLAIM).await.is_err() {
            // Whoever comes first may have it.
            return;
        }
        let empty = Plane::new("empty", self.above.clock).await;
        self.up.lead(&empty);
        self.pass(Duration::from_secs(60)).await;
        if self.random.chance(70) {
            let client = &empty.client;
            client.create(CLUSTERS, &registered(CLUSTER)).await.expect("a cluster");
            client.create("/api/v1/namespaces", &named("shop")).await.expect("a namespace");
            let maps = collection("configmaps", "shop");
            client.create(&maps, &content("configmaps", "a", 3)).await.expect("an object");
            let patch = json!({ "spec": { "clusters": [{ "name": CLUSTER }] } });
            client
                .patch(&format!("{maps}/a/placement"), PatchType::Merge, &patch)
                .await
                .expect("a placement");
            self.pass(Duration::from_secs(60)).await;
            client.delete(&format!("{maps}/a")).await.expect("a deletion");
            self.pass(Duration::from_secs(60)).await;
        }
        self.up.lead(&self.above);
    }

    /// The credentials lead to another cluster.
    pub(super) async fn wrong_cluster(&mut self) {
        let claim = self.below.client.get(CLAIM).await;
        let pinned = self.above.client.get(&format!("{CLUSTERS}/{CLUSTER}")).await.unwrap_or_default();
        if claim.is_err() || pinned["status"]["id"].is_null() {
            // It has not been seen yet which one it is.
            return;
        }
        self.down.set(Weather::Out);
        self.pass(Duration::from_secs(20)).await;
        self.down.lead(&self.other);
        self.down.set(if self.random.chance(50) { Weather::Calm } else { Weather::Storm });
        self.go_on(4, Duration::from_secs(30)).await;
        self.down.set(Weather::Out);
        self.pass(Duration::from_secs(20)).await;
        self.down.lead(&self.below);
        self.down.set(Weather::Calm);
    }

    /// Fewer than `most` things happen meanwhile, with a pause after each.
    async fn go_on(&mut self, most: u64, pause: Duration) {
        for _ in 0..self.random.below(most) {
            match self.random.below(4) {
                0 => {
                    self.kill();
                    self.start();
                }
                1 => self.delete().await,
                2 => self.change().await,
                _ => self.create().await,
            }
            self.pass(pause).await;
        }
    }

    /// Another control plane says that the cluster is its own.
    pub(super) async fn claimed(&mut self) {
        let client = self.below.client.clone();
        let Ok(claim) = client.get(CLAIM).await else { return };
        let theirs = json!({ "data": { "controlPlane": "somebody", "cluster": "else" } });
        client.patch(CLAIM, PatchType::Merge, &theirs).await.expect("a claim");
        let from = self.now();
        self.go_on(5, Duration::from_secs(40)).await;
        self.facts.claimed.push((from, self.now()));
        client.patch(CLAIM, PatchType::Merge, &json!({ "data": claim["data"] })).await.expect("a claim");
    }
}
