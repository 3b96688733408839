//! The limits that a policy sets to intents.

use std::collections::BTreeSet;
use std::fmt;

use atoll_meta::object;
use serde_json::Value;

use super::{Division, Domain, Policy};
use crate::intent::{Amount, Intent};

/// Something that an intent asks for and a policy does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Excess {
    /// The policy keeps the object in the control plane.
    StaysAbove,
    /// The policy does not allow this cluster.
    Cluster(String),
    /// The number of clusters, and the least or most that is allowed.
    TooFewClusters(usize, i64),
    TooManyClusters(usize, i64),
    /// A cluster, its exact number of replicas, and the least or most that is allowed.
    TooFewReplicas(String, i64, i64),
    TooManyReplicas(String, i64, i64),
    /// The number of domains, and the least or most that is allowed.
    TooFewDomains(Domain, usize, i64),
    TooManyDomains(Domain, usize, i64),
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Excess::StaysAbove => f.write_str("it keeps the object in the control plane"),
            Excess::Cluster(cluster) => write!(f, "it does not allow the cluster {cluster}"),
            Excess::TooFewClusters(count, least) => {
                write!(f, "it requires at least {least} clusters, not {count}")
            }
            Excess::TooManyClusters(count, most) => {
                write!(f, "it allows at most {}, not {count}", counted(*most, "cluster"))
            }
            Excess::TooFewReplicas(cluster, count, least) => {
                write!(
                    f,
                    "it requires at least {} on a cluster, not {count} on {cluster}",
                    counted(*least, "replica")
                )
            }
            Excess::TooManyReplicas(cluster, count, most) => {
                write!(
                    f,
                    "it allows at most {} on a cluster, not {count} on {cluster}",
                    counted(*most, "replica")
                )
            }
            Excess::TooFewDomains(by, count, least) => {
                write!(f, "it requires at least {least} different values of {}, not {count}", by.name())
            }
            Excess::TooManyDomains(by, count, most) => {
                write!(f, "it allows at most {} of {}, not {count}", counted(*most, "value"), by.name())
            }
        }
    }
}

fn counted(count: i64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

impl Policy {
    /// Returns everything in an intent that the policy does not allow. `clusters` are the Clusters in reach;
    /// names that are not among them can be checked by name only, and not by labels. To stay in the control
    /// plane is always allowed. A division is no limit, except for `None` and `Single`: an intent replaces it.
    pub fn check_intent(&self, intent: &Intent, clusters: &[&Value]) -> Vec<Excess> {
        if intent.is_none() {
            return Vec::new();
        }
        if self.keeps_above() {
            return vec![Excess::StaysAbove];
        }
        let find = |name: &str| clusters.iter().find(|cluster| object::name(cluster) == name);
        let is_allowed = |name: &&str| match find(name) {
            Some(cluster) => self.clusters.allows(name, &object::label_map(cluster)),
            None => self.may_allow(name),
        };
        let refused = intent.clusters().filter(|name| !is_allowed(name));
        let mut found: Vec<Excess> = refused.map(|name| Excess::Cluster(name.to_string())).collect();

        // A cluster with no part of the replicas counts, because the object is there all the same.
        let count = intent.parts.len();
        let bounds = self.bounds;
        let is_single = self.replicas.division == Some(Division::Single);
        let most = if is_single { Some(1) } else { bounds.max_clusters };
        found.extend(beyond(
            count,
            bounds.min_clusters,
            most,
            Excess::TooFewClusters,
            Excess::TooManyClusters,
        ));
        for part in &intent.parts {
            let Amount::Pin(replicas) = part.amount else { continue };
            let name = || part.cluster.clone();
            match (bounds.min_replicas, bounds.max_replicas) {
                (Some(least), _) if replicas < least => {
                    found.push(Excess::TooFewReplicas(name(), replicas, least));
                }
                (_, Some(most)) if replicas > most => {
                    found.push(Excess::TooManyReplicas(name(), replicas, most))
                }
                _ => {}
            }
        }
        let known: Vec<&&Value> = intent.clusters().filter_map(find).collect();
        for rule in self.spread.iter().filter(|_| known.len() == count) {
            let domains: BTreeSet<_> = known.iter().filter_map(|cluster| rule.by.of(cluster)).collect();
            let few = |count, least| Excess::TooFewDomains(rule.by.clone(), count, least);
            let many = |count, most| Excess::TooManyDomains(rule.by.clone(), count, most);
            found.extend(beyond(domains.len(), rule.min_domains, rule.max_domains, few, many));
        }
        found
    }

    /// Whether a cluster with this name and some labels could be allowed.
    fn may_allow(&self, name: &str) -> bool {
        let rule = &self.clusters;
        let may = |names: &[String]| names.is_empty() || names.iter().any(|known| known == name);
        !rule.exclude.iter().any(|excluded| excluded == name)
            && may(&rule.filter.names)
            && (rule.affinity.is_empty() || rule.affinity.iter().any(|term| may(&term.names)))
    }
}

fn beyond(
    count: usize,
    least: Option<i64>,
    most: Option<i64>,
    too_few: impl Fn(usize, i64) -> Excess,
    too_many: impl Fn(usize, i64) -> Excess,
) -> Option<Excess> {
    let number = i64::try_from(count).unwrap_or(i64::MAX);
    match (least, most) {
        (Some(least), _) if number < least => Some(too_few(count, least)),
        (_, Some(most)) if number > most => Some(too_many(count, most)),
        _ => None,
    }
}
