//! Current usage of nodes and pods, for the embedding program.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use atoll_meta::object;

use crate::kubelet::Kubelet;
use crate::usage::Usage;

/// Usage data of a cluster that may not have started yet.
#[derive(Default)]
pub struct Measurements {
    kubelet: OnceLock<Weak<Kubelet>>,
}

/// Usage of the containers of a pod, or of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageSample {
    /// The time of the measurement, in seconds since 1970.
    pub at: i64,
    pub parts: Vec<(String, Usage)>,
}

impl Measurements {
    pub(crate) fn set_kubelet(&self, kubelet: &Arc<Kubelet>) {
        // A cluster starts only once.
        let _ = self.kubelet.set(Arc::downgrade(kubelet));
    }

    fn kubelet(&self) -> Option<Arc<Kubelet>> {
        self.kubelet.get().and_then(Weak::upgrade)
    }

    /// Returns the usage of a pod's containers, if any is running and its node is reachable.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<UsageSample> {
        let kubelet = self.kubelet()?;
        let running = kubelet.find(namespace, name)?;
        if kubelet.is_cut_off(&running.node) {
            return None;
        }
        let pod = running.pod();
        let parts: Vec<_> = pod.usage().map(|(name, _, meter)| (name.to_string(), meter.usage)).collect();
        (!parts.is_empty()).then(|| UsageSample { at: kubelet.now().seconds, parts })
    }

    /// Returns the usage of all reachable nodes, by name.
    pub fn nodes(&self) -> HashMap<String, UsageSample> {
        let Some(kubelet) = self.kubelet() else { return HashMap::new() };
        let nodes = kubelet.nodes();
        let own = nodes.iter().map(|node| (object::name(node).to_string(), Usage::of_node(node)));
        let mut sums: HashMap<String, Usage> = own.collect();
        for running in kubelet.pods_of(None) {
            let Some(sum) = sums.get_mut(&running.node) else { continue };
            for (_, _, meter) in running.pod().usage() {
                *sum += meter.usage;
            }
        }
        let at = kubelet.now().seconds;
        sums.into_iter()
            .map(|(name, sum)| (name, UsageSample { at, parts: vec![(String::new(), sum)] }))
            .collect()
    }
}
