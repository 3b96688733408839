//! Resource usage of simulated nodes and pods, for the metrics API.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use atoll_server::usage::{Measured, Part, Usage};
use atoll_sim::Measurements;

/// Usage changes less often, but a short window makes it available immediately.
const WINDOW: Duration = Duration::from_secs(1);

pub struct Meter {
    measurements: Arc<Measurements>,
}

impl Meter {
    pub fn new(measurements: Arc<Measurements>) -> Self {
        Meter { measurements }
    }
}

impl Usage for Meter {
    fn nodes(&self) -> HashMap<String, Measured> {
        let nodes = self.measurements.nodes();
        nodes.into_iter().map(|(name, measured)| (name, read(measured))).collect()
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<Measured> {
        self.measurements.pod(namespace, name).map(read)
    }
}

fn read(measured: atoll_sim::Measured) -> Measured {
    let part = |(name, usage): (String, atoll_sim::Usage)| Part {
        name,
        nanocores: usage.nanocores,
        bytes: usage.bytes,
    };
    Measured { at: measured.at, window: WINDOW, parts: measured.parts.into_iter().map(part).collect() }
}
