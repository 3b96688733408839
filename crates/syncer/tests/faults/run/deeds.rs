//! What people do above.

use std::collections::BTreeSet;

use atoll_client::PatchType;
use atoll_fleet::view::{Record, Report, State};
use atoll_fleet::{Placement, marks};
use atoll_meta::object;
use serde_json::{Value, json};

use super::{Run, named};
use crate::kinds::{KINDS, NAMES};
use crate::spots::{Above, CLUSTER, ELSEWHERE, NAMESPACES, Room, SPACES, Spot};

impl Run {
    pub(super) fn spot(&mut self) -> Spot {
        let space = if self.random.chance(60) { &SPACES[0] } else { &SPACES[1] };
        let namespace = *self.random.pick(&NAMESPACES);
        let kind = self.random.pick(&KINDS);
        let name = *self.random.pick(&NAMES);
        Spot { room: Room { space, namespace }, kind, name }
    }

    /// One of those that there are, if there is any such.
    async fn known(&mut self, is_it: impl Fn(&Value) -> bool) -> Option<Spot> {
        let objects = Above::of(&self.above).await.objects;
        let known: Vec<Spot> =
            objects.iter().filter(|(_, object)| is_it(object)).map(|(spot, _)| *spot).collect();
        (!known.is_empty()).then(|| *self.random.pick(&known))
    }

    /// Does something that may take away from the cluster what was to be there. Whether it did is for `deed` to say.
    async fn asking(&mut self, also: Option<&Spot>, deed: impl AsyncFnOnce(&Run) -> bool) {
        let (now, before) = (self.now(), Above::of(&self.above).await);
        if !deed(self).await {
            return;
        }
        let after = Above::of(&self.above).await.wanted();
        let gone: BTreeSet<Spot> = before.wanted().difference(&after).copied().chain(also.copied()).collect();
        for object in gone.iter().filter_map(|spot| before.objects.get(spot)) {
            self.facts.asked.entry(object::uid(object).to_string()).or_insert(now);
        }
    }

    pub async fn place(&mut self, spot: &Spot, clusters: Value) {
        let is_leaving =
            !clusters.as_array().is_some_and(|all| all.iter().any(|share| share["name"] == CLUSTER));
        let patch = json!({ "spec": { "clusters": clusters, "by": "hand" } });
        let path = format!("{}/placement", spot.path());
        self.asking(Some(spot).filter(|_| is_leaving), async |run| {
            // One that is going cannot be placed, and nothing is while that is paused.
            run.above.client.patch(&path, PatchType::Merge, &patch).await.is_ok()
        })
        .await;
    }

    pub async fn make(&self, spot: &Spot, number: u64, drift: Option<&str>) {
        let namespaces = format!("{}/api/v1/namespaces", spot.room.space.prefix);
        let mut content = spot.kind.content(spot.name, number);
        if let Some(drift) = drift {
            object::set_annotation(&mut content, marks::DRIFT, drift);
        }
        // One that is there already is as good, and one that is going takes its time.
        let _ = self.above.client.create(&namespaces, &named(spot.room.namespace)).await;
        let _ = self.above.client.create(&spot.collection(), &content).await;
    }

    pub(super) async fn create(&mut self) {
        let spot = self.spot();
        let number = self.random.below(1000);
        let drift = self.random.chance(15).then_some("report");
        self.make(&spot, number, drift).await;
        // Some come before who refers to them, some after, some never.
        for needed in Above::of(&self.above).await.needs(&spot) {
            if self.random.chance(60) {
                let number = self.random.below(1000);
                self.make(&needed, number, None).await;
            }
        }
        if spot.kind.follows() && self.random.chance(40) {
            return;
        }
        let share = match spot.kind.is_divided() && self.random.chance(50) {
            true => json!({ "name": CLUSTER, "replicas": number % 7 }),
            false => json!({ "name": CLUSTER }),
        };
        self.place(&spot, json!([share])).await;
    }

    pub(super) async fn change(&mut self) {
        let Some(spot) = self.known(|_| true).await else { return };
        let number = self.random.below(1000);
        let patch = spot.kind.change(number, &mut self.random);
        self.asking(None, async |run| {
            run.above.client.patch(&spot.path(), PatchType::Merge, &patch).await.is_ok()
        })
        .await;
    }

    /// It is taken away, or moves to a cluster that is not part of this.
    pub(super) async fn leave(&mut self) {
        let is_placed = |object: &Value| Placement::of(object).share(CLUSTER).is_some();
        let Some(spot) = self.known(is_placed).await else { return };
        let clusters = if self.random.chance(50) { json!([]) } else { json!([{ "name": ELSEWHERE }]) };
        self.place(&spot, clusters).await;
    }

    pub(super) async fn delete(&mut self) {
        let Some(spot) = self.known(|_| true).await else { return };
        let path = format!("{}?propagationPolicy=Background", spot.path());
        self.asking(Some(&spot), async |run| run.above.client.delete(&path).await.is_ok()).await;
    }

    /// A whole namespace goes.
    pub(super) async fn end(&mut self) {
        let rooms: Vec<Room> = Above::of(&self.above).await.rooms.into_keys().collect();
        if rooms.is_empty() {
            return;
        }
        let room = *self.random.pick(&rooms);
        self.end_of(room).await;
    }

    pub async fn end_of(&mut self, room: Room) {
        let (now, before) = (self.now(), Above::of(&self.above).await);
        let is_in = |(spot, object): (&Spot, &Value)| {
            let is_placed = Placement::of(object).share(CLUSTER).is_some();
            spot.room == room && is_placed && !object::is_being_deleted(object)
        };
        // Whatever a restored control plane did not know, it does now.
        if before.objects.iter().any(is_in) {
            self.forgotten.remove(&room);
        }
        for (_, object) in before.objects.iter().filter(|(spot, _)| spot.room == room) {
            self.facts.asked.entry(object::uid(object).to_string()).or_insert(now);
        }
        let locator = room.locator(&self.facts.control_plane).text();
        self.facts.asked.entry(locator).or_insert(now);
        let _ = self.above.client.delete(&room.path()).await;
    }

    /// A whole workspace goes, with all namespaces in it. Its id is never used again, so nothing comes back.
    pub(super) async fn end_workspace(&mut self) {
        let (now, space) = (self.now(), &SPACES[1]);
        let before = Above::of(&self.above).await;
        for (_, object) in before.objects.iter().filter(|(spot, _)| spot.room.space == space) {
            self.facts.asked.entry(object::uid(object).to_string()).or_insert(now);
        }
        for room in Room::all().filter(|room| room.space == space) {
            let locator = room.locator(&self.facts.control_plane).text();
            self.facts.asked.entry(locator).or_insert(now);
        }
        let name = space.prefix.rsplit(':').next().unwrap_or_default();
        let _ = self.above.client.delete(&format!("/apis/atoll.dev/v1alpha1/workspaces/{name}")).await;
    }

    /// The other cluster lets go of what it is to let go of, at once and without fail.
    pub(super) async fn let_go_elsewhere(&self) {
        let mut records = Vec::new();
        for (spot, object) in &Above::of(&self.above).await.objects {
            let placement = Placement::of(object);
            let is_leaving = placement.leaving.iter().any(|one| one.name == ELSEWHERE);
            let is_going = object::is_being_deleted(object) && placement.share(ELSEWHERE).is_some();
            if is_leaving || is_going {
                let target = spot.target(object::uid(object));
                records.push(Record { target, state: State::Gone, ..Record::default() });
            }
        }
        if !records.is_empty() {
            let report = serde_json::to_value(Report { records, ..Report::default() }).expect("a report");
            let path = format!("/services/sync/{ELSEWHERE}");
            self.above.client.create(&path, &report).await.expect("it is heard");
        }
    }
}
