//! Incidents other than network faults: changes by other users below, restored backups, and wrong servers.

use std::time::Duration;

use atoll_client::PatchType;
use atoll_meta::object;
use serde_json::{Value, json};

use super::{CLAIM, CLUSTERS, Simulation, cluster_object, named_object};
use crate::kinds::TestKind;
use crate::log::marks_of;
use crate::objects::{AboveState, BelowState, NamespaceRef, ObjectRef};
use crate::test_server::TestServer;
use crate::wire::NetworkState;

/// A broken view is detected and reopened within this time. No request waits longer for a response either.
const PROPAGATION_TIME: Duration = Duration::from_secs(60);

impl Simulation {
    /// A user of the cluster deletes or changes an object.
    pub(super) async fn change_below(&mut self, site: usize) {
        let client = self.sites[site].below.client.clone();
        let below = BelowState::read(&self.sites[site].below, &self.control_plane).await;
        if self.random.chance(10) {
            let namespaces: Vec<&Value> = below.namespaces.values().flatten().collect();
            if !namespaces.is_empty() {
                let namespace = *self.random.pick(&namespaces);
                let name = object::name(namespace);
                // With all objects in it.
                let inside = format!("/namespaces/{name}/");
                self.sites[site].expectations.foreign.retain(|path, _| !path.contains(&inside));
                let _ = client.delete(&format!("/api/v1/namespaces/{name}")).await;
            }
            return;
        }
        if self.random.chance(33) {
            // Another user creates the object first.
            let object_ref = self.random_object();
            let Some(path) = below.path(&object_ref) else { return };
            let collection = path.rsplit_once('/').map(|(collection, _)| collection).unwrap_or_default();
            let created = client.create(collection, &object_ref.kind.content(object_ref.name, 7)).await;
            let now = self.now();
            self.sites[site].expectations.foreign.extend(created.is_ok().then_some((path, now)));
            return;
        }
        let marked = below.objects.iter().filter(|(_, object)| !marks_of(object).0.is_empty());
        let marked: Vec<&String> = marked.map(|(path, _)| path).collect();
        if marked.is_empty() {
            return;
        }
        let path = *self.random.pick(&marked);
        match self.random.chance(50) {
            true => {
                let resource = path.rsplit('/').nth(1).unwrap_or_default();
                let patch = TestKind::by_resource(resource).change_below();
                let path = format!("{path}?fieldManager=kubectl-edit");
                let _ = client.patch(&path, PatchType::Merge, &patch).await;
            }
            false => drop(client.delete(&format!("{path}?propagationPolicy=Background")).await),
        }
    }

    /// Replaces the control plane with an older backup.
    pub(super) async fn restore(&mut self) {
        if self.backups.is_empty() {
            return;
        }
        let last = self.above.backup().await;
        for known in AboveState::read(&self.above).await.objects.values() {
            self.unknown.insert(object::uid(known).to_string());
        }
        for site in &mut self.sites {
            let below = BelowState::read(&site.below, &self.control_plane).await;
            self.unknown.extend(below.objects.values().map(|known| marks_of(known).1));
            site.forgotten.extend(NamespaceRef::all());
        }
        let index = self.random.below(self.backups.len() as u64) as usize;
        let copy = &self.backups[index];
        self.above = TestServer::restored("above", self.above.clock, copy, last.revision).await;
        self.connect_to_restored();
    }

    /// Leads a syncer to an empty control plane, or to one with different objects of the same names.
    pub(super) async fn lead_to_empty_control_plane(&mut self, site: usize) {
        if self.sites[site].below.client.get(CLAIM).await.is_err() {
            // Without a claim, any control plane may claim the cluster.
            return;
        }
        let empty = TestServer::new("empty", self.above.clock).await;
        self.sites[site].up.connect_to(&empty);
        self.pass_random(Duration::from_secs(60)).await;
        if self.random.chance(70) {
            let client = &empty.client;
            let name = self.sites[site].name;
            client.create(CLUSTERS, &cluster_object(name)).await.expect("a cluster");
            client.create("/api/v1/namespaces", &named_object("shop")).await.expect("a namespace");
            let map = ObjectRef::in_root("configmaps", "shop", "a");
            let path = map.path();
            client.create(&map.collection(), &map.kind.content("a", 3)).await.expect("an object");
            let patch = json!({ "spec": { "clusters": [{ "name": name }] } });
            client.patch(&format!("{path}/placement"), PatchType::Merge, &patch).await.expect("a placement");
            self.pass_random(Duration::from_secs(60)).await;
            client.delete(&path).await.expect("a deletion");
            self.pass_random(Duration::from_secs(60)).await;
        }
        self.sites[site].up.connect_to(&self.above);
    }

    /// Leads a syncer to another cluster.
    pub(super) async fn lead_to_wrong_cluster(&mut self, site: usize) {
        let claim = self.sites[site].below.client.get(CLAIM).await;
        let cluster = self.above.client.get(&self.sites[site].path()).await.unwrap_or_default();
        if claim.is_err() || cluster["status"]["id"].is_null() {
            // The identity of the cluster is not known yet.
            return;
        }
        let down = self.sites[site].down.clone();
        down.set(NetworkState::Down);
        self.pass_random(Duration::from_secs(20)).await;
        down.connect_to(&self.other);
        down.set(if self.random.chance(50) { NetworkState::Healthy } else { NetworkState::Faulty });
        self.random_actions(site, 4, Duration::from_secs(30)).await;
        down.set(NetworkState::Down);
        self.pass_random(Duration::from_secs(20)).await;
        down.connect_to(&self.sites[site].below);
        down.set(NetworkState::Healthy);
    }

    /// Performs fewer than `most` random actions, with a pause after each.
    async fn random_actions(&mut self, site: usize, most: u64, pause: Duration) {
        for _ in 0..self.random.below(most) {
            match self.random.below(5) {
                0 => {
                    self.sites[site].kill();
                    self.start();
                }
                1 => self.delete().await,
                2 => self.change().await,
                3 => self.begin_move().await,
                _ => self.create().await,
            }
            self.pass_random(pause).await;
        }
    }

    /// Another control plane claims a cluster.
    pub(super) async fn claim_by_other(&mut self, site: usize) {
        let client = self.sites[site].below.client.clone();
        let Ok(claim) = client.get(CLAIM).await else { return };
        let other_claim = json!({ "data": { "controlPlane": "somebody", "cluster": "else" } });
        client.patch(CLAIM, PatchType::Merge, &other_claim).await.expect("a claim");
        let from = self.now();
        self.random_actions(site, 5, Duration::from_secs(40)).await;
        let to = self.now();
        self.sites[site].expectations.claimed.push((from, to));
        client.patch(CLAIM, PatchType::Merge, &json!({ "data": claim["data"] })).await.expect("a claim");
    }

    /// Pauses a cluster for a while.
    pub(super) async fn pause(&mut self, site: usize) {
        let path = self.sites[site].path();
        let patch = |paused: bool| json!({ "spec": { "paused": paused } });
        self.sites[site].up.set(NetworkState::Healthy);
        if self.above.client.patch(&path, PatchType::Merge, &patch(true)).await.is_err() {
            return;
        }
        // Until the pause has propagated, and requests in flight have arrived or are late.
        crate::time::pass(PROPAGATION_TIME).await;
        let from = self.now();
        self.random_actions(site, 6, Duration::from_secs(30)).await;
        let to = self.now();
        self.sites[site].expectations.paused.push((from, to));
        self.above.client.patch(&path, PatchType::Merge, &patch(false)).await.expect("a cluster");
    }
}
