//! The real kube-controller-manager and kube-scheduler run a cluster of KWOK's nodes on Atoll, and find nothing to
//! complain of that they would not also complain of with kube-apiserver.
//!
//! ```text
//!   Cluster (Atoll)          ┐ the same     ┌─ outcome of each scenario
//!   Cluster (kube-apiserver) ┘ scenarios ─► └─ error lines of both programs, reduced to kinds ─ compared
//! ```

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod api;
mod cluster;
mod complaints;
mod known;
mod scenarios;

use std::path::PathBuf;

use crate::cluster::Cluster;
use crate::complaints::Counts;
use crate::known::Known;
use crate::scenarios::Outcome;

/// How KWOK's nodes and pods behave.
const STAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/upstream/stages.yaml");

/// What one server and its programs went through.
struct Run {
    outcomes: Vec<Outcome>,
    complaints: Counts,
}

/// `upstream` in the target directory: the logs of the last run, and what was made of them.
fn directory() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(3).unwrap().join("upstream")
}

/// Plays all scenarios, stops everything and reads the logs.
async fn play(cluster: Cluster, logs: PathBuf) -> Run {
    let outcomes = scenarios::play(&cluster).await;
    cluster.stop(&logs);
    let complaints = complaints::read(&logs);
    let lines: String = complaints.iter().map(|(kind, count)| format!("{count:5} {kind}\n")).collect();
    std::fs::write(logs.join("complaints.txt"), lines).unwrap();
    Run { outcomes, complaints }
}

#[test]
fn the_real_controllers_run_a_cluster() {
    let Some(programs) = cluster::programs() else { return };
    let rounds = std::env::var("UPSTREAM_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap());
    let known = Known::load();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let (mut wrong, mut said, mut usual) = (Vec::new(), Counts::new(), Counts::new());
    for round in 1..=rounds {
        let logs = directory().join(format!("round-{round}"));
        // Programs end with the thread that starts them: this one.
        let clusters = (Cluster::of_atoll(&programs, STAGES), Cluster::of_kube_apiserver(&programs, STAGES));
        let (ours, theirs) = runtime.block_on(async {
            tokio::join!(play(clusters.0, logs.join("atoll")), play(clusters.1, logs.join("kube-apiserver")))
        });
        println!("round {round}; logs are in {}", logs.display());
        for (own, their) in ours.outcomes.iter().zip(&theirs.outcomes) {
            println!("{own:<60} kube-apiserver: {their}");
        }
        let kinds = (ours.complaints.len(), theirs.complaints.len());
        println!("{} kinds of complaint, {} with kube-apiserver", kinds.0, kinds.1);
        wrong.extend(theirs.outcomes.iter().filter_map(|outcome| outcome.failure("kube-apiserver")));
        wrong.extend(known.judge(&ours.outcomes));
        for (kind, count) in ours.complaints {
            let most = said.entry(kind).or_default();
            *most = count.max(*most);
        }
        usual.extend(theirs.complaints);
    }
    let new = said.iter().filter(|(kind, count)| !usual.contains_key(*kind) && !known.excuses(kind, **count));
    wrong.extend(new.map(|(kind, count)| format!("complaint, {count} times: {kind}")));
    assert!(wrong.is_empty(), "{} things are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
