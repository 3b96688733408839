//! Resource usage of simulated nodes and pods, for the metrics API.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use atoll_server::usage::{Measurement, UsagePart, UsageSource};
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

impl UsageSource for Meter {
    fn nodes(&self) -> HashMap<String, Measurement> {
        let nodes = self.measurements.nodes();
        nodes.into_iter().map(|(name, measured)| (name, read(measured))).collect()
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<Measurement> {
        self.measurements.pod(namespace, name).map(read)
    }
}

fn read(measured: atoll_sim::UsageSample) -> Measurement {
    let part = |(name, usage): (String, atoll_sim::Usage)| UsagePart {
        name,
        nanocores: usage.nanocores,
        bytes: usage.bytes,
    };
    Measurement { at: measured.at, window: WINDOW, parts: measured.parts.into_iter().map(part).collect() }
}
