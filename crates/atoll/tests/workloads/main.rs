//! The same manifests end in the same objects on a simulated cluster, in a workspace that makes its own Pods, and on
//! kube-apiserver with the real controllers, the real scheduler and KWOK's nodes; and nothing on the way there breaks a
//! rule of the workload.
//!
//! ```text
//!   manifests ─► Player (kubectl) ─┬─► atoll sim       ┐           ┌─ masks ─► compared, object by object
//!                                  ├─► a workspace     ├─ objects ─┘
//!                                  └─► kube-apiserver  ┘
//!                                        └── watches from before the first write ─► history ─► rules, event by event
//! ```

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod autoscaler;
mod broken;
mod cluster;
mod cron_job;
mod daemon_set;
mod deployment;
mod differences;
mod drain;
mod hands;
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
mod scenario;
mod stateful_set;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::cluster::Cluster;
use crate::differences::differences;
use crate::player::{Done, Player};
use crate::recorder::Recorder;
use crate::scenario::Scenario;

/// How long clusters may take to agree once all has been done.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(300);

/// What was done at a cluster, and what was seen meanwhile.
struct Played {
    cluster: Arc<Cluster>,
    recorder: Recorder,
    outcomes: Vec<Done>,
}

#[test]
fn the_same_manifests_end_in_the_same_objects() {
    let chosen: &'static [Scenario] = Vec::leak(scenario::chosen());
    let programs = real::programs();
    let kubectl: Option<OsString> =
        programs.as_ref().map(|programs| programs.command("kubectl").get_program().into());
    let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    // Programs end with the thread that starts them: this one. The first clusters are at work while the last one starts.
    let mut at_work = vec![
        begin(&runtime, Cluster::simulated(kubectl.clone()), chosen),
        begin(&runtime, Cluster::workspace(kubectl.clone()), chosen),
    ];
    if let Some(programs) = &programs {
        at_work.push(begin(&runtime, Cluster::real(programs, kubectl), chosen));
    }
    let played: Vec<Played> = at_work.into_iter().map(|played| runtime.block_on(played).unwrap()).collect();
    let mut wrong = Vec::new();
    for played in &played {
        let failures = chosen.iter().zip(&played.outcomes).filter_map(|(scenario, outcome)| {
            Some(format!("{}: {}: {}", played.cluster.name, scenario.name, outcome.as_ref().err()?))
        });
        wrong.extend(failures);
    }
    if wrong.is_empty() {
        wrong.extend(runtime.block_on(compare(chosen, &played)));
    }
    for Played { cluster, recorder, .. } in &played {
        runtime.block_on(recorder.catch_up(cluster));
        let history = recorder.history();
        for scenario in chosen {
            let broken = (scenario.rules)(&history.of(scenario.name), cluster.is_real());
            wrong.extend(broken.iter().map(|what| format!("{}: {}: {what}", cluster.name, scenario.name)));
        }
        wrong.extend(recorder.troubles().iter().map(|trouble| format!("{}: {trouble}", cluster.name)));
    }
    assert!(wrong.is_empty(), "{} things are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn begin(runtime: &Runtime, cluster: Cluster, chosen: &'static [Scenario]) -> JoinHandle<Played> {
    let cluster = Arc::new(cluster);
    runtime.spawn(async move {
        // All that will be done is done after this.
        let recorder = Recorder::start(&cluster).await;
        let playing = chosen.iter().map(|scenario| {
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
        Played { cluster, recorder, outcomes }
    })
}

/// What differs between the clusters in the end: they may take a while to get there.
async fn compare(chosen: &[Scenario], played: &[Played]) -> Vec<String> {
    let (deadline, mut looks) = (Instant::now() + PATIENCE, tokio::time::interval(PAUSE));
    let mut left: Vec<&Scenario> = chosen.iter().collect();
    loop {
        looks.tick().await;
        let mut found = Vec::new();
        let mut differing = Vec::new();
        for scenario in left {
            let all = played.iter().map(|played| objects::of(&played.cluster, scenario.name));
            let all = futures_util::future::join_all(all).await;
            // The last is the real one, if it is there.
            let (last, others) = all.split_last().unwrap();
            let last_name = played.last().unwrap().cluster.name;
            let before = found.len();
            for (other, played) in others.iter().zip(played) {
                let title = format!("{}: {} and {last_name} differ", scenario.name, played.cluster.name);
                found.extend(differences(other, last).into_iter().map(|what| format!("{title}: {what}")));
            }
            if found.len() > before {
                differing.push(scenario);
            }
        }
        if found.is_empty() || Instant::now() > deadline {
            return found;
        }
        left = differing;
    }
}
