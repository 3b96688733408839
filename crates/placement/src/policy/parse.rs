//! Reads policies from JSON.

mod reader;

use std::time::Duration;

use atoll_meta::{FieldError, FieldPath, names, object, time};
use serde_json::Value;

use self::reader::{Field, MAX_NAMES, PolicyReader};
use super::{
    Amount, Bounds, ClusterRule, ClusterTerm, Division, Domain, Mode, ObjectRule, Policy, PolicyKind,
    Reaction, ReplicaRule, SpreadRule, Strategy, WeightRule, WeightedClusters, WorkloadRule,
};

/// Maximum length of every list of a policy.
const MAX_ITEMS: usize = 100;
/// Maximum number of rules about other workloads, which are compared with all workloads of the namespace.
const MAX_WORKLOAD_RULES: usize = 16;
/// Maximum time of a reaction, in nanoseconds: 30 days.
const MAX_AFTER: i64 = 30 * 86_400 * 1_000_000_000;

impl Policy {
    /// Reads a policy.
    ///
    /// # Errors
    ///
    /// Returns an error for each invalid field.
    pub fn parse(policy: &Value) -> Result<Policy, Vec<FieldError>> {
        let kind = PolicyKind::parse(object::kind(policy)).unwrap_or(PolicyKind::PlacementPolicy);
        let mut reader = PolicyReader::default();
        let parsed = reader.policy(kind, policy);
        reader.check_together(&parsed);
        if reader.errors.is_empty() { Ok(parsed) } else { Err(reader.errors) }
    }
}

impl PolicyReader {
    fn policy(&mut self, kind: PolicyKind, policy: &Value) -> Policy {
        let spec = Field { value: &policy["spec"], path: FieldPath::new("spec") };
        let namespaces = spec.child("namespaceSelector");
        if kind == PolicyKind::PlacementPolicy && namespaces.is_set() {
            let why = "a PlacementPolicy applies to its own namespace; use a ClusterPlacementPolicy to select namespaces";
            self.errors.push(FieldError::forbidden(&namespaces.path, why));
        }
        let disruption = spec.child("disruption");
        let rollout = spec.child("rollout");
        Policy {
            kind,
            namespace: object::namespace(policy).to_string(),
            name: object::name(policy).to_string(),
            uid: object::uid(policy).to_string(),
            created: object::creation_timestamp(policy).unwrap_or_default().to_string(),
            generation: object::generation(policy),
            distance: 0,
            objects: self
                .list(&spec.child("objects"), MAX_ITEMS)
                .iter()
                .map(|rule| self.object(rule))
                .collect(),
            namespaces: self.selector(&namespaces).unwrap_or_default(),
            clusters: self.clusters(&spec.child("clusters")),
            replicas: self.replicas(&spec.child("replicas")),
            bounds: self.bounds(&spec.child("bounds")),
            spread: self.spread(&spec.child("spread")),
            affinity: self.workloads(&spec.child("affinity")),
            anti_affinity: self.workloads(&spec.child("antiAffinity")),
            failover: self.reaction(&spec.child("failover"), Reaction::FAILOVER),
            failback: self.reaction(&spec.child("failback"), Reaction::FAILBACK),
            max_moving: self.amount(&disruption.child("maxMoving")),
            rollout: self
                .word(&rollout.child("strategy"), Strategy::NAMES, Strategy::parse)
                .unwrap_or(Strategy::AllAtOnce),
            rollout_deadline: self.duration(&rollout.child("deadline")),
        }
    }

    fn object(&mut self, field: &Field<'_>) -> ObjectRule {
        // The core group has an empty name, which is not the same as no group.
        let group = field.child("group");
        ObjectRule {
            group: match group.value.as_str() {
                Some("") => Some(String::new()),
                _ => self.checked_text(&group, names::dns1123_subdomain),
            },
            kind: self.text(&field.child("kind")).map(str::to_string),
            name: self.checked_text(&field.child("name"), names::path_segment_name),
            selector: self.selector(&field.child("selector")),
        }
    }

    fn clusters(&mut self, field: &Field<'_>) -> ClusterRule {
        let affinity = field.child("affinity");
        let mut terms = Vec::new();
        for item in self.list(&affinity, MAX_ITEMS) {
            let term = self.cluster_term(&item);
            if term.is_empty() && !item.child("selector").is_set() && !item.child("names").is_set() {
                self.errors.push(FieldError::required(&item.path, "must have a selector or names"));
            }
            terms.push(term);
        }
        let filter = self.cluster_term(field);
        let exclude = self.names(&field.child("exclude"));
        for (index, name) in exclude.iter().enumerate() {
            if filter.names.contains(name) {
                let path = field.path.child("exclude").index(index);
                self.errors.push(FieldError::invalid(&path, name.as_str(), "is also in clusters.names"));
            }
        }
        let tolerations = self.list(&field.child("tolerations"), MAX_ITEMS);
        for toleration in &tolerations {
            self.toleration(toleration);
        }
        let tolerations = tolerations.iter().map(|toleration| toleration.value.clone()).collect();
        ClusterRule { filter, exclude, affinity: terms, tolerations }
    }

    fn cluster_term(&mut self, field: &Field<'_>) -> ClusterTerm {
        ClusterTerm {
            selector: self.selector(&field.child("selector")),
            names: self.names(&field.child("names")),
        }
    }

    fn toleration(&mut self, field: &Field<'_>) {
        const OPERATORS: [&str; 2] = ["Equal", "Exists"];
        const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "PreferNoSchedule"];
        let known = |names: &[&'static str], text: &str| names.iter().find(|name| **name == text).copied();
        let (operator, value) = (field.child("operator"), field.child("value"));
        let key = self.checked_text(&field.child("key"), names::qualified_name);
        let operator = match self.text(&operator) {
            None => "Equal",
            Some(text) => known(&OPERATORS, text).unwrap_or_else(|| {
                self.errors.push(FieldError::not_supported(&operator.path, text, &OPERATORS));
                "Exists"
            }),
        };
        let effect = field.child("effect");
        if let Some(text) = self.text(&effect)
            && known(&EFFECTS, text).is_none()
        {
            self.errors.push(FieldError::not_supported(&effect.path, text, &EFFECTS));
        }
        let has_value = self.checked_text(&value, names::label_value).is_some();
        if key.is_none() && operator == "Equal" {
            let why =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            self.invalid(&field.child("operator"), why);
        }
        if has_value && operator == "Exists" {
            self.invalid(&value, "value must be empty when `operator` is 'Exists'");
        }
    }

    fn replicas(&mut self, field: &Field<'_>) -> ReplicaRule {
        let division = self.word(&field.child("division"), Division::NAMES, Division::parse);
        let list = field.child("weights");
        let mut weights: Vec<WeightRule> = Vec::new();
        for item in self.list(&list, MAX_NAMES) {
            let (name, selector) = (item.child("cluster"), item.child("selector"));
            let clusters = match (self.checked_text(&name, names::dns1123_label), selector.is_set()) {
                (Some(name), false) => Some(WeightedClusters::Name(name)),
                (None, true) => self.selector(&selector).map(WeightedClusters::Selector),
                _ => {
                    let why = "must have either cluster or selector";
                    self.errors.push(FieldError::invalid(&item.path, item.value.clone(), why));
                    None
                }
            };
            let weight = item.child("weight");
            if !weight.is_set() {
                self.errors.push(FieldError::required(&weight.path, ""));
            }
            let Some((clusters, weight)) = clusters.zip(self.number(&weight, 0)) else { continue };
            if let WeightedClusters::Name(of) = &clusters
                && weights.iter().any(|other| other.clusters == clusters)
            {
                self.errors.push(FieldError::duplicate(&name.path, of.as_str()));
            }
            weights.push(WeightRule { clusters, weight });
        }
        let is_weighted = division == Some(Division::Weighted);
        if is_weighted && list.value.as_array().is_none_or(Vec::is_empty) {
            self.errors.push(FieldError::required(&list.path, "the division Weighted needs weights"));
        } else if is_weighted && !weights.is_empty() && weights.iter().all(|rule| rule.weight == 0) {
            self.invalid(&list, "at least one weight must be greater than 0");
        } else if !is_weighted && list.value.as_array().is_some_and(|items| !items.is_empty()) {
            self.errors.push(FieldError::forbidden(&list.path, "only the division Weighted has weights"));
        }
        ReplicaRule { division, weights }
    }

    fn bounds(&mut self, field: &Field<'_>) -> Bounds {
        let bounds = Bounds {
            min_clusters: self.number(&field.child("minClusters"), 1),
            max_clusters: self.number(&field.child("maxClusters"), 1),
            min_replicas: self.number(&field.child("minReplicas"), 0),
            max_replicas: self.number(&field.child("maxReplicas"), 1),
        };
        self.order(field, ("minClusters", bounds.min_clusters), ("maxClusters", bounds.max_clusters));
        self.order(field, ("minReplicas", bounds.min_replicas), ("maxReplicas", bounds.max_replicas));
        bounds
    }

    /// Reports a minimum that is greater than the maximum.
    fn order(
        &mut self,
        field: &Field<'_>,
        least: (&'static str, Option<i64>),
        most: (&'static str, Option<i64>),
    ) {
        if let (Some(low), Some(high)) = (least.1, most.1)
            && low > high
        {
            let why = format!("must not be greater than {}, which is {high}", most.0);
            self.invalid(&field.child(least.0), why);
        }
    }

    /// Reads `by`, a word or the key of a label.
    fn domain(&mut self, field: &Field<'_>) -> Option<Domain> {
        let domain = Domain::parse(self.text(field)?);
        if let Domain::Label(key) = &domain {
            for why in names::qualified_name(key) {
                let why = format!("must be cluster, region, zone, provider or the key of a label: {why}");
                self.invalid(field, why);
            }
        }
        Some(domain)
    }

    fn spread(&mut self, field: &Field<'_>) -> Vec<SpreadRule> {
        let mut found: Vec<SpreadRule> = Vec::new();
        for item in self.list(field, MAX_ITEMS) {
            let by = item.child("by");
            let Some(domain) = self.domain(&by) else {
                if by.value.as_str().is_none_or(str::is_empty) {
                    self.errors.push(FieldError::required(
                        &by.path,
                        "must be region, zone, provider or the key of a label",
                    ));
                }
                continue;
            };
            if found.iter().any(|other| other.by == domain) {
                self.errors.push(FieldError::duplicate(&by.path, domain.name()));
            }
            let rule = SpreadRule {
                by: domain,
                min_domains: self.number(&item.child("minDomains"), 1),
                max_domains: self.number(&item.child("maxDomains"), 1),
                max_skew: self.number(&item.child("maxSkew"), 1),
            };
            self.order(&item, ("minDomains", rule.min_domains), ("maxDomains", rule.max_domains));
            if ["minDomains", "maxDomains", "maxSkew"].iter().all(|name| !item.child(name).is_set()) {
                let why = "must have minDomains, maxDomains or maxSkew";
                self.errors.push(FieldError::required(&item.path, why));
            }
            found.push(rule);
        }
        found
    }

    fn workloads(&mut self, field: &Field<'_>) -> Vec<WorkloadRule> {
        let mut found = Vec::new();
        for item in self.list(field, MAX_WORKLOAD_RULES) {
            let selector = item.child("selector");
            if !selector.is_set() {
                let why = "must select the other workloads; {} selects all of the namespace";
                self.errors.push(FieldError::required(&selector.path, why));
            }
            found.push(WorkloadRule {
                kind: self.text(&item.child("kind")).map(str::to_string),
                selector: self.selector(&selector).unwrap_or_default(),
                by: self.domain(&item.child("by")).unwrap_or(Domain::Cluster),
            });
        }
        found
    }

    fn reaction(&mut self, field: &Field<'_>, usual: Reaction) -> Reaction {
        let after = self.duration(&field.child("after"));
        Reaction {
            mode: self.word(&field.child("mode"), Mode::NAMES, Mode::parse).unwrap_or(usual.mode),
            after: after.unwrap_or(usual.after),
        }
    }

    fn duration(&mut self, field: &Field<'_>) -> Option<Duration> {
        match time::explain_duration(self.text(field)?) {
            Ok(nanos) if (0..=MAX_AFTER).contains(&nanos) => {
                u64::try_from(nanos).ok().map(Duration::from_nanos)
            }
            Ok(_) => {
                self.invalid(field, "must be between 0s and 720h");
                None
            }
            Err(why) => {
                self.invalid(field, format!("must be a duration such as 15s or 5m: {why}"));
                None
            }
        }
    }

    fn amount(&mut self, field: &Field<'_>) -> Option<Amount> {
        let Value::String(text) = field.value else { return self.number(field, 0).map(Amount::Number) };
        let percent = text.strip_suffix('%').and_then(|digits| digits.parse().ok());
        let percent =
            percent.filter(|percent| (0..=100).contains(percent) && names::percent(text).is_empty());
        if percent.is_none() {
            self.invalid(field, "must be an integer or a percentage such as 25%");
        }
        percent.map(Amount::Percent)
    }

    /// Reports fields that contradict each other.
    fn check_together(&mut self, policy: &Policy) {
        let spec = FieldPath::new("spec");
        let single = match policy.replicas.division {
            Some(Division::Single) => "the division Single uses one cluster",
            None => "without a division an object runs on one cluster; set replicas.division",
            _ => return,
        };
        if let Some(clusters) = policy.bounds.min_clusters.filter(|clusters| *clusters > 1) {
            let path = spec.child("bounds").child("minClusters");
            self.errors.push(FieldError::invalid(&path, clusters, single));
        }
        for (index, rule) in policy.spread.iter().enumerate() {
            if let Some(domains) = rule.min_domains.filter(|domains| *domains > 1) {
                let path = spec.child("spread").index(index).child("minDomains");
                self.errors.push(FieldError::invalid(&path, domains, single));
            }
        }
    }
}
