//! Simulated kubelets: start and stop the pods of simulated nodes, and write their status.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_informer::{Cache, DeleteOptions, Key, Next, Queue, resources};
use atoll_meta::{Status, object};
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use crate::addresses::{Addresses, loopback};
use crate::cluster::Cluster;
use crate::echo;
use crate::faults::FaultSet;
use crate::pod::{NodeEnvironment, Pod, PodStep, SimTime};

/// Number of pods that are processed concurrently.
const WORKERS: usize = 64;
const HOST: &str = "127.0.0.1";
const FULL: (&str, &str) = ("Evicted", "The node had condition: [DiskPressure]. ");

/// The kubelets of all nodes of a cluster.
pub struct Kubelet {
    cluster: Arc<Cluster>,
    pods: Arc<Cache>,
    nodes: Arc<Cache>,
    addresses: Mutex<Addresses>,
    running: Mutex<HashMap<Key, Arc<RunningPod>>>,
    /// CPU time of deleted pods by node.
    spent: Mutex<HashMap<String, u64>>,
}

/// A pod that runs, or is about to.
pub struct RunningPod {
    pub key: Key,
    pub node: String,
    pub uid: String,
    /// The time when the pod was first seen, in seconds since 1970.
    pub arrived: i64,
    pub address: Option<Ipv4Addr>,
    pub pod: Mutex<Pod>,
    servers: Mutex<Servers>,
    /// The containers of the spec, with their environment.
    containers: Vec<Value>,
}

/// Servers at the ports of a pod.
#[derive(Default)]
struct Servers {
    started: bool,
    tasks: Vec<AbortHandle>,
    /// Container ports and the addresses at which they are served.
    ports: HashMap<u16, SocketAddr>,
}

impl RunningPod {
    pub fn pod(&self) -> MutexGuard<'_, Pod> {
        self.pod.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn servers(&self) -> MutexGuard<'_, Servers> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the address at which a port of the pod is served.
    pub fn port(&self, port: u16) -> Option<SocketAddr> {
        self.servers().ports.get(&port).copied()
    }

    /// Returns the environment of a container, without values from other sources.
    pub fn environment(&self, container: &str) -> Vec<(String, String)> {
        let mut all = self.containers.iter();
        let found = all.find(|known| container.is_empty() || known["name"] == container);
        let variables = found.and_then(|found| found["env"].as_array()).into_iter().flatten();
        let mut environment = vec![("HOSTNAME".to_string(), self.key.name.to_string())];
        environment.extend(variables.filter_map(|entry| {
            Some((entry["name"].as_str()?.to_string(), entry["value"].as_str()?.to_string()))
        }));
        environment
    }

    fn stop_serving(&self) {
        let mut servers = self.servers();
        for task in servers.tasks.drain(..) {
            task.abort();
        }
        servers.ports.clear();
        servers.started = false;
    }
}

impl Drop for RunningPod {
    fn drop(&mut self) {
        self.stop_serving();
    }
}

impl Kubelet {
    pub fn new(cluster: Arc<Cluster>) -> Kubelet {
        let (pods, nodes) = (cluster.informers.of(&resources::PODS), cluster.informers.of(&resources::NODES));
        let addresses = Mutex::new(Addresses::new(&cluster.settings.name));
        Kubelet { cluster, pods, nodes, addresses, running: Mutex::default(), spent: Mutex::default() }
    }

    /// Returns the pod with this name, if it runs here.
    pub fn find(&self, namespace: &str, name: &str) -> Option<Arc<RunningPod>> {
        self.all().get(&Key::new("", namespace, name)).cloned()
    }

    /// Whether a pod that was found still runs here.
    pub fn has(&self, running: &Arc<RunningPod>) -> bool {
        self.all().get(&running.key).is_some_and(|known| Arc::ptr_eq(known, running))
    }

    /// Returns all pods of a node, or of all nodes, unsorted.
    pub fn pods_of(&self, node: Option<&str>) -> Vec<Arc<RunningPod>> {
        let all = self.all();
        all.values().filter(|running| node.is_none_or(|node| running.node == node)).cloned().collect()
    }

    /// Returns the simulated nodes that are reachable.
    pub fn nodes(&self) -> Vec<Arc<Value>> {
        let mut nodes = self.nodes.all();
        nodes.retain(|node| self.cluster.settings.simulates(node) && !self.is_cut_off(object::name(node)));
        nodes
    }

    /// Returns a simulated node, if it is reachable.
    pub fn node(&self, name: &str) -> Option<Arc<Value>> {
        self.nodes.get(&Key::new("", "", name)).filter(|_| self.is_simulated(name) && !self.is_cut_off(name))
    }

    /// Returns the CPU time that deleted pods used on a node.
    pub fn spent(&self, node: &str) -> u64 {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).get(node).copied().unwrap_or(0)
    }

    /// Whether a node is disconnected or stopped.
    pub fn is_cut_off(&self, node: &str) -> bool {
        let faults = self.cluster.faults.now();
        faults.is_dead(node) || faults.cuts_node(node)
    }

    pub fn now(&self) -> SimTime {
        self.cluster.now()
    }

    /// Runs pods for as long as it is polled.
    pub async fn run(self: Arc<Self>) {
        self.pods.synced().await;
        self.nodes.synced().await;
        let queue = Queue::new();
        let adding = queue.clone();
        self.pods.listen(move |change| {
            if change.object()["spec"]["nodeName"].is_string() {
                adding.add(change.key.clone());
            }
        });
        let (this, adding) = (self.clone(), queue.clone());
        let mut faults = self.cluster.faults.subscribe();
        let following = async move {
            while faults.changed().await.is_ok() {
                for pod in this.pods.all() {
                    if pod["spec"]["nodeName"].is_string() {
                        adding.add(Key::of(&pod));
                    }
                }
            }
        };
        let working = queue.work("simulated kubelets", WORKERS, |key| {
            let this = self.clone();
            async move { this.sync_pod(key).await }
        });
        tokio::join!(following, working);
    }

    async fn sync_pod(&self, key: Key) -> Result<Next, Status> {
        let Some(object) = self.pods.get(&key) else {
            self.forget(&key);
            return Ok(Next::Done);
        };
        let node = object["spec"]["nodeName"].as_str().unwrap_or_default();
        if !self.is_simulated(node) {
            return Ok(Next::Done);
        }
        let faults = self.cluster.faults.now();
        let running = self.running(&key, &object, node);
        if faults.is_dead(node) {
            let now = self.cluster.now();
            let mut pod = running.pod();
            pod.stop_all(now);
            pod.measure(&object, now);
            drop(pod);
            running.stop_serving();
            return Ok(Next::Done);
        }
        let (step, serves) = self.step(&running, &object, node, &faults);
        match serves {
            true => self.serve(&running, &object).await,
            false => running.stop_serving(),
        }
        // The pods of a disconnected node continue to run, but their status is not written.
        if faults.cuts_node(node) {
            return Ok(Next::Done);
        }
        self.write(&key, &object, step).await
    }

    fn step(&self, running: &RunningPod, object: &Value, node: &str, faults: &FaultSet) -> (PodStep, bool) {
        let address = running.address.map(|address| address.to_string()).unwrap_or_default();
        let environment = NodeEnvironment {
            start_delay: self.cluster.settings.pod_start_delay.as_millis() as u64,
            address: &address,
            host: HOST,
            refuses: faults.is_full(node).then_some(FULL),
            crashes: &|image| faults.crashes(image),
        };
        let (mut pod, now) = (running.pod(), self.cluster.now());
        let step = pod.step(object, now, &environment);
        pod.measure(object, now);
        (step, pod.is_serving())
    }

    /// Writes the status of a pod, and deletes it if requested.
    async fn write(&self, key: &Key, object: &Value, step: PodStep) -> Result<Next, Status> {
        let api = self.cluster.api();
        if let Some(status) = step.status {
            let version = object::resource_version(object);
            let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
            match api.patch(&resources::PODS, key, "status", &patch).await {
                Ok(written) => self.pods.wrote(&written),
                Err(status) if status.reason() == "NotFound" => return Ok(Next::Done),
                Err(status) => return Err(status),
            }
        }
        if step.remove {
            let uid = object::uid(object);
            let options =
                DeleteOptions { grace_period_seconds: Some(0), uid: Some(uid), ..DeleteOptions::default() };
            match api.delete(&resources::PODS, key, options).await {
                Err(status) if !matches!(status.reason(), "NotFound" | "Conflict") => return Err(status),
                _ => self.pods.deleting(key, uid),
            }
        }
        Ok(step.again.map_or(Next::Done, |millis| Next::After(Duration::from_millis(millis))))
    }

    fn is_simulated(&self, node: &str) -> bool {
        let node = self.nodes.get(&Key::new("", "", node));
        node.is_some_and(|node| self.cluster.settings.simulates(&node))
    }

    /// Returns the running pod, after removing an older one with the same name.
    fn running(&self, key: &Key, object: &Value, node: &str) -> Arc<RunningPod> {
        if let Some(known) = self.all().get(key).filter(|known| known.uid == object::uid(object)) {
            return known.clone();
        }
        self.forget(key);
        let running = Arc::new(RunningPod {
            key: key.clone(),
            node: node.into(),
            uid: object::uid(object).into(),
            arrived: self.cluster.now().seconds,
            address: self.address(object),
            pod: Mutex::new(Pod::new(object, self.cluster.now())),
            servers: Mutex::default(),
            containers: object["spec"]["containers"].as_array().cloned().unwrap_or_default(),
        });
        self.all().insert(key.clone(), running.clone());
        running
    }

    /// Returns the address that a pod already has, or a new one.
    fn address(&self, object: &Value) -> Option<Ipv4Addr> {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let had = object["status"]["podIP"].as_str().and_then(|address| address.parse().ok());
        had.filter(|address| addresses.reserve(*address)).or_else(|| addresses.allocate())
    }

    fn forget(&self, key: &Key) {
        let Some(gone) = self.all().remove(key) else { return };
        gone.stop_serving();
        let spent: u64 = gone.pod().spent(self.cluster.now());
        *self.spent.lock().unwrap_or_else(PoisonError::into_inner).entry(gone.node.clone()).or_default() +=
            spent;
        if let Some(address) = gone.address {
            self.cluster.ports.remove(address);
            self.addresses.lock().unwrap_or_else(PoisonError::into_inner).release(address);
        }
    }

    /// Starts the servers at the ports of a pod, once.
    async fn serve(&self, running: &Arc<RunningPod>, object: &Value) {
        if std::mem::replace(&mut running.servers().started, true) {
            return;
        }
        let Some(address) = running.address else { return };
        for (container, port) in ports(object) {
            let identity = echo::ServerIdentity {
                cluster: self.cluster.settings.name.clone(),
                running: Arc::downgrade(running),
                container,
                cluster_clock: self.cluster.clone(),
            };
            match echo::serve(SocketAddr::new(loopback(address).into(), port), identity).await {
                Ok((served, task)) => {
                    let mut servers = running.servers();
                    servers.ports.insert(port, served);
                    self.cluster.ports.add(address, port, served);
                    servers.tasks.push(task);
                }
                Err(error) => {
                    tracing::debug!(%error, pod = %running.key, port, "serving a port of a simulated pod failed")
                }
            }
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Key, Arc<RunningPod>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the TCP ports of a pod's containers, with the index of the container.
fn ports(pod: &Value) -> Vec<(usize, u16)> {
    let mut found: Vec<(usize, u16)> = Vec::new();
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten().enumerate();
    for (position, container) in containers {
        for port in container["ports"].as_array().into_iter().flatten() {
            let number = port["containerPort"].as_u64().and_then(|number| u16::try_from(number).ok());
            let is_tcp = port["protocol"].as_str().unwrap_or("TCP") == "TCP";
            if let Some(number) =
                number.filter(|number| is_tcp && found.iter().all(|(_, known)| known != number))
            {
                found.push((position, number));
            }
        }
    }
    found
}
