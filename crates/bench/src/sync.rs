//! One control plane and more and more simulated clusters: how long an object takes down and a status up, and what clusters
//! and objects cost.
//!
//! ```text
//!   control plane ──► traffic (counts bytes) ──► atoll sim, one process for each cluster
//!        ▲                                            ▲
//!        └── course: creates above, watches below ────┤
//!            course: watches above, statuses below ───┘
//! ```

mod course;
mod fleet;
mod traffic;

use std::time::Duration;

use serde_json::{Value, json};

use self::course::Course;
use self::fleet::Fleet;
use crate::api::config_map;
use crate::error::Outcome;
use crate::load::NUMBER;
use crate::machine::Others;
use crate::report::{self, Goal, Line, Unit};
use crate::samples::Samples;
use crate::server::runtime;
use crate::session::Session;
use crate::{process, progress};

/// How many clusters there are, one after the other.
const CLUSTERS: [usize; 3] = [1, 10, 100];
/// Objects a second in total, and as many changes of statuses.
const RATE: u32 = 100;
/// Objects that are placed on one cluster all at once.
const BURST: usize = 1000;
/// Objects whose status is changed in turn.
const INGRESSES: usize = 100;
/// How late the slowest of a hundred may be.
const GOAL: f64 = 0.1;
/// A few thousand bytes a second: what an idle cluster may cost.
const IDLE_GOAL: f64 = 5e3;
/// How long the control plane is left alone before its memory is measured.
const REST: Duration = Duration::from_secs(5);
const NAMESPACE: &str = "bench";

/// What was measured with so many clusters.
struct Round {
    clusters: usize,
    joined: Duration,
    down: Samples,
    up: Samples,
    /// How long it takes until all of a burst are there.
    burst: Duration,
    /// Bytes for each cluster that joined.
    cluster: f64,
    /// Bytes for each object that was placed.
    object: f64,
    /// Bytes a second of each cluster when nothing happens.
    traffic: f64,
    /// Time that the control plane keeps a core busy for each cluster, in every second in which nothing happens.
    idle: f64,
    /// The same for each object, down, and each status, up.
    busy: [f64; 2],
}

pub fn run(session: &Session) -> Outcome<()> {
    let mut others = Others::begin()?;
    let mut fleet = Fleet::start(session)?;
    let mut rounds = Vec::new();
    for clusters in session.options.clusters.clone().unwrap_or(CLUSTERS.to_vec()) {
        let mut round = measure(session, &mut fleet, clusters)?;
        let [down, up] = [round.down.within(0.99), round.up.within(0.99)].map(|seconds| seconds * 1e3);
        progress(&format!(
            "  99 of 100 objects were down within {down:.0} ms, and statuses up within {up:.0} ms"
        ));
        rounds.push(round);
    }
    others.ours(fleet.stop()?);
    let share = others.share()?;
    let lines = lines(&mut rounds);
    println!("{}", report::table(&lines));
    session.footnotes(&others, share);
    println!(
        "One `atoll start` and as many `atoll sim` with a node each, joined with `atoll cluster join` and synced by the \
         control plane, all on this machine. {RATE} ConfigMaps of 1 KiB a second in total, each created and then placed on \
         one cluster: from sending the create until a watch of the cluster shows it. Then {RATE} changes a second in total of \
         the statuses of {INGRESSES} Ingresses in the clusters: until a watch of the control plane shows them. Then {BURST} \
         ConfigMaps that exist are placed on one cluster as fast as that goes: from the first placement until the last is there. \
         Traffic is what goes over the connections of the control plane to a cluster, both ways, with TLS."
    );
    session.save(json!({
        "bench": "sync",
        "others_share": share,
        "objects_per_second": RATE,
        "table": report::json(&lines),
        "rounds": rounds.iter_mut().map(Round::describe).collect::<Value>(),
    }))
}

fn measure(session: &Session, fleet: &mut Fleet, clusters: usize) -> Outcome<Round> {
    let (quiet, seconds) = if session.options.quick { (20, 10) } else { (60, 30) };
    let plane = fleet.control_plane.processes.clone();
    let memory = || process::memory(&plane).map(|memory| memory.now as f64);
    let before = memory()?;
    let new = clusters - fleet.clusters.len();
    progress(&format!("clusters: {clusters}, of which {new} are started now"));
    fleet.grow(session, new)?;
    progress("  joining them");
    let joined = fleet.join()?;
    std::thread::sleep(REST);
    let idle = memory()?;
    progress("  nothing happens");
    let (bytes, busy) = (fleet.traffic.bytes(), process::busy(&plane)?);
    std::thread::sleep(Duration::from_secs(quiet));
    let share = 1.0 / (clusters as f64 * quiet as f64);
    let traffic = (fleet.traffic.bytes() - bytes) as f64 * share;
    let idle_busy = process::busy(&plane)?.saturating_sub(busy).as_secs_f64() * share;

    let runtime = runtime()?;
    let ingresses = Course::new(INGRESSES, fleet.number(INGRESSES));
    progress(&format!("  {INGRESSES} Ingresses"));
    runtime.block_on(course::down(fleet, &ingresses, course::INGRESSES, &ingress()))?;

    let events = RATE as usize * seconds;
    progress(&format!("  {RATE} objects a second"));
    let objects = Course::new(events, fleet.number(events));
    let busy = process::busy(&plane)?;
    let down = runtime.block_on(course::down(fleet, &objects, course::CONFIG_MAPS, &config_map()))?;
    let busy_down = process::busy(&plane)?.saturating_sub(busy).as_secs_f64() / events as f64;
    std::thread::sleep(REST);
    let with = memory()?;

    progress(&format!("  {RATE} statuses a second"));
    let statuses = Course::new(events, fleet.number(events));
    let busy = process::busy(&plane)?;
    let up = runtime.block_on(course::up(fleet, &statuses, &ingresses))?;
    let busy_up = process::busy(&plane)?.saturating_sub(busy).as_secs_f64() / events as f64;
    std::thread::sleep(REST);

    progress(&format!("  {BURST} objects at once"));
    let objects = Course::at_once(BURST, fleet.number(BURST));
    let burst = runtime.block_on(course::burst(fleet, &objects, &config_map()))?;
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

fn lines(rounds: &mut [Round]) -> Vec<Line> {
    let mut lines = Vec::new();
    for round in rounds {
        let mut line = |what: &str, unit, value: f64, goal| {
            lines.push(Line { what: what.into(), unit, atoll: Some(value), kubernetes: None, goal });
        };
        let clusters = match round.clusters {
            1 => "1 cluster".to_string(),
            many => format!("{many} clusters"),
        };
        let goal = Goal::AtMostValue(GOAL);
        let seconds = Unit::Seconds;
        line(&format!("{clusters}: object down, half within"), seconds, round.down.within(0.5), Goal::None);
        line("  99 of 100 within", seconds, round.down.within(0.99), goal);
        line("  control plane busy for each", seconds, round.busy[0], Goal::None);
        line("  status up, half within", seconds, round.up.within(0.5), Goal::None);
        line("  99 of 100 within", seconds, round.up.within(0.99), goal);
        line("  control plane busy for each", seconds, round.busy[1], Goal::None);
        let rate = BURST as f64 / round.burst.as_secs_f64();
        line(&format!("  {BURST} at once to one cluster"), Unit::PerSecond, rate, Goal::None);
        line("  memory for each object", Unit::Bytes, round.object, Goal::None);
        line("  memory for each idle cluster", Unit::Bytes, round.cluster, Goal::None);
        line(
            "  traffic of each idle cluster",
            Unit::BytesPerSecond,
            round.traffic,
            Goal::AtMostValue(IDLE_GOAL),
        );
        line("  busy for each idle cluster, a second", seconds, round.idle, Goal::None);
        line("  from `cluster join` until ready, each", seconds, round.joined.as_secs_f64(), Goal::None);
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
