//! What goes wrong besides the network: others meddle, and things are not what they were.

use std::time::Duration;

use atoll_client::PatchType;
use atoll_meta::object;
use serde_json::{Value, json};

use super::{CLAIM, CLUSTERS, Run, named, registered};
use crate::kinds::Kind;
use crate::log::whose;
use crate::plane::Plane;
use crate::spots::{Above, Below, CLUSTER, Room, Spot};
use crate::wire::Weather;

/// A view that broke is noticed by then and asked for again; nobody waits longer than this for an answer either.
const HEARD: Duration = Duration::from_secs(60);

impl Run {
    /// Somebody in the cluster does something.
    pub(super) async fn meddle(&mut self) {
        let client = self.below.client.clone();
        let below = Below::of(&self.below, &self.facts.control_plane).await;
        if self.random.chance(10) {
            let namespaces: Vec<&Value> = below.rooms.values().flatten().collect();
            if !namespaces.is_empty() {
                let namespace = *self.random.pick(&namespaces);
                let name = object::name(namespace);
                // With everything in it, whosever that is.
                let inside = format!("/namespaces/{name}/");
                self.facts.foreign.retain(|path, _| !path.contains(&inside));
                let _ = client.delete(&format!("/api/v1/namespaces/{name}")).await;
            }
            return;
        }
        if self.random.chance(33) {
            // Somebody else is first.
            let spot = self.spot();
            let Some(path) = below.path(&spot) else { return };
            let collection = path.rsplit_once('/').map(|(collection, _)| collection).unwrap_or_default();
            let made = client.create(collection, &spot.kind.content(spot.name, 7)).await;
            let now = self.now();
            self.facts.foreign.extend(made.is_ok().then_some((path, now)));
            return;
        }
        let ours = below.objects.iter().filter(|(_, object)| !whose(object).0.is_empty());
        let ours: Vec<&String> = ours.map(|(path, _)| path).collect();
        if ours.is_empty() {
            return;
        }
        let path = *self.random.pick(&ours);
        match self.random.chance(50) {
            true => {
                let resource = path.rsplit('/').nth(1).unwrap_or_default();
                let patch = Kind::named(resource).meddled();
                let path = format!("{path}?fieldManager=kubectl-edit");
                let _ = client.patch(&path, PatchType::Merge, &patch).await;
            }
            false => drop(client.delete(&format!("{path}?propagationPolicy=Background")).await),
        }
    }

    /// An older copy takes the place of the control plane.
    pub(super) async fn restore(&mut self) {
        if self.copies.is_empty() {
            return;
        }
        let last = self.above.copy().await;
        for known in Above::of(&self.above).await.objects.values() {
            self.unknown.insert(object::uid(known).to_string());
        }
        let below = Below::of(&self.below, &self.facts.control_plane).await;
        self.unknown.extend(below.objects.values().map(|known| whose(known).1));
        self.forgotten.extend(Room::all());
        let index = self.random.below(self.copies.len() as u64) as usize;
        let copy = &self.copies[index];
        self.above = Plane::restored("above", self.above.clock, copy, last.revision).await;
        self.up.lead(&self.above);
        self.beside.lead(&self.above);
        self.govern();
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
            let map = Spot::of("configmaps", "shop", "a");
            let path = map.path();
            client.create(&map.collection(), &map.kind.content("a", 3)).await.expect("an object");
            let patch = json!({ "spec": { "clusters": [{ "name": CLUSTER }] } });
            client.patch(&format!("{path}/placement"), PatchType::Merge, &patch).await.expect("a placement");
            self.pass(Duration::from_secs(60)).await;
            client.delete(&path).await.expect("a deletion");
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

    /// Nothing is to be made or deleted in the cluster for a while.
    pub(super) async fn pause(&mut self) {
        let path = format!("{CLUSTERS}/{CLUSTER}");
        let brake = |paused: bool| json!({ "spec": { "paused": paused } });
        self.up.set(Weather::Calm);
        if self.above.client.patch(&path, PatchType::Merge, &brake(true)).await.is_err() {
            return;
        }
        // Until everybody has heard, and what was under way has arrived or is late.
        crate::time::pass(HEARD).await;
        let from = self.now();
        self.go_on(6, Duration::from_secs(30)).await;
        self.facts.paused.push((from, self.now()));
        self.above.client.patch(&path, PatchType::Merge, &brake(false)).await.expect("a cluster");
    }
}
