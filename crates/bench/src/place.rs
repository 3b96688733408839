//! Measures placement: how fast the scheduler decides about workloads, how fast its decisions are durable and
//! arrive in the sync views of clusters, and how long an applied Deployment takes to be in its clusters.
//!
//! ```text
//!   applying, policies ──► control plane ══► sync views of N clusters ─┐
//!                               │  ▲                                   ├─► progress: when each object was
//!                               │  └── heartbeats of N clusters        │   written, and when its lines arrived
//!                               └────► watch of the Deployments ───────┘
//!   below: the same with three simulated clusters and real syncers, until the objects are present in them
//! ```
//!
//! The clusters of the first part have heartbeats and read their views, as agents do, but run nothing.

mod arrivals;
mod below;
mod clusters;
mod scenario;
mod workloads;

use serde_json::{Value, json};

use self::below::Below;
use self::scenario::{PhaseMeasurement, Scenario};
use crate::error::BenchResult;
use crate::machine::BackgroundLoad;
use crate::progress;
use crate::report::{self, Goal, TableRow, Unit};
use crate::server::runtime;
use crate::session::Session;

/// Numbers of clusters, in increasing order.
const CLUSTERS: [usize; 3] = [10, 100, 1000];
const WORKLOADS: usize = 10_000;
/// The same with `--quick`.
const QUICK_CLUSTERS: [usize; 2] = [10, 100];
const QUICK_WORKLOADS: usize = 1000;
/// Goal for placements that are durable and in the views of their clusters, per second.
const VIEW_GOAL: f64 = 2000.0;
/// Goal for the 99th percentile of the time from an apply until the object is present below, in seconds.
const PRESENT_GOAL: f64 = 0.15;
/// Goals for the burst: time until all are present, and CPU time of the control plane, in seconds.
const BURST_GOAL: f64 = 10.0;
const BURST_BUSY_GOAL: f64 = 6.0;

/// Measurements with one number of clusters.
struct Round {
    clusters: usize,
    phases: Vec<PhaseMeasurement>,
    /// Watches that ended because they were too slow, if the server counts them.
    expired: Option<f64>,
}

pub fn run(session: &Session) -> BenchResult<()> {
    let options = &session.options;
    let (clusters, workloads) = match options.quick {
        true => (QUICK_CLUSTERS.to_vec(), QUICK_WORKLOADS),
        false => (CLUSTERS.to_vec(), WORKLOADS),
    };
    let clusters = options.clusters.clone().unwrap_or(clusters);
    let workloads = options.workloads.unwrap_or(workloads);
    let mut background = BackgroundLoad::start()?;
    let mut rounds = Vec::new();
    for count in clusters {
        progress(&format!("{count} clusters, {workloads} workloads"));
        let mut scenario = Scenario::start(session, count, workloads)?;
        let (phases, expired) = runtime()?.block_on(scenario.measure())?;
        background.exclude(scenario.stop()?);
        rounds.push(Round { clusters: count, phases, expired });
    }
    let mut below = Below::measure(session, &mut background)?;
    let share = background.share()?;
    let mut lines: Vec<TableRow> = rounds.iter().flat_map(Round::lines).collect();
    lines.extend(below_lines(&mut below));
    println!("{}", report::table(&lines));
    session.footnotes(&background, share);
    println!("{}", explanation(workloads, &below));
    session.save(json!({
        "bench": "place",
        "others_share": share,
        "workloads": workloads,
        "table": report::json(&lines),
        "rounds": rounds.iter().map(Round::describe).collect::<Value>(),
        "below": below.describe(),
    }))
}

impl Round {
    fn lines(&self) -> Vec<TableRow> {
        let mut lines = Vec::new();
        let mut line = |what: String, unit, atoll: Option<f64>, goal| {
            lines.push(TableRow { what, unit, atoll, kubernetes: None, goal });
        };
        for phase in &self.phases {
            let title = format!("{} clusters: {}", self.clusters, phase.name);
            line(title, Unit::Count, Some(phase.objects as f64), Goal::None);
            if let Some(decided) = phase.decided {
                line("  decided alone".into(), Unit::PerSecond, Some(decided), Goal::None);
            }
            let goal = if phase.is_judged { Goal::AtLeastValue(VIEW_GOAL) } else { Goal::None };
            line("  written".into(), Unit::PerSecond, Some(phase.written), Goal::None);
            line("  in the views".into(), Unit::PerSecond, Some(phase.in_view), goal);
            line("  lines in the views".into(), Unit::Count, Some(phase.lines as f64), Goal::None);
            line("  CPU time per object".into(), Unit::Seconds, Some(phase.busy), Goal::None);
        }
        line("  watches that expired".into(), Unit::Count, self.expired, Goal::AtMostValue(0.0));
        lines
    }

    fn describe(&self) -> Value {
        json!({
            "clusters": self.clusters,
            "expired_watches": self.expired,
            "phases": self.phases.iter().map(PhaseMeasurement::describe).collect::<Value>(),
        })
    }
}

fn below_lines(below: &mut Below) -> Vec<TableRow> {
    let line = |what: &str, value: f64, goal| TableRow {
        what: what.into(),
        unit: Unit::Seconds,
        atoll: Some(value),
        kubernetes: None,
        goal,
    };
    let busy = below.burst_busy.as_secs_f64();
    vec![
        line("apply to present in 3 clusters, median", below.present.within(0.5), Goal::None),
        line("  p99", below.present.within(0.99), Goal::AtMostValue(PRESENT_GOAL)),
        line("  CPU time of the control plane", below.present_busy.as_secs_f64(), Goal::None),
        line("burst: all present", below.burst.as_secs_f64(), Goal::AtMostValue(BURST_GOAL)),
        line("  CPU time of the control plane", busy, Goal::AtMostValue(BURST_BUSY_GOAL)),
        line("  CPU time of the clusters", below.burst_busy_clusters.as_secs_f64(), Goal::None),
    ]
}

fn explanation(workloads: usize, below: &Below) -> String {
    let (rate, burst, present) = (below::RATE, below.burst_objects, below.present.len());
    format!(
        "One `atoll start` with all controllers. Its clusters send heartbeats and read their sync views; they run \
         nothing. Policy: {workloads} Deployments that a policy keeps in the control plane are divided over three \
         clusters each when the policy changes. Decided alone: the same change as a question to /services/what-if, \
         which decides about everything and writes nothing. Written: until a watch of the Deployments shows the last \
         placement, which is durable by then. In the views: until its lines have arrived in the sync views of its \
         clusters. Weights: the weights of the policy change. Lost: a cluster sends no more heartbeats; time counts \
         from the first placement. Default: as many Deployments are created at once without a policy; time counts \
         from the first create. Present below: {present} Deployments, {rate} per second, with server-side apply, each \
         divided over three simulated clusters with syncers in the control plane, until the third of them shows the \
         object. Burst: {burst} of them at once. No other system is measured."
    )
}
