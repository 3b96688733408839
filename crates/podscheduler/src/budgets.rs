//! PodDisruptionBudgets, which preemption respects where possible.

// upstream: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use atoll_meta::{LabelSelector, object};
use serde_json::Value;

use crate::pod::Pod;

#[derive(Debug)]
struct Budget {
    selector: LabelSelector,
    allowed: i64,
    /// Pods whose disruption is already counted.
    disrupted: HashSet<Box<str>>,
}

/// The PodDisruptionBudgets of a cluster.
#[derive(Debug, Default)]
pub struct Budgets(HashMap<Arc<str>, HashMap<Box<str>, Budget>>);

impl Budgets {
    pub fn set(&mut self, budget: &Value) {
        let Ok(selector) = LabelSelector::from_object(&budget["spec"]["selector"]) else { return };
        let disrupted = budget["status"]["disruptedPods"].as_object().into_iter().flatten();
        let compiled = Budget {
            selector,
            allowed: budget["status"]["disruptionsAllowed"].as_i64().unwrap_or_default(),
            disrupted: disrupted.map(|(name, _)| name.as_str().into()).collect(),
        };
        let budgets = self.0.entry(object::namespace(budget).into()).or_default();
        budgets.insert(object::name(budget).into(), compiled);
    }

    pub fn remove(&mut self, namespace: &str, name: &str) {
        if let Some(budgets) = self.0.get_mut(namespace) {
            budgets.remove(name);
            if budgets.is_empty() {
                self.0.remove(namespace);
            }
        }
    }

    /// Returns which of the Pods would violate a budget if all were evicted in this order.
    pub fn violated(&self, pods: &[Arc<Pod>]) -> Vec<bool> {
        let mut taken: HashMap<(&str, &str), i64> = HashMap::new();
        let mut violated = Vec::with_capacity(pods.len());
        for pod in pods {
            let mut violates = false;
            let budgets = self.0.get(pod.namespace()).filter(|_| !pod.class.labels.is_empty());
            for (name, budget) in budgets.into_iter().flatten() {
                let is_meant = !budget.selector.is_empty() && pod.class.labels.selected_by(&budget.selector);
                if !is_meant || budget.disrupted.contains(&*pod.name) {
                    continue;
                }
                let taken = taken.entry((pod.namespace(), name)).or_default();
                *taken += 1;
                violates |= *taken > budget.allowed;
            }
            violated.push(violates);
        }
        violated
    }
}
