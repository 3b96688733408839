//! A syncer between a control plane and a cluster, both real servers in this process, while everything between them goes
//! wrong as a seed says.
//!
//! ```text
//!   run: what people do ─► above ◄── wire ──► syncer ◄── wire ──► below ◄─ what others do there
//!                            ▲       cut, late, twice, lost, refused       │
//!                            └── agreement: what is placed is there ◄──────┤
//!                                log: nothing was written that should not ◄┘
//! ```
//!
//! Time is tokio's and stands still while anybody has something to do. `ATOLL_SEED=7` repeats one seed, `ATOLL_SEEDS=500` runs so
//! many.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod agreement;
mod day;
mod found;
mod kinds;
mod log;
mod plane;
mod random;
mod run;
mod spots;
mod time;
mod wire;

use std::collections::BTreeMap;
use std::time::Duration;

use day::Return;
use run::Run;

/// How many seeds a normal run has.
const SEEDS: u64 = 12;
/// How many things happen in each.
const STEPS: u64 = 40;

/// In a time that passes only when nobody has anything to do.
fn simulated<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(future)
}

/// Everything that follows from a seed.
fn play(seed: u64) -> (Result<(), String>, Vec<log::Written>) {
    simulated(async {
        let mut run = Run::new(seed).await;
        run.start();
        for step in 0..STEPS {
            run.set_clocks(step);
            if run.random.chance(20) {
                run.weather();
            }
            run.happen().await;
            run.pass(Duration::from_secs(8)).await;
        }
        let mut outcome = run.settle().await;
        if outcome.is_ok() && run.random.chance(30) {
            outcome = run.leave_and_join().await.map_err(|wrong| format!("after it left: {wrong}"));
        }
        (outcome, run.log.all())
    })
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn told(log: &[log::Written]) -> String {
    let lines = log.iter().filter(|written| !written.is_lease());
    lines.map(|written| format!("{:?}\n", written)).collect()
}

#[test]
fn whatever_breaks_above_and_below_agree_in_the_end() {
    let seeds = match (number("ATOLL_SEED"), number("ATOLL_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, Some(count)) => 0..count,
        (None, None) => 0..SEEDS,
    };
    println!("seeds {seeds:?}");
    let (mut failed, mut tally) = (Vec::new(), BTreeMap::<String, usize>::new());
    for seed in seeds {
        let (outcome, log) = play(seed);
        for written in log.iter().filter(|written| written.succeeded() && !written.is_own()) {
            *tally.entry(format!("{} {}", written.method, written.resource())).or_default() += 1;
        }
        if let Err(wrong) = outcome {
            println!("seed {seed} (repeat it with ATOLL_SEED={seed}):\n{wrong}");
            if number("ATOLL_SEED").is_some() {
                println!("all writes:\n{}", told(&log));
            }
            failed.push(seed);
        }
    }
    println!("written: {tally:?}");
    assert!(failed.is_empty(), "these seeds failed: {failed:?}; repeat one with ATOLL_SEED");
}

#[test]
fn a_day_without_the_control_plane_changes_nothing() {
    for how in [Return::Unchanged, Return::WithAnotherSyncer, Return::FromBackup] {
        assert_eq!(simulated(day::away(how)), [], "{how:?}");
    }
}

#[test]
fn a_seed_repeats_itself() {
    let number = number("ATOLL_SEED").unwrap_or(1);
    let written = |seed: u64| -> Vec<_> {
        let all = play(seed).1.into_iter();
        all.map(|written| (written.at, written.method, written.path, written.code, written.is_late)).collect()
    };
    let (first, second) = (written(number), written(number));
    let differ = first.iter().zip(&second).find(|(one, other)| one != other);
    assert_eq!(differ, None, "seed {number}");
    assert_eq!(first.len(), second.len(), "seed {number}");
}
