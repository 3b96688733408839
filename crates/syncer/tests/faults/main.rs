//! Syncers between a control plane and three clusters, all real servers in this process, with random faults of
//! everything between them, determined by a seed.
//!
//! ```text
//!  run: user actions ─► above ◄── wire ──► syncer ◄── wire ──► below ◄─ changes by other users
//!       and moves         ▲       cut, late, twice, lost, rejected      │      (three times)
//!                         └── agreement: placed objects exist below ◄───┤
//!                             log: no write that is not allowed, ◄──────┘
//!                                  nothing twice that runs once
//! ```
//!
//! The tests use tokio's paused clock, which advances only while no task can run. `ATOLL_SEED=7` repeats one
//! seed, `ATOLL_SEEDS=500` runs that many.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod agreement;
mod kinds;
mod log;
mod objects;
mod outage;
mod random;
mod regressions;
mod run;
mod test_server;
mod time;
mod wire;

use std::collections::BTreeMap;
use std::time::Duration;

use outage::ReturnMode;
use run::{Done, Simulation};

/// The number of seeds of a normal run.
const SEEDS: u64 = 12;
/// The number of random events for each seed.
const STEPS: u64 = 40;

/// Runs a future with a clock that advances only while no task can run.
fn simulated<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(future)
}

/// Runs everything that a seed determines.
fn run_seed(seed: u64) -> (Result<(), String>, Vec<log::WriteRecord>, Done) {
    simulated(async {
        let mut run = Simulation::new(seed).await;
        run.start();
        for step in 0..STEPS {
            run.set_clocks(step);
            if run.random.chance(20) {
                run.set_network_states();
            }
            run.random_event().await;
            run.pass_random(Duration::from_secs(8)).await;
        }
        let mut outcome = run.settle().await;
        if outcome.is_ok() && run.random.chance(30) {
            let site = run.random.below(3) as usize;
            outcome = run.leave_and_join(site).await.map_err(|problems| format!("after leaving: {problems}"));
        }
        (outcome, run.writes(), run.done)
    })
}

fn environment_number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn format_writes(log: &[log::WriteRecord]) -> String {
    let lines = log.iter().filter(|written| !written.is_lease());
    lines.map(|written| format!("{:?}\n", written)).collect()
}

#[test]
fn above_and_below_agree_after_faults() {
    let seeds = match (environment_number("ATOLL_SEED"), environment_number("ATOLL_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, Some(count)) => 0..count,
        (None, None) => 0..SEEDS,
    };
    println!("seeds {seeds:?}");
    let (mut failed, mut tally) = (Vec::new(), BTreeMap::<String, usize>::new());
    let (count, mut all_done) = (seeds.end - seeds.start, Done::default());
    for seed in seeds {
        let (outcome, log, done) = run_seed(seed);
        all_done.moves += done.moves;
        all_done.deleted_workspaces += done.deleted_workspaces;
        for written in log.iter().filter(|written| written.succeeded() && !written.is_own()) {
            *tally.entry(format!("{} {}", written.method, written.resource())).or_default() += 1;
        }
        if let Err(problems) = outcome {
            println!("seed {seed} (repeat it with ATOLL_SEED={seed}):\n{problems}");
            if environment_number("ATOLL_SEED").is_some() {
                println!("all writes:\n{}", format_writes(&log));
            }
            failed.push(seed);
        }
    }
    println!("written: {tally:?}, {all_done:?}");
    let is_enough = all_done.moves >= SEEDS as usize / 2 && all_done.deleted_workspaces > 0;
    assert!(count < SEEDS || is_enough, "{all_done:?}");
    assert!(failed.is_empty(), "these seeds failed: {failed:?}; repeat one with ATOLL_SEED");
}

#[test]
fn outage_of_the_control_plane_changes_nothing() {
    for mode in [ReturnMode::Unchanged, ReturnMode::WithAnotherSyncer, ReturnMode::FromBackup] {
        assert_eq!(simulated(outage::writes_after_outage(mode)), [], "{mode:?}");
    }
}

#[test]
fn runs_of_one_seed_are_equal() {
    let seed = environment_number("ATOLL_SEED").unwrap_or(1);
    let written = |seed: u64| -> Vec<_> {
        let all = run_seed(seed).1.into_iter();
        all.map(|written| (written.at, written.method, written.path, written.code, written.is_late)).collect()
    };
    let (first, second) = (written(seed), written(seed));
    let differ = first.iter().zip(&second).find(|(one, other)| one != other);
    assert_eq!(differ, None, "seed {seed}");
    assert_eq!(first.len(), second.len(), "seed {seed}");
}
