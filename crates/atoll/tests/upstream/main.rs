//! The real kube-controller-manager and kube-scheduler run a cluster of KWOK's nodes on Atoll, and find nothing to
//! complain of that they would not also complain of with kube-apiserver.
//!
//! ```text
//!   Cluster (Atoll)          ┐ the same     ┌─ outcome of each scenario
//!   Cluster (kube-apiserver) ┘ scenarios ─► └─ error lines of both programs, reduced to kinds ─ compared
//! ```

// Clippy takes only functions marked as tests for test code.
#![allow(clippy::unwrap_used)]

mod api;
mod cluster;
mod complaints;
mod known;
mod programs;
mod scenarios;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use crate::cluster::Cluster;
use crate::known::Known;
use crate::programs::Programs;
use crate::scenarios::Outcome;

/// What one server and its programs went through.
struct Run {
    outcomes: Vec<Outcome>,
    complaints: BTreeSet<String>,
}

/// `upstream` in the target directory: the logs of the last run, and what was made of them.
fn directory() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(3).unwrap().join("upstream")
}

/// Starts a cluster, plays all scenarios, stops everything and reads the logs.
async fn play(programs: &Arc<Programs>, start: fn(&Programs) -> Cluster, logs: PathBuf) -> Run {
    let programs = programs.clone();
    let cluster = tokio::task::spawn_blocking(move || start(&programs)).await.unwrap();
    let outcomes = scenarios::play(&cluster).await;
    cluster.stop(&logs);
    let complaints = complaints::read(&logs);
    let lines: String = complaints.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(logs.join("complaints.txt"), lines).unwrap();
    Run { outcomes, complaints }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_real_controllers_run_a_cluster() {
    let Some(programs) = Programs::build().map(Arc::new) else { return };
    let rounds = std::env::var("UPSTREAM_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap());
    let known = Known::load();
    let (mut wrong, mut said, mut usual) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for round in 1..=rounds {
        let logs = directory().join(format!("round-{round}"));
        let (ours, theirs) = tokio::join!(
            play(&programs, Cluster::of_atoll, logs.join("atoll")),
            play(&programs, Cluster::of_kube_apiserver, logs.join("kube-apiserver")),
        );
        println!("round {round}; logs are in {}", logs.display());
        for (own, their) in ours.outcomes.iter().zip(&theirs.outcomes) {
            println!("{own:<60} kube-apiserver: {their}");
        }
        wrong.extend(theirs.outcomes.iter().filter_map(|outcome| outcome.failure("kube-apiserver")));
        wrong.extend(known.judge(&ours.outcomes));
        said.extend(ours.complaints);
        usual.extend(theirs.complaints);
    }
    let new = said.difference(&usual).filter(|line| !known.excuses(line));
    wrong.extend(new.map(|line| format!("complaint: {line}")));
    assert!(wrong.is_empty(), "{} things are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
