//! Shares of lost clusters: which are replaced now, which later, and which must not be.

use std::cell::LazyCell;
use std::sync::Arc;

use atoll_placement::demand::Demand;
use atoll_placement::failover::{Loss, loss, suspicion};
use atoll_placement::fleet::Fleet;
use atoll_placement::rules::Failover;

/// The code of a loss that is only a suspicion of the control plane against itself.
pub const SUSPECT: &str = "ControlPlaneSuspect";

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

/// Returns the consequences for an object that has shares on these clusters, or is moving there.
pub fn of<'a>(
    fleet: &Fleet,
    demand: &Demand,
    failover: &Failover,
    clusters: impl Iterator<Item = &'a Arc<str>>,
    now: i64,
) -> Losses {
    let mut losses = Losses::default();
    // Only clusters that serve the workspace count: other tenants and their clusters cannot raise a suspicion.
    let path = &demand.workspace_path;
    let doubt = LazyCell::new(|| suspicion(fleet.serving(path).filter(|cluster| cluster.is_open_to(path))));
    for uid in clusters {
        let Some(state) = fleet.cluster(uid) else { continue };
        if !state.is_fenced && !state.readiness.is_not_ready() {
            continue;
        }
        match loss(state, demand, failover, doubt.as_ref(), now) {
            Loss::Stays => {}
            Loss::Until(at) => losses.due = Some(losses.due.map_or(at, |due| due.min(at))),
            Loss::Replaced => losses.replaced.push(uid.clone()),
            Loss::Held { code, reason } => losses.held = Some((code, reason)),
        }
    }
    losses
}

#[cfg(test)]
mod tests {
    use atoll_placement::cluster::{ClusterState, Readiness};

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

    #[test]
    fn the_earliest_loss_is_due_first() {
        let fleet = fleet(&[("a", Some(100)), ("b", Some(200)), ("c", None), ("d", None), ("e", None)]);
        let demand = Demand { workspace_path: "root".into(), ..Demand::default() };
        let on: Vec<Arc<str>> = ["a", "b", "c"].map(Arc::from).into();
        let at = |now| of(&fleet, &demand, &Failover::default(), on.iter(), now);
        assert_eq!((at(110).due, at(110).replaced.len()), (Some(115), 0));
        assert_eq!((at(205).due, at(205).replaced), (Some(215), vec!["a".into()]));
        assert_eq!((at(215).due, at(215).replaced.len()), (None, 2));
    }

    #[test]
    fn clusters_of_other_workspaces_raise_no_suspicion() {
        let fleet = fleet(&[("a", Some(100)), ("b", Some(100)), ("c", None)]);
        let on: Vec<Arc<str>> = vec!["a".into()];
        let demand = |path: &str| Demand { workspace_path: path.into(), ..Demand::default() };
        let held = of(&fleet, &demand("root:team"), &Failover::default(), on.iter(), 500).held;
        assert_eq!(held.map(|(code, _)| code), Some(SUSPECT));
        let elsewhere = of(&fleet, &demand("other"), &Failover::default(), on.iter(), 500);
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
        let not_counted = of(&fleet, &demand("root:team"), &Failover::default(), on.iter(), 500);
        assert_eq!((not_counted.replaced.len(), not_counted.held), (1, None));
    }
}
