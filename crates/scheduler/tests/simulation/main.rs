//! The scheduler over a simulated fleet: clusters fail, join, close and grow, and users create, scale, move and
//! delete workloads, for a simulated day or week.
//!
//! ```text
//!   history ─► fleet: clusters, syncers, heartbeats ─► api ◄─ scheduler (as it is, all of its loops)
//!                ▲                                      │ placements
//!                └──────────── invariants ◄─────────────┘
//! ```
//!
//! Only the clusters and the API server are simulated. Time is tokio's paused clock, which advances while no task can
//! run, and everything random follows from a seed: `ATOLL_SEED=7` repeats one, `ATOLL_CLUSTERS=1000` and
//! `ATOLL_DAYS=7` set the size, and `ATOLL_VERBOSE=1` prints what happens.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod api;
mod below;
mod delays;
mod history;
mod invariants;
mod profiles;
mod random;
mod simulated_fleet;
mod syncing;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use atoll_client::Client;
use atoll_informer::{ApiScope, Informers};
use atoll_scheduler::{SchedulerHandle, Setup};

use history::WORKSPACES;
use simulated_fleet::{Event, HOUR, MINUTE, SimulatedFleet};

/// Workloads for each cluster at the beginning.
const WORKLOADS: u64 = 1;

/// The outcome of a simulation.
struct Outcome {
    problems: Vec<String>,
    past: String,
    tally: BTreeMap<&'static str, u64>,
    digest: u64,
}

/// Runs a future with a clock that advances only while no task can run.
fn simulated<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(future)
}

/// Runs the scheduler for some hours with this number of clusters, then lets everything come to rest.
fn run(seed: u64, clusters: u64, hours: u64) -> Outcome {
    simulated(async {
        let mut fleet = SimulatedFleet::new(seed);
        for id in WORKSPACES {
            fleet.api.tree.insert(id, "root", id);
        }
        fleet.write_policies();
        for _ in 0..clusters {
            fleet.new_cluster();
        }
        start(&fleet).await;
        for _ in 0..clusters * WORKLOADS {
            fleet.create();
        }
        fleet.within(Event::Chance, (MINUTE, MINUTE));
        fleet.within(Event::Check, (30 * MINUTE, 30 * MINUTE));
        for hour in (24..hours).step_by(24).chain([hours]) {
            live(&mut fleet, hour * HOUR).await;
            fleet.report_progress();
        }
        if fleet.problems.is_empty() {
            fleet.heal();
            live(&mut fleet, (hours + 4) * HOUR).await;
            fleet.move_outgrown();
            live(&mut fleet, (hours + 6) * HOUR).await;
            fleet.is_final = true;
            fleet.check_all();
            fleet.check_end();
            fleet.report_progress();
        }
        let (problems, past) = (std::mem::take(&mut fleet.problems), fleet.past());
        Outcome { problems, past, tally: std::mem::take(&mut fleet.tally), digest: fleet.digest }
    })
}

/// Starts the scheduler and waits until it runs.
async fn start(fleet: &SimulatedFleet) {
    let client = Client::new(fleet.api.clone());
    let informers = Informers::new(ApiScope::all_workspaces(client, fleet.api.tree.clone()));
    let handle = SchedulerHandle::default();
    let dialects: atoll_scheduler::DialectIntents = Arc::new(|_, _| Some(Vec::new()));
    let dialects_changed = tokio::sync::watch::Sender::new(0).subscribe();
    let (clock, handle_of) = (fleet.clock.clone(), handle.clone());
    let setup = Setup { informers, clock, dialects, dialects_changed, handle: handle_of };
    tokio::spawn(atoll_scheduler::run(setup));
    let mut tick = tokio::time::interval(Duration::from_millis(10));
    while !handle.is_running() {
        tick.tick().await;
    }
}

/// Lets everything happen until a time in milliseconds, or until something is wrong.
async fn live(fleet: &mut SimulatedFleet, until: u64) {
    while fleet.now() < until && fleet.problems.is_empty() {
        let due = fleet.due().unwrap_or(until).min(until);
        let (api, due) = (fleet.api.clone(), fleet.clock.instant(due));
        // Until the scheduler writes, or the next event is due.
        let _ = tokio::time::timeout_at(due, api.written.notified()).await;
        fleet.observe();
        while let Some(event) = fleet.take_due() {
            fleet.happen(event);
        }
    }
}

impl SimulatedFleet {
    fn report_progress(&self) {
        let clusters = self.clusters.iter().filter(|below| !below.is_removed).count();
        let workloads = self.workloads.iter().filter(|workload| !workload.is_deleted).count();
        let pods: i64 = self.placed.iter().flat_map(|counts| counts.values()).sum();
        let writes = self.tally.get("placements").unwrap_or(&0);
        let (now, took) = (simulated_fleet::time_of(self.now()), self.begun.elapsed().as_secs());
        println!(
            "{now}: {clusters} clusters, {workloads} workloads, {pods} pods, {writes} placements written, after {took} s"
        );
    }

    /// Nothing moves or waits any more.
    fn check_end(&mut self) {
        let mut problems = Vec::new();
        for workload in (0..self.workloads.len()).filter(|at| !self.workloads[*at].is_deleted) {
            let (of, placement) = (&self.workloads[workload], self.placement(workload));
            if !placement.phase.is_empty() || !placement.leaving.is_empty() {
                problems.push(format!("{} does not come to rest: {placement:?}", of.key));
            }
        }
        for below in self.clusters.iter().filter(|below| !below.pending.is_empty()) {
            problems.push(format!("pods wait on {}: {:?}", below.name, below.pending));
        }
        problems.into_iter().for_each(|problem| self.problem(problem));
    }
}

fn environment_number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs one seed with the size that the environment sets, and checks its outcome. Returns how often things happened.
fn check(seed: u64) -> BTreeMap<&'static str, u64> {
    let clusters = environment_number("ATOLL_CLUSTERS").unwrap_or(100);
    let days = environment_number("ATOLL_DAYS").unwrap_or(1);
    println!("ATOLL_SEED={seed} ATOLL_CLUSTERS={clusters} ATOLL_DAYS={days}");
    let Outcome { problems, past, tally, .. } = run(seed, clusters, 24 * days);
    println!("{tally:?}");
    let first: String = problems.iter().take(20).map(|problem| format!("  {problem}\n")).collect();
    assert!(problems.is_empty(), "ATOLL_SEED={seed} repeats this:\n{past}{first}");
    for what in ["placements", "unreachable", "crashed"] {
        assert!(tally.contains_key(what), "the history has nothing of this: {what}");
    }
    tally
}

#[test]
fn everything_stays_placed_while_clusters_come_and_go() {
    let seed = environment_number("ATOLL_SEED");
    let tally = check(seed.unwrap_or(2));
    for what in ["balanced", "region failed", "surged", "node failed", "joined"] {
        assert!(seed.is_some() || tally.contains_key(what), "the history has nothing of this: {what}");
    }
}

#[test]
fn another_history_ends_with_all_workloads_placed() {
    drop(check(4));
}

#[test]
fn runs_of_one_seed_are_equal() {
    let seed = environment_number("ATOLL_SEED").unwrap_or(1);
    let [one, other] = [(); 2].map(|()| run(seed, 12, 12));
    assert_eq!((one.tally, one.digest), (other.tally, other.digest), "seed {seed}");
}
