//! The side of the autoscaler of a workload: the control plane, or the only cluster of the workload. Pure.

use atoll_fleet::autoscaling::{ABOVE, BELOW, PINNED, STOPPING};

/// The facts that decide about the side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Situation<'a> {
    /// The present side.
    pub side: &'a str,
    /// Whether an autoscaler exists that is not disabled by zero replicas.
    pub is_autoscaled: bool,
    /// Whether the rules place the workload on one cluster of its own workspace, and no autoscaler is to stay above.
    pub is_undivided: bool,
    /// Whether the user has fixed the number of replicas on each cluster.
    pub is_pinned: bool,
    /// Whether no reachable cluster has an autoscaler of it.
    pub is_clear: bool,
    /// Number of clusters to write next.
    pub clusters: usize,
    /// Whether the only cluster stays the only one, and nothing moves.
    pub stays: bool,
    /// Whether that cluster has as many replicas as its share, so that the autoscaler there begins with them.
    pub is_confirmed: bool,
    /// `spec.replicas` above.
    pub replicas: i64,
    /// Replicas that run, while an autoscaler in a cluster sets them.
    pub running: i64,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideStep {
    /// The placement may be written, with this side.
    Place(&'static str),
    /// The set of clusters does not change while the autoscaler leaves its cluster.
    Stop,
    /// `spec.replicas` is set to this number first.
    Scale(i64),
}

pub fn next(situation: &Situation<'_>) -> SideStep {
    let Situation { side, is_clear, clusters, replicas, running, .. } = *situation;
    let goes_below = situation.is_autoscaled && situation.is_undivided;
    match side {
        BELOW if goes_below && situation.stays => {
            return match replicas == running {
                true => SideStep::Place(BELOW),
                // The Deployment above shows the running replicas, as under any autoscaler.
                false => SideStep::Scale(running),
            };
        }
        BELOW => return SideStep::Stop,
        STOPPING if !is_clear => return SideStep::Stop,
        // Zero replicas were set by a user.
        STOPPING if replicas != running && replicas > 0 => return SideStep::Scale(running),
        _ => {}
    }
    let is_above = side == ABOVE && is_clear;
    SideStep::Place(match () {
        () if !situation.is_autoscaled || clusters == 0 => "",
        () if situation.is_pinned => PINNED,
        () if goes_below && clusters == 1 => match situation.stays && situation.is_confirmed {
            true => BELOW,
            false if is_above => ABOVE,
            false => "",
        },
        () if is_clear => ABOVE,
        () => "",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An autoscaled workload of two replicas that is on one cluster and stays there.
    fn undivided(side: &str) -> Situation<'_> {
        Situation {
            side,
            is_autoscaled: true,
            is_undivided: true,
            is_pinned: false,
            is_clear: true,
            clusters: 1,
            stays: true,
            is_confirmed: true,
            replicas: 2,
            running: 2,
        }
    }

    fn divided(side: &str) -> Situation<'_> {
        Situation { is_undivided: false, clusters: 2, stays: false, ..undivided(side) }
    }

    #[test]
    fn one_side_acts_at_a_time() {
        let moving = |side| Situation { clusters: 2, stays: false, ..undivided(side) };
        let on_cluster = |situation| Situation { is_clear: false, ..situation };
        let grown = |situation| Situation { running: 8, ..situation };
        let disabled = |situation| Situation { is_autoscaled: false, replicas: 0, ..situation };
        let pinned = |situation| Situation { is_undivided: false, is_pinned: true, ..situation };
        let nowhere = |side| Situation { clusters: 0, stays: false, ..undivided(side) };
        for (situation, expected) in [
            // An autoscaler of an undivided workload acts below once the replicas are there.
            (undivided(""), SideStep::Place(BELOW)),
            (Situation { is_confirmed: false, ..undivided("") }, SideStep::Place("")),
            (on_cluster(undivided(BELOW)), SideStep::Place(BELOW)),
            (grown(on_cluster(undivided(BELOW))), SideStep::Scale(8)),
            // An autoscaler of a divided workload stays above.
            (divided(""), SideStep::Place(ABOVE)),
            (divided(ABOVE), SideStep::Place(ABOVE)),
            (on_cluster(divided("")), SideStep::Place("")),
            (on_cluster(divided(ABOVE)), SideStep::Place("")),
            (Situation { clusters: 1, stays: true, ..divided(ABOVE) }, SideStep::Place(ABOVE)),
            // It returns above in steps: it leaves the cluster, the replicas are set, and only then anything
            // moves.
            (on_cluster(divided(BELOW)), SideStep::Stop),
            (divided(BELOW), SideStep::Stop),
            (grown(on_cluster(divided(STOPPING))), SideStep::Stop),
            (grown(divided(STOPPING)), SideStep::Scale(8)),
            (divided(STOPPING), SideStep::Place(ABOVE)),
            // A move takes the same steps, and the autoscaler acts below again afterwards.
            (on_cluster(moving(BELOW)), SideStep::Stop),
            (grown(moving(STOPPING)), SideStep::Scale(8)),
            (moving(STOPPING), SideStep::Place(ABOVE)),
            (moving(ABOVE), SideStep::Place(ABOVE)),
            (Situation { is_confirmed: false, ..undivided(ABOVE) }, SideStep::Place(ABOVE)),
            (undivided(ABOVE), SideStep::Place(BELOW)),
            (undivided(STOPPING), SideStep::Place(BELOW)),
            // Without an autoscaler, the running replicas stay; zero was set by a user.
            (Situation { is_autoscaled: false, ..grown(undivided(BELOW)) }, SideStep::Stop),
            (Situation { is_autoscaled: false, ..grown(undivided(STOPPING)) }, SideStep::Scale(8)),
            (Situation { is_autoscaled: false, ..undivided(STOPPING) }, SideStep::Place("")),
            (disabled(grown(undivided(BELOW))), SideStep::Stop),
            (disabled(grown(undivided(STOPPING))), SideStep::Place("")),
            (disabled(divided(ABOVE)), SideStep::Place("")),
            (nowhere(ABOVE), SideStep::Place("")),
            // Pinned replicas are not scaled.
            (pinned(undivided("")), SideStep::Place(PINNED)),
            (pinned(divided(ABOVE)), SideStep::Place(PINNED)),
            (pinned(on_cluster(undivided(BELOW))), SideStep::Stop),
            (pinned(grown(undivided(STOPPING))), SideStep::Scale(8)),
            (pinned(undivided(STOPPING)), SideStep::Place(PINNED)),
            (Situation { is_autoscaled: false, ..pinned(undivided(PINNED)) }, SideStep::Place("")),
            (undivided(PINNED), SideStep::Place(BELOW)),
            (divided(PINNED), SideStep::Place(ABOVE)),
        ] {
            assert_eq!(next(&situation), expected, "{situation:?}");
        }
    }

    #[test]
    fn no_cluster_changes_while_an_autoscaler_is_below() {
        for bits in 0..1024_u32 {
            let is = |bit: u32| bits & (1 << bit) != 0;
            for side in ["", BELOW, STOPPING, ABOVE, PINNED] {
                let situation = Situation {
                    side,
                    is_autoscaled: is(0),
                    is_undivided: is(1) && !is(9),
                    is_pinned: is(9),
                    is_clear: is(2),
                    clusters: usize::from(is(3)) + usize::from(is(4)),
                    stays: is(5) && is(3) != is(4),
                    is_confirmed: is(6),
                    replicas: i64::from(is(7)),
                    running: 1 + i64::from(is(8)),
                };
                match next(&situation) {
                    // An autoscaler never acts below and above at the same time.
                    SideStep::Place(ABOVE) => {
                        assert!(situation.is_clear && side != BELOW && !is(9), "{situation:?}");
                    }
                    SideStep::Place(BELOW) => {
                        assert!(situation.stays && situation.clusters == 1, "{situation:?}")
                    }
                    SideStep::Place(_) => assert!(side != BELOW, "{situation:?}"),
                    SideStep::Stop | SideStep::Scale(_) => {
                        assert!(side == BELOW || side == STOPPING, "{situation:?}");
                    }
                }
            }
        }
    }
}
