//! State that all parts of a simulated cluster share.

use std::sync::Arc;

use atoll_informer::{ApiScope, Clock, Informers};
use tokio::time::Instant;

use crate::pod::SimTime;
use crate::{Faults, Ports, Settings};

pub struct Cluster {
    pub settings: Settings,
    pub faults: Arc<Faults>,
    pub informers: Arc<Informers>,
    /// Port at which the kubelets listen, if they do.
    pub kubelet_port: Option<u16>,
    /// Addresses at which pods are served.
    pub ports: Arc<Ports>,
    clock: Arc<dyn Clock>,
    start: Instant,
}

impl Cluster {
    pub fn new(api: ApiScope, settings: Settings, faults: Arc<Faults>, clock: Arc<dyn Clock>) -> Cluster {
        let informers = Informers::new(api);
        Cluster {
            settings,
            faults,
            informers,
            kubelet_port: None,
            ports: Arc::default(),
            clock,
            start: Instant::now(),
        }
    }

    pub fn api(&self) -> &ApiScope {
        self.informers.api()
    }

    pub fn now(&self) -> SimTime {
        SimTime { millis: self.start.elapsed().as_millis() as u64, seconds: self.clock.now().seconds }
    }
}
