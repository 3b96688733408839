//! The way from an applied Deployment to its presence in simulated clusters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::arrivals::number;
use super::clusters::read_lines;
use super::workloads::{
    DecidedBy, SHARES, apply, apply_policy, collection, create_namespaces, deployment, policy,
};
use crate::connection::Target;
use crate::error::{BenchError, BenchResult};
use crate::machine::BackgroundLoad;
use crate::samples::Samples;
use crate::server::runtime;
use crate::session::Session;
use crate::sync::fleet::Fleet;
use crate::sync::latency::open_watch;
use crate::{process, progress};

/// Applies per second.
pub const RATE: u32 = 100;
const BURST: usize = 500;
const QUICK_BURST: usize = 100;
/// Nodes of each simulated cluster. All pods have room.
const NODES: usize = 100;
/// Senders of a steady rate, and of a burst.
const WORKERS: usize = 10;
/// Maximum time until the last object is present.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Time after joining, so that new clusters count as settled.
const REST: Duration = Duration::from_secs(12);
const IDLE_INTERVAL: Duration = Duration::from_secs(5);
const WATCHED: &str = "/apis/apps/v1/deployments";

pub struct Below {
    pub present: Samples,
    pub present_busy: Duration,
    pub burst_objects: usize,
    pub burst: Duration,
    /// CPU time of the control plane and of the clusters during the burst.
    pub burst_busy: Duration,
    pub burst_busy_clusters: Duration,
}

/// When objects were sent, and when they were present in all clusters.
struct Presence {
    begun: Instant,
    /// Nanoseconds after `begun`.
    sent: Vec<AtomicU64>,
    present: Vec<AtomicU64>,
    clusters: Vec<AtomicU32>,
    left: AtomicUsize,
    first: usize,
}

impl Below {
    pub fn measure(session: &Session, background: &mut BackgroundLoad) -> BenchResult<Below> {
        let (seconds, burst) = if session.options.quick { (10, QUICK_BURST) } else { (30, BURST) };
        progress("3 simulated clusters");
        let mut fleet = Fleet::start(session)?;
        fleet.grow(session, SHARES as usize, NODES)?;
        fleet.join()?;
        let measured = runtime()?.block_on(measure(&fleet, seconds, burst));
        background.exclude(fleet.stop()?);
        measured
    }

    pub fn describe(&mut self) -> Value {
        json!({
            "present": self.present.describe(),
            "present_busy_seconds": self.present_busy.as_secs_f64(),
            "burst_objects": self.burst_objects,
            "burst_seconds": self.burst.as_secs_f64(),
            "burst_busy_seconds": self.burst_busy.as_secs_f64(),
            "burst_busy_seconds_of_clusters": self.burst_busy_clusters.as_secs_f64(),
        })
    }
}

async fn measure(fleet: &Fleet, seconds: usize, burst: usize) -> BenchResult<Below> {
    let target = &fleet.control_plane.target;
    let steady = RATE as usize * seconds;
    create_namespaces(target, DecidedBy::Policy, steady + burst).await?;
    // Clusters of a simulation have no label of a group, so all have the weight of a missing rule.
    let mut even = policy(None);
    even["spec"]["replicas"] = json!({ "division": "Even" });
    apply_policy(target, &even).await?;
    tokio::time::sleep(REST).await;
    let plane = &fleet.control_plane.processes;
    let clusters: Vec<i32> =
        fleet.clusters.iter().flat_map(|cluster| cluster.running.processes.clone()).collect();

    // First, while nothing else is in the clusters.
    progress(&format!("  {burst} Deployments at once"));
    let (before, before_clusters) = (process::busy(plane)?, process::busy(&clusters)?);
    let presence = Arc::new(Presence::new(0, burst));
    let begun = Instant::now();
    send(fleet, &presence, Duration::ZERO).await?;
    let took = begun.elapsed();
    let burst_busy = process::busy(plane)?.saturating_sub(before);
    let burst_busy_clusters = process::busy(&clusters)?.saturating_sub(before_clusters);
    progress(&format!("    {:.1} s, {:.1} s of CPU", took.as_secs_f64(), burst_busy.as_secs_f64()));
    wait_until_idle(plane).await?;

    progress(&format!("  {RATE} applies per second"));
    let before = process::busy(plane)?;
    let presence = Arc::new(Presence::new(burst, steady));
    send(fleet, &presence, Duration::from_secs(1) / RATE).await?;
    let present_busy = process::busy(plane)?.saturating_sub(before);
    let mut present = presence.samples();
    progress(&format!("    p99 {:.0} ms", present.within(0.99) * 1e3));
    Ok(Below { present, present_busy, burst_objects: burst, burst: took, burst_busy, burst_busy_clusters })
}

/// Waits until the control plane has little to do: pods of the last measurement are still starting.
async fn wait_until_idle(plane: &[i32]) -> BenchResult<()> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let before = process::busy(plane)?;
        tokio::time::sleep(IDLE_INTERVAL).await;
        if process::busy(plane)?.saturating_sub(before) < IDLE_INTERVAL / 20 || Instant::now() > deadline {
            return Ok(());
        }
    }
}

/// Applies Deployments at an interval, and waits until they are present in all clusters.
async fn send(fleet: &Fleet, presence: &Arc<Presence>, apart: Duration) -> BenchResult<()> {
    let mut watches = JoinSet::new();
    for cluster in &fleet.clusters {
        let watch = open_watch(&cluster.running.target, WATCHED).await?;
        let (presence, mut is_known) = (presence.clone(), vec![false; presence.sent.len()]);
        watches.spawn(read_lines(watch, move |event| presence.see(event, &mut is_known)));
    }
    let mut senders = JoinSet::new();
    let begun = Instant::now();
    for worker in 0..WORKERS {
        let (target, presence) = (fleet.control_plane.target.clone(), presence.clone());
        senders.spawn(send_some(target, presence, worker, begun, apart));
    }
    while let Some(sender) = senders.join_next().await {
        sender.map_err(|error| BenchError::Machine(error.to_string()))??;
    }
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let left = presence.left.load(Ordering::Relaxed);
        if left == 0 {
            return Ok(());
        }
        if let Some(Ok(ended)) = watches.try_join_next() {
            ended?;
        }
        if Instant::now() > deadline {
            return Err(BenchError::Response(format!("{left} Deployments did not arrive in all clusters")));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn send_some(
    target: Target,
    presence: Arc<Presence>,
    worker: usize,
    begun: Instant,
    apart: Duration,
) -> BenchResult<()> {
    let mut connection = target.connect().await?;
    for index in (worker..presence.sent.len()).step_by(WORKERS) {
        let number = presence.first + index;
        let path =
            format!("{}/w-{number:08}?fieldManager=bench&force=true", collection(DecidedBy::Policy, number));
        let mut object = deployment(number);
        object["spec"]["replicas"] = SHARES.into();
        tokio::time::sleep_until(begun + apart * u32::try_from(index).unwrap_or(u32::MAX)).await;
        presence.sent[index].store(presence.now(), Ordering::Relaxed);
        apply(&mut connection, &target, &path, &object).await?;
    }
    Ok(())
}

impl Presence {
    fn new(first: usize, count: usize) -> Presence {
        Presence {
            begun: Instant::now(),
            sent: (0..count).map(|_| AtomicU64::new(0)).collect(),
            present: (0..count).map(|_| AtomicU64::new(0)).collect(),
            clusters: (0..count).map(|_| AtomicU32::new(0)).collect(),
            left: AtomicUsize::new(count),
            first,
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Reads an event of the watch of a cluster, which knows some objects already.
    fn see(&self, event: &str, is_known: &mut [bool]) {
        let Some(index) = number(event).and_then(|number| number.checked_sub(self.first)) else { return };
        let Some(is_known) = is_known.get_mut(index).filter(|is_known| !**is_known) else { return };
        *is_known = true;
        if self.clusters[index].fetch_add(1, Ordering::Relaxed) + 1 == SHARES {
            self.present[index].store(self.now(), Ordering::Relaxed);
            self.left.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn samples(&self) -> Samples {
        let mut samples = Samples::default();
        for (sent, present) in self.sent.iter().zip(&self.present) {
            let nanos = present.load(Ordering::Relaxed).saturating_sub(sent.load(Ordering::Relaxed));
            samples.push(Duration::from_nanos(nanos));
        }
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_present_when_all_clusters_have_it() {
        let presence = Presence::new(10, 2);
        let mut known = [vec![false; 2], vec![false; 2], vec![false; 2]];
        for (cluster, name, left) in [
            (0, "w-00000010", 2),
            (0, "w-00000010", 2),
            (1, "w-00000010", 2),
            (2, "w-00000009", 2),
            (2, "w-00000012", 2),
            (2, "w-00000010", 1),
            (2, "other", 1),
        ] {
            presence.see(&format!(r#"{{"object":{{"metadata":{{"name":"{name}"}}}}}}"#), &mut known[cluster]);
            assert_eq!(presence.left.load(Ordering::Relaxed), left, "{cluster} {name}");
        }
    }
}
