//! What nodes and pods use just now, for those who ask from outside.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use atoll_meta::object;

use crate::kubelet::Kubelet;
use crate::usage::Usage;

/// Of a cluster that may not have begun yet.
#[derive(Default)]
pub struct Measurements {
    kubelet: OnceLock<Weak<Kubelet>>,
}

/// What the parts of something use: containers of a pod, or all of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// When that was, in seconds since 1970.
    pub at: i64,
    pub parts: Vec<(String, Usage)>,
}

impl Measurements {
    pub(crate) fn begin(&self, kubelet: &Arc<Kubelet>) {
        // A cluster begins once.
        let _ = self.kubelet.set(Arc::downgrade(kubelet));
    }

    fn kubelet(&self) -> Option<Arc<Kubelet>> {
        self.kubelet.get().and_then(Weak::upgrade)
    }

    /// What the containers of a pod use, if any runs and its node can be asked.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<Measured> {
        let kubelet = self.kubelet()?;
        let running = kubelet.find(namespace, name)?;
        if kubelet.is_cut_off(&running.node) {
            return None;
        }
        let pod = running.pod();
        let parts: Vec<_> = pod.usage().map(|(name, _, meter)| (name.to_string(), meter.usage)).collect();
        (!parts.is_empty()).then(|| Measured { at: kubelet.now().seconds, parts })
    }

    /// What the nodes use that can be asked, by their names.
    pub fn nodes(&self) -> HashMap<String, Measured> {
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
            .map(|(name, sum)| (name, Measured { at, parts: vec![(String::new(), sum)] }))
            .collect()
    }
}
