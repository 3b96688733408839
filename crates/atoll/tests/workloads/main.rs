//! The same manifests lead to the same objects on a simulated cluster, in a workspace that creates its own
//! Pods, and on kube-apiserver with the real controllers, the real scheduler and KWOK's nodes, and no step
//! violates a rule of the workload.
//!
//! ```text
//!  manifests ─► Player (kubectl) ─┬─► atoll sim       ┐           ┌─ masks ─► compared, object by object
//!                                 ├─► a workspace     ├─ objects ─┘
//!                                 └─► kube-apiserver  ┘
//!                                     └─ watches from the start ─► history ─► rules, event by event
//! ```

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod actions;
#[allow(dead_code, reason = "another suite uses the rest")]
#[path = "../upstream/api.rs"]
mod api;
mod autoscaler;
mod cluster;
mod cron_job;
mod daemon_set;
mod deployment;
mod differences;
mod drain;
mod history;
mod job;
mod masks;
mod objects;
mod player;
mod pods;
#[path = "../upstream/cluster.rs"]
#[allow(dead_code, reason = "another suite compares servers with it")]
mod real;
mod recorder;
mod rule_tests;
mod scenario;
mod stateful_set;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::cluster::Cluster;
use crate::differences::differences;
use crate::player::{PlayResult, Player};
use crate::recorder::Recorder;
use crate::scenario::Scenario;

/// The time in which clusters must reach equal states after the scenarios.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(300);

/// The results of one cluster.
struct ClusterRun {
    cluster: Arc<Cluster>,
    recorder: Recorder,
    outcomes: Vec<PlayResult>,
}

#[test]
fn manifests_lead_to_the_same_objects_on_all_clusters() {
    let scenarios: &'static [Scenario] = Vec::leak(scenario::selected_scenarios());
    let programs = real::programs();
    let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    // Child programs end with the thread that starts them, which is this one. The first clusters run
    // scenarios while the last one starts.
    let mut started = vec![
        start_scenarios(&runtime, Cluster::simulated(), scenarios),
        start_scenarios(&runtime, Cluster::workspace(), scenarios),
    ];
    if let Some(programs) = &programs {
        started.push(start_scenarios(&runtime, Cluster::real(programs), scenarios));
    }
    let runs: Vec<ClusterRun> = started.into_iter().map(|runs| runtime.block_on(runs).unwrap()).collect();
    let mut problems = Vec::new();
    for runs in &runs {
        let failures = scenarios.iter().zip(&runs.outcomes).filter_map(|(scenario, outcome)| {
            Some(format!("{}: {}: {}", runs.cluster.name, scenario.name, outcome.as_ref().err()?))
        });
        problems.extend(failures);
    }
    if problems.is_empty() {
        problems.extend(runtime.block_on(compare(scenarios, &runs)));
    }
    for ClusterRun { cluster, recorder, .. } in &runs {
        runtime.block_on(recorder.catch_up(cluster));
        let history = recorder.history();
        for scenario in scenarios {
            let broken = (scenario.rules)(&history.of_namespace(scenario.name), cluster.is_real());
            problems.extend(broken.iter().map(|what| format!("{}: {}: {what}", cluster.name, scenario.name)));
        }
        problems.extend(recorder.errors().iter().map(|error| format!("{}: {error}", cluster.name)));
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

fn start_scenarios(
    runtime: &Runtime,
    cluster: Cluster,
    scenarios: &'static [Scenario],
) -> JoinHandle<ClusterRun> {
    let cluster = Arc::new(cluster);
    runtime.spawn(async move {
        // Started before any scenario writes.
        let recorder = Recorder::start(&cluster).await;
        let playing = scenarios.iter().map(|scenario| {
            let cluster = cluster.clone();
            tokio::spawn(async move {
                let began = Instant::now();
                let player = Player::within(cluster, scenario.name).await?;
                let outcome = (scenario.play)(&player).await;
                println!(
                    "{:<40} {:<14} {:5.1} s",
                    player.cluster.name,
                    scenario.name,
                    began.elapsed().as_secs_f64()
                );
                outcome
            })
        });
        let outcomes = futures_util::future::join_all(playing).await;
        let outcomes = outcomes.into_iter().map(|outcome| outcome.unwrap()).collect();
        ClusterRun { cluster, recorder, outcomes }
    })
}

/// Returns the differences between the final states of the clusters, after waiting for them to become equal.
async fn compare(scenarios: &[Scenario], runs: &[ClusterRun]) -> Vec<String> {
    let (deadline, mut ticks) = (Instant::now() + TIMEOUT, tokio::time::interval(POLL_INTERVAL));
    let mut remaining: Vec<&Scenario> = scenarios.iter().collect();
    loop {
        ticks.tick().await;
        let mut found = Vec::new();
        let mut differing = Vec::new();
        for scenario in remaining {
            let all = runs.iter().map(|runs| objects::list_objects(&runs.cluster, scenario.name));
            let all = futures_util::future::join_all(all).await;
            // The last is the real cluster, if it is available.
            let (last, others) = all.split_last().unwrap();
            let last_name = runs.last().unwrap().cluster.name;
            let before = found.len();
            for (other, runs) in others.iter().zip(runs) {
                let title = format!("{}: {} and {last_name} differ", scenario.name, runs.cluster.name);
                found.extend(differences(other, last).into_iter().map(|what| format!("{title}: {what}")));
            }
            if found.len() > before {
                differing.push(scenario);
            }
        }
        if found.is_empty() || Instant::now() > deadline {
            return found;
        }
        remaining = differing;
    }
}
