//! Shares of lost clusters: which are replaced now, which later, and which must not be.

use std::cell::LazyCell;
use std::collections::HashSet;
use std::sync::Arc;

use atoll_placement::cluster::ClusterState;
use atoll_placement::demand::Demand;
use atoll_placement::failover::{
    Loss, last_return, loss, may_be_suspicion, may_be_suspicion_since, suspicion,
};
use atoll_placement::fleet::Fleet;
use atoll_placement::rules::Failover;

/// Seconds after which a share that is kept because other clusters are late is checked again.
const RECHECK_SECONDS: i64 = 2;

/// The consequences of lost clusters for one object.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Uids of clusters whose shares are to be replaced.
    pub replaced: Vec<Arc<str>>,
    /// The time, in seconds, at which the next share is to be replaced.
    pub due: Option<i64>,
    /// Why a share is not replaced: a code and a sentence.
    pub held: Option<(&'static str, String)>,
}

/// Returns the consequences for an object with shares on these clusters, or with these targets. `late` returns
/// the uids of clusters with late heartbeats, if they are known now.
pub fn of<'a>(
    fleet: &Fleet,
    demand: &Demand,
    failover: &Failover,
    clusters: impl Iterator<Item = &'a Arc<str>>,
    late: &dyn Fn() -> Option<HashSet<Arc<str>>>,
    now: i64,
) -> Losses {
    let mut losses = Losses::default();
    let path = &demand.workspace_path;
    let serving = || counted(fleet, path);
    let doubt = LazyCell::new(|| suspicion(serving()));
    let late = LazyCell::new(late);
    let is_early = |lost: &ClusterState| {
        may_be_suspicion_since(lost, now).is_some()
            && match &*late {
                Some(late) => may_be_suspicion(lost, serving(), |cluster| late.contains(&cluster.uid), now),
                // Without heartbeats to compare, a loss may be part of a suspicion only if another cluster
                // serves the workspace, too.
                None => serving().nth(1).is_some(),
            }
    };
    let waits_until = |lost: &ClusterState| {
        let returned = last_return(lost, serving()).map(|at| at.saturating_add(failover.after));
        let recheck = || is_early(lost).then(|| now.saturating_add(RECHECK_SECONDS));
        returned.filter(|at| now < *at).or_else(recheck)
    };
    for uid in clusters {
        let Some(state) = fleet.cluster(uid) else { continue };
        if !state.is_fenced && !state.readiness.is_not_ready() {
            continue;
        }
        match loss(state, demand, failover, doubt.as_ref(), now) {
            Loss::Stays => {}
            Loss::Until(at) => losses.is_due(at),
            Loss::Replaced if state.is_fenced => losses.replaced.push(uid.clone()),
            Loss::Replaced => match waits_until(state) {
                Some(at) => losses.is_due(at),
                None => losses.replaced.push(uid.clone()),
            },
            Loss::Held { code, reason } => losses.held = Some((code, reason)),
        }
    }
    losses
}

/// The clusters that count for a suspicion in the workspace with this path: only those that serve it, so that
/// other tenants and their clusters cannot cause one.
pub fn counted<'a>(fleet: &'a Fleet, path: &'a str) -> impl Iterator<Item = &'a ClusterState> {
    fleet.each_serving(path).filter(move |cluster| cluster.is_open_to(path))
}

impl Losses {
    fn is_due(&mut self, at: i64) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }
}

#[cfg(test)]
mod tests {
    use atoll_placement::cluster::{ClusterState, Readiness};
    use atoll_placement::failover::SUSPECT;

    use super::*;

    fn fleet(clusters: &[(&str, Option<i64>)]) -> Fleet {
        let mut fleet = Fleet::new();
        for (name, lost) in clusters {
            let readiness = match lost {
                Some(since) => Readiness::NotReady { since: *since, reason: "Unreachable".into() },
                None => Readiness::Ready { since: 0 },
            };
            let [name, workspace] = [*name, "root"].map(Arc::from);
            fleet.set_cluster(ClusterState {
                uid: Arc::clone(&name),
                name,
                workspace,
                readiness,
                ..ClusterState::default()
            });
        }
        fleet
    }

    fn none_late() -> Option<HashSet<Arc<str>>> {
        Some(HashSet::new())
    }

    #[test]
    fn losses_wait_for_clusters_that_are_late() {
        let three = fleet(&[("a", Some(100)), ("b", None), ("c", None)]);
        let demand = Demand { workspace_path: "root".into(), ..Demand::default() };
        let on: Vec<Arc<str>> = vec!["a".into()];
        let at = |fleet: &Fleet, late: Option<&[&str]>, now: i64| {
            let late = || late.map(|late| late.iter().map(|uid| Arc::from(*uid)).collect());
            let losses = of(fleet, &demand, &Failover::default(), on.iter(), &late, now);
            (losses.replaced.len(), losses.due)
        };
        assert_eq!(at(&three, Some(&["b"]), 110), (0, Some(115)));
        assert_eq!(at(&three, Some(&["b"]), 115), (0, Some(117)));
        assert_eq!(at(&three, Some(&[]), 117), (1, None), "it is back, so the first one is lost alone");
        // While the late clusters are not known, the loss waits, but for no more than a minute.
        assert_eq!((at(&three, None, 115), at(&three, None, 160)), ((0, Some(117)), (0, Some(162))));
        assert_eq!(at(&three, None, 161), (1, None));
        assert_eq!(at(&fleet(&[("a", Some(100))]), None, 115), (1, None));
        // Other clusters that were unready at the same time have just returned.
        let mut returning = fleet(&[("a", Some(1000)), ("b", Some(1005)), ("c", None)]);
        let b = returning.cluster("b").cloned().expect("it is there");
        returning.set_cluster(ClusterState { readiness: Readiness::Ready { since: 1200 }, ..b });
        assert_eq!(at(&returning, Some(&[]), 1201), (0, Some(1215)));
        assert_eq!(at(&returning, Some(&[]), 1215), (1, None));
    }

    #[test]
    fn the_earliest_loss_is_due_first() {
        let fleet = fleet(&[("a", Some(100)), ("b", Some(200)), ("c", None), ("d", None), ("e", None)]);
        let demand = Demand { workspace_path: "root".into(), ..Demand::default() };
        let on: Vec<Arc<str>> = ["a", "b", "c"].map(Arc::from).into();
        let at = |now| of(&fleet, &demand, &Failover::default(), on.iter(), &none_late, now);
        assert_eq!((at(110).due, at(110).replaced.len()), (Some(115), 0));
        assert_eq!((at(205).due, at(205).replaced), (Some(215), vec!["a".into()]));
        assert_eq!((at(215).due, at(215).replaced.len()), (None, 2));
    }

    #[test]
    fn clusters_of_other_workspaces_raise_no_suspicion() {
        let fleet = fleet(&[("a", Some(100)), ("b", Some(100)), ("c", None)]);
        let on: Vec<Arc<str>> = vec!["a".into()];
        let demand = |path: &str| Demand { workspace_path: path.into(), ..Demand::default() };
        let held = of(&fleet, &demand("root:team"), &Failover::default(), on.iter(), &none_late, 500).held;
        assert_eq!(held.map(|(code, _)| code), Some(SUSPECT));
        let elsewhere = of(&fleet, &demand("other"), &Failover::default(), on.iter(), &none_late, 500);
        assert_eq!(elsewhere.replaced.len(), 1);
        // Of three clusters that are not ready, one is open to the team.
        let mut fleet = fleet;
        for name in ["b", "d"] {
            let reserved = ClusterState {
                name: name.into(),
                uid: name.into(),
                workspace: "root".into(),
                readiness: Readiness::NotReady { since: 100, reason: "Unreachable".into() },
                workspaces: Some(vec!["other-team".to_string()]),
                ..ClusterState::default()
            };
            fleet.set_cluster(reserved);
        }
        let not_counted = of(&fleet, &demand("root:team"), &Failover::default(), on.iter(), &none_late, 500);
        assert_eq!((not_counted.replaced.len(), not_counted.held), (1, None));
    }
}
