//! Measures one control plane with a growing number of simulated clusters: the latency of objects down and of
//! statuses up, and the cost of clusters and objects.
//!
//! ```text
//!   control plane ──► traffic (counts bytes) ──► atoll sim, one process for each cluster
//!        ▲                                            ▲
//!        └── latency: creates above, watches below ───┤
//!            latency: watches above, statuses below ──┘
//! ```

pub mod fleet;
pub mod latency;
mod traffic;

use std::time::Duration;

use serde_json::{Value, json};

use self::fleet::Fleet;
use self::latency::EventTimes;
use crate::api::config_map;
use crate::error::BenchResult;
use crate::load::NUMBER;
use crate::machine::BackgroundLoad;
use crate::report::{self, Goal, TableRow, Unit};
use crate::samples::Samples;
use crate::server::runtime;
use crate::session::Session;
use crate::{process, progress};

/// Numbers of clusters, in increasing order.
const CLUSTERS: [usize; 3] = [1, 10, 100];
/// Objects per second in total, and status changes per second.
const RATE: u32 = 100;
/// Number of objects that are placed on one cluster at once.
const BURST: usize = 1000;
/// Number of objects with changing statuses.
const INGRESSES: usize = 100;
/// Goal for the 99th percentile of latencies, in seconds.
const GOAL: f64 = 0.1;
/// Goal for the traffic of an idle cluster, in bytes per second.
const IDLE_GOAL: f64 = 5e3;
/// Idle time before the memory of the control plane is measured.
const REST: Duration = Duration::from_secs(5);
const NAMESPACE: &str = "bench";

/// Measurements with one number of clusters.
struct Round {
    clusters: usize,
    joined: Duration,
    down: Samples,
    up: Samples,
    /// Time until the whole burst has arrived.
    burst: Duration,
    /// Memory per joined cluster, in bytes.
    cluster: f64,
    /// Memory per placed object, in bytes.
    object: f64,
    /// Traffic per idle cluster, in bytes per second.
    traffic: f64,
    /// CPU time of the control plane per idle cluster and second.
    idle: f64,
    /// CPU time of the control plane per object down and per status up.
    busy: [f64; 2],
}

pub fn run(session: &Session) -> BenchResult<()> {
    let mut background = BackgroundLoad::start()?;
    let mut fleet = Fleet::start(session)?;
    let mut rounds = Vec::new();
    for clusters in session.options.clusters.clone().unwrap_or(CLUSTERS.to_vec()) {
        let mut round = measure(session, &mut fleet, clusters)?;
        let [down, up] = [round.down.within(0.99), round.up.within(0.99)].map(|seconds| seconds * 1e3);
        progress(&format!("  p99 latency: {down:.0} ms for objects down, {up:.0} ms for statuses up"));
        rounds.push(round);
    }
    background.exclude(fleet.stop()?);
    let share = background.share()?;
    let lines = lines(&mut rounds);
    println!("{}", report::table(&lines));
    session.footnotes(&background, share);
    println!(
        "One `atoll start` and one `atoll sim` with one node per cluster, joined with `atoll cluster join` and synced by \
         the control plane, all on this machine. Objects down: {RATE} ConfigMaps of 1 KiB per second in total, each created \
         and then placed on one cluster, measured from sending the create until a watch of the cluster shows the object. \
         Statuses up: {RATE} changes per second in total of the statuses of {INGRESSES} Ingresses in the clusters, measured \
         until a watch of the control plane shows them. Burst: {BURST} existing ConfigMaps are placed on one cluster as fast \
         as possible, measured from the first placement until the last object has arrived. Traffic counts the bytes between \
         the control plane and a cluster in both directions, including TLS."
    );
    session.save(json!({
        "bench": "sync",
        "others_share": share,
        "objects_per_second": RATE,
        "table": report::json(&lines),
        "rounds": rounds.iter_mut().map(Round::describe).collect::<Value>(),
    }))
}

fn measure(session: &Session, fleet: &mut Fleet, clusters: usize) -> BenchResult<Round> {
    let (quiet, seconds) = if session.options.quick { (20, 10) } else { (60, 30) };
    let plane = fleet.control_plane.processes.clone();
    let memory = || process::memory(&plane).map(|memory| memory.now as f64);
    let before = memory()?;
    let new = clusters - fleet.clusters.len();
    progress(&format!("{clusters} clusters, starting {new}"));
    fleet.grow(session, new, 1)?;
    progress("  joining");
    let joined = fleet.join()?;
    std::thread::sleep(REST);
    let idle = memory()?;
    progress("  idle");
    let (bytes, busy) = (fleet.traffic.bytes(), process::busy(&plane)?);
    std::thread::sleep(Duration::from_secs(quiet));
    let share = 1.0 / (clusters as f64 * quiet as f64);
    let traffic = (fleet.traffic.bytes() - bytes) as f64 * share;
    let idle_busy = process::busy(&plane)?.saturating_sub(busy).as_secs_f64() * share;

    let runtime = runtime()?;
    let ingresses = EventTimes::new(INGRESSES, fleet.number(INGRESSES));
    progress(&format!("  {INGRESSES} Ingresses"));
    runtime.block_on(latency::down(fleet, &ingresses, latency::INGRESSES, &ingress()))?;

    let events = RATE as usize * seconds;
    progress(&format!("  {RATE} objects per second"));
    let objects = EventTimes::new(events, fleet.number(events));
    let busy = process::busy(&plane)?;
    let down = runtime.block_on(latency::down(fleet, &objects, latency::CONFIG_MAPS, &config_map()))?;
    let busy_down = process::busy(&plane)?.saturating_sub(busy).as_secs_f64() / events as f64;
    std::thread::sleep(REST);
    let with = memory()?;

    progress(&format!("  {RATE} statuses per second"));
    let statuses = EventTimes::new(events, fleet.number(events));
    let busy = process::busy(&plane)?;
    let up = runtime.block_on(latency::up(fleet, &statuses, &ingresses))?;
    let busy_up = process::busy(&plane)?.saturating_sub(busy).as_secs_f64() / events as f64;
    std::thread::sleep(REST);

    progress(&format!("  {BURST} objects at once"));
    let objects = EventTimes::at_once(BURST, fleet.number(BURST));
    let burst = runtime.block_on(latency::burst(fleet, &objects, &config_map()))?;
    std::thread::sleep(REST);
    Ok(Round {
        clusters,
        joined: joined / u32::try_from(new).unwrap_or(1),
        down,
        up,
        burst,
        cluster: (idle - before).max(0.0) / new as f64,
        object: (with - idle).max(0.0) / (events + INGRESSES) as f64,
        traffic,
        idle: idle_busy,
        busy: [busy_down, busy_up],
    })
}

fn ingress() -> String {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": format!("c-{NUMBER}")},
        "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}},
    })
    .to_string()
}

fn lines(rounds: &mut [Round]) -> Vec<TableRow> {
    let mut lines = Vec::new();
    for round in rounds {
        let mut line = |what: &str, unit, value: f64, goal| {
            lines.push(TableRow { what: what.into(), unit, atoll: Some(value), kubernetes: None, goal });
        };
        let clusters = match round.clusters {
            1 => "1 cluster".to_string(),
            many => format!("{many} clusters"),
        };
        let goal = Goal::AtMostValue(GOAL);
        let seconds = Unit::Seconds;
        line(&format!("{clusters}: object down, median"), seconds, round.down.within(0.5), Goal::None);
        line("  p99", seconds, round.down.within(0.99), goal);
        line("  CPU time of the control plane", seconds, round.busy[0], Goal::None);
        line("  status up, median", seconds, round.up.within(0.5), Goal::None);
        line("  p99", seconds, round.up.within(0.99), goal);
        line("  CPU time of the control plane", seconds, round.busy[1], Goal::None);
        let rate = BURST as f64 / round.burst.as_secs_f64();
        line(&format!("  burst of {BURST} to one cluster"), Unit::PerSecond, rate, Goal::None);
        line("  memory per object", Unit::Bytes, round.object, Goal::None);
        line("  memory per idle cluster", Unit::Bytes, round.cluster, Goal::None);
        line("  traffic per idle cluster", Unit::BytesPerSecond, round.traffic, Goal::AtMostValue(IDLE_GOAL));
        line("  CPU time per idle cluster and second", seconds, round.idle, Goal::None);
        line("  time from join until ready", seconds, round.joined.as_secs_f64(), Goal::None);
    }
    lines
}

impl Round {
    fn describe(&mut self) -> Value {
        json!({
            "clusters": self.clusters,
            "down": self.down.describe(),
            "up": self.up.describe(),
            "burst_seconds": self.burst.as_secs_f64(),
            "bytes_per_object": self.object,
            "bytes_per_idle_cluster": self.cluster,
            "idle_bytes_per_second_and_cluster": self.traffic,
            "idle_busy_per_second_and_cluster": self.idle,
            "busy_per_object_down_seconds": self.busy[0],
            "busy_per_status_up_seconds": self.busy[1],
        })
    }
}
