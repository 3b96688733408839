//! Applies the faults of a simulated cluster: network faults, clock skew and downtime.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

use atoll_client::{BoxError, BoxFuture, ResponseBody, Transport};
use atoll_informer::{Clock, SystemClock};
use atoll_meta::time::Timestamp;
use atoll_meta::{Status, json};
use atoll_registry::catalog::ATOLL;
use atoll_server::CustomEndpoint;
use atoll_server::hidden_api::HiddenApi;
use atoll_server::listen::wrapper::Listener;
use atoll_server::local::Local;
use atoll_sim::{Fault, Faults};
use bytes::Bytes;
use http::{Method, Request, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::network::{FaultInjector, FaultyListener, NetworkFaults};

/// Path of the API for faults.
pub const PATH: &str = "/atoll/sim/faults";

pub struct Simulation {
    pub faults: Arc<Faults>,
    clock: Arc<SkewedClock>,
    conditions: watch::Sender<Arc<NetworkFaults>>,
    seed: u64,
}

/// The system clock with an offset in seconds.
#[derive(Default)]
struct SkewedClock {
    seconds: AtomicI64,
}

impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        let now = SystemClock.now();
        Timestamp::new(now.seconds.saturating_add(self.skew()), now.nanos)
    }

    fn skew(&self) -> i64 {
        self.seconds.load(Ordering::Relaxed)
    }
}

impl Simulation {
    /// A simulation without faults. The seed for random losses is the current time.
    pub fn new() -> Arc<Self> {
        let seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let simulation = Simulation {
            faults: Arc::default(),
            clock: Arc::default(),
            conditions: watch::channel(Arc::default()).0,
            seed: seed.as_nanos() as u64,
        };
        simulation.apply();
        Arc::new(simulation)
    }

    pub fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    fn network_faults(&self) -> FaultInjector {
        FaultInjector::new(self.conditions.subscribe(), self.seed)
    }

    /// A listener whose connections are subject to the network faults.
    pub fn listener(&self, listener: TcpListener) -> io::Result<Listener> {
        Ok(Listener::Wrapped(Box::new(FaultyListener::new(listener, self.network_faults())?)))
    }

    /// Removes all faults. Returns their number.
    pub fn clear(&self) -> usize {
        let count = self.faults.clear();
        self.apply();
        count
    }

    /// Applies the faults, before the change is acknowledged.
    fn apply(&self) {
        let faults = self.faults.now();
        self.clock.seconds.store(faults.skew(), Ordering::Relaxed);
        let mut hidden = faults.missing();
        // Clients must see an ordinary cluster, without Atoll's own API.
        hidden.push((ATOLL.into(), "v1alpha1".into()));
        self.conditions.send_replace(Arc::new(NetworkFaults {
            latency: faults.latency(),
            jitter: faults.jitter(),
            loss: faults.loss(),
            is_partitioned: faults.cuts_clients(),
            is_down: faults.is_down(),
            hidden_api: Arc::new(HiddenApi { versions: hidden.into(), workspaces: true }),
        }));
    }

    fn list(&self) -> Value {
        let faults = self.faults.now();
        let fault_json = faults.list().iter().map(|(id, fault)| fault_json(*id, fault));
        json!({ "faults": fault_json.collect::<Vec<_>>() })
    }

    fn add(&self, body: &[u8]) -> Result<Value, Status> {
        let parsed = json::parse(body).map_err(|error| Status::bad_request(error.to_string()))?;
        let fault = Fault::from_json(&parsed.value).map_err(Status::bad_request)?;
        let id = self.faults.add(fault.clone());
        let id = id.map_err(|_| Status::bad_request("there are too many faults already; remove some"))?;
        self.apply();
        Ok(fault_json(id, &fault))
    }

    fn remove(&self, id: &str) -> Result<Value, Status> {
        let removed = id.parse().is_ok_and(|id| self.faults.remove(id));
        if !removed {
            return Err(Status::not_found("", "faults", id));
        }
        self.apply();
        Ok(json!({ "removed": 1 }))
    }
}

/// A fault as JSON, with its id and description.
pub fn fault_json(id: u64, fault: &Fault) -> Value {
    let mut fault_json = fault.to_json();
    fault_json["id"] = id.into();
    fault_json["description"] = fault.to_string().into();
    fault_json
}

/// `GET` lists the faults, `POST` adds one, `DELETE` removes one or, without an id, all.
impl CustomEndpoint for Simulation {
    fn path(&self) -> &'static str {
        PATH
    }

    fn handle(&self, method: &Method, below: &str, body: &[u8]) -> Result<Value, Status> {
        match (method, below) {
            (&Method::GET, "") => Ok(self.list()),
            (&Method::POST, "") => self.add(body),
            (&Method::DELETE, "") => Ok(json!({ "removed": self.clear() })),
            (&Method::DELETE, id) => self.remove(id),
            _ => Err(Status::method_not_supported_generic()),
        }
    }
}

/// The transport of components inside a cluster, which stops while the cluster is down.
pub struct GatedTransport {
    local: Local,
    network_faults: FaultInjector,
}

impl GatedTransport {
    pub fn new(local: Local, simulation: &Simulation) -> Self {
        GatedTransport { local, network_faults: simulation.network_faults() }
    }
}

impl Transport for GatedTransport {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        Box::pin(async move {
            if self.network_faults.now().is_down {
                self.network_faults.until(|conditions| !conditions.is_down).await;
            }
            self.local.send(request).await
        })
    }
}
