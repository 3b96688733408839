//! When the share of a cluster that is not Ready is replaced, and when it may return.

use crate::cluster::{ClusterState, Readiness};
use crate::demand::Demand;
use crate::fleet::Fleet;
use crate::rules::Failover;

/// Seconds within which clusters turn unready together.
const WINDOW: i64 = 60;

/// The code of a loss that is only a suspicion of the control plane against itself.
pub const SUSPECT: &str = "ControlPlaneSuspect";

/// The consequence of a lost cluster for one share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The share stays.
    Stays,
    /// The share is replaced at this time, in seconds, unless the cluster returns.
    Until(i64),
    /// The share is to be replaced now: evict the cluster.
    Replaced,
    /// The share would be replaced but must not be; the sentence gives the reason and the remedy.
    Held { code: &'static str, reason: String },
}

/// A suspicion of the control plane against itself: too many clusters turned unready together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspicion {
    /// Clusters that turned within a minute.
    pub turned: usize,
    /// All clusters.
    pub of: usize,
    /// Time at which the first of them turned, in seconds.
    pub since: i64,
}

impl Suspicion {
    /// The reason why nothing moves off the cluster with this name, and the remedy.
    pub fn reason(&self, name: &str) -> String {
        let Suspicion { turned, of, .. } = self;
        format!(
            "{turned} of {of} clusters became unready within a minute, so that the control plane may be the one that is cut \
             off; nothing fails over until they return, or are fenced one by one: atoll cluster fence {name}"
        )
    }
}

/// Returns a suspicion if more than half of the clusters, and at least two, turned unready within a minute
/// and still are. It ends as they become Ready again.
pub fn suspicion<'a>(clusters: impl IntoIterator<Item = &'a ClusterState>) -> Option<Suspicion> {
    let (mut turned, mut of) = (Vec::new(), 0);
    for cluster in clusters.into_iter().filter(|cluster| !cluster.is_fenced && !cluster.is_being_removed) {
        of += 1;
        if let Readiness::NotReady { since, .. } = &cluster.readiness {
            turned.push(*since);
        }
    }
    turned.sort_unstable();
    let together = |from: usize| {
        let end = turned[from].saturating_add(WINDOW);
        turned[from..].partition_point(|time| *time <= end)
    };
    let (count, since) = (0..turned.len())
        .map(|from| (together(from), turned[from]))
        .max_by_key(|(count, since)| (*count, -since))?;
    (count >= 2 && count * 2 > of).then_some(Suspicion { turned: count, of, since })
}

/// Whether the loss of a cluster may turn out to be a suspicion: with the clusters that are late with their heartbeats,
/// more than half of them, and at least two, would turn unready within a minute.
pub fn may_be_suspicion<'a>(
    lost: &ClusterState,
    clusters: impl IntoIterator<Item = &'a ClusterState>,
    is_late: impl Fn(&ClusterState) -> bool,
    now: i64,
) -> bool {
    let Some(since) = may_be_suspicion_since(lost, now) else { return false };
    let (mut turned, mut late, mut of) = (0usize, 0usize, 0usize);
    for cluster in clusters.into_iter().filter(|cluster| !cluster.is_fenced && !cluster.is_being_removed) {
        of += 1;
        match &cluster.readiness {
            Readiness::NotReady { since: other, .. } => {
                turned += usize::from(other.abs_diff(since) <= WINDOW.unsigned_abs());
            }
            _ => late += usize::from(is_late(cluster)),
        }
    }
    late > 0 && turned + late >= 2 && (turned + late) * 2 > of
}

/// Returns when the last of the clusters returned that were unready together with a lost one, if the returned
/// and the unready ones are more than half of all, and at least two: after a suspicion, the others are expected
/// to return soon.
pub fn last_return<'a>(
    lost: &ClusterState,
    clusters: impl IntoIterator<Item = &'a ClusterState>,
) -> Option<i64> {
    let Readiness::NotReady { since, .. } = &lost.readiness else { return None };
    let (mut turned, mut of, mut last) = (0usize, 0usize, None);
    for cluster in clusters.into_iter().filter(|cluster| !cluster.is_fenced && !cluster.is_being_removed) {
        of += 1;
        match &cluster.readiness {
            Readiness::NotReady { since: other, .. } => {
                turned += usize::from(other.abs_diff(*since) <= WINDOW.unsigned_abs());
            }
            // A cluster that has joined since then was not unready before.
            Readiness::Ready { since: at } if at > since && cluster.registered <= *since => {
                turned += 1;
                last = last.max(Some(*at));
            }
            _ => {}
        }
    }
    last.filter(|_| !lost.is_fenced && turned >= 2 && turned * 2 > of)
}

/// When a cluster turned unready, if others that turn now would have turned together with it.
pub fn may_be_suspicion_since(lost: &ClusterState, now: i64) -> Option<i64> {
    match &lost.readiness {
        Readiness::NotReady { since, .. } if !lost.is_fenced && now <= since.saturating_add(WINDOW) => {
            Some(*since)
        }
        _ => None,
    }
}

/// Decides about the share of a demand on a cluster, at a time in seconds.
pub fn loss(
    cluster: &ClusterState,
    demand: &Demand,
    failover: &Failover,
    suspicion: Option<&Suspicion>,
    now: i64,
) -> Loss {
    let name = &cluster.name;
    let held = |code, reason| Loss::Held { code, reason };
    if cluster.is_fenced {
        return Loss::Replaced;
    }
    let Readiness::NotReady { since, .. } = &cluster.readiness else { return Loss::Stays };
    if !failover.is_enabled {
        return Loss::Stays;
    }
    let at = since.saturating_add(failover.after);
    if now < at {
        return Loss::Until(at);
    }
    if cluster.is_paused || demand.is_paused {
        return held("Paused", format!("{name} is not ready, but a pause keeps its share there"));
    }
    if let Some(suspicion) = suspicion {
        return held(SUSPECT, suspicion.reason(name));
    }
    if demand.runs_once && !cluster.stops_itself {
        let reason = format!(
            "it must not run twice, and may still run on {name}; if nothing runs there any more: atoll cluster fence {name}"
        );
        return held("NotFenced", reason);
    }
    if demand.has_bound_claims && !demand.may_leave_volumes {
        let reason = format!(
            "its volumes are on {name} and would be empty elsewhere; declare a replica of the data, or accept that with \
             --accept-empty-volumes"
        );
        return held("VolumesStay", reason);
    }
    Loss::Replaced
}

/// Returns when a cluster may get its former shares back, in seconds; `None` if never.
pub fn returns_at(cluster: &ClusterState, failover: &Failover) -> Option<i64> {
    match &cluster.readiness {
        Readiness::Ready { since } if failover.returns => Some(since + failover.returns_after),
        _ => None,
    }
}

/// Returns the suspicion about all clusters of a fleet.
pub fn suspicion_of(fleet: &Fleet) -> Option<Suspicion> {
    suspicion(fleet.clusters())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(name: &str, since: Option<i64>) -> ClusterState {
        let readiness = match since {
            Some(since) => Readiness::NotReady { since, reason: "Unreachable".into() },
            None => Readiness::Ready { since: 0 },
        };
        ClusterState { name: name.into(), uid: name.into(), readiness, ..ClusterState::default() }
    }

    #[test]
    fn the_control_plane_suspects_itself_when_most_turn_together() {
        for (since, expected) in [
            (&[Some(0), None, None][..], None),
            (&[Some(0), Some(60), None], Some((2, 0))),
            (&[Some(0), Some(61), None], None),
            (&[Some(0), Some(10), None, None], None),
            (&[Some(0), Some(10), Some(20), None], Some((3, 0))),
            (&[Some(0), Some(100), Some(110), Some(120), None], Some((3, 100))),
            (&[Some(5)], None),
            (&[Some(5), Some(5)], Some((2, 5))),
            (&[], None),
        ] {
            let clusters: Vec<ClusterState> = since.iter().map(|since| cluster("a", *since)).collect();
            let found = suspicion(&clusters).map(|suspicion| (suspicion.turned, suspicion.since));
            assert_eq!(found, expected, "{since:?}");
        }
        // A fenced cluster is understood.
        let fenced = ClusterState { is_fenced: true, ..cluster("a", Some(0)) };
        assert_eq!(suspicion(&[fenced, cluster("b", Some(0))]), None);
    }

    #[test]
    fn late_clusters_may_turn_together_with_a_lost_one() {
        for (lost, others, late, now, expected) in [
            // One of three is lost, and one or two others are late.
            (100, &[None, None][..], &[][..], 115, false),
            (100, &[None, None], &["b"], 115, true),
            (100, &[None, None, None], &["b"], 115, false),
            (100, &[None, None, None], &["b", "c"], 115, true),
            // With one that has turned already.
            (100, &[Some(110), None, None], &["c"], 115, true),
            (100, &[Some(30), None, None], &["c"], 115, false),
            // Clusters that have turned are a suspicion by themselves.
            (100, &[Some(110), None], &["b"], 115, false),
            // Those that are late a minute later turn alone.
            (100, &[None], &["b"], 160, true),
            (100, &[None], &["b"], 161, false),
        ] {
            let first = cluster("a", Some(lost));
            let names = ["b", "c", "d"];
            let others = others.iter().zip(names).map(|(since, name)| cluster(name, *since));
            let all: Vec<ClusterState> = [first.clone()].into_iter().chain(others).collect();
            let is_late = |state: &ClusterState| late.contains(&&*state.name);
            assert_eq!(may_be_suspicion(&first, &all, is_late, now), expected, "{all:?} {late:?} {now}");
        }
        let fenced = ClusterState { is_fenced: true, ..cluster("a", Some(100)) };
        assert!(!may_be_suspicion(&fenced, &[fenced.clone(), cluster("b", None)], |_| true, 115));
    }

    #[test]
    fn the_rest_returns_soon_after_a_suspicion() {
        let ready =
            |at: i64| ClusterState { readiness: Readiness::Ready { since: at }, ..cluster("b", None) };
        let joined = |at: i64| ClusterState { registered: at - 10, ..ready(at) };
        let (lost, other) = (cluster("a", Some(1000)), || cluster("c", Some(1010)));
        for (others, expected) in [
            (vec![ready(500), ready(500)], None),
            (vec![ready(1200), ready(500)], Some(1200)),
            (vec![ready(1200), ready(500), ready(500)], None),
            (vec![ready(1200), other(), ready(500)], Some(1200)),
            (vec![ready(1200), ready(1300), other()], Some(1300)),
            (vec![joined(1200), ready(500)], None),
            // Independent of the age of the fleet.
            (vec![ClusterState { registered: 990, ..ready(1030) }, ready(500)], Some(1030)),
            (vec![other(), other()], None),
        ] {
            let all: Vec<ClusterState> = [lost.clone()].into_iter().chain(others).collect();
            assert_eq!(last_return(&lost, &all), expected, "{all:?}");
        }
    }

    #[test]
    fn lost_shares_are_replaced_after_their_time() {
        let lost = cluster("east", Some(100));
        let doubt = Suspicion { turned: 2, of: 3, since: 100 };
        let once = Demand { runs_once: true, ..Demand::default() };
        let claims = Demand { has_bound_claims: true, ..Demand::default() };
        let copied = Demand { may_leave_volumes: true, ..claims.clone() };
        let rules = Failover::default();
        let off = Failover { is_enabled: false, ..rules.clone() };
        let itself = ClusterState { stops_itself: true, ..lost.clone() };
        let fenced = ClusterState { is_fenced: true, ..lost.clone() };
        let ready = cluster("east", None);
        let plain = Demand::default();
        for (state, demand, rules, suspicion, now, expected) in [
            (&ready, &plain, &rules, None, 500, "stays"),
            (&lost, &plain, &rules, None, 114, "until 115"),
            (&lost, &plain, &rules, None, 115, "replaced"),
            (&lost, &plain, &off, None, 500, "stays"),
            (&lost, &plain, &rules, Some(&doubt), 500, "ControlPlaneSuspect"),
            (&fenced, &once, &rules, Some(&doubt), 500, "replaced"),
            (&lost, &once, &rules, None, 500, "NotFenced"),
            (&itself, &once, &rules, None, 500, "replaced"),
            (&lost, &claims, &rules, None, 500, "VolumesStay"),
            (&lost, &copied, &rules, None, 500, "replaced"),
        ] {
            let found = match loss(state, demand, rules, suspicion, now) {
                Loss::Stays => "stays".to_string(),
                Loss::Until(at) => format!("until {at}"),
                Loss::Replaced => "replaced".to_string(),
                Loss::Held { code, .. } => code.to_string(),
            };
            assert_eq!(found, expected, "{state:?} {now}");
        }
        assert_eq!(returns_at(&ready, &rules), Some(30));
        assert_eq!(returns_at(&lost, &rules), None);
    }
}
