//! The fleet as decisions see it: clusters, and the ledger of their capacity.
//!
//! Clusters of each registering workspace are kept in the order of their room, and by name and label, so that
//! a decision looks at a few of them and not at all.

mod ranking;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::cluster::{CapacityReport, ClusterState};
use crate::demand::{Needs, ObjectKey};
use crate::ledger::{Account, UNLIMITED};
use crate::node::Effect;
use crate::resources::Resources;
use crate::rules::ClusterFilter;

use self::ranking::{Rank, Ranking};

/// All clusters of a control plane with the ledger. A clone is cheap enough to try something out on.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    entries: Vec<Option<ClusterEntry>>,
    by_uid: HashMap<Arc<str>, usize>,
    /// By path of the registering workspace.
    rankings: BTreeMap<Arc<str>, Ranking>,
    /// Indexes of the clusters that objects have shares of, by uid of the object.
    shares: HashMap<Arc<str>, Vec<usize>>,
    /// Number of clusters with a taint of effect PreferNoSchedule.
    avoided: usize,
    /// Indexes of the clusters whose accounts are settled at the end of many changes.
    unsettled: Option<BTreeSet<usize>>,
}

/// A cluster of the fleet.
#[derive(Clone, Debug)]
pub(crate) struct ClusterEntry {
    pub state: Arc<ClusterState>,
    pub account: Arc<Account>,
}

impl ClusterEntry {
    fn rank(&self, index: usize) -> Rank {
        Rank {
            room: std::cmp::Reverse(self.account.room()),
            registered: self.state.registered,
            name: self.state.name.clone(),
            index,
        }
    }

    fn is_avoided(&self) -> bool {
        self.state.taints.iter().any(|taint| taint.effect == Effect::PreferNoSchedule)
    }
}

impl Fleet {
    pub fn new() -> Fleet {
        Fleet::default()
    }

    /// Adds a cluster, or replaces its state. Its report and its reservations stay.
    pub fn set_cluster(&mut self, state: ClusterState) {
        let uid = state.uid.clone();
        let account = match self.by_uid.get(&uid) {
            Some(index) => self.take(*index).map(|entry| entry.account).unwrap_or_default(),
            None => Arc::default(),
        };
        let vacant = || self.entries.iter().position(Option::is_none).unwrap_or(self.entries.len());
        let index = self.by_uid.get(&uid).copied().unwrap_or_else(vacant);
        if index == self.entries.len() {
            self.entries.push(None);
        }
        self.by_uid.insert(uid, index);
        self.put(index, ClusterEntry { state: Arc::new(state), account });
    }

    /// Removes a cluster with its reservations.
    pub fn remove_cluster(&mut self, uid: &str) {
        if let Some(index) = self.by_uid.remove(uid) {
            self.take(index);
            for shares in self.shares.values_mut() {
                shares.retain(|share| *share != index);
            }
        }
    }

    fn take(&mut self, index: usize) -> Option<ClusterEntry> {
        let entry = self.entries.get_mut(index)?.take()?;
        self.avoided -= usize::from(entry.is_avoided());
        if let Some(ranking) = self.rankings.get_mut(&entry.state.workspace) {
            ranking.remove(&entry.state, &entry.rank(index));
            if ranking.is_empty() {
                self.rankings.remove(&entry.state.workspace);
            }
        }
        Some(entry)
    }

    fn put(&mut self, index: usize, entry: ClusterEntry) {
        self.avoided += usize::from(entry.is_avoided());
        let ranking = self.rankings.entry(entry.state.workspace.clone()).or_default();
        ranking.insert(&entry.state, entry.rank(index));
        self.entries[index] = Some(entry);
    }

    /// Changes an account, and updates the position of its cluster in the order of room.
    fn change(&mut self, index: usize, change: impl FnOnce(&mut Account)) {
        let Some(entry) = self.entries.get_mut(index).and_then(Option::as_mut) else { return };
        let before = entry.rank(index);
        change(Arc::make_mut(&mut entry.account));
        let after = entry.rank(index);
        if before != after
            && let Some(ranking) = self.rankings.get_mut(&entry.state.workspace)
        {
            ranking.move_to(&entry.state, &before, after);
        }
    }

    /// Begins many changes. Until [`Fleet::end_changes`], reservations are not assigned to nodes again, which
    /// takes long.
    pub fn begin_changes(&mut self) {
        self.unsettled.get_or_insert_default();
    }

    /// Assigns the reservations of all clusters whose shares have changed to nodes again.
    pub fn end_changes(&mut self) {
        for index in self.unsettled.take().unwrap_or_default() {
            self.change(index, Account::settle);
        }
    }

    fn set_share(&mut self, index: usize, object: &ObjectKey, needs: &Arc<Needs>, pods: i64) {
        match &mut self.unsettled {
            Some(unsettled) => {
                unsettled.insert(index);
                self.change(index, |account| account.set_share_later(object, needs, pods));
            }
            None => self.change(index, |account| account.set_share(object, needs, pods)),
        }
    }

    /// Sets the last report of a cluster; ignored if the cluster is not known.
    pub fn set_report(&mut self, uid: &str, report: Arc<CapacityReport>) {
        if let Some(index) = self.by_uid.get(uid).copied() {
            self.change(index, |account| account.set_report(report));
        }
    }

    /// Replaces the reservations of an object: pods by uid of the cluster. Pods that the report of a cluster
    /// counts as bound are not reserved again.
    pub fn reserve(&mut self, object: &ObjectKey, needs: &Arc<Needs>, shares: &[(Arc<str>, i64)]) {
        let index_of = |(uid, pods): &(Arc<str>, i64)| Some((*self.by_uid.get(uid)?, *pods));
        let shares: Vec<(usize, i64)> =
            shares.iter().filter_map(index_of).filter(|(_, pods)| *pods > 0).collect();
        let after = shares.iter().map(|(index, _)| *index).collect();
        let before = self.shares.insert(object.uid.clone(), after).unwrap_or_default();
        for index in before {
            if !shares.iter().any(|(other, _)| *other == index) {
                self.set_share(index, object, needs, 0);
            }
        }
        for (index, pods) in shares {
            self.set_share(index, object, needs, pods);
        }
    }

    /// Forgets an object.
    pub fn forget(&mut self, uid: &str) {
        let object = ObjectKey { uid: uid.into(), ..ObjectKey::default() };
        let needs = Arc::default();
        for index in self.shares.remove(uid).unwrap_or_default() {
            self.set_share(index, &object, &needs, 0);
        }
    }

    pub fn cluster(&self, uid: &str) -> Option<&ClusterState> {
        self.index_of(uid).and_then(|index| self.entry(index)).map(|entry| &*entry.state)
    }

    pub(crate) fn index_of(&self, uid: &str) -> Option<usize> {
        self.by_uid.get(uid).copied()
    }

    pub(crate) fn entry(&self, index: usize) -> Option<&ClusterEntry> {
        self.entries.get(index)?.as_ref()
    }

    /// All clusters, in the order of registration.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterState> {
        in_order(self.entries.iter().flatten().map(|entry| &*entry.state).collect())
    }

    /// Clusters that serve a workspace, by its path, in the order of registration.
    pub fn serving<'a>(&'a self, workspace_path: &str) -> impl Iterator<Item = &'a ClusterState> + use<'a> {
        in_order(self.each_serving(workspace_path).collect())
    }

    /// The clusters that serve a workspace, by its path, in any order.
    pub fn each_serving<'a>(
        &'a self,
        workspace_path: &str,
    ) -> impl Iterator<Item = &'a ClusterState> + use<'a> {
        self.by_room(workspace_path).filter_map(|index| self.entry(index)).map(|entry| &*entry.state)
    }

    /// Whether a cluster, by its uid, serves a workspace and is open to it.
    pub fn serves(&self, uid: &str, workspace_path: &str) -> bool {
        self.cluster(uid).is_some_and(|state| {
            let below = workspace_path.strip_prefix(&*state.workspace);
            below.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
                && state.is_open_to(workspace_path)
        })
    }

    /// Whether any cluster serves a workspace, by its path.
    pub fn is_served(&self, workspace_path: &str) -> bool {
        self.rankings_above(workspace_path).next().is_some()
    }

    /// The cluster that a name means in a workspace: the nearest of this name.
    pub fn named(&self, workspace_path: &str, name: &str) -> Option<&ClusterState> {
        let index = self.index_named(workspace_path, name)?;
        self.entry(index).map(|entry| &*entry.state)
    }

    pub(crate) fn index_named(&self, workspace_path: &str, name: &str) -> Option<usize> {
        self.rankings_above(workspace_path).find_map(|ranking| ranking.named(name))
    }

    /// Rankings of the workspaces whose clusters serve this one, the nearest first.
    fn rankings_above<'a, 'b>(
        &'a self,
        workspace_path: &'b str,
    ) -> impl Iterator<Item = &'a Ranking> + use<'a, 'b> {
        let paths = std::iter::successors(Some(workspace_path), |path| Some(path.rsplit_once(':')?.0));
        paths.filter_map(|path| self.rankings.get(path))
    }

    /// Clusters that serve a workspace, those with most room first, then the one registered first.
    pub(crate) fn by_room<'a>(&'a self, workspace_path: &str) -> impl Iterator<Item = usize> + use<'a> {
        ranking::merge(self.rankings_above(workspace_path).map(Ranking::by_room).collect())
    }

    /// Clusters that a filter may select, in the order of [`Fleet::by_room`]: all clusters that it selects, and
    /// as few others as one label can exclude.
    pub(crate) fn narrowed<'a>(
        &'a self,
        workspace_path: &str,
        filter: &ClusterFilter,
    ) -> Option<Box<dyn Iterator<Item = usize> + 'a>> {
        if !filter.names.is_empty() {
            let named = filter.names.iter().filter_map(|name| self.index_named(workspace_path, name));
            let ranks = named.filter_map(|index| Some(self.entry(index)?.rank(index)));
            let ranks: BTreeSet<Rank> = ranks.collect();
            return Some(Box::new(ranks.into_iter().map(|rank| rank.index)));
        }
        let rankings: Vec<&Ranking> = self.rankings_above(workspace_path).collect();
        let requirement = ranking::narrowest(filter.selector.as_ref()?, &rankings)?;
        let sets =
            rankings.iter().flat_map(|ranking| ranking.labelled(requirement.key(), requirement.values()));
        Some(Box::new(ranking::merge(sets.map(BTreeSet::iter).collect())))
    }

    /// Values of a label of the clusters that serve a workspace.
    pub(crate) fn domains<'a>(&'a self, workspace_path: &str, label: &str) -> BTreeSet<&'a str> {
        self.rankings_above(workspace_path).flat_map(|ranking| ranking.values(label)).collect()
    }

    /// Clusters with a label, in the order of [`Fleet::by_room`].
    pub(crate) fn labelled<'a>(
        &'a self,
        workspace_path: &str,
        label: &str,
        value: &str,
    ) -> impl Iterator<Item = usize> + use<'a> {
        let values = [value.to_string()];
        let sets = self.rankings_above(workspace_path).flat_map(|ranking| ranking.labelled(label, &values));
        ranking::merge(sets.map(BTreeSet::iter).collect())
    }

    /// Whether some cluster has a taint that changes the order of room.
    pub(crate) fn has_avoided(&self) -> bool {
        self.avoided > 0
    }

    /// Free resources of a cluster less those that are reserved; `None` before its first report.
    pub fn free(&self, uid: &str) -> Option<Resources> {
        self.entry(self.index_of(uid)?)?.account.free()
    }

    /// Number of nodes of a cluster that pods with these needs may run on; `None` before its first report.
    pub fn nodes(&self, uid: &str, needs: &Needs) -> Option<i64> {
        let account = &self.entry(self.index_of(uid)?)?.account;
        account.report().map(|_| account.nodes(needs))
    }

    /// Number of further pods with these needs that fit the nodes and limits of a cluster; `None` before
    /// its first report.
    pub fn fits(&self, uid: &str, needs: &Needs) -> Option<i64> {
        let entry = self.entry(self.index_of(uid)?)?;
        let object = ObjectKey::default();
        let (within_limits, _) = entry.account.limits_take(&entry.state.limits, &object, needs);
        Some(entry.account.takes(&object, needs, UNLIMITED)?.min(within_limits))
    }
}

fn in_order(mut clusters: Vec<&ClusterState>) -> std::vec::IntoIter<&ClusterState> {
    clusters.sort_by_key(|cluster| (cluster.registered, &cluster.name, &cluster.uid));
    clusters.into_iter()
}
