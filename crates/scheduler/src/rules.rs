//! Translates the winning intent of an object to the rules of a decision.

use std::collections::BTreeSet;

use atoll_fleet::placed_by;
use atoll_meta::views::TolerationView;
use atoll_placement::intent::{Amount, Intent, IntentSource};
use atoll_placement::node::Toleration;
use atoll_placement::policy::{self, ClusterTerm, Domain, Mode, Policy, Reaction, WeightedClusters};
use atoll_placement::rules::{ClusterFilter, Division, Failover, MoveBudget, Rules, Spread, Topology};

/// Returns the rules for an object with this annotation and policy, if it has any. `runs_once` is whether each
/// of several clusters would do all of its work.
pub fn rules(intent: Option<&(Intent, IntentSource)>, policy: Option<&Policy>, runs_once: bool) -> Rules {
    let rules = policy.map_or_else(Rules::by_default, of_policy);
    match intent {
        Some((intent, source)) => with_intent(rules, intent, *source, policy, runs_once),
        None => rules,
    }
}

fn of_policy(policy: &Policy) -> Rules {
    let tolerations = policy.clusters.tolerations.iter();
    let mut rules = Rules {
        by: policy.reference().into(),
        clusters: ClusterFilter {
            except: policy.clusters.exclude.iter().cloned().collect(),
            ..filter(&policy.clusters.filter)
        },
        terms: policy.clusters.affinity.iter().map(filter).collect(),
        tolerations: tolerations.filter_map(|one| Toleration::of(TolerationView::of(one))).collect(),
        division: division(policy),
        min_clusters: policy.bounds.min_clusters,
        max_clusters: policy.bounds.max_clusters,
        min_replicas: policy.bounds.min_replicas,
        max_replicas: policy.bounds.max_replicas,
        failover: failover(policy.failover, policy.failback),
        moves: MoveBudget::default(),
        rollout: policy.rollout,
        rollout_deadline: policy
            .rollout_deadline
            .map(|deadline| i64::try_from(deadline.as_secs()).unwrap_or(i64::MAX)),
        ..Rules::default()
    };
    for spread in &policy.spread {
        match topology(&spread.by) {
            Some(by) => rules.spread.push(Spread {
                by,
                min_domains: spread.min_domains,
                max_domains: spread.max_domains,
                max_skew: spread.max_skew,
            }),
            // Every cluster is a domain.
            None => {
                rules.min_clusters = rules.min_clusters.max(spread.min_domains);
                rules.max_clusters = least(rules.max_clusters, spread.max_domains);
                rules.max_skew = least(rules.max_skew, spread.max_skew);
            }
        }
    }
    rules
}

fn least(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    one.into_iter().chain(other).min()
}

fn filter(term: &ClusterTerm) -> ClusterFilter {
    ClusterFilter {
        names: term.names.iter().cloned().collect(),
        selector: term.selector.clone(),
        ..ClusterFilter::default()
    }
}

/// Returns the topology of a policy field; `None` if each cluster is a domain of its own.
pub fn topology(domain: &Domain) -> Option<Topology> {
    match domain {
        Domain::Cluster => None,
        Domain::Region => Some(Topology::Region),
        Domain::Zone => Some(Topology::Zone),
        Domain::Provider => Some(Topology::Provider),
        Domain::Label(key) => Some(Topology::Label(key.clone())),
    }
}

fn division(policy: &Policy) -> Division {
    match policy.replicas.division() {
        policy::Division::Single => Division::Single,
        policy::Division::Duplicate => Division::Duplicate,
        policy::Division::Even => Division::Even,
        policy::Division::Weighted => Division::Weighted(weights(policy)),
        policy::Division::Capacity => Division::Capacity,
        policy::Division::Pack => Division::Pack,
        policy::Division::None => Division::Nowhere,
    }
}

/// Returns the weights of a policy; names have precedence over selectors.
fn weights(policy: &Policy) -> Vec<(ClusterFilter, i64)> {
    let rows = policy.replicas.weights.iter();
    let by_name = rows.clone().filter_map(|row| match &row.clusters {
        WeightedClusters::Name(name) => Some((ClusterFilter::named([name.as_str()]), row.weight)),
        WeightedClusters::Selector(_) => None,
    });
    let by_labels = rows.clone().filter_map(|row| match &row.clusters {
        WeightedClusters::Selector(selector) => {
            Some((ClusterFilter { selector: Some(selector.clone()), ..ClusterFilter::default() }, row.weight))
        }
        WeightedClusters::Name(_) => None,
    });
    by_name.chain(by_labels).collect()
}

fn failover(lost: Reaction, returned: Reaction) -> Failover {
    let seconds = |reaction: Reaction| i64::try_from(reaction.after.as_secs()).unwrap_or(i64::MAX);
    Failover {
        is_enabled: lost.mode == Mode::Automatic,
        after: seconds(lost),
        returns: returned.mode == Mode::Automatic,
        returns_after: seconds(returned),
    }
}

/// Replaces the choice of clusters by that of an annotation. The annotation was checked against the policy when
/// it was written, and may have been allowed to go beyond it, so the other rules of the policy do not choose
/// clusters.
fn with_intent(
    rules: Rules,
    intent: &Intent,
    source: IntentSource,
    policy: Option<&Policy>,
    runs_once: bool,
) -> Rules {
    let by = match source {
        IntentSource::Object => placed_by::ANNOTATION,
        IntentSource::Namespace => placed_by::NAMESPACE_ANNOTATION,
        IntentSource::Label => placed_by::LABEL,
    };
    let names: BTreeSet<String> = intent.clusters().map(str::to_string).collect();
    // Each cluster that a label names runs all replicas, regardless of policies.
    let given = policy.and_then(|policy| policy.replicas.division).filter(|_| source != IntentSource::Label);
    let division = match given {
        _ if intent.is_none() => Division::Nowhere,
        _ if intent.is_duplicate() => Division::Duplicate,
        given if has_no_amounts(intent) => match given.filter(|given| *given != policy::Division::None) {
            Some(_) => rules.division.clone(),
            // Without a division, each cluster runs all replicas, unless the work would then be done twice.
            None if names.len() > 1 && !runs_once => Division::Duplicate,
            None => Division::Single,
        },
        _ if intent.is_pinned() => Division::Pinned(pins(intent)),
        _ => Division::Weighted(intent.parts.iter().filter_map(weight).collect()),
    };
    Rules {
        by: by.into(),
        clusters: ClusterFilter { names, ..ClusterFilter::default() },
        tolerations: rules.tolerations,
        division,
        names_clusters: true,
        failover: rules.failover,
        moves: rules.moves,
        rollout: rules.rollout,
        rollout_deadline: rules.rollout_deadline,
        ..Rules::default()
    }
}

/// The clusters with an exact number of replicas.
pub fn pins(intent: &Intent) -> Vec<(String, i64)> {
    intent.pins().map(|(name, count)| (name.to_string(), count)).collect()
}

fn has_no_amounts(intent: &Intent) -> bool {
    intent.parts.iter().all(|part| matches!(part.amount, Amount::Unset))
}

fn weight(part: &atoll_placement::intent::Part) -> Option<(ClusterFilter, i64)> {
    let weight = match part.amount {
        Amount::Weight(weight) => weight,
        Amount::Unset => 1,
        Amount::Pin(_) | Amount::All => return None,
    };
    Some((ClusterFilter::named([part.cluster.as_str()]), weight))
}

#[cfg(test)]
mod tests;
